// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Exchanges messages over a connection until an error or event ends it, or until SIGTERM, upon which the
// program disconnects. It prints "running" about twice a second meanwhile. It checks only its data; it
// reports the statuses of completions, the events of the connection manager and of the device, and the
// longest pause.
// --events sleeps on the completion channel; without it the program polls and needs no interrupt.
#include "program.hh"

#include <algorithm>
#include <csignal>

using namespace prog;

namespace {

constexpr size_t message = 256;
constexpr unsigned slots = 8;
constexpr uint64_t recv_tag = uint64_t{1} << 32;
constexpr uint64_t rounds_until_running = 20;

volatile std::sig_atomic_t terminated = 0;

class Traffic {
public:
    Traffic(Endpoint& e, const Args& args)
        : end_(e), server_(args.server), timeout_ms_(args.number("patience", 30) * 1000),
          memory_(e, 2 * slots * message, IBV_ACCESS_LOCAL_WRITE) {
        for (unsigned i = 0; i < slots; i++)
            post_recv();
    }

    void run() {
        if (!server_)
            post_send();
        last_ = Clock::now();
        while (!over()) {
            poll_completions();
            read_events();
            if (ms_since(last_) > timeout_ms_)
                stalled_ = true;
        }
    }

    // Collects what follows the end: returns when all requests have completed and an event of the connection
    // manager has come, or after a timeout.
    void drain() {
        const auto until = in_ms(4000);
        while (Clock::now() < until && !(done_ == posted_ && !cm_.empty())) {
            poll_completions();
            read_events();
        }
        for (const auto until_quiet = in_ms(200); Clock::now() < until_quiet;)
            read_events();
    }

    [[noreturn]] void report() const {
        Json()
            .add("rounds", rounds_)
            .add("longest_pause_ms", static_cast<long long>(longest_))
            .add("wc", wc_)
            .add("lost", posted_ - done_)
            .add("cm", cm_)
            .add("async", async_)
            .add("stalled", stalled_)
            .add("post_errors", post_errors_)
            .add("wrong_data", wrong_)
            .finish(wrong_ == 0);
    }

private:
    static long long ms_since(Clock::time_point then) {
        return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - then).count();
    }
    // Asynchronous events alone do not end the traffic: a port may become active again.
    bool over() const { return terminated || stalled_ || !wc_.empty() || !cm_.empty(); }

    static void add_once(std::vector<std::string>& list, const std::string& what) {
        if (std::find(list.begin(), list.end(), what) == list.end())
            list.push_back(what);
    }

    void post_recv() {
        const size_t at = received_ % slots * message;
        if (end_.post_recv(recv_tag, {memory_.sge(at, message)}))
            post_errors_++;
        else
            posted_++;
        received_++;
    }
    void post_send() {
        const size_t at = (slots + sent_ % slots) * message;
        for (size_t i = 0; i < message; i++)
            memory_.bytes[at + i] = Memory::pattern(static_cast<uint8_t>(sent_), i);
        ibv_send_wr wr{};
        wr.opcode = IBV_WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        if (end_.post_send(wr, {memory_.sge(at, message)}))
            post_errors_++;
        else
            posted_++;
        sent_++;
    }

    void handle_completion(const ibv_wc& wc) {
        done_++;
        if (wc.status != IBV_WC_SUCCESS) {
            add_once(wc_, ibv_wc_status_str(wc.status));
            return;
        }
        if (!(wc.wr_id & recv_tag))
            return;
        const size_t at = rounds_ % slots * message;
        if (!memory_.matches(static_cast<uint8_t>(rounds_), at, message))
            wrong_++;
        rounds_++;
        longest_ = std::max(longest_, ms_since(last_));
        last_ = Clock::now();
        if (rounds_ == rounds_until_running || last_ - reported_ > std::chrono::milliseconds(500)) {
            std::fprintf(stderr, "running\n");
            reported_ = last_;
        }
        if (over() || post_errors_)
            return;
        post_recv();
        post_send();
    }

    // With a channel it polls only after an event, so that a lost event is noticed.
    void poll_completions() {
        const int wait_ms = end_.channel ? 1 : 20;
        if (end_.channel && !wait_readable(end_.channel->fd, in_ms(20)))
            return;
        for (unsigned n = 0; n < slots; n++) {
            const auto wc = end_.next_completion(in_ms(wait_ms));
            if (!wc)
                return;
            handle_completion(*wc);
        }
    }

    void read_events() {
        while (const auto e = end_.next_event(Clock::now()))
            add_once(cm_, rdma_event_str(e->type));
        while (const auto e = end_.next_async_event(0))
            add_once(async_, ibv_event_type_str(*e));
    }

    Endpoint& end_;
    const bool server_;
    const long long timeout_ms_;
    Memory memory_;
    uint64_t posted_ = 0, done_ = 0, sent_ = 0, received_ = 0, rounds_ = 0, wrong_ = 0, post_errors_ = 0;
    long long longest_ = 0;
    Clock::time_point last_, reported_ = Clock::now();
    bool stalled_ = false;
    std::vector<std::string> wc_, cm_, async_;
};

} // namespace

int main(int argc, char** argv) {
    const Args args(argc, argv, "[--events] [--patience=S]");
    std::signal(SIGTERM, [](int) { terminated = 1; });
    Caps caps;
    caps.events = args.has("events");
    Endpoint end(caps);
    if (args.server)
        end.await_request(args);
    else
        end.resolve(args);
    Traffic traffic(end, args);
    if (args.server)
        end.accept();
    else if (!end.connect())
        fail("not connected, errno %d", end.connect_error);
    traffic.run();
    if (terminated)
        rdma_disconnect(end.id);
    traffic.drain();
    traffic.report();
}
