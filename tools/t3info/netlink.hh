// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include <memory>

#include "tools/t3info/model.hh"

struct nl_sock;

namespace t3info {

/// The running kernel. Throws std::runtime_error if it has no RDMA or a request fails.
class Netlink : public Source {
public:
    Netlink();
    std::vector<Message> dump(int command, int device) override;

private:
    std::unique_ptr<nl_sock, void (*)(nl_sock*)> socket_;
};

} // namespace t3info
