// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "commands.hh"

#include <algorithm>
#include <cstdlib>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_verbs.h>

namespace uv {

namespace {

// ---- write(): the fields of a request

Field response() {
    return {Kind::response, "response", 8};
}
Field handle(std::string_view name, Object object) {
    return {Kind::handle, name, 4, 0, object};
}
Field fd(std::string_view name, Object object) {
    return {Kind::fd, name, 4, 0, object};
}
Field u8(std::string_view name, uint8_t value) {
    return {Kind::number, name, 1, value};
}
Field u16(std::string_view name, uint16_t value) {
    return {Kind::number, name, 2, value};
}
Field u32(std::string_view name, uint32_t value) {
    return {Kind::number, name, 4, value};
}
Field u64(std::string_view name, uint64_t value) {
    return {Kind::number, name, 8, value};
}
Field flags(std::string_view name, uint32_t value) {
    return {Kind::flags, name, 4, value};
}
Field reserved(uint8_t bytes) {
    return {Kind::reserved, "reserved", bytes};
}
Field address(std::string_view name) {
    return {Kind::address, name, 8};
}

std::vector<Field> operator+(std::vector<Field> a, const std::vector<Field>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

std::vector<Field> path(std::string_view name) {
    return {u64(name, 0),      u64(name, 0),        u32("flow_label", 0), u16("dlid", 0),
            reserved(2),       u8("sgid_index", 0), u8("hop_limit", 0),   u8("traffic_class", 0),
            u8("sl", 0),       u8("path_bits", 0),  u8("rate", 0),        u8("is_global", 0),
            u8("path port", 1)};
}

const std::vector<Field> qp_caps = {u32("max_send_wr", 4), u32("max_recv_wr", 4), u32("max_send_sge", 1),
                                    u32("max_recv_sge", 1), u32("max_inline_data", 0)};
const std::vector<Field> qp_kind = {u8("sq_sig_all", 0), u8("qp_type", 2), u8("is_srq", 0), reserved(1)};
const std::vector<Field> qp_objects = {handle("pd", Object::pd), handle("send_cq", Object::cq),
                                       handle("recv_cq", Object::cq), handle("srq", Object::none)};

// To INIT, which needs only the access flags.
const std::vector<Field> qp_change = path("dest") + path("alt_dest") +
                                     std::vector<Field>{handle("qp", Object::qp),
                                                        flags("attr_mask", 1 | 8), // state and access flags
                                                        u32("qkey", 0),
                                                        u32("rq_psn", 0),
                                                        u32("sq_psn", 0),
                                                        u32("dest_qp_num", 0),
                                                        u32("qp_access_flags", 1),
                                                        u16("pkey_index", 0),
                                                        u16("alt_pkey_index", 0),
                                                        u8("qp_state", 1),
                                                        u8("cur_qp_state", 0),
                                                        u8("path_mtu", 1),
                                                        u8("path_mig_state", 0),
                                                        u8("en_sqd_async_notify", 0),
                                                        u8("max_rd_atomic", 0),
                                                        u8("max_dest_rd_atomic", 0),
                                                        u8("min_rnr_timer", 0),
                                                        u8("port_num", 1),
                                                        u8("timeout", 0),
                                                        u8("retry_cnt", 0),
                                                        u8("rnr_retry", 0),
                                                        u8("alt_port_num", 1),
                                                        u8("alt_timeout", 0),
                                                        reserved(2)};

const std::vector<Field> post = {response(), handle("qp", Object::qp), u32("wr_count", 0),
                                 u32("sge_count", 0), u32("wqe_size", 128)};
const std::vector<Field> srq_sizes = {u32("max_wr", 4), u32("max_sge", 1), u32("srq_limit", 0)};
const std::vector<Field> multicast = {u64("gid", 0xff), u64("gid", 1), handle("qp", Object::qp),
                                      u16("mlid", 0), reserved(2)};
const std::vector<Field> cq_library = {address("user_rptr_addr")};

#define PLAIN(cmd) .number = IB_USER_VERBS_CMD_##cmd, .extended = false
#define EXTENDED(cmd) .number = IB_USER_VERBS_EX_CMD_##cmd, .extended = true

// A command whose number is assigned and that no kernel implements.
Command unused(std::string_view name, uint32_t number) {
    return {.name = name,
            .number = number,
            .extended = false,
            .fields = {response(), u64("anything", 0)},
            .out = 8};
}

const std::vector<Command> all_commands = {
    {.name = "get_context", PLAIN(GET_CONTEXT), .fields = {response()}, .out = 8, .fresh = true},
    {.name = "get_context again", PLAIN(GET_CONTEXT), .fields = {response()}, .out = 8},
    {.name = "query_device", PLAIN(QUERY_DEVICE), .fields = {response()}, .out = 176},
    {.name = "query_device_ex",
     EXTENDED(QUERY_DEVICE),
     .fields = {flags("comp_mask", 0), reserved(4)},
     .out = 304},
    {.name = "query_port",
     PLAIN(QUERY_PORT),
     .fields = {response(), u8("port_num", 1), reserved(7)},
     .out = 40},
    {.name = "alloc_pd",
     PLAIN(ALLOC_PD),
     .fields = {response()},
     .out = 4,
     .driver_out = 4,
     .changing = {{4, 4}}},
    {.name = "dealloc_pd", PLAIN(DEALLOC_PD), .fields = {handle("pd", Object::spare_pd)}},
    {.name = "dealloc_pd in use", PLAIN(DEALLOC_PD), .fields = {handle("pd", Object::pd)}},
    {.name = "create_ah",
     PLAIN(CREATE_AH),
     .fields = std::vector<Field>{response(), u64("user_handle", 1), handle("pd", Object::pd), reserved(4),
                                  u64("dgid", 0), u64("dgid", 0), u32("flow_label", 0), u8("sgid_index", 0),
                                  u8("hop_limit", 0), u8("traffic_class", 0), reserved(1), u16("dlid", 1),
                                  u8("sl", 0), u8("path_bits", 0), u8("rate", 0), u8("is_global", 0),
                                  u8("port", 1), reserved(1)},
     .out = 4},
    unused("modify_ah", IB_USER_VERBS_CMD_MODIFY_AH),
    unused("query_ah", IB_USER_VERBS_CMD_QUERY_AH),
    {.name = "destroy_ah", PLAIN(DESTROY_AH), .fields = {handle("ah", Object::none)}},
    {.name = "reg_mr",
     PLAIN(REG_MR),
     .fields = {response(), address("start"), u64("length", 4096), address("hca_va"),
                handle("pd", Object::pd), flags("access_flags", 1)},
     .out = 12,
     .driver_out = 4,
     .changing = {{4, 12}}},
    unused("reg_smr", IB_USER_VERBS_CMD_REG_SMR),
    {.name = "rereg_mr",
     PLAIN(REREG_MR),
     .fields = {response(), handle("mr", Object::mr), flags("flags", 4), address("start"),
                u64("length", 4096), address("hca_va"), handle("pd", Object::pd), flags("access_flags", 1)},
     .out = 8,
     .driver_out = 4,
     .changing = {{0, 12}}},
    unused("query_mr", IB_USER_VERBS_CMD_QUERY_MR),
    {.name = "dereg_mr", PLAIN(DEREG_MR), .fields = {handle("mr", Object::mr)}},
    {.name = "alloc_mw",
     PLAIN(ALLOC_MW),
     .fields = {response(), handle("pd", Object::pd), u8("mw_type", 1), reserved(3)},
     .out = 8,
     .changing = {{4, 4}}},
    unused("bind_mw", IB_USER_VERBS_CMD_BIND_MW),
    {.name = "dealloc_mw", PLAIN(DEALLOC_MW), .fields = {handle("mw", Object::mw)}},
    {.name = "create_comp_channel", PLAIN(CREATE_COMP_CHANNEL), .fields = {response()}, .out = 4},
    {.name = "create_cq",
     PLAIN(CREATE_CQ),
     .fields = {response(), u64("user_handle", 0x1234), u32("cqe", 15), u32("comp_vector", 0),
                fd("comp_channel", Object::channel), reserved(4)},
     .out = 8,
     .driver = cq_library,
     .driver_out = 24,
     .changing = {{8, 24}}},
    {.name = "create_cq_ex",
     EXTENDED(CREATE_CQ),
     .fields = {u64("user_handle", 0x1234), u32("cqe", 15), u32("comp_vector", 0),
                fd("comp_channel", Object::channel), flags("comp_mask", 0), flags("flags", 0), reserved(4)},
     .out = 16,
     .driver = cq_library,
     .driver_out = 24,
     .changing = {{16, 32}}},
    {.name = "resize_cq",
     PLAIN(RESIZE_CQ),
     .fields = {response(), handle("cq", Object::cq), u32("cqe", 31)},
     .out = 8},
    {.name = "destroy_cq",
     PLAIN(DESTROY_CQ),
     .fields = {response(), handle("cq", Object::spare_cq), reserved(4)},
     .out = 8},
    {.name = "destroy_cq in use",
     PLAIN(DESTROY_CQ),
     .fields = {response(), handle("cq", Object::cq), reserved(4)},
     .out = 8},
    {.name = "poll_cq",
     PLAIN(POLL_CQ),
     .fields = {response(), handle("cq", Object::cq), u32("ne", 2)},
     .out = 104},
    unused("peek_cq", IB_USER_VERBS_CMD_PEEK_CQ),
    {.name = "req_notify_cq",
     PLAIN(REQ_NOTIFY_CQ),
     .fields = {handle("cq", Object::cq), u32("solicited_only", 0)}},
    {.name = "modify_cq",
     EXTENDED(MODIFY_CQ),
     .fields = {handle("cq", Object::cq), flags("attr_mask", 1), u16("cq_count", 4), u16("cq_period", 4),
                reserved(4)}},
    {.name = "create_qp",
     PLAIN(CREATE_QP),
     .fields = std::vector<Field>{response(), u64("user_handle", 0x1234)} + qp_objects + qp_caps + qp_kind,
     .out = 32,
     .driver_out = 32,
     .changing = {{4, 4}, {32, 32}}},
    {.name = "create_qp_ex",
     EXTENDED(CREATE_QP),
     .fields = std::vector<Field>{u64("user_handle", 0x1234)} + qp_objects + qp_caps + qp_kind +
               std::vector<Field>{flags("comp_mask", 0), flags("create_flags", 0),
                                  handle("rwq_ind_tbl", Object::none), u32("source_qpn", 0)},
     .out = 40,
     .driver_out = 32,
     .changing = {{4, 4}, {40, 40}}},
    {.name = "query_qp",
     PLAIN(QUERY_QP),
     .fields = {response(), handle("qp", Object::qp), flags("attr_mask", 1)},
     .out = 128},
    {.name = "modify_qp", PLAIN(MODIFY_QP), .fields = qp_change},
    {.name = "modify_qp_ex",
     EXTENDED(MODIFY_QP),
     .fields = qp_change + std::vector<Field>{u32("rate_limit", 0), reserved(4)},
     .out = 8},
    {.name = "destroy_qp",
     PLAIN(DESTROY_QP),
     .fields = {response(), handle("qp", Object::qp), reserved(4)},
     .out = 4},
    {.name = "post_send", PLAIN(POST_SEND), .fields = post, .out = 4},
    {.name = "post_recv", PLAIN(POST_RECV), .fields = post, .out = 4},
    {.name = "attach_mcast", PLAIN(ATTACH_MCAST), .fields = multicast},
    {.name = "detach_mcast", PLAIN(DETACH_MCAST), .fields = multicast},
    {.name = "create_srq",
     PLAIN(CREATE_SRQ),
     .fields = std::vector<Field>{response(), u64("user_handle", 1), handle("pd", Object::pd)} + srq_sizes,
     .out = 16},
    {.name = "create_xsrq",
     PLAIN(CREATE_XSRQ),
     .fields =
         std::vector<Field>{response(), u64("user_handle", 1), u32("srq_type", 0), handle("pd", Object::pd)} +
         srq_sizes +
         std::vector<Field>{u32("max_num_tags", 0), handle("xrcd", Object::none), handle("cq", Object::cq)},
     .out = 16},
    {.name = "modify_srq",
     PLAIN(MODIFY_SRQ),
     .fields = {handle("srq", Object::none), flags("attr_mask", 1), u32("max_wr", 4), u32("srq_limit", 0)}},
    {.name = "query_srq",
     PLAIN(QUERY_SRQ),
     .fields = {response(), handle("srq", Object::none), reserved(4)},
     .out = 16},
    {.name = "destroy_srq",
     PLAIN(DESTROY_SRQ),
     .fields = {response(), handle("srq", Object::none), reserved(4)},
     .out = 4},
    {.name = "post_srq_recv", PLAIN(POST_SRQ_RECV), .fields = post, .out = 4},
    {.name = "open_xrcd",
     PLAIN(OPEN_XRCD),
     .fields = {response(), fd("fd", Object::none), flags("oflags", 0100)},
     .out = 4},
    {.name = "close_xrcd", PLAIN(CLOSE_XRCD), .fields = {handle("xrcd", Object::none)}},
    {.name = "open_qp",
     PLAIN(OPEN_QP),
     .fields = {response(), u64("user_handle", 1), handle("xrcd", Object::none), u32("qpn", 1),
                u8("qp_type", 2), reserved(7)},
     .out = 32},
    {.name = "create_flow",
     EXTENDED(CREATE_FLOW),
     .fields = {flags("comp_mask", 0), handle("qp", Object::qp), u64("flow_attr", 0), u64("flow_attr", 0)},
     .out = 8},
    {.name = "destroy_flow",
     EXTENDED(DESTROY_FLOW),
     .fields = {flags("comp_mask", 0), handle("flow", Object::none)}},
    {.name = "create_wq",
     EXTENDED(CREATE_WQ),
     .fields = {flags("comp_mask", 0), u32("wq_type", 0), u64("user_handle", 1), handle("pd", Object::pd),
                handle("cq", Object::cq), u32("max_wr", 4), u32("max_sge", 1), flags("create_flags", 0),
                reserved(4)},
     .out = 24},
    {.name = "modify_wq",
     EXTENDED(MODIFY_WQ),
     .fields = {flags("attr_mask", 1), handle("wq", Object::none), u32("wq_state", 0),
                u32("curr_wq_state", 0), flags("flags", 0), flags("flags_mask", 0)}},
    {.name = "destroy_wq",
     EXTENDED(DESTROY_WQ),
     .fields = {flags("comp_mask", 0), handle("wq", Object::none)},
     .out = 16},
    {.name = "create_rwq_ind_tbl",
     EXTENDED(CREATE_RWQ_IND_TBL),
     .fields = {flags("comp_mask", 0), u32("log_ind_tbl_size", 0), handle("wq", Object::none), reserved(4)},
     .out = 16},
    {.name = "destroy_rwq_ind_tbl",
     EXTENDED(DESTROY_RWQ_IND_TBL),
     .fields = {flags("comp_mask", 0), handle("table", Object::none)}},
    {.name = "number 41", .number = 41, .extended = false, .fields = {response()}, .out = 8},
    {.name = "number 255", .number = 255, .extended = false, .fields = {response()}, .out = 8},
    {.name = "extended number 58", .number = 58, .extended = true, .fields = {u64("anything", 0)}, .out = 8},
    {.name = "extended number 255",
     .number = 255,
     .extended = true,
     .fields = {u64("anything", 0)},
     .out = 8},
};

// ---- ioctl: attributes

Attr object(uint16_t id, Object object) {
    return {AttrKind::handle, id, 0, 0, object};
}
Attr event_file(uint16_t id, Object object) {
    return {AttrKind::fd, id, 0, 0, object};
}
Attr created(uint16_t id) {
    return {AttrKind::created, id};
}
Attr in(uint16_t id, uint16_t bytes, uint64_t value) {
    return {AttrKind::number, id, bytes, value};
}
Attr block(uint16_t id, std::vector<uint32_t> words) {
    return {AttrKind::number, id, static_cast<uint16_t>(4 * words.size()), 0, Object::none, std::move(words)};
}
Attr constant(uint16_t id, uint64_t value) {
    return {AttrKind::constant, id, 8, value};
}
Attr bits(uint16_t id, uint64_t value) {
    return {AttrKind::flags, id, 8, value};
}
Attr out(uint16_t id, uint16_t bytes, bool changing = false) {
    return {AttrKind::out, id, bytes, 0, Object::none, {}, changing};
}

#define IS(obj, cmd) .object = UVERBS_OBJECT_##obj, .method = UVERBS_METHOD_##cmd
#define ID(attr) UVERBS_ATTR_##attr

const std::vector<Method> all_methods = {
    {.name = "invoke_write",
     IS(DEVICE, INVOKE_WRITE),
     .attributes = {in(ID(CORE_IN), 8, 0), out(ID(CORE_OUT), 176),
                    constant(ID(WRITE_CMD), IB_USER_VERBS_CMD_QUERY_DEVICE)}},
    {.name = "info_handles",
     IS(DEVICE, INFO_HANDLES),
     .attributes = {constant(ID(INFO_OBJECT_ID), UVERBS_OBJECT_PD), out(ID(INFO_TOTAL_HANDLES), 4),
                    out(ID(INFO_HANDLES_LIST), 64)}},
    {.name = "query_port",
     IS(DEVICE, QUERY_PORT),
     .attributes = {constant(ID(QUERY_PORT_PORT_NUM), 1), out(ID(QUERY_PORT_RESP), 48)}},
    {.name = "get_context",
     IS(DEVICE, GET_CONTEXT),
     .attributes = {out(ID(GET_CONTEXT_NUM_COMP_VECTORS), 4), out(ID(GET_CONTEXT_CORE_SUPPORT), 8)},
     .fresh = true},
    {.name = "get_context again",
     IS(DEVICE, GET_CONTEXT),
     .attributes = {out(ID(GET_CONTEXT_NUM_COMP_VECTORS), 4), out(ID(GET_CONTEXT_CORE_SUPPORT), 8)}},
    {.name = "query_context",
     IS(DEVICE, QUERY_CONTEXT),
     .attributes = {out(ID(QUERY_CONTEXT_NUM_COMP_VECTORS), 4), out(ID(QUERY_CONTEXT_CORE_SUPPORT), 8)}},
    {.name = "query_gid_table",
     IS(DEVICE, QUERY_GID_TABLE),
     .attributes = {constant(ID(QUERY_GID_TABLE_ENTRY_SIZE), 32), bits(ID(QUERY_GID_TABLE_FLAGS), 0),
                    out(ID(QUERY_GID_TABLE_RESP_ENTRIES), 128),
                    out(ID(QUERY_GID_TABLE_RESP_NUM_ENTRIES), 8)}},
    {.name = "query_gid_entry",
     IS(DEVICE, QUERY_GID_ENTRY),
     .attributes = {constant(ID(QUERY_GID_ENTRY_PORT), 1), constant(ID(QUERY_GID_ENTRY_GID_INDEX), 0),
                    bits(ID(QUERY_GID_ENTRY_FLAGS), 0), out(ID(QUERY_GID_ENTRY_RESP_ENTRY), 32)}},
    {.name = "destroy_pd",
     IS(PD, PD_DESTROY),
     .attributes = {object(ID(DESTROY_PD_HANDLE), Object::spare_pd)}},
    {.name = "destroy_pd in use",
     IS(PD, PD_DESTROY),
     .attributes = {object(ID(DESTROY_PD_HANDLE), Object::pd)}},
    {.name = "create_cq",
     IS(CQ, CQ_CREATE),
     .attributes = {created(ID(CREATE_CQ_HANDLE)), in(ID(CREATE_CQ_CQE), 4, 15),
                    in(ID(CREATE_CQ_USER_HANDLE), 8, 0x1234),
                    event_file(ID(CREATE_CQ_COMP_CHANNEL), Object::channel),
                    in(ID(CREATE_CQ_COMP_VECTOR), 4, 0), bits(ID(CREATE_CQ_FLAGS), 0),
                    out(ID(CREATE_CQ_RESP_CQE), 4), event_file(ID(CREATE_CQ_EVENT_FD), Object::async),
                    Attr{AttrKind::address, ID(UHW_IN), 8}, out(ID(UHW_OUT), 24, true)}},
    {.name = "destroy_cq",
     IS(CQ, CQ_DESTROY),
     .attributes = {object(ID(DESTROY_CQ_HANDLE), Object::spare_cq), out(ID(DESTROY_CQ_RESP), 8)}},
    {.name = "destroy_cq in use",
     IS(CQ, CQ_DESTROY),
     .attributes = {object(ID(DESTROY_CQ_HANDLE), Object::cq), out(ID(DESTROY_CQ_RESP), 8)}},
    {.name = "create_qp",
     IS(QP, QP_CREATE),
     .attributes = {created(ID(CREATE_QP_HANDLE)), object(ID(CREATE_QP_PD_HANDLE), Object::pd),
                    object(ID(CREATE_QP_SEND_CQ_HANDLE), Object::cq),
                    object(ID(CREATE_QP_RECV_CQ_HANDLE), Object::cq),
                    in(ID(CREATE_QP_USER_HANDLE), 8, 0x1234), block(ID(CREATE_QP_CAP), {4, 4, 1, 1, 0}),
                    constant(ID(CREATE_QP_TYPE), 2), bits(ID(CREATE_QP_FLAGS), 0),
                    event_file(ID(CREATE_QP_EVENT_FD), Object::async), out(ID(CREATE_QP_RESP_CAP), 20),
                    out(ID(CREATE_QP_RESP_QP_NUM), 4, true), out(ID(UHW_OUT), 32, true)}},
    {.name = "create_qp with an SRQ",
     IS(QP, QP_CREATE),
     .attributes = {created(ID(CREATE_QP_HANDLE)), object(ID(CREATE_QP_PD_HANDLE), Object::pd),
                    object(ID(CREATE_QP_SRQ_HANDLE), Object::none),
                    object(ID(CREATE_QP_SEND_CQ_HANDLE), Object::cq),
                    object(ID(CREATE_QP_RECV_CQ_HANDLE), Object::cq),
                    in(ID(CREATE_QP_USER_HANDLE), 8, 0x1234), block(ID(CREATE_QP_CAP), {4, 4, 1, 1, 0}),
                    constant(ID(CREATE_QP_TYPE), 2), out(ID(CREATE_QP_RESP_CAP), 20),
                    out(ID(CREATE_QP_RESP_QP_NUM), 4, true), out(ID(UHW_OUT), 32, true)}},
    {.name = "destroy_qp",
     IS(QP, QP_DESTROY),
     .attributes = {object(ID(DESTROY_QP_HANDLE), Object::qp), out(ID(DESTROY_QP_RESP), 4)}},
    {.name = "create_srq",
     IS(SRQ, SRQ_CREATE),
     .attributes = {created(ID(CREATE_SRQ_HANDLE)), object(ID(CREATE_SRQ_PD_HANDLE), Object::pd),
                    in(ID(CREATE_SRQ_USER_HANDLE), 8, 1), in(ID(CREATE_SRQ_MAX_WR), 4, 4),
                    in(ID(CREATE_SRQ_MAX_SGE), 4, 1), in(ID(CREATE_SRQ_LIMIT), 4, 0),
                    constant(ID(CREATE_SRQ_TYPE), 0), event_file(ID(CREATE_SRQ_EVENT_FD), Object::async),
                    out(ID(CREATE_SRQ_RESP_MAX_WR), 4), out(ID(CREATE_SRQ_RESP_MAX_SGE), 4)}},
    {.name = "destroy_srq",
     IS(SRQ, SRQ_DESTROY),
     .attributes = {object(ID(DESTROY_SRQ_HANDLE), Object::none), out(ID(DESTROY_SRQ_RESP), 4)}},
    {.name = "destroy_ah", IS(AH, AH_DESTROY), .attributes = {object(ID(DESTROY_AH_HANDLE), Object::none)}},
    {.name = "reg_dm_mr",
     IS(MR, DM_MR_REG),
     .attributes = {created(ID(REG_DM_MR_HANDLE)), in(ID(REG_DM_MR_OFFSET), 8, 0),
                    in(ID(REG_DM_MR_LENGTH), 8, 64), object(ID(REG_DM_MR_PD_HANDLE), Object::pd),
                    bits(ID(REG_DM_MR_ACCESS_FLAGS), 1 << 5), object(ID(REG_DM_MR_DM_HANDLE), Object::none),
                    out(ID(REG_DM_MR_RESP_LKEY), 4), out(ID(REG_DM_MR_RESP_RKEY), 4)}},
    {.name = "destroy_mr", IS(MR, MR_DESTROY), .attributes = {object(ID(DESTROY_MR_HANDLE), Object::mr)}},
    {.name = "advise_mr",
     IS(MR, ADVISE_MR),
     .attributes = {object(ID(ADVISE_MR_PD_HANDLE), Object::pd), constant(ID(ADVISE_MR_ADVICE), 0),
                    bits(ID(ADVISE_MR_FLAGS), 0), block(ID(ADVISE_MR_SGE_LIST), {0, 0, 64, 0})}},
    {.name = "query_mr",
     IS(MR, QUERY_MR),
     .attributes = {object(ID(QUERY_MR_HANDLE), Object::mr), out(ID(QUERY_MR_RESP_LKEY), 4, true),
                    out(ID(QUERY_MR_RESP_RKEY), 4, true), out(ID(QUERY_MR_RESP_LENGTH), 8),
                    out(ID(QUERY_MR_RESP_IOVA), 8, true)}},
    {.name = "reg_dmabuf_mr",
     IS(MR, REG_DMABUF_MR),
     .attributes = {created(ID(REG_DMABUF_MR_HANDLE)), object(ID(REG_DMABUF_MR_PD_HANDLE), Object::pd),
                    in(ID(REG_DMABUF_MR_OFFSET), 8, 0), in(ID(REG_DMABUF_MR_LENGTH), 8, 64),
                    in(ID(REG_DMABUF_MR_IOVA), 8, 0), constant(ID(REG_DMABUF_MR_FD), 0),
                    bits(ID(REG_DMABUF_MR_ACCESS_FLAGS), 1), out(ID(REG_DMABUF_MR_RESP_LKEY), 4),
                    out(ID(REG_DMABUF_MR_RESP_RKEY), 4)}},
    {.name = "destroy_mw", IS(MW, MW_DESTROY), .attributes = {object(ID(DESTROY_MW_HANDLE), Object::mw)}},
    {.name = "alloc_async_event",
     IS(ASYNC_EVENT, ASYNC_EVENT_ALLOC),
     .attributes = {created(ID(ASYNC_EVENT_ALLOC_FD_HANDLE))}},
    {.name = "destroy_flow",
     IS(FLOW, FLOW_DESTROY),
     .attributes = {object(ID(DESTROY_FLOW_HANDLE), Object::none)}},
    {.name = "destroy_xrcd",
     IS(XRCD, XRCD_DESTROY),
     .attributes = {object(ID(DESTROY_XRCD_HANDLE), Object::none)}},
    {.name = "destroy_rwq_ind_tbl",
     IS(RWQ_IND_TBL, RWQ_IND_TBL_DESTROY),
     .attributes = {object(ID(DESTROY_RWQ_IND_TBL_HANDLE), Object::none)}},
    {.name = "create_wq",
     IS(WQ, WQ_CREATE),
     .attributes = {created(ID(CREATE_WQ_HANDLE)), object(ID(CREATE_WQ_PD_HANDLE), Object::pd)}},
    {.name = "destroy_wq",
     IS(WQ, WQ_DESTROY),
     .attributes = {object(ID(DESTROY_WQ_HANDLE), Object::none), out(ID(DESTROY_WQ_RESP), 4)}},
    {.name = "create_flow_action_esp",
     IS(FLOW_ACTION, FLOW_ACTION_ESP_CREATE),
     .attributes = {created(ID(CREATE_FLOW_ACTION_ESP_HANDLE))}},
    {.name = "destroy_flow_action",
     IS(FLOW_ACTION, FLOW_ACTION_DESTROY),
     .attributes = {object(ID(DESTROY_FLOW_ACTION_HANDLE), Object::none)}},
    {.name = "alloc_dm",
     IS(DM, DM_ALLOC),
     .attributes = {created(ID(ALLOC_DM_HANDLE)), in(ID(ALLOC_DM_LENGTH), 8, 64),
                    in(ID(ALLOC_DM_ALIGNMENT), 4, 0)}},
    {.name = "free_dm", IS(DM, DM_FREE), .attributes = {object(ID(FREE_DM_HANDLE), Object::none)}},
    {.name = "create_counters",
     IS(COUNTERS, COUNTERS_CREATE),
     .attributes = {created(ID(CREATE_COUNTERS_HANDLE))}},
    {.name = "destroy_counters",
     IS(COUNTERS, COUNTERS_DESTROY),
     .attributes = {object(ID(DESTROY_COUNTERS_HANDLE), Object::none)}},
    {.name = "read_counters",
     IS(COUNTERS, COUNTERS_READ),
     .attributes = {object(ID(READ_COUNTERS_HANDLE), Object::none), out(ID(READ_COUNTERS_BUFF), 16),
                    bits(ID(READ_COUNTERS_FLAGS), 0)}},
};

} // namespace

std::span<const Command> commands() {
    return all_commands;
}

std::span<const Method> methods() {
    return all_methods;
}

const Command& command(std::string_view name) {
    const auto found = std::ranges::find(all_commands, name, &Command::name);
    if (found == all_commands.end())
        std::abort();
    return *found;
}

} // namespace uv
