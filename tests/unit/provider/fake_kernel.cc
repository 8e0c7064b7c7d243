// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tests/unit/provider/fake_kernel.hh"

#include "include/hw/t3_cqe.h"
#include "include/hw/t3_wr.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>
#include <unistd.h>

namespace fake {

Kernel kernel;

uint64_t Kernel::whole_pages(uint64_t size) const {
    const auto of = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
    return (size + of - 1) / of * of;
}

uint64_t Kernel::map_pages(uint64_t size) {
    const uint64_t key = bytes;
    bytes += whole_pages(size);
    if (ftruncate(fd, static_cast<off_t>(bytes)))
        std::abort();
    return key;
}

int Kernel::step() {
    return ++calls == refuse_call ? ENOMEM : 0;
}

void Kernel::look_at_answer(const void* resp, size_t size) {
    const auto* bytes_of = static_cast<const uint8_t*>(resp);
    dirty_answers += std::any_of(bytes_of, bytes_of + size, [](uint8_t byte) { return byte != 0; });
}

namespace {

int make(int& counter) {
    const int err = kernel.step();
    counter += err == 0;
    return err;
}
int unmake(int& counter) {
    if (kernel.refuse_destroy)
        return kernel.refuse_destroy;
    counter--;
    return 0;
}
unsigned log2_of(uint32_t entries) {
    return static_cast<unsigned>(std::bit_width(entries - 1));
}
template <class T> void answer(void* resp, size_t core, const T& drv) {
    std::memcpy(static_cast<uint8_t*>(resp) + core, &drv, sizeof(drv));
}

} // namespace
} // namespace fake

using fake::kernel;
using fake::make;
using fake::unmake;

extern "C" {

const char* cxgb3_self_check(const verbs_context_ops*) {
    return nullptr;
}
void verbs_register_driver_name(const verbs_device_ops*) {}
void* _verbs_init_and_alloc_context(ibv_device* device, int fd, size_t size, verbs_context* offset,
                                    uint32_t) {
    auto* memory = static_cast<uint8_t*>(std::calloc(1, size));
    auto* context = reinterpret_cast<verbs_context*>(memory + reinterpret_cast<uintptr_t>(offset));
    context->context.device = device;
    context->context.cmd_fd = fd;
    return memory;
}
void verbs_uninit_context(verbs_context*) {}
void verbs_set_ops(verbs_context*, const verbs_context_ops*) {}
const char* ibv_get_device_name(ibv_device*) {
    return "fake";
}
#if T3_RDMA_CORE >= 57
int ibv_cmd_get_context(verbs_context*, void*, size_t, void*, void*, size_t) {
#else
int ibv_cmd_get_context(verbs_context*, void*, size_t, void*, size_t) {
#endif
    return kernel.refuse_context ? EIO : 0;
}
int ibv_cmd_query_context(ibv_context* context, void*) {
    context->num_comp_vectors = 1;
    return kernel.refuse_context ? EIO : 0;
}
int ibv_cmd_query_device_any(ibv_context*, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr,
                             size_t size, void* resp, size_t* resp_size) {
    kernel.look_at_answer(resp, *resp_size);
    std::memset(static_cast<void*>(attr), 0, size);
    static_cast<cxgb3_query_device_resp*>(resp)->fw_ver = 7ull << 32 | 12 << 16;
    return kernel.step();
}
int ibv_cmd_query_port(ibv_context*, uint8_t, ibv_port_attr*, void*, size_t) {
    return kernel.step();
}
int ibv_cmd_alloc_pd(ibv_context* context, ibv_pd* pd, void*, size_t, void*, size_t) {
    pd->context = context;
    pd->handle = 77;
    return make(kernel.pds);
}
int ibv_cmd_dealloc_pd(ibv_pd*) {
    return unmake(kernel.pds);
}
int ibv_cmd_reg_mr(ibv_pd* pd, void*, size_t, uint64_t, int, verbs_mr* mr, void*, size_t, void* resp,
                   size_t size) {
    kernel.look_at_answer(resp, size);
    mr->ibv_mr.pd = pd; // libibverbs does it afterwards
    return make(kernel.mrs);
}
int ibv_cmd_rereg_mr(verbs_mr*, uint32_t, void*, size_t, uint64_t, int, ibv_pd*, void*, size_t, void* resp,
                     size_t size) {
    kernel.look_at_answer(resp, size);
    if (const int err = kernel.step())
        return err;
    fake::answer(resp, CXGB3_CORE_RESP_REREG_MR, t3_reg_mr_resp{.pbl_addr = 99});
    return 0;
}
int ibv_cmd_dereg_mr(verbs_mr*) {
    return unmake(kernel.mrs);
}
int ibv_cmd_query_mr(ibv_pd* pd, verbs_mr* mr, uint32_t handle) {
    mr->ibv_mr.pd = pd;
    mr->ibv_mr.handle = handle;
    mr->mr_type = VERBS_MR_IMPORTED;
    return kernel.step();
}
int ibv_cmd_alloc_mw(ibv_pd* pd, ibv_mw_type, ibv_mw* mw, void*, size_t, void* resp, size_t size) {
    kernel.look_at_answer(resp, size);
    mw->pd = pd;
    return make(kernel.mws);
}
int ibv_cmd_dealloc_mw(ibv_mw*) {
    return unmake(kernel.mws);
}
int ibv_cmd_create_cq(ibv_context* context, int cqe, ibv_comp_channel* channel, int, ibv_cq* cq, void*,
                      size_t, void* resp, size_t size) {
    kernel.look_at_answer(resp, size);
    if (const int err = make(kernel.cqs))
        return err;
    cq->context = context;
    cq->channel = channel; // libibverbs does it afterwards
    t3_create_cq_resp drv{};
    drv.size_log2 = kernel.bad_sizes ? 31 : fake::log2_of(static_cast<uint32_t>(cqe));
    const uint64_t entries = uint64_t{1} << (kernel.bad_sizes ? 4 : drv.size_log2);
    drv.memsize =
        static_cast<uint32_t>(kernel.whole_pages((entries + !kernel.no_status_word) * T3_CQE_BYTES));
    drv.key = kernel.bad_ring ? 1 : kernel.map_pages(drv.memsize);
    fake::answer(resp, CXGB3_CORE_RESP_CREATE_CQ, drv);
    return 0;
}
int ibv_cmd_req_notify_cq(ibv_cq*, int) {
    kernel.notify_calls++;
    return 0;
}
int ibv_cmd_destroy_cq(ibv_cq*) {
    return unmake(kernel.cqs);
}
int ibv_cmd_create_qp(ibv_pd* pd, ibv_qp* qp, ibv_qp_init_attr* attr, void*, size_t, void* resp,
                      size_t size) {
    kernel.look_at_answer(resp, size);
    if (const int err = make(kernel.qps))
        return err;
    qp->context = pd->context;
    qp->pd = pd;
    qp->send_cq = attr->send_cq;
    qp->recv_cq = attr->recv_cq;
    t3_create_qp_resp drv{};
    drv.qpid = 0x21;
    drv.sq_size_log2 = fake::log2_of(attr->cap.max_send_wr);
    drv.rq_size_log2 = 4;
    drv.size_log2 = kernel.bad_sizes ? 17 : 6;
    drv.key = kernel.bad_ring ? 1 : kernel.map_pages(T3_WR_SLOT_BYTES << 6);
    drv.db_key = kernel.bad_doorbell ? 1 : kernel.map_pages(1);
    fake::answer(resp, CXGB3_CORE_RESP_CREATE_QP, drv);
    return 0;
}
int ibv_cmd_modify_qp(ibv_qp*, ibv_qp_attr*, int, void*, size_t) {
    return kernel.step();
}
int ibv_cmd_query_qp(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*, void*, size_t) {
    return kernel.step();
}
int ibv_cmd_destroy_qp(ibv_qp*) {
    return unmake(kernel.qps);
}

// The linker puts these in the place of the real ones (--wrap).
decltype(cxgb3_core_create_qp) __real_cxgb3_core_create_qp;
int __wrap_cxgb3_core_create_qp(cxgb3_qp* qp, const t3_create_qp_resp* resp, bool signal_all,
                                bool needs_locks, cxgb3_counters* counters, void (*abort)(void*)) noexcept {
    return kernel.refuse_core_qp
               ? ENOMEM
               : __real_cxgb3_core_create_qp(qp, resp, signal_all, needs_locks, counters, abort);
}
decltype(cxgb3_set_builders) __real_cxgb3_set_builders;
int __wrap_cxgb3_set_builders(cxgb3_qp* qp, bool counted) noexcept {
    return kernel.refuse_builders ? ENOMEM : __real_cxgb3_set_builders(qp, counted);
}
void* __real__Znwm(size_t); // operator new, as the linker names it
void* __wrap__Znwm(size_t bytes) {
    if (kernel.refuse_new && --kernel.refuse_new == 0)
        throw std::bad_alloc();
    return __real__Znwm(bytes);
}
decltype(sysconf) __real_sysconf;
long __wrap_sysconf(int name) noexcept {
    return name == _SC_PAGESIZE && kernel.page ? static_cast<long>(kernel.page) : __real_sysconf(name);
}
decltype(madvise) __real_madvise;
int __wrap_madvise(void* start, size_t bytes, int advice) noexcept {
    if (!kernel.refuse_madvise)
        return __real_madvise(start, bytes, advice);
    errno = EINVAL;
    return -1;
}

} // extern "C"
