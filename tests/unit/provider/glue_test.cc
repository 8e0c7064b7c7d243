// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Objects of libibverbs over a kernel that refuses, returns invalid responses, or does not destroy.
#include "tests/unit/provider/fake_kernel.hh"
#include "userspace/providers/cxgb3/post.hh"
#include "userspace/providers/cxgb3/verbs_core.hh"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using fake::kernel;

namespace {

class Glue : public testing::Test {
protected:
    Glue() {
        kernel = {};
        kernel.fd = memfd_create("kernel", MFD_CLOEXEC);
        context.needs_locks = true;
        ctx()->cmd_fd = kernel.fd;
        pd = ops.alloc_pd(ctx());
    }
    ~Glue() override {
        EXPECT_EQ(ops.dealloc_pd(pd), 0);
        EXPECT_EQ(kernel.objects(), 0) << "nothing is left";
        EXPECT_EQ(mappings(), 0) << "nothing is left mapped";
        close(kernel.fd);
    }
    ibv_context* ctx() { return &context.vctx.context; }

    ibv_cq* make_cq(int cqe = 16) { return ops.create_cq(ctx(), cqe, nullptr, 0); }
    static ibv_cq_init_attr_ex cq_attr() {
        ibv_cq_init_attr_ex attr{};
        attr.cqe = 16;
        attr.wc_flags = IBV_WC_STANDARD_FLAGS;
        return attr;
    }
    ibv_qp_init_attr_ex qp_attr(ibv_cq* cq, ibv_pd* domain = nullptr) {
        ibv_qp_init_attr_ex attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq;
        attr.cap = {16, 15, 4, 4, 64};
        attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.pd = domain ? domain : pd;
        attr.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
        return attr;
    }
    ibv_td* make_td() {
        ibv_td_init_attr attr{};
        return ops.alloc_td(ctx(), &attr);
    }
    ibv_pd* make_parent(ibv_td* td) {
        ibv_parent_domain_init_attr attr{};
        attr.pd = pd;
        attr.td = td;
        return ops.alloc_parent_domain(ctx(), &attr);
    }
    // Rings and doorbells of the fake kernel's file.
    static int mappings(const std::string& file = "/memfd:kernel") {
        std::ifstream maps("/proc/self/maps");
        int count = 0;
        for (std::string line; std::getline(maps, line);)
            count += line.find(file) != std::string::npos;
        return count;
    }
    // Of the QP that was made last, since the last call.
    static bool doorbell_rung() {
        std::vector<uint8_t> now(kernel.whole_pages(1));
        const auto size = static_cast<ssize_t>(now.size());
        const auto page = static_cast<off_t>(kernel.bytes - now.size());
        EXPECT_EQ(pread(kernel.fd, now.data(), now.size(), page), size);
        const bool rung = std::ranges::any_of(now, [](uint8_t byte) { return byte != 0; });
        std::ranges::fill(now, 0);
        EXPECT_EQ(pwrite(kernel.fd, now.data(), now.size(), page), size);
        return rung;
    }
    static bool locks(auto& object) { // it cannot be had twice
        const bool first = object.try_lock(), second = object.try_lock();
        EXPECT_TRUE(first);
        object.unlock();
        return !second;
    }

    const verbs_context_ops& ops = *glue_ops();
    cxgb3_context context{};
    ibv_pd* pd;
};

std::string counters_prefix() {
    return "/dev/shm/cxgb3-counters." + std::to_string(getpid()) + ".fake";
}
void remove_counters() {
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
        if (entry.path().string().starts_with(counters_prefix()))
            unlink(entry.path().c_str());
    }
}
verbs_context* make_context(verbs_device* device, const char* counters) {
    setenv("CXGB3_COUNTERS", counters, 1);
    verbs_context* const made = glue_device_ops()->alloc_context(&device->device, kernel.fd, nullptr);
    unsetenv("CXGB3_COUNTERS");
    return made;
}
cxgb3_counters* counters_of(verbs_context* context) {
    return reinterpret_cast<cxgb3_context*>(context)->counters;
}

// Ways in which making an object can fail once the kernel has created it.
const std::vector<std::pair<int, std::function<void()>>> mishaps = {
    {ENOMEM, [] { kernel.refuse_call = kernel.calls + 1; }},
    {EINVAL, [] { kernel.bad_ring = true; }}, // of a key that is no page's
    {EPROTO, [] { kernel.bad_sizes = true; }},
};
void mend() {
    kernel.refuse_call = 0;
    kernel.bad_ring = kernel.bad_doorbell = kernel.bad_sizes = false;
}

} // namespace

// B6
TEST_F(Glue, AFailedStepLeavesNothing) {
    ibv_cq* cq = make_cq();
    ASSERT_NE(cq, nullptr);
    const int before = kernel.objects();
    const std::vector<std::function<bool()>> makers = {
        [&] { return make_cq() != nullptr; },
        [&] {
            auto attr = cq_attr();
            return ops.create_cq_ex(ctx(), &attr) != nullptr;
        },
        [&] {
            auto attr = qp_attr(cq);
            return ops.create_qp(pd, reinterpret_cast<ibv_qp_init_attr*>(&attr)) != nullptr;
        },
        [&] {
            auto attr = qp_attr(cq);
            return ops.create_qp_ex(ctx(), &attr) != nullptr;
        },
    };
    for (const auto& make : makers) {
        for (const auto& [error, mishap] : mishaps) {
            mishap();
            errno = 0;
            EXPECT_FALSE(make());
            EXPECT_EQ(errno, error);
            EXPECT_EQ(kernel.objects(), before);
            mend();
        }
    }
    kernel.bad_doorbell = true;
    EXPECT_FALSE(makers[3]());
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(kernel.objects(), before);
    mend();
    kernel.refuse_call = kernel.calls + 1;
    EXPECT_EQ(ops.alloc_pd(ctx()), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    kernel.refuse_call = kernel.calls + 1;
    EXPECT_EQ(ops.reg_mr(pd, this, 1, 0, 0), nullptr);
    kernel.refuse_call = kernel.calls + 1;
    EXPECT_EQ(ops.alloc_mw(pd, IBV_MW_TYPE_1), nullptr);
    EXPECT_EQ(kernel.objects(), before);
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

// By whatever means the process finds that it has no memory, or its kernel does not let it keep a ring from
// its children.
TEST_F(Glue, AStepOfTheProcessThatFailsLeavesNothing) {
    ibv_cq* cq = make_cq();
    ASSERT_NE(cq, nullptr);
    const int before = kernel.objects(), mapped = mappings();
    for (bool* refused : {&kernel.refuse_core_qp, &kernel.refuse_builders, &kernel.refuse_madvise}) {
        *refused = true;
        auto attr = qp_attr(cq);
        EXPECT_EQ(ops.create_qp_ex(ctx(), &attr), nullptr);
        EXPECT_EQ(errno, refused == &kernel.refuse_madvise ? EINVAL : ENOMEM);
        EXPECT_EQ(kernel.objects(), before);
        EXPECT_EQ(mappings(), mapped);
        *refused = false;
    }
    kernel.refuse_madvise = true;
    EXPECT_EQ(make_cq(), nullptr);
    kernel.refuse_madvise = false;
    EXPECT_EQ(kernel.objects(), before);
    EXPECT_EQ(mappings(), mapped);
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

// The QP joins two CQs. If there is no memory for that, it is in neither: polling would look at freed memory.
TEST_F(Glue, AQpWithoutMemoryForItsCqsIsInNone) {
    ibv_qp* qp = nullptr;
    int refused = 0;
    for (; refused < 20 && !qp; refused++) {
        ibv_cq *send_cq = make_cq(), *recv_cq = make_cq();
        auto attr = qp_attr(send_cq);
        attr.recv_cq = recv_cq;
        kernel.refuse_new = refused + 1;
        qp = ops.create_qp(pd, reinterpret_cast<ibv_qp_init_attr*>(&attr));
        kernel.refuse_new = 0;
        for (ibv_cq* cq : {send_cq, recv_cq}) {
            t3::core(cq).raise_error_flag();
            ibv_wc wc;
            EXPECT_EQ(ops.poll_cq(cq, 1, &wc), 0);
        }
        if (qp) {
            EXPECT_EQ(ops.destroy_qp(qp), 0);
        }
        EXPECT_EQ(ops.destroy_cq(send_cq), 0);
        EXPECT_EQ(ops.destroy_cq(recv_cq), 0);
    }
    EXPECT_NE(qp, nullptr);
    EXPECT_EQ(refused, 7) << "two lists and a map in each CQ; then there is enough";
}

// The program need not wait for the kernel to mark the ring.
TEST_F(Glue, AQpInErrorIsGivenNoMoreWork) {
    const std::vector<std::function<void(ibv_qp*)>> ways = {
        [&](ibv_qp* qp) {
            ibv_qp_attr attr{};
            attr.qp_state = IBV_QPS_ERR;
            EXPECT_EQ(ops.modify_qp(qp, &attr, IBV_QP_STATE), 0);
        },
        [&](ibv_qp* qp) {
            ibv_async_event event{};
            event.event_type = IBV_EVENT_QP_FATAL;
            event.element.qp = qp;
            ops.async_event(ctx(), &event);
        },
    };
    for (const auto& ends : ways) {
        ibv_cq* cq = make_cq();
        auto attr = qp_attr(cq);
        ibv_qp* qp = ops.create_qp_ex(ctx(), &attr);
        ASSERT_NE(qp, nullptr);
        ibv_send_wr wr{}, *bad;
        wr.opcode = IBV_WR_SEND;
        EXPECT_EQ(ops.post_send(qp, &wr, &bad), 0);
        EXPECT_TRUE(doorbell_rung());
        ends(qp);
        ops.post_send(qp, &wr, &bad);
        EXPECT_FALSE(doorbell_rung());
        EXPECT_EQ(ops.destroy_qp(qp), 0);
        EXPECT_EQ(ops.destroy_cq(cq), 0);
    }
}

// Leaks are for the sanitizer to find.
TEST_F(Glue, ADeviceAndItsContextsComeAndGo) {
    const verbs_device_ops& device_ops = *glue_device_ops();
    verbs_device* device = device_ops.alloc_device(nullptr);
    ASSERT_NE(device, nullptr);
    kernel.refuse_context = true;
    EXPECT_EQ(device_ops.alloc_context(&device->device, kernel.fd, nullptr), nullptr);
    EXPECT_EQ(errno, EIO);
    kernel.refuse_context = false;

    kernel.refuse_context = true;
    EXPECT_EQ(device_ops.import_context(&device->device, kernel.fd), nullptr);
    EXPECT_EQ(errno, EIO);
    kernel.refuse_context = false;
    verbs_context* imported = device_ops.import_context(&device->device, kernel.fd);
    ASSERT_NE(imported, nullptr);
    EXPECT_EQ(imported->context.num_comp_vectors, 1);
    ops.free_context(&imported->context);

    const int mapped = mappings(counters_prefix());
    for (const char* variable : {"", "0", "1"}) {
        const bool counted = std::string(variable) == "1";
        verbs_context* made = make_context(device, variable);
        ASSERT_NE(made, nullptr);
        EXPECT_EQ(mappings(counters_prefix()), mapped + counted) << variable;
        EXPECT_EQ(counters_of(made) != nullptr, counted);
        ops.free_context(&made->context);
        EXPECT_EQ(mappings(counters_prefix()), mapped);
    }
    remove_counters();
    device_ops.uninit_device(device);
}

TEST_F(Glue, EachContextBeginsToCountAtZero) {
    verbs_device* device = glue_device_ops()->alloc_device(nullptr);
    verbs_context* first = make_context(device, "1");
    ASSERT_NE(counters_of(first), nullptr);
    counters_of(first)->post_send = 5;
    // What an earlier process of the same id has left, under all names that may be used next.
    const auto leftover = [](unsigned number) { return counters_prefix() + "." + std::to_string(number); };
    for (unsigned number = 0; number < 64; number++) {
        if (access(leftover(number).c_str(), F_OK))
            std::ofstream(leftover(number)) << std::string(sizeof(cxgb3_counters), 'x');
    }
    verbs_context* second = make_context(device, "1");
    ASSERT_NE(counters_of(second), nullptr);
    EXPECT_EQ(counters_of(second)->post_send, 0u);
    EXPECT_EQ(counters_of(second)->arm_system_calls, 0u);
    EXPECT_EQ(counters_of(first)->post_send, 5u);
    counters_of(second)->post_send = 6;
    EXPECT_EQ(counters_of(first)->post_send, 5u);
    for (verbs_context* made : {first, second})
        ops.free_context(&made->context);
    remove_counters();
    glue_device_ops()->uninit_device(device);
}

// What lay on the stack below the next call.
[[gnu::noinline]] static void dirty_stack() {
    volatile uint8_t bytes[16384];
    for (volatile uint8_t& byte : bytes)
        byte = 0xa5;
}

// B6: an older kernel writes less than all of an answer.
TEST_F(Glue, B6_AnswersAreEmptyUntilTheKernelWritesThem) {
    ibv_device_attr_ex device{};
    dirty_stack();
    EXPECT_EQ(ops.query_device_ex(ctx(), nullptr, &device, sizeof(device)), 0);
    EXPECT_EQ(kernel.dirty_answers, 0) << "query_device";
    dirty_stack();
    ibv_mr* mr = ops.reg_mr(pd, this, 1, 0, 0);
    EXPECT_EQ(kernel.dirty_answers, 0) << "reg_mr";
    dirty_stack();
    EXPECT_EQ(
        ops.rereg_mr(reinterpret_cast<verbs_mr*>(mr), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
    EXPECT_EQ(kernel.dirty_answers, 0) << "rereg_mr";
    dirty_stack();
    ibv_mw* mw = ops.alloc_mw(pd, IBV_MW_TYPE_1);
    EXPECT_EQ(kernel.dirty_answers, 0) << "alloc_mw";
    dirty_stack();
    ibv_cq* cq = make_cq();
    EXPECT_EQ(kernel.dirty_answers, 0) << "create_cq";
    auto attr = qp_attr(cq);
    dirty_stack();
    ibv_qp* qp = ops.create_qp(pd, reinterpret_cast<ibv_qp_init_attr*>(&attr));
    EXPECT_EQ(kernel.dirty_answers, 0) << "create_qp";
    dirty_stack();
    ibv_qp* extended = ops.create_qp_ex(ctx(), &attr);
    EXPECT_EQ(kernel.dirty_answers, 0) << "create_qp_ex";
    EXPECT_EQ(ops.destroy_qp(extended), 0);
    EXPECT_EQ(ops.destroy_qp(qp), 0);
    EXPECT_EQ(ops.destroy_cq(cq), 0);
    EXPECT_EQ(ops.dealloc_mw(mw), 0);
    EXPECT_EQ(ops.dereg_mr(reinterpret_cast<verbs_mr*>(mr)), 0);
}

// X5
TEST_F(Glue, WhatTheKernelWillNotLetGoWorksOn) {
    ibv_cq* cq = make_cq();
    auto attr = qp_attr(cq);
    ibv_qp* qp = ops.create_qp_ex(ctx(), &attr);
    ASSERT_NE(qp, nullptr);
    ibv_mr* mr = ops.reg_mr(pd, this, 1, 0, 0);
    kernel.refuse_destroy = EBUSY;
    EXPECT_EQ(ops.destroy_qp(qp), EBUSY);
    EXPECT_EQ(ops.destroy_cq(cq), EBUSY);
    EXPECT_EQ(ops.dealloc_pd(pd), EBUSY);
    EXPECT_EQ(ops.dereg_mr(reinterpret_cast<verbs_mr*>(mr)), EBUSY);
    ibv_send_wr wr{}, *bad;
    wr.opcode = IBV_WR_SEND;
    EXPECT_EQ(ops.post_send(qp, &wr, &bad), 0);
    ibv_wc wc;
    EXPECT_EQ(ops.poll_cq(cq, 1, &wc), 0);
    kernel.refuse_destroy = 0;
    EXPECT_EQ(ops.dereg_mr(reinterpret_cast<verbs_mr*>(mr)), 0);
    EXPECT_EQ(ops.destroy_qp(qp), 0);
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

TEST_F(Glue, FlagsThatTheCardHasNot) {
    for (const auto flag :
         {IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
          IBV_WC_EX_WITH_TM_INFO, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK}) {
        auto attr = cq_attr();
        attr.wc_flags |= flag;
        EXPECT_EQ(ops.create_cq_ex(ctx(), &attr), nullptr);
        EXPECT_EQ(errno, EOPNOTSUPP) << flag;
    }
    auto attr = cq_attr();
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
    attr.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
    EXPECT_EQ(ops.create_cq_ex(ctx(), &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
    ibv_cq* cq = make_cq();
    for (const auto flag :
         {IBV_QP_EX_WITH_SEND_WITH_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
          IBV_QP_EX_WITH_TSO, IBV_QP_EX_WITH_ATOMIC_WRITE}) {
        auto qp = qp_attr(cq);
        qp.send_ops_flags |= flag;
        EXPECT_EQ(ops.create_qp_ex(ctx(), &qp), nullptr);
        EXPECT_EQ(errno, EOPNOTSUPP) << flag;
    }
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

TEST_F(Glue, ParentDomainsOutliveWhatIsInThem) {
    ibv_td* td = make_td();
    ibv_pd *parent = make_parent(td), *other = make_parent(nullptr);
    EXPECT_EQ(parent->handle, pd->handle);
    EXPECT_EQ(ops.dealloc_td(td), EBUSY);
    EXPECT_EQ(ops.dealloc_pd(pd), EBUSY);
    EXPECT_EQ(ops.dealloc_pd(other), 0);
    auto attr = cq_attr();
    attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
    attr.parent_domain = parent;
    ibv_cq_ex* cq = ops.create_cq_ex(ctx(), &attr);
    auto qp_init = qp_attr(ibv_cq_ex_to_cq(cq), parent);
    ibv_qp* qp = ops.create_qp_ex(ctx(), &qp_init);
    ASSERT_NE(qp, nullptr);
    ibv_mr* mr = ops.reg_mr(parent, this, 1, 0, 0);
    ibv_mw* mw = ops.alloc_mw(parent, IBV_MW_TYPE_1);
    const std::vector<std::function<int()>> ends = {
        [&] { return ops.destroy_qp(qp); }, [&] { return ops.destroy_cq(ibv_cq_ex_to_cq(cq)); },
        [&] { return ops.dealloc_mw(mw); }, [&] { return ops.dereg_mr(reinterpret_cast<verbs_mr*>(mr)); }};
    for (const auto& end : ends) {
        EXPECT_EQ(ops.dealloc_pd(parent), EBUSY);
        EXPECT_EQ(end(), 0);
    }
    EXPECT_EQ(ops.dealloc_pd(parent), 0);
    EXPECT_EQ(ops.dealloc_td(td), 0);
}

// Windows are bound by the address of the page list, and a parent domain counts its regions.
TEST_F(Glue, AReregisteredRegionIsThatOfTheNewList) {
    ibv_pd *parent = make_parent(nullptr), *other = make_parent(nullptr);
    ibv_mr* mr = ops.reg_mr(parent, this, 1, 0x1000, 0);
    ASSERT_NE(mr, nullptr);
    auto* const vmr = reinterpret_cast<verbs_mr*>(mr);
    const auto* own = reinterpret_cast<const cxgb3_mr*>(mr);

    kernel.refuse_call = kernel.calls + 1;
    EXPECT_EQ(ops.rereg_mr(vmr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), ENOMEM);
    EXPECT_EQ(own->pbl_addr, 0u);
    EXPECT_EQ(ops.dealloc_pd(parent), EBUSY);

    EXPECT_EQ(ops.rereg_mr(vmr, IBV_REREG_MR_CHANGE_PD, other, nullptr, 0, 0), 0);
    mr->pd = other; // libibverbs does it afterwards
    EXPECT_EQ(own->pbl_addr, 99u);
    EXPECT_EQ(own->hca_va, 0x1000u);
    EXPECT_EQ(ops.dealloc_pd(other), EBUSY);
    EXPECT_EQ(ops.dealloc_pd(parent), 0);

    EXPECT_EQ(ops.rereg_mr(vmr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, this, 1, 0), 0);
    EXPECT_EQ(own->hca_va, reinterpret_cast<uintptr_t>(this));
    EXPECT_EQ(ops.dealloc_pd(other), EBUSY);
    EXPECT_EQ(ops.dereg_mr(vmr), 0);
    EXPECT_EQ(ops.dealloc_pd(other), 0);
}

// The objects belong to another process: nothing is destroyed here.
TEST_F(Glue, ImportedObjectsAreOnlyForgotten) {
    const int before = kernel.objects();
    ibv_pd* imported = ops.import_pd(ctx(), 5);
    ASSERT_NE(imported, nullptr);
    EXPECT_EQ(imported->context, ctx());
    EXPECT_EQ(imported->handle, 5u);
    kernel.refuse_call = kernel.calls + 1;
    EXPECT_EQ(ops.import_mr(imported, 7), nullptr);
    EXPECT_EQ(errno, ENOMEM);
    ibv_parent_domain_init_attr attr{};
    attr.pd = imported;
    ibv_pd* parent = ops.alloc_parent_domain(ctx(), &attr);
    ibv_mr* mr = ops.import_mr(parent, 7);
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->handle, 7u);
    EXPECT_EQ(ops.dealloc_pd(parent), EBUSY);
    ibv_mw window{};
    window.pd = parent;
    window.type = IBV_MW_TYPE_1;
    EXPECT_EQ(t3::check_bind(window, 1, {mr, 0, 1, IBV_ACCESS_REMOTE_READ}).error, EOPNOTSUPP);
    ops.unimport_mr(mr);
    EXPECT_EQ(ops.dealloc_pd(parent), 0);
    ops.unimport_pd(imported);
    EXPECT_EQ(kernel.objects(), before);
}

TEST_F(Glue, WhoLocks) {
    ibv_td* td = make_td();
    ibv_pd *with = make_parent(td), *without = make_parent(nullptr);
    const struct {
        bool environment; // CXGB3_SINGLE_THREADED is not set
        ibv_pd* domain;
        uint32_t cq_flags;
        bool cq_locks, qp_locks;
    } rows[] = {
        {true, nullptr, 0, true, true},    {true, without, 0, true, true},
        {true, with, 0, false, false},     {true, nullptr, IBV_CREATE_CQ_ATTR_SINGLE_THREADED, false, true},
        {false, nullptr, 0, false, false},
    };
    for (const auto& row : rows) {
        context.needs_locks = row.environment;
        auto attr = cq_attr();
        attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | (row.domain ? IBV_CQ_INIT_ATTR_MASK_PD : 0);
        attr.parent_domain = row.domain;
        attr.flags = row.cq_flags;
        ibv_cq* cq = ibv_cq_ex_to_cq(ops.create_cq_ex(ctx(), &attr));
        auto qp_init = qp_attr(cq, row.domain);
        ibv_qp* qp = ops.create_qp_ex(ctx(), &qp_init);
        EXPECT_EQ(locks(t3::core(cq)), row.cq_locks);
        EXPECT_EQ(locks(t3::core(qp).post_lock()), row.qp_locks);
        EXPECT_EQ(ops.destroy_qp(qp), 0);
        EXPECT_EQ(ops.destroy_cq(cq), 0);
    }
    EXPECT_EQ(ops.dealloc_pd(with), 0);
    EXPECT_EQ(ops.dealloc_pd(without), 0);
    EXPECT_EQ(ops.dealloc_td(td), 0);
}

// Arming costs a system call, unless the event of the last one is still to be read.
TEST_F(Glue, ArmingAsksTheKernelOncePerEvent) {
    ibv_comp_channel channel{};
    ibv_cq* cq = ops.create_cq(ctx(), 16, &channel, 0);
    ASSERT_NE(cq, nullptr);
    EXPECT_EQ(ops.req_notify_cq(cq, 1), 0);
    EXPECT_EQ(kernel.notify_calls, 1);
    EXPECT_EQ(ops.req_notify_cq(cq, 1), 0);
    EXPECT_EQ(kernel.notify_calls, 1) << "it is armed";
    EXPECT_EQ(ops.req_notify_cq(cq, 0), 0);
    EXPECT_EQ(kernel.notify_calls, 2) << "but for solicited ones only";
    EXPECT_EQ(ops.req_notify_cq(cq, 0), 0);
    ops.cq_event(cq);
    EXPECT_EQ(kernel.notify_calls, 3) << "requested again before the event was read";
    ops.cq_event(cq);
    EXPECT_EQ(kernel.notify_calls, 3);
    EXPECT_EQ(ops.req_notify_cq(cq, 0), 0);
    EXPECT_EQ(kernel.notify_calls, 4);
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

// One thread arms while another reads events; the sanitizer sees what the lock is for.
TEST_F(Glue, ArmingBesideAThreadThatReadsEvents) {
    ibv_comp_channel channel{};
    ibv_cq* cq = ops.create_cq(ctx(), 16, &channel, 0);
    ASSERT_NE(cq, nullptr);
    std::vector<std::thread> threads;
    for (int n = 0; n < 2; n++) {
        threads.emplace_back([&] {
            for (int i = 0; i < 500; i++)
                EXPECT_EQ(ops.req_notify_cq(cq, i & 1), 0);
        });
    }
    threads.emplace_back([&] {
        for (int i = 0; i < 500; i++)
            ops.cq_event(cq);
    });
    for (auto& thread : threads)
        thread.join();
    EXPECT_GT(kernel.notify_calls, 0);
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

TEST_F(Glue, ThreadsShareAThreadDomainOnlyToMakeParents) {
    ibv_td* td = make_td();
    std::vector<std::thread> threads;
    for (int n = 0; n < 3; n++) {
        threads.emplace_back([&] {
            for (int i = 0; i < 500; i++) {
                ibv_pd* parent = make_parent(td);
                EXPECT_EQ(ops.dealloc_td(td), EBUSY);
                EXPECT_EQ(ops.dealloc_pd(parent), 0);
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(ops.dealloc_td(td), 0);
}

// What orders the last use of a domain before its end is its count alone.
TEST_F(Glue, AThreadDomainEndsBesideItsLastUser) {
    for (int i = 0; i < 100; i++) {
        ibv_td* td = make_td();
        ibv_pd* parent = make_parent(td);
        std::thread user([&, parent] { EXPECT_EQ(ops.dealloc_pd(parent), 0); });
        while (ops.dealloc_td(td) == EBUSY)
            std::this_thread::yield();
        user.join();
    }
}

namespace {

// A kernel with pages of another size.
class Pages : public Glue, public testing::WithParamInterface<uint64_t> {
protected:
    void SetUp() override {
        if (GetParam() < kernel.whole_pages(1))
            GTEST_SKIP() << "the host's own pages are larger";
        kernel.page = GetParam();
    }
    static uint64_t mapped_bytes() {
        std::ifstream maps("/proc/self/maps");
        uint64_t sum = 0;
        for (std::string line; std::getline(maps, line);) {
            unsigned long long start, end;
            if (line.find("/memfd:kernel") != std::string::npos &&
                sscanf(line.c_str(), "%llx-%llx", &start, &end) == 2)
                sum += end - start;
        }
        return sum;
    }
};

} // namespace

// With the status word, 256, 1024 and 4096 entries do not fit into a page of 4, 16 and 64 KiB.
TEST_P(Pages, RingsAreMappedInWholePages) {
    for (const int entries : {16, 256, 1024, 4096}) {
        const uint64_t before = kernel.bytes;
        ibv_cq* cq = make_cq(entries);
        ASSERT_NE(cq, nullptr);
        EXPECT_EQ(mapped_bytes(), kernel.bytes - before) << entries;
        auto attr = qp_attr(cq);
        ibv_qp* qp = ops.create_qp_ex(ctx(), &attr);
        ASSERT_NE(qp, nullptr);
        EXPECT_EQ(mapped_bytes(), kernel.bytes - before);
        EXPECT_EQ(ops.destroy_qp(qp), 0);
        EXPECT_EQ(ops.destroy_cq(cq), 0);
        EXPECT_EQ(mapped_bytes(), 0u);
    }
}

TEST_P(Pages, TheDoorbellIsInThePageOfItsKey) {
    ibv_cq* cq = make_cq();
    auto attr = qp_attr(cq);
    ibv_qp* qp = ops.create_qp_ex(ctx(), &attr);
    ASSERT_NE(qp, nullptr);
    ibv_send_wr wr{}, *bad;
    wr.opcode = IBV_WR_SEND;
    EXPECT_EQ(ops.post_send(qp, &wr, &bad), 0);
    EXPECT_TRUE(doorbell_rung());
    EXPECT_EQ(ops.destroy_qp(qp), 0);
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

// The provider would read the status word behind the mapping.
TEST_P(Pages, ACqWithoutSpaceForTheStatusWordIsRefused) {
    kernel.no_status_word = true;
    EXPECT_EQ(make_cq(static_cast<int>(GetParam() / T3_CQE_BYTES)), nullptr);
    EXPECT_EQ(errno, EPROTO);
    ibv_cq* cq = make_cq(static_cast<int>(GetParam() / T3_CQE_BYTES / 2));
    ASSERT_NE(cq, nullptr) << "the page has space";
    EXPECT_EQ(ops.destroy_cq(cq), 0);
}

// The driver gives a region that windows are bound to pages of the system's size.
TEST_P(Pages, WindowsHavePagesOfTheSystemsSize) {
    ibv_mr* mr = ops.reg_mr(pd, this, 1, 0, IBV_ACCESS_MW_BIND);
    EXPECT_EQ(uint64_t{4096} << reinterpret_cast<cxgb3_mr*>(mr)->page_code, GetParam());
    EXPECT_EQ(ops.dereg_mr(reinterpret_cast<verbs_mr*>(mr)), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, Pages, testing::Values(4096, 16384, 65536),
                         [](const auto& info) { return std::to_string(info.param >> 10) + "K"; });
