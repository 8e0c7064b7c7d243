// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// A storm of connections: --processes=N on each side open, reject, close, abort, migrate and destroy
// connections at random, and are killed at random, until the client has tried --connections=N. --seed=N
// repeats the random choices. Each side counts its events; an event that is invalid after the ones before it
// is an error.
//
// SIGTERM ends the server.
#include "cm.hh"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstring>
#include <list>
#include <new>
#include <poll.h>
#include <random>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace cm;

namespace {

// The counters of all processes of a side.
struct Tally {
    std::atomic<int> left; // attempts
    std::atomic<unsigned> attempts, requests, established, rejected, failed, disconnected, migrated, given_up,
        killed, wrong;
};
Tally* tally;

std::mt19937 rng;
bool percent(unsigned p) {
    return rng() % 100 < p;
}
unsigned below(unsigned limit) {
    return static_cast<unsigned>(rng() % limit);
}

void wrong(const char* fmt, ...) __attribute__((format(printf, 1, 2)));
void wrong(const char* fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    std::vfprintf(stderr, fmt, ap);
    va_end(ap);
    std::fputc('\n', stderr);
    tally->wrong++;
}

// One end of a connection, and the time of its next action.
struct End {
    rdma_cm_id* id;
    prog::Clock::time_point due;
    bool established = false, ended = false, disconnecting = false;
};

// One process: two channels that ids migrate between, and its ends.
class Worker {
public:
    Worker(const prog::Args& args, unsigned number)
        : args_(args), port_(static_cast<uint16_t>(args.port + number)) {}

    [[noreturn]] void run() {
        if (args_.server)
            listen();
        for (;;) {
            if (!args_.server && !more())
                _exit(0);
            poll_once();
        }
    }

private:
    static constexpr size_t MOST = 6; // at a time

    const prog::Args& args_;
    uint16_t port_;
    Channel channels_[2];
    std::list<End> ends_;

    // An exiting process may still have this port.
    void listen() {
        for (;;) {
            Id listener(channels_[0]);
            if (!rdma_bind_addr(listener, Address("0.0.0.0", port_)) && !rdma_listen(listener, 16)) {
                listener.release();
                return;
            }
            usleep(20000);
        }
    }

    // Starts connections while some are left; false when all have ended.
    bool more() {
        while (ends_.size() < MOST && tally->left.fetch_sub(1) > 0)
            begin();
        return !ends_.empty();
    }

    void begin() {
        tally->attempts++;
        End& end = ends_.emplace_back();
        if (rdma_create_id(channels_[below(2)], &end.id, &end, RDMA_PS_TCP) ||
            rdma_resolve_addr(end.id, nullptr, Address(args_.address, port_), 5000))
            prog::fail("beginning: %s", std::strerror(errno));
        end.due = prog::in_ms(20000);
        if (percent(3))
            give_up(end);
    }

    void give_up(End& end) {
        tally->given_up++;
        destroy(end);
    }

    void destroy(End& end) {
        if (end.id->qp)
            rdma_destroy_qp(end.id);
        if (rdma_destroy_id(end.id))
            wrong("rdma_destroy_id: %s", std::strerror(errno));
        ends_.remove_if([&](const End& other) { return &other == &end; });
    }

    bool make_qp(End& end) {
        ibv_qp_init_attr attr = small_qp();
        return !rdma_create_qp(end.id, nullptr, &attr);
    }

    void maybe_migrate(End& end) {
        if (!percent(20))
            return;
        tally->migrated++;
        if (rdma_migrate_id(end.id, channels_[end.id->channel == channels_[0] ? 1 : 0]))
            wrong("rdma_migrate_id: %s", std::strerror(errno));
    }

    void poll_once() {
        pollfd fds[2] = {{static_cast<rdma_event_channel*>(channels_[0])->fd, POLLIN, 0},
                         {static_cast<rdma_event_channel*>(channels_[1])->fd, POLLIN, 0}};
        poll(fds, 2, 20);
        // Handling the first channel's event may remove the second one's.
        for (Channel& channel : channels_) {
            if (prog::wait_readable(static_cast<rdma_event_channel*>(channel)->fd, prog::Clock::now()))
                handle(channel.next());
        }
        const auto now = prog::Clock::now();
        for (auto it = ends_.begin(); it != ends_.end();) {
            End& end = *it++;
            if (end.due <= now)
                act(end);
        }
    }

    // The time of the next action of this end.
    void act(End& end) {
        if (!end.established)
            return give_up(end);
        if (end.disconnecting) {
            wrong("no DISCONNECTED for 30 seconds");
            return destroy(end);
        }
        if (percent(25))
            return give_up(end);
        rdma_disconnect(end.id); // fails if the other side disconnected first
        end.disconnecting = true;
        end.due = prog::in_ms(30000);
        maybe_migrate(end);
    }

    // Over RoCE the peer may give up while our RTU is under way. The in-tree manager reports its REJ as
    // REJECTED then, ours as DISCONNECTED.
    static bool is_late_reject(const End& end, const Event& event) {
        return event.type == RDMA_CM_EVENT_REJECTED &&
               end.id->verbs->device->transport_type == IBV_TRANSPORT_IB &&
               !access("/sys/module/rdma_ucm", F_OK);
    }

    void handle(const Event& event) {
        if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
            return handle_request(event);
        End& end = *static_cast<End*>(event.id->context);
        if (end.ended)
            wrong("%s after the end", rdma_event_str(event.type));
        if (end.established && event.type != RDMA_CM_EVENT_DISCONNECTED && !is_late_reject(end, event))
            wrong("%s of a connection that is established", rdma_event_str(event.type));
        switch (event.type) {
        case RDMA_CM_EVENT_ADDR_RESOLVED:
            if (percent(3) || rdma_resolve_route(end.id, 2000))
                give_up(end);
            return;
        case RDMA_CM_EVENT_ROUTE_RESOLVED:
            return connect(end);
        case RDMA_CM_EVENT_ESTABLISHED:
            tally->established++;
            end.established = true;
            end.due = prog::in_ms(static_cast<int>(below(150)));
            return maybe_migrate(end);
        case RDMA_CM_EVENT_REJECTED:
            tally->rejected++;
            return destroy(end);
        case RDMA_CM_EVENT_DISCONNECTED:
            if (!end.established)
                wrong("DISCONNECTED without ESTABLISHED");
            tally->disconnected++;
            end.ended = true;
            return destroy(end);
        case RDMA_CM_EVENT_CONNECT_ERROR:
        case RDMA_CM_EVENT_UNREACHABLE:
        case RDMA_CM_EVENT_ADDR_ERROR:
            tally->failed++;
            return destroy(end);
        default:
            wrong("%s", rdma_event_str(event.type));
        }
    }

    // The most private data of a connect request: over RoCE the message has the IP addresses too.
    static unsigned most_data(const End& end) {
        return end.id->verbs->device->transport_type == IBV_TRANSPORT_IB ? 56 : 199;
    }

    void connect(End& end) {
        const auto data = pattern(below(most_data(end) + 1));
        rdma_conn_param param = parameters(data);
        if (percent(3) || !make_qp(end))
            return give_up(end);
        if (rdma_connect(end.id, &param)) {
            tally->failed++; // temporarily no free local port
            return destroy(end);
        }
        maybe_migrate(end);
        if (percent(5))
            return give_up(end);
        if (percent(3))
            rdma_disconnect(end.id);
    }

    void handle_request(const Event& event) {
        tally->requests++;
        End& end = ends_.emplace_back();
        end.id = event.id;
        end.id->context = &end;
        end.due = prog::in_ms(20000);
        if (percent(5))
            return give_up(end);
        if (percent(15)) {
            const auto data = pattern(below(140));
            tally->rejected++;
            rdma_reject(end.id, data.data(),
                        static_cast<uint8_t>(data.size())); // fails if the peer has closed
            return destroy(end);
        }
        maybe_migrate(end);
        rdma_conn_param param = parameters(pattern(0));
        if (!make_qp(end) || rdma_accept(end.id, &param)) {
            tally->failed++;
            return destroy(end);
        }
    }
};

// ---- the parent of a side

volatile sig_atomic_t terminated;

pid_t start_worker(const prog::Args& args, unsigned number, unsigned seed) {
    const pid_t child = fork();
    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGTERM, SIG_IGN); // handled by the parent
    rng.seed(seed);
    try {
        Worker(args, number).run();
    } catch (const Failure& failure) {
        wrong("%s", failure.what.c_str());
    }
    _exit(1);
}

// Runs until all workers have exited; now and then one is killed and replaced.
void storm(const prog::Args& args, unsigned seed, std::vector<pid_t>& workers) {
    std::mt19937 fate(seed);
    for (unsigned i = 0; i < workers.size(); i++)
        workers[i] = start_worker(args, i, fate());
    for (size_t running = workers.size(); running && !terminated;) {
        usleep(100000);
        const unsigned victim = static_cast<unsigned>(fate() % workers.size());
        const bool more = args.server || tally->left > 0;
        if (more && workers[victim] && (!tally->killed || fate() % 16 == 0)) {
            kill(workers[victim], SIGKILL);
            tally->killed++;
        }
        for (unsigned i = 0; i < workers.size(); i++) {
            int status;
            if (!workers[i] || waitpid(workers[i], &status, WNOHANG) != workers[i])
                continue;
            const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            if (!was_killed && (args.server || status))
                wrong("worker %u ended with status %d", i, status);
            workers[i] = was_killed && more ? start_worker(args, i, fate()) : 0;
            running -= !workers[i];
        }
    }
}

} // namespace

int main(int argc, char** argv) {
    const prog::Args args(argc, argv, "[--processes=N] [--connections=N] [--seed=N]");
    const unsigned seed = static_cast<unsigned>(args.number("seed", 1));
    std::vector<pid_t> workers(static_cast<size_t>(args.number("processes", 4)));
    void* shared = mmap(nullptr, sizeof(Tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tally = new (shared) Tally();
    tally->left = args.number("connections", 100);
    struct sigaction end {};
    end.sa_handler = [](int) { terminated = 1; };
    sigaction(SIGTERM, &end, nullptr);
    storm(args, seed, workers);
    for (const pid_t worker : workers) {
        if (worker) {
            kill(worker, SIGKILL);
            waitpid(worker, nullptr, 0);
        }
    }
    prog::Json out;
    out.add("attempts", tally->attempts.load()).add("requests", tally->requests.load());
    out.add("established", tally->established.load()).add("rejected", tally->rejected.load());
    out.add("failed", tally->failed.load()).add("disconnected", tally->disconnected.load());
    out.add("migrated", tally->migrated.load()).add("given_up", tally->given_up.load());
    out.add("killed", tally->killed.load()).add("wrong", tally->wrong.load());
    out.finish(!tally->wrong);
}
