// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Parent domains, thread domains and their objects: the order of destruction, and errors; the two device
// queries return the same. Needs only the device, no server. Run as "client ADDRESS".
#include "program.hh"

#include <cerrno>
#include <cstring>

using namespace prog;

namespace {

std::vector<std::string> failed;
unsigned checks = 0;

void check(bool good, const char* what) {
    checks++;
    if (!good)
        failed.push_back(what);
}

ibv_pd* parent_domain(ibv_context* verbs, ibv_pd* pd, ibv_td* td) {
    ibv_parent_domain_init_attr attr{};
    attr.pd = pd;
    attr.td = td;
    errno = 0;
    return ibv_alloc_parent_domain(verbs, &attr);
}

ibv_cq_ex* extended_cq(ibv_context* verbs, uint32_t cqe, ibv_pd* parent, uint32_t flags = 0) {
    ibv_cq_init_attr_ex attr{};
    attr.cqe = cqe;
    attr.wc_flags = IBV_WC_STANDARD_FLAGS;
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | (parent ? IBV_CQ_INIT_ATTR_MASK_PD : 0);
    attr.parent_domain = parent;
    attr.flags = flags;
    errno = 0;
    return ibv_create_cq_ex(verbs, &attr);
}

ibv_qp* extended_qp(ibv_context* verbs, ibv_pd* pd, ibv_cq* cq, uint32_t inline_data = 0) {
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = cq;
    attr.cap = {4, 4, 1, 1, inline_data};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.pd = pd;
    attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
    errno = 0;
    return ibv_create_qp_ex(verbs, &attr);
}

void domains(Endpoint& end) {
    ibv_context* verbs = end.id->verbs;
    ibv_td_init_attr td_attr{};
    ibv_td* td = ibv_alloc_td(verbs, &td_attr);
    if (!td)
        fail("ibv_alloc_td: %s", std::strerror(errno));
    td_attr.comp_mask = 1;
    check(!ibv_alloc_td(verbs, &td_attr) && errno == EINVAL, "a thread domain of an unknown kind");
    check(!parent_domain(verbs, nullptr, td) && errno == EINVAL, "a parent domain without a PD");
    ibv_pd* real = ibv_alloc_pd(verbs);
    ibv_pd* parent = parent_domain(verbs, real, td);
    if (!real || !parent)
        fail("ibv_alloc_parent_domain: %s", std::strerror(errno));
    check(!parent_domain(verbs, parent, nullptr) && errno == EINVAL, "a parent domain of a parent domain");
    check(ibv_dealloc_pd(real) == EBUSY, "a PD with a parent domain is busy");
    check(ibv_dealloc_td(td) == EBUSY, "a thread domain with a parent domain is busy");

    check(!extended_cq(verbs, 16, real) && errno == EINVAL, "a CQ in a PD that is not a parent domain");
    ibv_cq_ex* cq = extended_cq(verbs, 16, parent);
    if (!cq)
        fail("ibv_create_cq_ex: %s", std::strerror(errno));
    check(ibv_dealloc_pd(parent) == EBUSY, "a parent domain with a CQ is busy");
    ibv_qp* qp = extended_qp(verbs, parent, ibv_cq_ex_to_cq(cq));
    if (!qp)
        fail("ibv_create_qp_ex: %s", std::strerror(errno));
    check(ibv_qp_to_qp_ex(qp) != nullptr && qp->pd == parent,
          "the QP is an extended one of the parent domain");
    check(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == EBUSY, "a CQ with a QP is busy");
    std::vector<char> memory(4096);
    ibv_mr* mr =
        ibv_reg_mr(parent, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    ibv_mw* mw = ibv_alloc_mw(parent, IBV_MW_TYPE_1);
    check(mr && mw, "memory in the parent domain");
    check(ibv_destroy_qp(qp) == 0, "destroy the QP");
    check(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0, "destroy the CQ");
    check(ibv_dealloc_pd(parent) == EBUSY, "a parent domain with memory is busy");
    check(mw && ibv_dealloc_mw(mw) == 0, "free the window");
    check(mr && ibv_dereg_mr(mr) == 0, "deregister the region");
    check(ibv_dealloc_pd(parent) == 0, "free the parent domain");
    check(ibv_dealloc_td(td) == 0, "free the thread domain");
    check(ibv_dealloc_pd(real) == 0, "free the PD");
}

void limits(Endpoint& end) {
    ibv_context* verbs = end.id->verbs;
    for (const uint32_t cqe : {0u, 32769u, 1u << 31, ~0u})
        check(!extended_cq(verbs, cqe, nullptr) && errno == EINVAL, "a CQ of an unsupported size");
    ibv_cq_ex* cq = extended_cq(verbs, 100, nullptr, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
    if (!cq)
        fail("ibv_create_cq_ex for one thread: %s", std::strerror(errno));
    check(cq->cqe >= 100, "it has at least the requested size");
    check(!extended_qp(verbs, end.pd, ibv_cq_ex_to_cq(cq), 65) && errno == EINVAL,
          "more inline data than supported");
    check(!extended_qp(verbs, nullptr, ibv_cq_ex_to_cq(cq)) && errno == EINVAL, "a QP without a PD");
    // Without flags for ibv_wr_*() it is an ordinary QP.
    ibv_qp_init_attr_ex attr{};
    attr.qp_type = IBV_QPT_RC;
    attr.send_cq = attr.recv_cq = ibv_cq_ex_to_cq(cq);
    attr.cap = {4, 4, 1, 1, 64};
    attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.pd = end.pd;
    ibv_qp* qp = ibv_create_qp_ex(verbs, &attr);
    check(qp && !ibv_qp_to_qp_ex(qp), "an ordinary QP by the extended call");
    check(attr.cap.max_inline_data == 64, "the granted capabilities are returned");
    check(qp && ibv_destroy_qp(qp) == 0, "destroy it");
    check(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) == 0, "destroy its CQ");
}

void both_queries(Endpoint& end) {
    ibv_device_attr old;
    ibv_device_attr_ex ex;
    std::memset(&old, 0xaa, sizeof(old));
    std::memset(&ex, 0x55, sizeof(ex));
    check(ibv_query_device(end.id->verbs, &old) == 0, "ibv_query_device");
    check(ibv_query_device_ex(end.id->verbs, nullptr, &ex) == 0, "ibv_query_device_ex");
    const ibv_device_attr& a = ex.orig_attr;
    check(std::strcmp(a.fw_ver, old.fw_ver) == 0 && std::strlen(a.fw_ver) >= 5, "firmware version");
    check(a.node_guid == old.node_guid && a.sys_image_guid == old.sys_image_guid && a.vendor_id == 0x1425 &&
              a.vendor_part_id == old.vendor_part_id && a.hw_ver == old.hw_ver,
          "identity");
    check(a.max_mr_size == old.max_mr_size && a.page_size_cap == old.page_size_cap &&
              a.max_mr == old.max_mr && a.max_pd == old.max_pd && a.max_mw == old.max_mw,
          "limits of memory");
    check(a.max_qp == old.max_qp && a.max_qp_wr == old.max_qp_wr && a.max_sge == old.max_sge &&
              a.max_sge_rd == old.max_sge_rd && a.max_cq == old.max_cq && a.max_cqe == old.max_cqe &&
              a.max_qp_rd_atom == old.max_qp_rd_atom && a.device_cap_flags == old.device_cap_flags &&
              a.phys_port_cnt == old.phys_port_cnt,
          "limits of queues");
    check(a.max_qp_wr == 1023 && a.max_sge == 4 && a.max_sge_rd == 1 && a.atomic_cap == IBV_ATOMIC_NONE &&
              a.max_srq == 0,
          "limits of the card");
    check(ex.odp_caps.general_caps == 0 && ex.completion_timestamp_mask == 0 && ex.tso_caps.max_tso == 0 &&
              ex.rss_caps.supported_qpts == 0 && ex.max_dm_size == 0,
          "unsupported features");
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "");
    if (args.server)
        ::prog::fail("there is no server side");
    Endpoint end({});
    end.resolve(args);
    domains(end);
    limits(end);
    both_queries(end);
    Json().add("checks", checks).add("failed", failed).finish(failed.empty());
}
