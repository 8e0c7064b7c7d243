// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Every unsupported verb fails with EOPNOTSUPP, as an errno or a positive result, and returns NULL where it
// returns a pointer (A15, X18). Needs only the device, no server. Run as "client ADDRESS".
#include "program.hh"

#include <cerrno>
#include <fcntl.h>

using namespace prog;

namespace {

struct Verb {
    const char* name;
    std::function<int(Endpoint& end)> call; // the error, or 0 if it worked
};

int error_of(const void* object) {
    return object ? 0 : errno;
}

int create_qp(Endpoint& end, ibv_qp_type type) {
    ibv_qp_init_attr attr{};
    attr.qp_type = type;
    attr.send_cq = end.send_cq;
    attr.recv_cq = end.recv_cq;
    attr.cap = {1, 1, 1, 1, 0};
    return error_of(ibv_create_qp(end.pd, &attr));
}

int create_cq_ex(Endpoint& end, uint64_t wc_flags, uint32_t flags = 0) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = 16;
    attr.wc_flags = wc_flags;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = flags;
    return error_of(ibv_create_cq_ex(end.id->verbs, &attr));
}

int create_qp_ex(Endpoint& end, uint64_t send_ops, uint32_t create_flags = 0) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = end.send_cq;
    attr.recv_cq = end.recv_cq;
    attr.cap = {1, 1, 1, 1, 0};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.pd = end.pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND | send_ops;
    attr.create_flags = create_flags;
    return error_of(ibv_create_qp_ex(end.id->verbs, &attr));
}

const std::vector<Verb> verbs{
    {"resize_cq", [](Endpoint& e) { return ibv_resize_cq(e.send_cq, 256); }},
    {"create_cq_ex, time stamps",
     [](Endpoint& e) { return create_cq_ex(e, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP); }},
    {"create_cq_ex, wall clock",
     [](Endpoint& e) { return create_cq_ex(e, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK); }},
    {"create_cq_ex, VLANs", [](Endpoint& e) { return create_cq_ex(e, IBV_WC_EX_WITH_CVLAN); }},
    {"create_cq_ex, flow tags", [](Endpoint& e) { return create_cq_ex(e, IBV_WC_EX_WITH_FLOW_TAG); }},
    {"create_cq_ex, matched tags", [](Endpoint& e) { return create_cq_ex(e, IBV_WC_EX_WITH_TM_INFO); }},
    {"create_cq_ex, overruns ignored",
     [](Endpoint& e) { return create_cq_ex(e, 0, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN); }},
    {"modify_cq",
     [](Endpoint& e) {
         ibv_modify_cq_attr attr{};
         attr.attr_mask = IBV_CQ_ATTR_MODERATE;
         return ibv_modify_cq(e.send_cq, &attr);
     }},
    {"create_srq",
     [](Endpoint& e) {
         ibv_srq_init_attr attr{};
         attr.attr = {16, 1, 0};
         return error_of(ibv_create_srq(e.pd, &attr));
     }},
    {"create_srq_ex, XRC",
     [](Endpoint& e) {
         ibv_srq_init_attr_ex attr{};
         attr.attr = {16, 1, 0};
         attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ;
         attr.srq_type = IBV_SRQT_XRC;
         attr.pd = e.pd;
         attr.cq = e.recv_cq;
         return error_of(ibv_create_srq_ex(e.id->verbs, &attr));
     }},
    {"open_xrcd",
     [](Endpoint& e) {
         ibv_xrcd_init_attr attr{};
         attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
         attr.fd = -1;
         attr.oflags = O_CREAT;
         return error_of(ibv_open_xrcd(e.id->verbs, &attr));
     }},
    {"create_ah",
     [](Endpoint& e) {
         ibv_ah_attr attr{};
         attr.port_num = 1;
         return error_of(ibv_create_ah(e.pd, &attr));
     }},
    {"attach_mcast",
     [](Endpoint& e) {
         const ibv_gid gid{{0xff}};
         return ibv_attach_mcast(e.id->qp, &gid, 0);
     }},
    {"detach_mcast",
     [](Endpoint& e) {
         const ibv_gid gid{{0xff}};
         return ibv_detach_mcast(e.id->qp, &gid, 0);
     }},
    {"create_qp, UC", [](Endpoint& e) { return create_qp(e, IBV_QPT_UC); }},
    {"create_qp, UD", [](Endpoint& e) { return create_qp(e, IBV_QPT_UD); }},
    {"create_qp, raw packet", [](Endpoint& e) { return create_qp(e, IBV_QPT_RAW_PACKET); }},
    {"create_qp, driver", [](Endpoint& e) { return create_qp(e, IBV_QPT_DRIVER); }},
    {"create_qp_ex, send with immediate",
     [](Endpoint& e) { return create_qp_ex(e, IBV_QP_EX_WITH_SEND_WITH_IMM); }},
    {"create_qp_ex, write with immediate",
     [](Endpoint& e) { return create_qp_ex(e, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM); }},
    {"create_qp_ex, compare and swap",
     [](Endpoint& e) { return create_qp_ex(e, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP); }},
    {"create_qp_ex, fetch and add",
     [](Endpoint& e) { return create_qp_ex(e, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD); }},
    {"create_qp_ex, segmentation", [](Endpoint& e) { return create_qp_ex(e, IBV_QP_EX_WITH_TSO); }},
    {"create_qp_ex, VLANs stripped",
     [](Endpoint& e) { return create_qp_ex(e, 0, IBV_QP_CREATE_CVLAN_STRIPPING); }},
    {"open_qp",
     [](Endpoint& e) {
         ibv_qp_open_attr attr{};
         attr.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
         attr.qp_type = IBV_QPT_XRC_RECV;
         return error_of(ibv_open_qp(e.id->verbs, &attr));
     }},
    {"modify_qp_rate_limit",
     [](Endpoint& e) {
         ibv_qp_rate_limit_attr attr{};
         return ibv_modify_qp_rate_limit(e.id->qp, &attr);
     }},
    {"query_ece",
     [](Endpoint& e) {
         ibv_ece ece{};
         return ibv_query_ece(e.id->qp, &ece);
     }},
    {"reg_dmabuf_mr", [](Endpoint& e) { return error_of(ibv_reg_dmabuf_mr(e.pd, 0, 4096, 0, -1, 0)); }},
    {"alloc_mw, type 2", [](Endpoint& e) { return error_of(ibv_alloc_mw(e.pd, IBV_MW_TYPE_2)); }},
    {"alloc_null_mr", [](Endpoint& e) { return error_of(ibv_alloc_null_mr(e.pd)); }},
    {"advise_mr",
     [](Endpoint& e) {
         ibv_sge sge{};
         return ibv_advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
     }},
    {"alloc_dm",
     [](Endpoint& e) {
         ibv_alloc_dm_attr attr{};
         attr.length = 64;
         return error_of(ibv_alloc_dm(e.id->verbs, &attr));
     }},
    {"alloc_parent_domain, allocators",
     [](Endpoint& e) {
         ibv_parent_domain_init_attr attr{};
         attr.pd = e.pd;
         attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
         return error_of(ibv_alloc_parent_domain(e.id->verbs, &attr));
     }},
    {"create_flow",
     [](Endpoint& e) {
         ibv_flow_attr attr{};
         attr.port = 1;
         return error_of(ibv_create_flow(e.id->qp, &attr));
     }},
    {"create_wq",
     [](Endpoint& e) {
         ibv_wq_init_attr attr{};
         attr.wq_type = IBV_WQT_RQ;
         attr.max_wr = attr.max_sge = 1;
         attr.pd = e.pd;
         attr.cq = e.recv_cq;
         return error_of(ibv_create_wq(e.id->verbs, &attr));
     }},
    {"create_rwq_ind_table",
     [](Endpoint& e) {
         ibv_rwq_ind_table_init_attr attr{};
         return error_of(ibv_create_rwq_ind_table(e.id->verbs, &attr));
     }},
    {"create_counters",
     [](Endpoint& e) {
         ibv_counters_init_attr attr{};
         return error_of(ibv_create_counters(e.id->verbs, &attr));
     }},
    {"query_rt_values_ex",
     [](Endpoint& e) {
         ibv_values_ex values{};
         values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
         return ibv_query_rt_values_ex(e.id->verbs, &values);
     }},
};

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "");
    if (args.server)
        fail("there is no server side");
    Endpoint end({});
    end.resolve(args);
    std::vector<std::string> failed;
    for (const auto& verb : verbs) {
        errno = 0;
        const int err = verb.call(end);
        if (err != EOPNOTSUPP)
            failed.push_back(std::string(verb.name) + ": " + std::to_string(err));
    }
    Json().add("verbs", verbs.size()).add("failed", failed).finish(failed.empty());
}
