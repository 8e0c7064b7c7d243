// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A program forks while work is outstanding, and its children continue or exit. Rings are mapped as the
// provider maps them, of memory that a second mapping, the card's, shares.
#include "tests/unit/provider/fake_card.hh"
#include "userspace/providers/cxgb3/mapping.h"

#include <cerrno>
#include <functional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fake;

namespace {

class SharedRing {
public:
    explicit SharedRing(size_t bytes)
        : bytes_(cxgb3_whole_pages(bytes)), fd_(memfd_create("ring", MFD_CLOEXEC)) {
        EXPECT_EQ(ftruncate(fd_, static_cast<off_t>(bytes_)), 0);
        program = static_cast<uint8_t*>(cxgb3_map_ring(fd_, bytes_, 0));
        card = static_cast<uint8_t*>(mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0));
        EXPECT_NE(program, nullptr);
        EXPECT_NE(static_cast<void*>(card), MAP_FAILED);
    }
    ~SharedRing() {
        munmap(program, bytes_);
        munmap(card, bytes_);
        close(fd_);
    }
    bool is_mapped() const {
        unsigned char there;
        return mincore(program, 1, &there) == 0;
    }
    uint8_t *program, *card;

private:
    size_t bytes_;
    int fd_;
};

// In a child of its own; true if it returned true there.
bool in_child(const std::function<bool()>& check) {
    const pid_t pid = fork();
    if (pid == 0)
        _exit(check() ? 0 : 1);
    int status = -1;
    waitpid(pid, &status, 0);
    return status == 0;
}

} // namespace

TEST(Fork, AChildHasNoRingsAndTheParentLosesNothing) {
    SharedRing cq_ring(65 * sizeof(t3_cqe)), slots(32 * sizeof(t3_wr_slot));
    volatile uint32_t doorbell = 0;
    t3::Cq cq(true);
    cq.use_ring(cq_ring.program, 6);
    t3::Qp qp({.qpid = 0x21,
               .size_log2 = 5,
               .sq_size_log2 = 4,
               .rq_size_log2 = 4,
               .ring = slots.program,
               .doorbell = &doorbell},
              cq, cq);
    cxgb3_cq cq_handle{};
    cxgb3_qp qp_handle{};
    cq_handle.core = &cq;
    qp_handle.core = &qp;
    cxgb3_set_builders(&qp_handle, false);
    ibv_qp_ex* ex = &qp_handle.vqp.qp_ex;

    pid_t late[4] = {};
    int alive[2];
    ASSERT_EQ(pipe(alive), 0);
    for (uint32_t i = 0; i < 100; i++) { // laps of both rings
        ibv_wr_start(ex);
        ex->wr_id = i;
        ex->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_send(ex);
        if (i % 10 == 3) { // with a request half built
            ASSERT_TRUE(
                in_child([&] { return !slots.is_mapped() && !cq_ring.is_mapped() && errno == ENOMEM; }));
        }
        if (i < std::size(late)) { // one that outlives the rings
            late[i] = fork();
            if (late[i] == 0) {
                char c;
                close(alive[1]);
                _exit(read(alive[0], &c, 1) == 0 ? 0 : 1);
            }
        }
        ASSERT_EQ(ibv_wr_complete(ex), 0);
        if (i % 10 == 5) {
            ASSERT_TRUE(in_child([] { return true; }));
        }
        ASSERT_EQ(doorbell, common::to_le(0x21u));
        const auto& slot = reinterpret_cast<const t3_wr_slot*>(slots.card)[i % 32];
        ASSERT_EQ(from_be<uint64_t>(slot.flit[T3_WR_GEN2_FLIT]), i / 32 % 2 ? 0u : 1u)
            << "the card sees the request";
        auto& entry = reinterpret_cast<t3_cqe*>(cq_ring.card)[i % 64];
        entry.u.sq = {slot.send.id.hi, 0};
        __atomic_store_n(&entry.header,
                         to_be(0x21u << 12 | (i / 64 % 2 ? 0 : T3_CQE_GEN) | T3_CQE_TYPE_SQ | T3_RDMA_SEND),
                         __ATOMIC_RELEASE);
        ibv_wc wc;
        ASSERT_EQ(cxgb3_poll_cq(&cq_handle.vcq.cq, 1, &wc), 1);
        ASSERT_EQ(wc.wr_id, i);
        ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
    }
    close(alive[1]);
    for (const pid_t pid : late) {
        int status = -1;
        waitpid(pid, &status, 0);
        EXPECT_EQ(status, 0);
    }
    close(alive[0]);
}

TEST(Fork, AFailedMappingIsReported) {
    errno = 0;
    EXPECT_EQ(cxgb3_map_ring(-1, 4096, 0), nullptr);
    EXPECT_EQ(errno, EBADF);
}
