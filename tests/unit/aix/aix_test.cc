// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// AIX's rules, call by call, seen by a program that includes AIX's headers. The two libraries below are of
// this file: they record that they were called, and return what a test sets.
#define OFEDAIX_IMPLEMENTATION
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <rdma/rdma_cm.h>

#include <gtest/gtest.h>

namespace {

struct Libraries {
    std::vector<std::string> calls;
    int result = 0; // of what returns int; -1 and more than that come with `error`
    int error = 0;  // errno
    int max_reads = 8;
    std::vector<std::size_t> posted; // lengths of the lists that came to the provider
} under;

alignas(16) char thing[64]; // stands for any object

int called(const char* name) {
    under.calls.emplace_back(name);
    errno = under.error;
    return under.result;
}

template <typename T> T* object(const char* name) {
    return called(name) == 0 ? reinterpret_cast<T*>(thing) : nullptr;
}

template <typename Wr> int post(Wr* wr) {
    std::size_t length = 0;
    for (; wr != nullptr; wr = wr->next)
        length++;
    under.posted.push_back(length);
    return called("post");
}

} // namespace

extern "C" {
#define FAKE(name, ...)                                                                                      \
    int name(__VA_ARGS__) {                                                                                  \
        return called(#name);                                                                                \
    }
#define FAKE_VOID(name, ...)                                                                                 \
    void name(__VA_ARGS__) {                                                                                 \
        called(#name);                                                                                       \
    }
#define FAKE_NEW(type, name, ...)                                                                            \
    type* name(__VA_ARGS__) {                                                                                \
        return object<type>(#name);                                                                          \
    }
#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr

FAKE_NEW(rdma_event_channel, rdma_create_event_channel, void)
FAKE_VOID(rdma_destroy_event_channel, rdma_event_channel*)
FAKE(rdma_create_id, rdma_event_channel*, rdma_cm_id**, void*, rdma_port_space)
FAKE(rdma_destroy_id, rdma_cm_id*)
FAKE(rdma_migrate_id, rdma_cm_id*, rdma_event_channel*)
FAKE(rdma_bind_addr, rdma_cm_id*, sockaddr*)
FAKE(rdma_resolve_addr, rdma_cm_id*, sockaddr*, sockaddr*, int)
FAKE(rdma_resolve_route, rdma_cm_id*, int)
FAKE(rdma_connect, rdma_cm_id*, rdma_conn_param*)
FAKE(rdma_listen, rdma_cm_id*, int)
FAKE(rdma_accept, rdma_cm_id*, rdma_conn_param*)
FAKE(rdma_reject, rdma_cm_id*, const void*, uint8_t)
FAKE(rdma_disconnect, rdma_cm_id*)
__be16 rdma_get_src_port(rdma_cm_id*) {
    return 0x1234;
}
__be16 rdma_get_dst_port(rdma_cm_id*) {
    return 0x4321;
}
FAKE(rdma_get_cm_event, rdma_event_channel*, rdma_cm_event**)
FAKE(rdma_ack_cm_event, rdma_cm_event*)
FAKE(rdma_create_qp, rdma_cm_id*, ibv_pd*, ibv_qp_init_attr*)
FAKE_VOID(rdma_destroy_qp, rdma_cm_id*)
FAKE_VOID(rdma_free_devices, ibv_context**)

FAKE_NEW(ibv_device*, ibv_get_device_list, int*)
FAKE_VOID(ibv_free_device_list, ibv_device**)
const char* ibv_get_device_name(ibv_device*) {
    return "cxgb3_0";
}
__be64 ibv_get_device_guid(ibv_device*) {
    return 7;
}
FAKE_NEW(ibv_context, ibv_open_device, ibv_device*)
FAKE(ibv_close_device, ibv_context*)
int ibv_query_device(ibv_context*, ibv_device_attr* attr) {
    attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = under.max_reads;
    return called("ibv_query_device");
}
FAKE(ibv_query_port, ibv_context*, uint8_t, _compat_ibv_port_attr*)
FAKE(ibv_query_pkey, ibv_context*, uint8_t, int, __be16*)
FAKE(ibv_query_gid, ibv_context*, uint8_t, int, ibv_gid*)
FAKE_NEW(ibv_qp, ibv_create_qp, ibv_pd*, ibv_qp_init_attr*)
FAKE(ibv_destroy_qp, ibv_qp*)
FAKE(ibv_modify_qp, ibv_qp*, ibv_qp_attr*, int)
FAKE_NEW(ibv_cq, ibv_create_cq, ibv_context*, int, void*, ibv_comp_channel*, int)
FAKE(ibv_destroy_cq, ibv_cq*)
FAKE(ibv_get_cq_event, ibv_comp_channel*, ibv_cq**, void**)
FAKE_VOID(ibv_ack_cq_events, ibv_cq*, unsigned)
FAKE_NEW(ibv_comp_channel, ibv_create_comp_channel, ibv_context*)
FAKE(ibv_destroy_comp_channel, ibv_comp_channel*)
FAKE_NEW(ibv_pd, ibv_alloc_pd, ibv_context*)
FAKE(ibv_dealloc_pd, ibv_pd*)
FAKE_NEW(ibv_mr, ibv_reg_mr, ibv_pd*, void*, size_t, int)
FAKE_NEW(ibv_mr, ibv_reg_mr_iova2, ibv_pd*, void*, size_t, uint64_t, unsigned)
FAKE(ibv_dereg_mr, ibv_mr*)
FAKE(ibv_get_async_event, ibv_context*, ibv_async_event*)
FAKE_VOID(ibv_ack_async_event, ibv_async_event*)
const char* ibv_event_type_str(ibv_event_type) {
    return "an event";
}
const char* ibv_node_type_str(ibv_node_type) {
    return "a node";
}
const char* ibv_port_state_str(ibv_port_state) {
    return "a state";
}
}

// From here on as a port sees it.
#undef OFEDAIX_IMPLEMENTATION
#undef OFEDAIX_CM_H
#undef OFEDAIX_VERBS_H
#include <ofedaix_cm.h>
#include <ofedaix_verbs.h>

namespace {

class Aix : public testing::Test {
protected:
    void SetUp() override {
        under = {};
        std::memset(&id, 0, sizeof(id));
        std::memset(&context, 0, sizeof(context));
        context.ops.post_send = [](ibv_qp*, ibv_send_wr* wr, ibv_send_wr**) { return post(wr); };
        context.ops.post_recv = [](ibv_qp*, ibv_recv_wr* wr, ibv_recv_wr**) { return post(wr); };
        context.ops.poll_cq = [](ibv_cq*, int, ibv_wc*) { return called("poll"); };
        context.ops.req_notify_cq = [](ibv_cq*, int) { return called("notify"); };
        id.ps = RDMA_PS_TCP;
        id.verbs = &context;
        id.qp = &qp;
        qp.context = cq.context = &context;
        address.sa_family = AF_INET;
        strange.sa_family = AF_UNIX;
    }

    /// Nothing came to the libraries.
    static bool untouched() { return under.calls.empty(); }
    /// The last call failed there with errno `error`.
    static void fail_with(int error) {
        under.result = -1;
        under.error = error;
    }

    rdma_cm_id id;
    ibv_context context;
    ibv_qp qp{};
    ibv_cq cq{};
    rdma_event_channel channel{};
    rdma_conn_param param{};
    sockaddr address{}, strange{};
    ibv_sge sge{};
};

// The connection manager

TEST_F(Aix, CreateEventChannel) {
    EXPECT_NE(rdma_create_event_channel(), nullptr);
    fail_with(ENODEV);
    EXPECT_EQ(rdma_create_event_channel(), nullptr);
}

TEST_F(Aix, DestroyEventChannel) {
    rdma_destroy_event_channel(nullptr);
    EXPECT_TRUE(untouched());
    rdma_destroy_event_channel(&channel);
    EXPECT_FALSE(untouched());
}

TEST_F(Aix, CreateId) {
    rdma_cm_id* made = nullptr;
    EXPECT_EQ(rdma_create_id(nullptr, &made, nullptr, RDMA_PS_TCP), -EINVAL);
    EXPECT_EQ(rdma_create_id(&channel, nullptr, nullptr, RDMA_PS_TCP), -EINVAL);
    EXPECT_EQ(rdma_create_id(&channel, &made, nullptr, RDMA_PS_UDP), -EPROTONOSUPPORT);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(rdma_create_id(&channel, &made, nullptr, RDMA_PS_TCP), 0);
    fail_with(ENOMEM);
    EXPECT_EQ(rdma_create_id(&channel, &made, nullptr, RDMA_PS_TCP), -ENOMEM);
}

TEST_F(Aix, DestroyId) {
    EXPECT_EQ(rdma_destroy_id(nullptr), -EINVAL);
    EXPECT_EQ(rdma_destroy_id(&id), 0);
    fail_with(ENODATA);
    EXPECT_EQ(rdma_destroy_id(&id), -ENODATA);
}

TEST_F(Aix, MigrateId) {
    EXPECT_EQ(rdma_migrate_id(nullptr, &channel), -EINVAL);
    EXPECT_EQ(rdma_migrate_id(&id, nullptr), -EINVAL);
    EXPECT_EQ(rdma_migrate_id(&id, &channel), 0);
    fail_with(ENODEV);
    EXPECT_EQ(rdma_migrate_id(&id, &channel), -ENODEV);
}

TEST_F(Aix, BindAddr) {
    EXPECT_EQ(rdma_bind_addr(nullptr, &address), -EINVAL);
    EXPECT_EQ(rdma_bind_addr(&id, nullptr), -EINVAL);
    EXPECT_EQ(rdma_bind_addr(&id, &strange), -EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(rdma_bind_addr(&id, &address), 0);
    fail_with(EADDRINUSE);
    EXPECT_EQ(rdma_bind_addr(&id, &address), -EADDRINUSE);
}

TEST_F(Aix, ResolveAddr) {
    EXPECT_EQ(rdma_resolve_addr(nullptr, nullptr, &address, 1), -EINVAL);
    EXPECT_EQ(rdma_resolve_addr(&id, nullptr, nullptr, 1), -EINVAL);
    EXPECT_EQ(rdma_resolve_addr(&id, nullptr, &strange, 1), -EINVAL);
    EXPECT_EQ(rdma_resolve_addr(&id, &strange, &address, 1), -EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(rdma_resolve_addr(&id, nullptr, &address, 1), 0);
    fail_with(ENETUNREACH);
    EXPECT_EQ(rdma_resolve_addr(&id, &address, &address, 1), -ENETUNREACH);
}

TEST_F(Aix, ResolveRoute) {
    EXPECT_EQ(rdma_resolve_route(nullptr, 1), -EINVAL);
    EXPECT_EQ(rdma_resolve_route(&id, 1), 0);
    fail_with(EINVAL);
    EXPECT_EQ(rdma_resolve_route(&id, 1), -EINVAL);
}

TEST_F(Aix, Connect) {
    EXPECT_EQ(rdma_connect(nullptr, &param), -EINVAL);
    EXPECT_EQ(rdma_connect(&id, nullptr), -EINVAL);
    id.ps = RDMA_PS_UDP;
    EXPECT_EQ(rdma_connect(&id, &param), -EPROTONOSUPPORT);
    id.ps = RDMA_PS_TCP;
    EXPECT_TRUE(untouched());
    param.responder_resources = param.initiator_depth = 8;
    EXPECT_EQ(rdma_connect(&id, &param), 0);
    EXPECT_EQ(under.calls.back(), "rdma_connect");
    param.responder_resources = 9;
    EXPECT_EQ(rdma_connect(&id, &param), -EINVAL);
    param.responder_resources = 8;
    param.initiator_depth = 9;
    EXPECT_EQ(rdma_connect(&id, &param), -EINVAL);
    EXPECT_EQ(under.calls.back(), "ibv_query_device");
}

TEST_F(Aix, ConnectThatFails) {
    under.error = ECONNREFUSED;
    under.result = ENODEV; // the verbs return errno
    EXPECT_EQ(rdma_connect(&id, &param), -ENODEV);
}

TEST_F(Aix, Listen) {
    EXPECT_EQ(rdma_listen(nullptr, 1), -EINVAL);
    EXPECT_EQ(rdma_listen(&id, 1), 0);
    fail_with(ENODEV);
    EXPECT_EQ(rdma_listen(&id, 1), -ENODEV);
}

TEST_F(Aix, Accept) {
    EXPECT_EQ(rdma_accept(nullptr, &param), -EINVAL);
    EXPECT_EQ(rdma_accept(&id, nullptr), -EINVAL);
    id.qp = nullptr;
    EXPECT_EQ(rdma_accept(&id, &param), -EINVAL);
    EXPECT_TRUE(untouched());
    id.qp = &qp;
    EXPECT_EQ(rdma_accept(&id, &param), 0);
    fail_with(ECONNRESET);
    EXPECT_EQ(rdma_accept(&id, &param), -ECONNRESET);
}

TEST_F(Aix, Reject) {
    EXPECT_EQ(rdma_reject(nullptr, nullptr, 0), -EINVAL);
    EXPECT_EQ(rdma_reject(&id, nullptr, 3), -EINVAL);
    EXPECT_EQ(rdma_reject(&id, nullptr, 0), 0);
    fail_with(EINVAL);
    EXPECT_EQ(rdma_reject(&id, "no", 2), -EINVAL);
}

TEST_F(Aix, Disconnect) {
    EXPECT_EQ(rdma_disconnect(nullptr), -EINVAL);
    id.qp = nullptr;
    EXPECT_EQ(rdma_disconnect(&id), -EINVAL);
    id.qp = &qp;
    EXPECT_TRUE(untouched());
    EXPECT_EQ(rdma_disconnect(&id), 0);
    fail_with(ENOTCONN);
    EXPECT_EQ(rdma_disconnect(&id), -ENOTCONN);
}

TEST_F(Aix, GetPorts) {
    EXPECT_EQ(rdma_get_src_port(nullptr), 0);
    EXPECT_EQ(rdma_get_dst_port(nullptr), 0);
    EXPECT_EQ(rdma_get_src_port(&id), 0x1234);
    EXPECT_EQ(rdma_get_dst_port(&id), 0x4321);
}

TEST_F(Aix, GetAddresses) {
    EXPECT_EQ(rdma_get_local_addr(nullptr), nullptr);
    EXPECT_EQ(rdma_get_peer_addr(nullptr), nullptr);
    EXPECT_EQ(rdma_get_local_addr(&id), &id.route.addr.src_addr);
    EXPECT_EQ(rdma_get_peer_addr(&id), &id.route.addr.dst_addr);
}

TEST_F(Aix, GetCmEvent) {
    rdma_cm_event* event = nullptr;
    EXPECT_EQ(rdma_get_cm_event(nullptr, &event), -EINVAL);
    EXPECT_EQ(rdma_get_cm_event(&channel, nullptr), -EINVAL);
    EXPECT_EQ(rdma_get_cm_event(&channel, &event), 0);
    fail_with(EAGAIN);
    EXPECT_EQ(rdma_get_cm_event(&channel, &event), -EAGAIN);
    EXPECT_EQ(errno, EAGAIN);
}

TEST_F(Aix, AckCmEvent) {
    rdma_cm_event event{};
    EXPECT_EQ(rdma_ack_cm_event(nullptr), -EINVAL);
    EXPECT_EQ(rdma_ack_cm_event(&event), 0);
}

TEST_F(Aix, CreateQpOfAnId) {
    ibv_qp_init_attr attr{};
    EXPECT_EQ(rdma_create_qp(nullptr, nullptr, &attr), -EINVAL);
    EXPECT_EQ(rdma_create_qp(&id, nullptr, nullptr), -EINVAL);
    attr.cap.max_inline_data = 65;
    EXPECT_EQ(rdma_create_qp(&id, nullptr, &attr), -EINVAL);
    EXPECT_TRUE(untouched());
    attr.cap.max_inline_data = 64;
    EXPECT_EQ(rdma_create_qp(&id, nullptr, &attr), 0);
    fail_with(ENOMEM);
    EXPECT_EQ(rdma_create_qp(&id, nullptr, &attr), -ENOMEM);
}

TEST_F(Aix, DestroyQpOfAnId) {
    rdma_destroy_qp(nullptr);
    id.qp = nullptr;
    rdma_destroy_qp(&id);
    EXPECT_TRUE(untouched());
    id.qp = &qp;
    rdma_destroy_qp(&id);
    EXPECT_FALSE(untouched());
}

TEST_F(Aix, FreeDevices) {
    ibv_context* list[] = {nullptr};
    rdma_free_devices(nullptr);
    EXPECT_TRUE(untouched());
    rdma_free_devices(list);
    EXPECT_FALSE(untouched());
}

TEST_F(Aix, WhatAixDoesNotHave) {
    ibv_gid gid{};
    ibv_srq_init_attr attr{};
    int value = 0;
    EXPECT_EQ(rdma_notify(&id, IBV_EVENT_COMM_EST), -ENOSYS);
    EXPECT_EQ(rdma_join_multicast(&id, &address, nullptr), -ENOSYS);
    EXPECT_EQ(rdma_leave_multicast(&id, &address), -ENOSYS);
    EXPECT_EQ(rdma_set_option(&id, 0, 0, &value, sizeof(value)), -ENOSYS);
    EXPECT_EQ(ibv_resize_cq(&cq, 10), ENOSYS);
    EXPECT_EQ(ibv_attach_mcast(&qp, &gid, 0), ENOSYS);
    EXPECT_EQ(ibv_detach_mcast(&qp, &gid, 0), ENOSYS);
    errno = 0;
    EXPECT_EQ(ibv_create_srq(nullptr, &attr), nullptr);
    EXPECT_EQ(errno, ENOSYS);
    EXPECT_TRUE(untouched());
}

// The verbs

#define EXPECT_NULL(call, error)                                                                             \
    do {                                                                                                     \
        errno = 0;                                                                                           \
        EXPECT_EQ(call, nullptr);                                                                            \
        EXPECT_EQ(errno, error);                                                                             \
    } while (0)
#define EXPECT_MINUS_ONE(call)                                                                               \
    do {                                                                                                     \
        errno = 0;                                                                                           \
        EXPECT_EQ(call, -1);                                                                                 \
        EXPECT_EQ(errno, EINVAL);                                                                            \
    } while (0)

TEST_F(Aix, DeviceList) {
    EXPECT_NE(ibv_get_device_list(nullptr), nullptr);
    under = {};
    ibv_free_device_list(nullptr);
    EXPECT_TRUE(untouched());
    ibv_device* list[] = {nullptr};
    ibv_free_device_list(list);
    EXPECT_FALSE(untouched());
}

TEST_F(Aix, DeviceNameAndGuid) {
    ibv_device device{};
    EXPECT_NULL(ibv_get_device_name(nullptr), EINVAL);
    EXPECT_STREQ(ibv_get_device_name(&device), "cxgb3_0");
    EXPECT_EQ(ibv_get_device_guid(nullptr), 0U);
    EXPECT_EQ(ibv_get_device_guid(&device), 7U);
}

TEST_F(Aix, OpenAndClose) {
    ibv_device device{};
    EXPECT_NULL(ibv_open_device(nullptr), EINVAL);
    EXPECT_MINUS_ONE(ibv_close_device(nullptr));
    EXPECT_TRUE(untouched());
    EXPECT_NE(ibv_open_device(&device), nullptr);
    EXPECT_EQ(ibv_close_device(&context), 0);
}

TEST_F(Aix, QueryDevice) {
    ibv_device_attr attr{};
    EXPECT_EQ(ibv_query_device(nullptr, &attr), EINVAL);
    EXPECT_EQ(ibv_query_device(&context, nullptr), EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(ibv_query_device(&context, &attr), 0);
    EXPECT_EQ(attr.max_qp_rd_atom, 8);
    under.result = ENODEV; // as it comes: positive
    EXPECT_EQ(ibv_query_device(&context, &attr), ENODEV);
}

TEST_F(Aix, QueryPort) {
    ibv_port_attr attr{};
    EXPECT_EQ(ibv_query_port(nullptr, 1, &attr), EINVAL);
    EXPECT_EQ(ibv_query_port(&context, 1, nullptr), EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(ibv_query_port(&context, 1, &attr), 0);
    EXPECT_EQ(under.calls.back(), "ibv_query_port");
}

TEST_F(Aix, QueryPkey) {
    __be16 key = 0;
    EXPECT_MINUS_ONE(ibv_query_pkey(nullptr, 1, 0, &key));
    EXPECT_MINUS_ONE(ibv_query_pkey(&context, 1, 0, nullptr));
    EXPECT_EQ(ibv_query_pkey(&context, 1, 0, &key), 0);
}

TEST_F(Aix, QueryGid) {
    ibv_gid gid{};
    EXPECT_MINUS_ONE(ibv_query_gid(nullptr, 1, 0, &gid));
    EXPECT_MINUS_ONE(ibv_query_gid(&context, 1, 0, nullptr));
    EXPECT_EQ(ibv_query_gid(&context, 1, 0, &gid), 0);
}

TEST_F(Aix, CreateAndDestroyQp) {
    ibv_qp_init_attr attr{};
    ibv_pd pd{};
    EXPECT_NULL(ibv_create_qp(nullptr, &attr), EINVAL);
    EXPECT_NULL(ibv_create_qp(&pd, nullptr), EINVAL);
    attr.srq = reinterpret_cast<ibv_srq*>(thing);
    EXPECT_NULL(ibv_create_qp(&pd, &attr), ENOSYS);
    EXPECT_EQ(ibv_destroy_qp(nullptr), EINVAL);
    EXPECT_TRUE(untouched());
    attr.srq = nullptr;
    EXPECT_NE(ibv_create_qp(&pd, &attr), nullptr);
    EXPECT_EQ(ibv_destroy_qp(&qp), 0);
}

TEST_F(Aix, ModifyQp) {
    ibv_qp_attr attr{};
    EXPECT_EQ(ibv_modify_qp(nullptr, &attr, 0), EINVAL);
    EXPECT_EQ(ibv_modify_qp(&qp, nullptr, 0), EINVAL);
    EXPECT_EQ(ibv_modify_qp(&qp, &attr, 0), 0);
}

TEST_F(Aix, PostRecv) {
    ibv_recv_wr third{}, second{}, first{}, *bad = nullptr;
    first.next = &second;
    second.next = &third;
    first.sg_list = second.sg_list = third.sg_list = &sge;
    EXPECT_EQ(ibv_post_recv(nullptr, &first, &bad), EINVAL);
    EXPECT_EQ(bad, &first);
    EXPECT_EQ(ibv_post_recv(&qp, nullptr, &bad), EINVAL);
    EXPECT_EQ(ibv_post_recv(&qp, &first, nullptr), EINVAL);
    ibv_qp loose{};
    EXPECT_EQ(ibv_post_recv(&loose, &first, &bad), EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(ibv_post_recv(&qp, &first, &bad), 0);
    third.sg_list = nullptr;
    EXPECT_EQ(ibv_post_recv(&qp, &first, &bad), EINVAL);
    EXPECT_EQ(bad, &third);
    EXPECT_EQ(under.posted, (std::vector<std::size_t>{3, 2}));
    EXPECT_EQ(second.next, &third);
}

TEST_F(Aix, PostSend) {
    ibv_send_wr third{}, second{}, first{}, *bad = nullptr;
    first.next = &second;
    second.next = &third;
    first.sg_list = second.sg_list = third.sg_list = &sge;
    first.opcode = IBV_WR_SEND;
    second.opcode = IBV_WR_RDMA_READ;
    third.opcode = IBV_WR_RDMA_WRITE;
    EXPECT_EQ(ibv_post_send(nullptr, &first, &bad), EINVAL);
    EXPECT_EQ(bad, &first);
    EXPECT_EQ(ibv_post_send(&qp, nullptr, &bad), EINVAL);
    EXPECT_EQ(ibv_post_send(&qp, &first, nullptr), EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(ibv_post_send(&qp, &first, &bad), 0);
    for (const auto opcode : {IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP}) {
        second.opcode = opcode;
        EXPECT_EQ(ibv_post_send(&qp, &first, &bad), ENOTSUP);
        EXPECT_EQ(bad, &second);
    }
    first.sg_list = nullptr;
    EXPECT_EQ(ibv_post_send(&qp, &first, &bad), EINVAL);
    EXPECT_EQ(bad, &first);
    EXPECT_EQ(under.posted, (std::vector<std::size_t>{3, 1, 1, 1}));
    EXPECT_EQ(first.next, &second);
    EXPECT_EQ(ENOTSUP, EOPNOTSUPP) << "what the provider returns";
}

TEST_F(Aix, PostThatFailsBeforeTheBadOne) {
    ibv_send_wr second{}, first{}, *bad = nullptr;
    first.next = &second;
    first.sg_list = &sge;
    under.result = ENOMEM;
    EXPECT_EQ(ibv_post_send(&qp, &first, &bad), ENOMEM);
    EXPECT_EQ(first.next, &second);
    ibv_recv_wr last{}, before{}, *bad_recv = nullptr;
    before.next = &last;
    before.sg_list = &sge;
    EXPECT_EQ(ibv_post_recv(&qp, &before, &bad_recv), ENOMEM);
    EXPECT_EQ(before.next, &last);
}

TEST_F(Aix, CreateAndDestroyCq) {
    EXPECT_NULL(ibv_create_cq(nullptr, 1, nullptr, nullptr, 0), EINVAL);
    EXPECT_EQ(ibv_destroy_cq(nullptr), EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_NE(ibv_create_cq(&context, 1, nullptr, nullptr, 0), nullptr);
    under.result = EBUSY;
    EXPECT_EQ(ibv_destroy_cq(&cq), EBUSY);
}

TEST_F(Aix, NotifyAndPoll) {
    ibv_wc wc{};
    EXPECT_EQ(ibv_req_notify_cq(nullptr, 0), EINVAL);
    EXPECT_EQ(ibv_poll_cq(nullptr, 1, &wc), -EINVAL);
    EXPECT_EQ(ibv_poll_cq(&cq, 1, nullptr), -EINVAL);
    EXPECT_EQ(ibv_poll_cq(&cq, -1, &wc), -EINVAL);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(ibv_req_notify_cq(&cq, 0), 0);
    under.result = 1;
    EXPECT_EQ(ibv_poll_cq(&cq, 1, &wc), 1);
}

TEST_F(Aix, CqEvents) {
    ibv_comp_channel of{};
    ibv_cq* found = nullptr;
    void* with = nullptr;
    EXPECT_MINUS_ONE(ibv_get_cq_event(nullptr, &found, &with));
    EXPECT_MINUS_ONE(ibv_get_cq_event(&of, nullptr, &with));
    EXPECT_MINUS_ONE(ibv_get_cq_event(&of, &found, nullptr));
    ibv_ack_cq_events(nullptr, 1);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(ibv_get_cq_event(&of, &found, &with), 0);
    ibv_ack_cq_events(&cq, 1);
    EXPECT_EQ(under.calls.back(), "ibv_ack_cq_events");
}

TEST_F(Aix, CompChannel) {
    ibv_comp_channel of{};
    EXPECT_NULL(ibv_create_comp_channel(nullptr), EINVAL);
    EXPECT_EQ(ibv_destroy_comp_channel(nullptr), EINVAL);
    EXPECT_NE(ibv_create_comp_channel(&context), nullptr);
    EXPECT_EQ(ibv_destroy_comp_channel(&of), 0);
}

TEST_F(Aix, Pd) {
    ibv_pd pd{};
    EXPECT_NULL(ibv_alloc_pd(nullptr), EINVAL);
    EXPECT_EQ(ibv_dealloc_pd(nullptr), EINVAL);
    EXPECT_NE(ibv_alloc_pd(&context), nullptr);
    under.result = EBUSY;
    EXPECT_EQ(ibv_dealloc_pd(&pd), EBUSY);
}

TEST_F(Aix, RegMr) {
    ibv_pd pd{};
    EXPECT_NULL(ibv_reg_mr(nullptr, thing, 1, 0), EINVAL);
    EXPECT_NULL(ibv_reg_mr(&pd, nullptr, 1, 0), EINVAL);
    EXPECT_NULL(ibv_reg_mr(&pd, thing, 1, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    EXPECT_NULL(ibv_reg_mr(&pd, thing, 1, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE), EINVAL);
    EXPECT_NULL(ibv_reg_mr(&pd, thing, 1, IBV_ACCESS_MW_BIND), EINVAL);
    EXPECT_TRUE(untouched());
    for (const int access : {0, int{IBV_ACCESS_LOCAL_WRITE}, int{IBV_ACCESS_REMOTE_READ},
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ})
        EXPECT_NE(ibv_reg_mr(&pd, thing, 1, access), nullptr) << access;
}

TEST_F(Aix, DeregMr) {
    ibv_mr mr{};
    EXPECT_EQ(ibv_dereg_mr(nullptr), EINVAL);
    EXPECT_EQ(ibv_dereg_mr(&mr), 0);
}

TEST_F(Aix, AsyncEvents) {
    ibv_async_event event{};
    EXPECT_MINUS_ONE(ibv_get_async_event(nullptr, &event));
    EXPECT_MINUS_ONE(ibv_get_async_event(&context, nullptr));
    ibv_ack_async_event(nullptr);
    EXPECT_TRUE(untouched());
    EXPECT_EQ(ibv_get_async_event(&context, &event), 0);
    ibv_ack_async_event(&event);
    EXPECT_EQ(under.calls.back(), "ibv_ack_async_event");
}

TEST_F(Aix, Names) {
    EXPECT_STREQ(ibv_event_type_str(IBV_EVENT_PORT_ERR), "an event");
    EXPECT_STREQ(ibv_event_type_str(static_cast<ibv_event_type>(99)), "<<unknown>>");
    EXPECT_STREQ(ibv_node_type_str(IBV_NODE_RNIC), "a node");
    EXPECT_STREQ(ibv_node_type_str(static_cast<ibv_node_type>(99)), "<<unknown>>");
    EXPECT_STREQ(ibv_port_state_str(IBV_PORT_ACTIVE), "a state");
    EXPECT_STREQ(ibv_port_state_str(static_cast<ibv_port_state>(99)), "<<unknown>>");
}

} // namespace
