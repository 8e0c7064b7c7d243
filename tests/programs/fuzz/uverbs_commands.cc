// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The commands of /dev/infiniband/uverbsN by write() and by ioctl().
#include "commands.hh"

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>

#include <cstddef>

#include "include/uapi/t3_abi.h"

namespace fuzz {

#define AT(type, member) offsetof(type, member), sizeof(static_cast<type*>(nullptr)->member)
#define NUMBER(type, member, usual)                                                                          \
    Field {                                                                                                  \
        Role::Number, Kinds, AT(type, member), usual                                                         \
    }
#define HANDLE(type, member, kind)                                                                           \
    { Role::Handle, kind, AT(type, member), 0 }
#define POINTER(type, member)                                                                                \
    Field {                                                                                                  \
        Role::Pointer, Kinds, AT(type, member), 0                                                            \
    }
#define WORDS(type, member, usual)                                                                           \
    { Role::Words, Kinds, AT(type, member), usual }
#define MADE(kind, type, member)                                                                             \
    { kind, offsetof(type, member) }

constexpr uint64_t no_fd = ~0ULL;

static Command write(const char* name, uint16_t number, size_t request, size_t response,
                     std::vector<Field> fields, std::vector<Made> made = {}, Kind ends = Kinds,
                     size_t driver_in = 0, size_t driver_out = 0) {
    return {name,
            Path::Write,
            number,
            0,
            static_cast<uint16_t>(request),
            static_cast<uint16_t>(response),
            static_cast<int16_t>(response ? 0 : -1),
            static_cast<uint16_t>(driver_in),
            static_cast<uint16_t>(driver_out),
            std::move(fields),
            std::move(made),
            ends};
}

static Command extended(const char* name, uint16_t number, size_t request, size_t response,
                        std::vector<Field> fields, std::vector<Made> made = {}, size_t driver_in = 0,
                        size_t driver_out = 0) {
    auto command = write(name, number, request, response, std::move(fields), std::move(made), Kinds,
                         driver_in, driver_out);
    command.path = Path::WriteEx;
    command.response_at = -1; // its address is in the header
    return command;
}

static Command ioctl(const char* name, uint16_t object, uint16_t method, std::vector<Field> fields,
                     std::vector<Made> made = {}, Kind ends = Kinds, size_t driver_in = 0,
                     size_t driver_out = 0) {
    return {name,
            Path::Ioctl,
            object,
            method,
            0,
            0,
            -1,
            static_cast<uint16_t>(driver_in),
            static_cast<uint16_t>(driver_out),
            std::move(fields),
            std::move(made),
            ends};
}

static Field attr(Role role, uint16_t id, uint16_t size, uint64_t usual = 0) {
    return {role, Kinds, id, size, usual};
}

static Field attr_of(Kind kind, uint16_t id, uint64_t usual = 0) {
    return {Role::Handle, kind, id, 0, usual};
}

// The work request and its SGE behind the fixed part of post_send and post_recv.
struct SendTail {
    ib_uverbs_send_wr wr;
    ib_uverbs_sge sge;
};
struct RecvTail {
    ib_uverbs_recv_wr wr;
    ib_uverbs_sge sge;
};

static Field behind(size_t head, Field field) {
    field.at = static_cast<uint16_t>(field.at + head);
    return field;
}

static std::vector<Command> write_commands() {
    constexpr auto send_head = sizeof(ib_uverbs_post_send), recv_head = sizeof(ib_uverbs_post_recv);
    constexpr auto cq_in = sizeof(t3_create_cq_req), cq_out = sizeof(t3_create_cq_resp);
    constexpr auto qp_out = sizeof(t3_create_qp_resp);
    return {
        write("get_context", IB_USER_VERBS_CMD_GET_CONTEXT, sizeof(ib_uverbs_get_context),
              sizeof(ib_uverbs_get_context_resp), {}, {MADE(Async, ib_uverbs_get_context_resp, async_fd)}),
        write("query_device", IB_USER_VERBS_CMD_QUERY_DEVICE, sizeof(ib_uverbs_query_device),
              sizeof(ib_uverbs_query_device_resp), {}),
        write("query_port", IB_USER_VERBS_CMD_QUERY_PORT, sizeof(ib_uverbs_query_port),
              sizeof(ib_uverbs_query_port_resp), {NUMBER(ib_uverbs_query_port, port_num, 1)}),
        write("alloc_pd", IB_USER_VERBS_CMD_ALLOC_PD, sizeof(ib_uverbs_alloc_pd),
              sizeof(ib_uverbs_alloc_pd_resp), {}, {MADE(Pd, ib_uverbs_alloc_pd_resp, pd_handle)}, Kinds, 0,
              sizeof(t3_alloc_pd_resp)),
        write("dealloc_pd", IB_USER_VERBS_CMD_DEALLOC_PD, sizeof(ib_uverbs_dealloc_pd), 0,
              {HANDLE(ib_uverbs_dealloc_pd, pd_handle, Pd)}, {}, Pd),
        write("reg_mr", IB_USER_VERBS_CMD_REG_MR, sizeof(ib_uverbs_reg_mr), sizeof(ib_uverbs_reg_mr_resp),
              {HANDLE(ib_uverbs_reg_mr, pd_handle, Pd), POINTER(ib_uverbs_reg_mr, start),
               NUMBER(ib_uverbs_reg_mr, length, 4096), POINTER(ib_uverbs_reg_mr, hca_va),
               NUMBER(ib_uverbs_reg_mr, access_flags, 1)},
              {MADE(Mr, ib_uverbs_reg_mr_resp, mr_handle)}, Kinds, 0, sizeof(t3_reg_mr_resp)),
        write("rereg_mr", IB_USER_VERBS_CMD_REREG_MR, sizeof(ib_uverbs_rereg_mr),
              sizeof(ib_uverbs_rereg_mr_resp),
              {HANDLE(ib_uverbs_rereg_mr, mr_handle, Mr), HANDLE(ib_uverbs_rereg_mr, pd_handle, Pd),
               NUMBER(ib_uverbs_rereg_mr, flags, 4), POINTER(ib_uverbs_rereg_mr, start),
               NUMBER(ib_uverbs_rereg_mr, length, 8192), POINTER(ib_uverbs_rereg_mr, hca_va),
               NUMBER(ib_uverbs_rereg_mr, access_flags, 1)}),
        write("dereg_mr", IB_USER_VERBS_CMD_DEREG_MR, sizeof(ib_uverbs_dereg_mr), 0,
              {HANDLE(ib_uverbs_dereg_mr, mr_handle, Mr)}, {}, Mr),
        write("alloc_mw", IB_USER_VERBS_CMD_ALLOC_MW, sizeof(ib_uverbs_alloc_mw),
              sizeof(ib_uverbs_alloc_mw_resp),
              {HANDLE(ib_uverbs_alloc_mw, pd_handle, Pd), NUMBER(ib_uverbs_alloc_mw, mw_type, 1)},
              {MADE(Mw, ib_uverbs_alloc_mw_resp, mw_handle)}),
        write("dealloc_mw", IB_USER_VERBS_CMD_DEALLOC_MW, sizeof(ib_uverbs_dealloc_mw), 0,
              {HANDLE(ib_uverbs_dealloc_mw, mw_handle, Mw)}, {}, Mw),
        write("create_channel", IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, sizeof(ib_uverbs_create_comp_channel),
              sizeof(ib_uverbs_create_comp_channel_resp), {},
              {MADE(Channel, ib_uverbs_create_comp_channel_resp, fd)}),
        write("create_cq", IB_USER_VERBS_CMD_CREATE_CQ, sizeof(ib_uverbs_create_cq),
              sizeof(ib_uverbs_create_cq_resp),
              {NUMBER(ib_uverbs_create_cq, user_handle, 77),
               NUMBER(ib_uverbs_create_cq, cqe, 16),
               NUMBER(ib_uverbs_create_cq, comp_vector, 0),
               {Role::Handle, Channel, AT(ib_uverbs_create_cq, comp_channel), no_fd},
               {Role::Pointer, Kinds, sizeof(ib_uverbs_create_cq), 8, 0}},
              {MADE(Cq, ib_uverbs_create_cq_resp, cq_handle), {Key, sizeof(ib_uverbs_create_cq_resp), 8}},
              Kinds, cq_in, cq_out),
        write("resize_cq", IB_USER_VERBS_CMD_RESIZE_CQ, sizeof(ib_uverbs_resize_cq),
              sizeof(ib_uverbs_resize_cq_resp),
              {HANDLE(ib_uverbs_resize_cq, cq_handle, Cq), NUMBER(ib_uverbs_resize_cq, cqe, 32)}),
        write("poll_cq", IB_USER_VERBS_CMD_POLL_CQ, sizeof(ib_uverbs_poll_cq), sizeof(ib_uverbs_poll_cq_resp),
              {HANDLE(ib_uverbs_poll_cq, cq_handle, Cq), NUMBER(ib_uverbs_poll_cq, ne, 1)}),
        write("notify_cq", IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, sizeof(ib_uverbs_req_notify_cq), 0,
              {HANDLE(ib_uverbs_req_notify_cq, cq_handle, Cq),
               NUMBER(ib_uverbs_req_notify_cq, solicited_only, 0)}),
        write("destroy_cq", IB_USER_VERBS_CMD_DESTROY_CQ, sizeof(ib_uverbs_destroy_cq),
              sizeof(ib_uverbs_destroy_cq_resp), {HANDLE(ib_uverbs_destroy_cq, cq_handle, Cq)}, {}, Cq),
        write("create_qp", IB_USER_VERBS_CMD_CREATE_QP, sizeof(ib_uverbs_create_qp),
              sizeof(ib_uverbs_create_qp_resp),
              {HANDLE(ib_uverbs_create_qp, pd_handle, Pd), HANDLE(ib_uverbs_create_qp, send_cq_handle, Cq),
               HANDLE(ib_uverbs_create_qp, recv_cq_handle, Cq), HANDLE(ib_uverbs_create_qp, srq_handle, Srq),
               NUMBER(ib_uverbs_create_qp, user_handle, 78), NUMBER(ib_uverbs_create_qp, max_send_wr, 8),
               NUMBER(ib_uverbs_create_qp, max_recv_wr, 8), NUMBER(ib_uverbs_create_qp, max_send_sge, 1),
               NUMBER(ib_uverbs_create_qp, max_recv_sge, 1), NUMBER(ib_uverbs_create_qp, max_inline_data, 0),
               NUMBER(ib_uverbs_create_qp, sq_sig_all, 0), NUMBER(ib_uverbs_create_qp, qp_type, 2),
               NUMBER(ib_uverbs_create_qp, is_srq, 0)},
              {MADE(Qp, ib_uverbs_create_qp_resp, qp_handle),
               MADE(QpNumber, ib_uverbs_create_qp_resp, qpn),
               {Key, sizeof(ib_uverbs_create_qp_resp), 8},
               {Key, sizeof(ib_uverbs_create_qp_resp) + 8, 8}},
              Kinds, 0, qp_out),
        write("modify_qp", IB_USER_VERBS_CMD_MODIFY_QP, sizeof(ib_uverbs_modify_qp), 0,
              {HANDLE(ib_uverbs_modify_qp, qp_handle, Qp), NUMBER(ib_uverbs_modify_qp, attr_mask, 1),
               NUMBER(ib_uverbs_modify_qp, qp_state, 1), NUMBER(ib_uverbs_modify_qp, cur_qp_state, 0),
               WORDS(ib_uverbs_modify_qp, dest, 0), WORDS(ib_uverbs_modify_qp, alt_dest, 0),
               NUMBER(ib_uverbs_modify_qp, qp_access_flags, 0), NUMBER(ib_uverbs_modify_qp, port_num, 1),
               NUMBER(ib_uverbs_modify_qp, qkey, 0), NUMBER(ib_uverbs_modify_qp, path_mtu, 3),
               NUMBER(ib_uverbs_modify_qp, alt_port_num, 1)}),
        write("query_qp", IB_USER_VERBS_CMD_QUERY_QP, sizeof(ib_uverbs_query_qp),
              sizeof(ib_uverbs_query_qp_resp),
              {HANDLE(ib_uverbs_query_qp, qp_handle, Qp), NUMBER(ib_uverbs_query_qp, attr_mask, 1)}),
        write("destroy_qp", IB_USER_VERBS_CMD_DESTROY_QP, sizeof(ib_uverbs_destroy_qp),
              sizeof(ib_uverbs_destroy_qp_resp), {HANDLE(ib_uverbs_destroy_qp, qp_handle, Qp)}, {}, Qp),
        write("attach_mcast", IB_USER_VERBS_CMD_ATTACH_MCAST, sizeof(ib_uverbs_attach_mcast), 0,
              {HANDLE(ib_uverbs_attach_mcast, qp_handle, Qp), WORDS(ib_uverbs_attach_mcast, gid, 0xff),
               NUMBER(ib_uverbs_attach_mcast, mlid, 0xc000)}),
        write("detach_mcast", IB_USER_VERBS_CMD_DETACH_MCAST, sizeof(ib_uverbs_detach_mcast), 0,
              {HANDLE(ib_uverbs_detach_mcast, qp_handle, Qp), WORDS(ib_uverbs_detach_mcast, gid, 0xff),
               NUMBER(ib_uverbs_detach_mcast, mlid, 0xc000)}),
        write("post_send", IB_USER_VERBS_CMD_POST_SEND, send_head + sizeof(SendTail),
              sizeof(ib_uverbs_post_send_resp),
              {HANDLE(ib_uverbs_post_send, qp_handle, Qp), NUMBER(ib_uverbs_post_send, wr_count, 1),
               NUMBER(ib_uverbs_post_send, sge_count, 1),
               NUMBER(ib_uverbs_post_send, wqe_size, sizeof(ib_uverbs_send_wr)),
               behind(send_head, NUMBER(SendTail, wr.num_sge, 1)),
               behind(send_head, NUMBER(SendTail, wr.opcode, 2)),
               behind(send_head, NUMBER(SendTail, wr.send_flags, 2)),
               behind(send_head, POINTER(SendTail, sge.addr)),
               behind(send_head, NUMBER(SendTail, sge.length, 8))}),
        write("post_recv", IB_USER_VERBS_CMD_POST_RECV, recv_head + sizeof(RecvTail),
              sizeof(ib_uverbs_post_recv_resp),
              {HANDLE(ib_uverbs_post_recv, qp_handle, Qp), NUMBER(ib_uverbs_post_recv, wr_count, 1),
               NUMBER(ib_uverbs_post_recv, sge_count, 1),
               NUMBER(ib_uverbs_post_recv, wqe_size, sizeof(ib_uverbs_recv_wr)),
               behind(recv_head, NUMBER(RecvTail, wr.num_sge, 1)),
               behind(recv_head, POINTER(RecvTail, sge.addr))}),
        write("create_srq", IB_USER_VERBS_CMD_CREATE_SRQ, sizeof(ib_uverbs_create_srq),
              sizeof(ib_uverbs_create_srq_resp),
              {HANDLE(ib_uverbs_create_srq, pd_handle, Pd), NUMBER(ib_uverbs_create_srq, max_wr, 8),
               NUMBER(ib_uverbs_create_srq, max_sge, 1), NUMBER(ib_uverbs_create_srq, srq_limit, 0)},
              {MADE(Srq, ib_uverbs_create_srq_resp, srq_handle)}),
        write("destroy_srq", IB_USER_VERBS_CMD_DESTROY_SRQ, sizeof(ib_uverbs_destroy_srq),
              sizeof(ib_uverbs_destroy_srq_resp), {HANDLE(ib_uverbs_destroy_srq, srq_handle, Srq)}, {}, Srq),
        write("create_ah", IB_USER_VERBS_CMD_CREATE_AH, sizeof(ib_uverbs_create_ah),
              sizeof(ib_uverbs_create_ah_resp),
              {HANDLE(ib_uverbs_create_ah, pd_handle, Pd), WORDS(ib_uverbs_create_ah, attr, 0)},
              {MADE(Ah, ib_uverbs_create_ah_resp, ah_handle)}),
        write("destroy_ah", IB_USER_VERBS_CMD_DESTROY_AH, sizeof(ib_uverbs_destroy_ah), 0,
              {HANDLE(ib_uverbs_destroy_ah, ah_handle, Ah)}, {}, Ah),
        write("open_xrcd", IB_USER_VERBS_CMD_OPEN_XRCD, sizeof(ib_uverbs_open_xrcd),
              sizeof(ib_uverbs_open_xrcd_resp), {NUMBER(ib_uverbs_open_xrcd, fd, ~0U)}),
    };
}

static std::vector<Command> extended_commands() {
    constexpr auto cq_in = sizeof(t3_create_cq_req), cq_out = sizeof(t3_create_cq_resp);
    constexpr auto qp_out = sizeof(t3_create_qp_resp);
    return {
        extended("query_device_ex", IB_USER_VERBS_EX_CMD_QUERY_DEVICE, sizeof(ib_uverbs_ex_query_device),
                 sizeof(ib_uverbs_ex_query_device_resp), {NUMBER(ib_uverbs_ex_query_device, comp_mask, 0)}),
        extended("create_cq_ex", IB_USER_VERBS_EX_CMD_CREATE_CQ, sizeof(ib_uverbs_ex_create_cq),
                 sizeof(ib_uverbs_ex_create_cq_resp),
                 {NUMBER(ib_uverbs_ex_create_cq, cqe, 16),
                  NUMBER(ib_uverbs_ex_create_cq, comp_vector, 0),
                  {Role::Handle, Channel, AT(ib_uverbs_ex_create_cq, comp_channel), no_fd},
                  NUMBER(ib_uverbs_ex_create_cq, flags, 0),
                  {Role::Pointer, Kinds, sizeof(ib_uverbs_ex_create_cq), 8, 0}},
                 {MADE(Cq, ib_uverbs_ex_create_cq_resp, base.cq_handle),
                  {Key, sizeof(ib_uverbs_ex_create_cq_resp), 8}},
                 cq_in, cq_out),
        extended(
            "create_qp_ex", IB_USER_VERBS_EX_CMD_CREATE_QP, sizeof(ib_uverbs_ex_create_qp),
            sizeof(ib_uverbs_ex_create_qp_resp),
            {HANDLE(ib_uverbs_ex_create_qp, pd_handle, Pd),
             HANDLE(ib_uverbs_ex_create_qp, send_cq_handle, Cq),
             HANDLE(ib_uverbs_ex_create_qp, recv_cq_handle, Cq),
             NUMBER(ib_uverbs_ex_create_qp, max_send_wr, 8), NUMBER(ib_uverbs_ex_create_qp, max_recv_wr, 8),
             NUMBER(ib_uverbs_ex_create_qp, max_send_sge, 1), NUMBER(ib_uverbs_ex_create_qp, max_recv_sge, 1),
             NUMBER(ib_uverbs_ex_create_qp, qp_type, 2), NUMBER(ib_uverbs_ex_create_qp, is_srq, 0),
             NUMBER(ib_uverbs_ex_create_qp, comp_mask, 0), NUMBER(ib_uverbs_ex_create_qp, create_flags, 0),
             NUMBER(ib_uverbs_ex_create_qp, source_qpn, 0)},
            {MADE(Qp, ib_uverbs_ex_create_qp_resp, base.qp_handle),
             MADE(QpNumber, ib_uverbs_ex_create_qp_resp, base.qpn),
             {Key, sizeof(ib_uverbs_ex_create_qp_resp), 8}},
            0, qp_out),
        extended("modify_qp_ex", IB_USER_VERBS_EX_CMD_MODIFY_QP, sizeof(ib_uverbs_ex_modify_qp),
                 sizeof(ib_uverbs_ex_modify_qp_resp),
                 {HANDLE(ib_uverbs_ex_modify_qp, base.qp_handle, Qp),
                  NUMBER(ib_uverbs_ex_modify_qp, base.attr_mask, 1),
                  NUMBER(ib_uverbs_ex_modify_qp, base.qp_state, 6),
                  NUMBER(ib_uverbs_ex_modify_qp, rate_limit, 0)}),
        extended(
            "modify_cq", IB_USER_VERBS_EX_CMD_MODIFY_CQ, sizeof(ib_uverbs_ex_modify_cq), 0,
            {HANDLE(ib_uverbs_ex_modify_cq, cq_handle, Cq), NUMBER(ib_uverbs_ex_modify_cq, attr_mask, 1)}),
        extended("create_flow", IB_USER_VERBS_EX_CMD_CREATE_FLOW, sizeof(ib_uverbs_create_flow),
                 sizeof(ib_uverbs_create_flow_resp), {HANDLE(ib_uverbs_create_flow, qp_handle, Qp)}),
    };
}

static std::vector<Command> ioctl_commands() {
    constexpr uint16_t cq_in = sizeof(t3_create_cq_req), cq_out = sizeof(t3_create_cq_resp);
    constexpr uint16_t qp_out = sizeof(t3_create_qp_resp);
    constexpr auto number = Role::Number, answer = Role::Output;
    const auto destroy = [](const char* name, uint16_t object, Kind kind, uint16_t result) {
        std::vector<Field> fields = {attr_of(kind, 0)};
        if (result)
            fields.push_back(attr(answer, 1, result));
        return ioctl(name, object, 0, fields, {}, kind);
    };
    return {
        ioctl("get_context_i", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_GET_CONTEXT,
              {attr(answer, UVERBS_ATTR_GET_CONTEXT_NUM_COMP_VECTORS, 4),
               attr(answer, UVERBS_ATTR_GET_CONTEXT_CORE_SUPPORT, 8)}),
        ioctl("query_context_i", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_CONTEXT,
              {attr(answer, UVERBS_ATTR_QUERY_CONTEXT_NUM_COMP_VECTORS, 4),
               attr(answer, UVERBS_ATTR_QUERY_CONTEXT_CORE_SUPPORT, 8)}),
        ioctl("async_event_i", UVERBS_OBJECT_ASYNC_EVENT, UVERBS_METHOD_ASYNC_EVENT_ALLOC,
              {attr(Role::NewId, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE, 0)},
              {{Async, UVERBS_ATTR_ASYNC_EVENT_ALLOC_FD_HANDLE}}),
        ioctl("query_port_i", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT,
              {attr(number, UVERBS_ATTR_QUERY_PORT_PORT_NUM, 8, 1),
               attr(answer, UVERBS_ATTR_QUERY_PORT_RESP, sizeof(ib_uverbs_query_port_resp_ex))}),
        ioctl("query_gids_i", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_TABLE,
              {attr(number, UVERBS_ATTR_QUERY_GID_TABLE_ENTRY_SIZE, 8, sizeof(ib_uverbs_gid_entry)),
               attr(number, UVERBS_ATTR_QUERY_GID_TABLE_FLAGS, 4),
               attr(answer, UVERBS_ATTR_QUERY_GID_TABLE_RESP_ENTRIES, 4 * sizeof(ib_uverbs_gid_entry)),
               attr(answer, UVERBS_ATTR_QUERY_GID_TABLE_RESP_NUM_ENTRIES, 8)}),
        ioctl("query_gid_i", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_GID_ENTRY,
              {attr(number, UVERBS_ATTR_QUERY_GID_ENTRY_PORT, 8, 1),
               attr(number, UVERBS_ATTR_QUERY_GID_ENTRY_GID_INDEX, 8, 0),
               attr(number, UVERBS_ATTR_QUERY_GID_ENTRY_FLAGS, 4),
               attr(answer, UVERBS_ATTR_QUERY_GID_ENTRY_RESP_ENTRY, sizeof(ib_uverbs_gid_entry))}),
        ioctl("handles_i", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INFO_HANDLES,
              {attr(number, UVERBS_ATTR_INFO_OBJECT_ID, 8, UVERBS_OBJECT_PD),
               attr(answer, UVERBS_ATTR_INFO_TOTAL_HANDLES, 4),
               attr(answer, UVERBS_ATTR_INFO_HANDLES_LIST, 64)}),
        ioctl("invoke_i", UVERBS_OBJECT_DEVICE, UVERBS_METHOD_INVOKE_WRITE,
              {attr(Role::Words, UVERBS_ATTR_CORE_IN, sizeof(ib_uverbs_query_device)),
               attr(answer, UVERBS_ATTR_CORE_OUT, 512),
               attr(number, UVERBS_ATTR_WRITE_CMD, 8, IB_USER_VERBS_CMD_QUERY_DEVICE)}),
        destroy("dealloc_pd_i", UVERBS_OBJECT_PD, Pd, 0),
        ioctl("query_mr_i", UVERBS_OBJECT_MR, UVERBS_METHOD_QUERY_MR,
              {attr_of(Mr, UVERBS_ATTR_QUERY_MR_HANDLE), attr(answer, UVERBS_ATTR_QUERY_MR_RESP_LKEY, 4),
               attr(answer, UVERBS_ATTR_QUERY_MR_RESP_RKEY, 4),
               attr(answer, UVERBS_ATTR_QUERY_MR_RESP_LENGTH, 8),
               attr(answer, UVERBS_ATTR_QUERY_MR_RESP_IOVA, 8)}),
        ioctl("dereg_mr_i", UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY,
              {attr_of(Mr, UVERBS_ATTR_DESTROY_MR_HANDLE)}, {}, Mr),
        destroy("dealloc_mw_i", UVERBS_OBJECT_MW, Mw, 0),
        ioctl("create_cq_i", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE,
              {attr(Role::NewId, UVERBS_ATTR_CREATE_CQ_HANDLE, 0),
               attr(number, UVERBS_ATTR_CREATE_CQ_CQE, 4, 16),
               attr(number, UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, 79),
               attr_of(Channel, UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL),
               attr(number, UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4),
               attr(number, UVERBS_ATTR_CREATE_CQ_FLAGS, 4), attr(answer, UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4),
               attr_of(Async, UVERBS_ATTR_CREATE_CQ_EVENT_FD)},
              {{Cq, UVERBS_ATTR_CREATE_CQ_HANDLE}}, Kinds, cq_in, cq_out),
        ioctl("destroy_cq_i", UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY,
              {attr_of(Cq, UVERBS_ATTR_DESTROY_CQ_HANDLE),
               attr(answer, UVERBS_ATTR_DESTROY_CQ_RESP, sizeof(ib_uverbs_destroy_cq_resp))},
              {}, Cq),
        ioctl("create_qp_i", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE,
              {attr(Role::NewId, UVERBS_ATTR_CREATE_QP_HANDLE, 0),
               attr_of(Pd, UVERBS_ATTR_CREATE_QP_PD_HANDLE),
               attr_of(Cq, UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE),
               attr_of(Cq, UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE),
               attr(number, UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8, 80),
               attr(Role::Words, UVERBS_ATTR_CREATE_QP_CAP, sizeof(ib_uverbs_qp_cap), 2),
               attr(number, UVERBS_ATTR_CREATE_QP_TYPE, 8, 2), attr(number, UVERBS_ATTR_CREATE_QP_FLAGS, 4),
               attr_of(Async, UVERBS_ATTR_CREATE_QP_EVENT_FD),
               attr(answer, UVERBS_ATTR_CREATE_QP_RESP_CAP, sizeof(ib_uverbs_qp_cap)),
               attr(answer, UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, 4)},
              {{Qp, UVERBS_ATTR_CREATE_QP_HANDLE}}, Kinds, 0, qp_out),
        ioctl("destroy_qp_i", UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY,
              {attr_of(Qp, UVERBS_ATTR_DESTROY_QP_HANDLE),
               attr(answer, UVERBS_ATTR_DESTROY_QP_RESP, sizeof(ib_uverbs_destroy_qp_resp))},
              {}, Qp),
        destroy("destroy_ah_i", UVERBS_OBJECT_AH, Ah, 0),
        ioctl("create_srq_i", UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_CREATE,
              {attr(Role::NewId, UVERBS_ATTR_CREATE_SRQ_HANDLE, 0),
               attr_of(Pd, UVERBS_ATTR_CREATE_SRQ_PD_HANDLE),
               attr(number, UVERBS_ATTR_CREATE_SRQ_USER_HANDLE, 8),
               attr(number, UVERBS_ATTR_CREATE_SRQ_MAX_WR, 4, 8),
               attr(number, UVERBS_ATTR_CREATE_SRQ_MAX_SGE, 4, 1),
               attr(number, UVERBS_ATTR_CREATE_SRQ_LIMIT, 4), attr(number, UVERBS_ATTR_CREATE_SRQ_TYPE, 8),
               attr(answer, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_WR, 4),
               attr(answer, UVERBS_ATTR_CREATE_SRQ_RESP_MAX_SGE, 4)},
              {{Srq, UVERBS_ATTR_CREATE_SRQ_HANDLE}}),
        destroy("destroy_srq_i", UVERBS_OBJECT_SRQ, Srq, sizeof(ib_uverbs_destroy_srq_resp)),
        ioctl("advise_mr_i", UVERBS_OBJECT_MR, UVERBS_METHOD_ADVISE_MR, {attr_of(Pd, 0)}),
    };
}

std::vector<Command> uverbs_commands() {
    auto all = write_commands();
    for (auto& part : {extended_commands(), ioctl_commands()})
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

} // namespace fuzz
