// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Objects that are destroyed while in use; needs only the device, no server. Run as "client ADDRESS". In this
// order:
//   X5   an object in use is not destroyed, and still works
//   X9   a QP that was reset is flushed once more by its next error (A16: and starts with an empty ring)
//   A20  mmap() keys are small numbers, not addresses
//   A4, A18  a thread waits for events of a CQ and polls it while the CQ is being destroyed
//   A17  the program exits with all objects: the kernel releases them, which the test checks
#include "program.hh"

#include <atomic>
#include <cerrno>
#include <cinttypes>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <thread>

using namespace prog;

namespace {

std::vector<std::string> failed;

void check(bool good, const std::string& what) {
    if (!good)
        failed.push_back(what);
}

void to_state(ibv_qp* qp, ibv_qp_state state) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    if (const int err = ibv_modify_qp(qp, &attr, IBV_QP_STATE))
        fail("ibv_modify_qp to %d: %s", state, std::strerror(err));
}

// Posts receives and moves the QP to ERR: they are flushed once, in order, without other completions.
void flush_once(Endpoint& end, const std::string& when) {
    constexpr uint64_t receives = 5;
    to_state(end.id->qp, IBV_QPS_INIT);
    for (uint64_t i = 0; i < receives; i++)
        check(end.post_recv(i) == 0, when + ": ibv_post_recv");
    to_state(end.id->qp, IBV_QPS_ERR);
    uint64_t flushed = 0;
    while (const auto wc = end.next_completion(in_ms(flushed < receives ? 5000 : 50))) {
        check(wc->status == IBV_WC_WR_FLUSH_ERR && wc->wr_id == flushed,
              when + ": " + std::to_string(flushed));
        flushed++;
    }
    check(flushed == receives, when + ": " + std::to_string(flushed) + " flushed");
}

void refused_while_in_use(Endpoint& end) {
    check(ibv_destroy_cq(end.send_cq) == EBUSY, "a CQ of a QP is in use");
    check(ibv_destroy_cq(end.recv_cq) == EBUSY, "the other CQ of a QP is in use");
    check(ibv_dealloc_pd(end.pd) == EBUSY, "a PD of a QP is in use");
    Memory memory(end, 4096, IBV_ACCESS_LOCAL_WRITE);
    check(memory.mr->lkey != 0, "the PD still accepts regions");
    flush_once(end, "after the refusal");
}

void reset_and_again(Endpoint& end) {
    for (int round = 1; round <= 3; round++) {
        to_state(end.id->qp, IBV_QPS_RESET);
        flush_once(end, "round " + std::to_string(round));
    }
}

unsigned mappings() {
    std::ifstream maps("/proc/self/maps");
    unsigned found = 0;
    for (std::string line; std::getline(maps, line);) {
        uint64_t offset = 0;
        if (line.find("/uverbs") == std::string::npos ||
            std::sscanf(line.c_str(), "%*s %*s %" SCNx64, &offset) != 1)
            continue;
        found++;
        check(offset < 1U << 20, "mapped at offset " + std::to_string(offset)); // keys count up from 0
    }
    return found;
}

struct Race {
    ibv_comp_channel* channel;
    std::atomic<bool> stop{false};
    std::atomic<unsigned> events{0}, completions{0};

    void listen() {
        ibv_wc wc[4];
        while (!stop || wait_readable(channel->fd, in_ms(0))) {
            ibv_cq* cq;
            void* context;
            if (!wait_readable(channel->fd, in_ms(20)) || ibv_get_cq_event(channel, &cq, &context))
                continue; // the unread event of a destroyed CQ is discarded
            // Until the event is acknowledged the CQ exists, even if its destruction has begun.
            if (++events % 4 == 0)
                std::this_thread::sleep_for(std::chrono::milliseconds(2));
            for (int n; (n = ibv_poll_cq(cq, 4, wc)) != 0;) {
                if (n < 0)
                    fail("ibv_poll_cq: %d", n);
                completions += static_cast<unsigned>(n);
            }
            ibv_ack_cq_events(cq, 1);
        }
    }
};

void destroy_under_a_poller(Endpoint& end, Race& race, unsigned rounds) {
    for (unsigned i = 0; i < rounds; i++) {
        ibv_cq* cq = ibv_create_cq(end.id->verbs, 16, nullptr, race.channel, 0);
        if (!cq)
            fail("ibv_create_cq: %s", std::strerror(errno));
        ibv_qp_init_attr attr{};
        attr.qp_type = IBV_QPT_RC;
        attr.send_cq = attr.recv_cq = cq;
        attr.cap = {4, 4, 1, 1, 0};
        ibv_qp* qp = ibv_create_qp(end.pd, &attr);
        if (!qp)
            fail("ibv_create_qp: %s", std::strerror(errno));
        for (int n = 0; n < 3; n++) {
            ibv_recv_wr wr{}, *bad = nullptr;
            if (ibv_post_recv(qp, &wr, &bad))
                fail("ibv_post_recv");
        }
        to_state(qp, IBV_QPS_ERR); // raises an event
        if (i % 2)
            std::this_thread::sleep_for(std::chrono::microseconds(i * 7 % 400));
        if (ibv_destroy_qp(qp) || ibv_destroy_cq(cq))
            fail("destroying in round %u", i);
    }
}

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "[--rounds=N]");
    if (args.server)
        fail("there is no server side");
    const auto rounds = static_cast<unsigned>(args.number("rounds", 200));
    Caps caps;
    caps.sge = 1;
    Endpoint end(caps);
    end.resolve(args);
    refused_while_in_use(end);
    reset_and_again(end);
    const unsigned maps = mappings();

    Race race{ibv_create_comp_channel(end.id->verbs)};
    if (!race.channel)
        fail("ibv_create_comp_channel: %s", std::strerror(errno));
    fcntl(race.channel->fd, F_SETFL, fcntl(race.channel->fd, F_GETFL) | O_NONBLOCK);
    std::thread listener([&race] { race.listen(); });
    destroy_under_a_poller(end, race, rounds);
    race.stop = true;
    listener.join();
    check(race.completions <= 3 * rounds, "more completions than receives");

    auto* left = new Memory(end, 65536, IBV_ACCESS_LOCAL_WRITE); // released by the kernel at exit
    Json()
        .add("mappings", maps)
        .add("events", race.events.load())
        .add("completions", race.completions.load())
        .add("left_lkey", left->mr->lkey)
        .add("failed", failed)
        .finish(failed.empty());
}
