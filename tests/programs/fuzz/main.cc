// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Fuzzes /dev/infiniband/uverbsN by write() and by ioctl(), and /dev/infiniband/rdma_cm. Run as "client
// ADDRESS --own=ADDRESS [--seconds=30] [--seed=1] [--workers=3]
// [--uverbs=PATH] [--roce] [--verbose]"; ADDRESS is that of a peer, which may also run it. --roce: only
// rdma_cm, over a RoCE device, with datagrams and multicast.
//
// Workers run sequences of commands, each with its own files, half of them with another sequence in a second
// thread on the same files. A sequence that reaches something new is kept and mutated further. The first two
// workers also listen and connect, so that there are connections. Once the seeds have run, each worker is
// killed after a random time and replaced; a worker that does not exit is a failure. The test checks the
// kernel log.
//
// With --roce the first four workers are the two ends of connections and of datagrams.
//
// The result lists the commands that were never accepted, and so not tested, and those never refused.
#include "coverage.hh"
#include "program.hh"
#include "world.hh"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <thread>

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fuzz;

namespace {

constexpr size_t corpus_size = 1024, max_commands = 128;

// Shared by all workers, so that it survives them.
struct Shared {
    Features features;
    std::atomic<uint64_t> sequences, calls;
    std::atomic<uint64_t> accepted[max_commands], refused[max_commands];
    std::atomic<bool> kcov;
    std::atomic<uint32_t> kept; // places in the corpus in use
    uint32_t seeds;             // the first of them
    std::atomic<uint32_t> next_seed, seeds_run;
    std::atomic<uint8_t> ready[corpus_size];
    Sequence corpus[corpus_size];

    // A copy. It may be a mixture of two sequences if one is being replaced, which does no harm.
    Sequence pick(Random& random) const {
        const auto count = std::min<size_t>(kept, corpus_size);
        const auto i = random() % count;
        Sequence copy;
        if (ready[i]) {
            copy = corpus[i];
            copy.count = std::min(copy.count, max_calls);
        }
        return copy;
    }

    const Sequence* take_seed() {
        const uint32_t i = next_seed++;
        return i < seeds ? &corpus[i] : nullptr;
    }

    // A worker with a role returns to its sequence often, since a connection needs both roles at a time.
    Sequence next(Random& random, const Sequence* role) {
        const bool use_role = role && random() % 2;
        Sequence sequence = use_role ? *role : pick(random);
        const uint32_t unchanged_in = use_role ? 2 : 8;
        if (random() % unchanged_in)
            mutate(sequence, pick(random), random);
        return sequence;
    }

    void keep(const Sequence& sequence, Random& random) {
        size_t i = kept++;
        if (i >= corpus_size)
            i = random() % corpus_size;
        corpus[i] = sequence;
        ready[i] = 1;
    }
};

Shared* make_shared() {
    void* at = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        prog::fail("mmap: %s", std::strerror(errno));
    return static_cast<Shared*>(at); // all of it may begin as zeros
}

void print(const Sequence& sequence) {
    std::string text;
    for (uint32_t i = 0; i < sequence.count; i++) {
        const Call& call = sequence.calls[i];
        const Command& command = commands()[call.command];
        text += std::string(i ? " " : "") + command.name;
        if (call.malformation)
            text += "~" + std::to_string(call.malformation) + ":" + std::to_string(call.malformation_arg);
        for (size_t k = 0; k < command.fields.size(); k++) {
            char number[24];
            std::snprintf(number, sizeof(number), "%c%llx", k ? ',' : '=',
                          static_cast<unsigned long long>(call.value[k]));
            text += number;
        }
    }
    std::fprintf(stderr, "%s\n", text.c_str());
}

class Worker {
public:
    Worker(Shared& shared, const Targets& targets, uint64_t seed, const Sequence* role, bool verbose)
        : shared_(shared), targets_(targets), random_(seed), role_(role), verbose_(verbose) {}

    // First each seed, unchanged and alone on its files: what it does is accepted in every run.
    [[noreturn]] void run() {
        while (const Sequence* seed = shared_.take_seed()) {
            run_sequence(*seed, false);
            shared_.seeds_run++;
        }
        for (;;)
            run_sequence(shared_.next(random_, role_), random_() % 2);
    }

private:
    // True if it reached something new.
    bool run_calls(World& world, const Sequence& sequence, const Arena& arena) {
        bool fresh = false;
        for (uint32_t i = 0; i < sequence.count; i++) {
            const Call& call = sequence.calls[i];
            if (call.command >= commands().size())
                continue;
            const int error = world.run(call, arena);
            (error ? shared_.refused : shared_.accepted)[call.command]++;
            shared_.calls++;
            fresh |= shared_.features.mark(0x5eed0000ULL << 20 | static_cast<uint64_t>(call.command) << 16 |
                                           static_cast<uint64_t>(error & 0xff) << 8 | call.malformation);
        }
        return fresh;
    }

    void run_sequence(const Sequence& sequence, bool with_another) {
        if (verbose_)
            print(sequence);
        World world(targets_);
        world.open_all();
        std::thread beside;
        if (with_another) {
            beside = std::thread(
                [this, &world, other = shared_.pick(random_)] { run_calls(world, other, other_arena_); });
        }
        coverage_.begin();
        bool fresh = run_calls(world, sequence, arena_);
        fresh |= coverage_.end(shared_.features) != 0;
        if (beside.joinable())
            beside.join();
        if (fresh)
            shared_.keep(sequence, random_);
        shared_.sequences++;
        if (coverage_.works())
            shared_.kcov = true;
    }

    Shared& shared_;
    const Targets& targets_;
    Random random_;
    const Sequence* role_; // or NULL
    bool verbose_;
    Arena arena_, other_arena_;
    Coverage coverage_;
};

pid_t start_worker(Shared& shared, const Targets& targets, uint64_t seed, const Sequence* role,
                   bool verbose) {
    const pid_t child = fork();
    if (child < 0)
        prog::fail("fork: %s", std::strerror(errno));
    if (child) {
        setpgid(child, child); // here too: it may be killed before its own call
        return child;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    // Mappings that a sequence accesses may be gone.
    for (const int signal : {SIGSEGV, SIGBUS})
        std::signal(signal, [](int) { _exit(3); });
    for (const int signal : {SIGIO, SIGPIPE})
        std::signal(signal, SIG_IGN);
    try {
        Worker(shared, targets, seed, role, verbose).run();
    } catch (const std::exception&) {
        _exit(4); // no memory, no thread: like a killed worker
    }
}

// Where each thread of a process stands in the kernel, for the reader of a failed test. The kernel log gets
// the stacks of all other tasks that wait.
void print_stacks(pid_t process) {
    std::ofstream("/proc/sysrq-trigger") << 'w';
    namespace fs = std::filesystem;
    std::error_code ended;
    for (const auto& thread : fs::directory_iterator("/proc/" + std::to_string(process) + "/task", ended)) {
        std::ifstream status(thread.path() / "status"), stack(thread.path() / "stack");
        std::cerr << thread.path().string() << '\n' << status.rdbuf() << stack.rdbuf() << std::flush;
    }
}

// Waits for the exit of a killed worker; false if it does not exit in time.
bool wait_for_exit(pid_t worker, prog::Clock::time_point until) {
    while (waitpid(worker, nullptr, WNOHANG) != worker) {
        if (prog::Clock::now() > until) {
            print_stacks(worker);
            return false;
        }
        usleep(10000);
    }
    return true;
}

struct Place {
    pid_t worker;
    prog::Clock::time_point ends;
};

} // namespace

int main(int argc, char** argv) {
    const prog::Args args(
        argc, argv,
        "--own=ADDRESS [--seconds=30] [--seed=1] [--workers=3] [--patience=60] [--uverbs=PATH] [--roce] "
        "[--verbose]");
    if (args.has("roce"))
        use_roce();
    const int seconds = args.number("seconds", 30), workers = args.number("workers", 3);
    const auto seed = static_cast<uint64_t>(args.number("seed", 1));
    const int patience_ms = 1000 * args.number("patience", 60); // for a killed worker to exit
    Targets targets;
    targets.uverbs = args.value("uverbs", targets.uverbs);
    targets.own = inet_addr(args.value("own", "127.0.0.1").c_str());
    targets.peer = inet_addr(args.address.c_str());
    if (commands().size() > max_commands)
        prog::fail("there are more commands than places for their counters");

    Shared& shared = *make_shared();
    Random random(seed);
    for (const auto& sequence : seeds())
        shared.keep(sequence, random);
    shared.seeds = shared.kept;

    const auto end = prog::Clock::now() + std::chrono::seconds(seconds);
    const auto lifetime = [&random] { return prog::in_ms(200 + static_cast<int>(random() % 4000)); };
    const std::vector<Sequence> of_workers = roles();
    uint64_t generation = 0;
    const auto start = [&](size_t place) -> Place {
        return {start_worker(shared, targets, seed * 1000000 + ++generation,
                             place < of_workers.size() ? &of_workers[place] : nullptr, args.has("verbose")),
                lifetime()};
    };
    std::vector<Place> places;
    for (int i = 0; i < workers; i++)
        places.push_back(start(places.size()));
    unsigned killed = 0, unkillable = 0;
    while (prog::Clock::now() < end && !unkillable) {
        usleep(20000);
        for (size_t i = 0; i < places.size(); i++) {
            Place& place = places[i];
            const bool ended = waitpid(place.worker, nullptr, WNOHANG) == place.worker;
            if (!ended && (prog::Clock::now() < place.ends || shared.seeds_run < shared.seeds))
                continue;
            kill(-place.worker, SIGKILL); // and its children
            if (!ended) {
                killed++;
                unkillable += !wait_for_exit(place.worker, prog::in_ms(patience_ms));
            }
            place = start(i);
        }
    }
    for (const auto& place : places) {
        kill(-place.worker, SIGKILL);
        unkillable += !wait_for_exit(place.worker, prog::in_ms(patience_ms));
    }

    std::vector<std::string> never_accepted, never_refused;
    for (size_t i = 0; i < commands().size(); i++) {
        if (!shared.accepted[i])
            never_accepted.push_back(commands()[i].name);
        if (!shared.refused[i])
            never_refused.push_back(commands()[i].name);
    }
    prog::Json()
        .add("kcov", shared.kcov.load())
        .add("sequences", static_cast<unsigned long long>(shared.sequences))
        .add("calls", static_cast<unsigned long long>(shared.calls))
        .add("features", shared.features.known.load())
        .add("corpus", shared.kept.load())
        .add("killed", killed)
        .add("unkillable", unkillable)
        .add("never_accepted", never_accepted)
        .add("never_refused", never_refused)
        .finish(!unkillable);
}
