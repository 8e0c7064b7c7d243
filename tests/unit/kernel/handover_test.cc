// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Ownership of a message that was passed to the NIC driver.
#include <gtest/gtest.h>

#include <cerrno>

extern "C" {
#include "kernel/iw_cxgb3/card/handover.h"
}

namespace {

enum { NET_XMIT_SUCCESS = 0, NET_XMIT_DROP = 1, NET_XMIT_CN = 2, NET_XMIT_BYPASS = 4 };

} // namespace

TEST(Handover, A1_CongestionIsSuccessAndKeepsTheBuffer) {
    for (const int ret : {NET_XMIT_SUCCESS, NET_XMIT_DROP, NET_XMIT_CN, NET_XMIT_BYPASS}) {
        sk_buff skb{};
        EXPECT_EQ(t3_handed_over(&skb, ret), 0) << ret;
        EXPECT_EQ(skb.freed, 0u) << ret;
    }
}

TEST(Handover, A1_RefusedMessageIsFreedOnce) {
    sk_buff skb{};
    EXPECT_EQ(t3_handed_over(&skb, -ENOMEM), -ENOMEM);
    EXPECT_EQ(skb.freed, 1u);
}
