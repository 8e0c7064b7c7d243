// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The provider as libibverbs loads it: it finds this machine's libibverbs fitting, and shows nothing of
// itself.
#include <infiniband/verbs.h>

#include <gtest/gtest.h>

#include <cerrno>
#include <dlfcn.h>
#include <string>

TEST(Load, FitsTheLibraryItWasBuiltFor) {
    testing::internal::CaptureStderr();
    void* provider = dlopen(PROVIDER, RTLD_NOW | RTLD_LOCAL);
    const std::string output = testing::internal::GetCapturedStderr();
    ASSERT_NE(provider, nullptr) << dlerror();
    EXPECT_EQ(output, "") << "the self check refused this libibverbs";
    for (const char* name : {"cxgb3_post_send", "cxgb3_poll_cq", "cxgb3_self_check", "cxgb3_core_create_qp"})
        EXPECT_EQ(dlsym(provider, name), nullptr) << name << " is exported";
    // It stays loaded, as libibverbs keeps every provider.
}

// A machine without RDMA devices, or with others: the list is made, without a crash.
TEST(Load, ListOfDevicesWithTheProviderRegistered) {
    int n = -1;
    ibv_device** list = ibv_get_device_list(&n);
    if (!list) {
        EXPECT_EQ(errno, ENOSYS) << "no RDMA at all in this kernel is the only excuse";
        return;
    }
    for (int i = 0; i < n; i++)
        EXPECT_NE(ibv_get_device_name(list[i]), nullptr);
    ibv_free_device_list(list);
}
