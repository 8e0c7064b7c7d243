// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Fuzzes the doors of the RDMA stack: /dev/infiniband/uverbsN by write() and by ioctl, and
// /dev/infiniband/rdma_cm. Run as "client ADDRESS --own=ADDRESS [--seconds=30] [--seed=1] [--workers=3]
// [--uverbs=PATH] [--verbose]"; ADDRESS is that of a peer, where another one may run.
//
// Workers run sequences of commands, each in files of its own, half of them with another sequence beside it
// in a second thread on the same files. A sequence that reached something new is kept and changed further.
// The first two workers also listen and connect, so that there are connections. Each worker is killed after a
// while, at whatever it is doing, and another one takes its place; a worker that does not die is a failure.
// What the kernel says meanwhile is for the test to look at.
//
// The result lists how often each command was accepted and refused: one that was never accepted was not
// tested.
#include "../program.hh"
#include "coverage.hh"
#include "world.hh"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <thread>

#include <arpa/inet.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace fuzz;

namespace {

constexpr size_t corpus_room = 1024, max_commands = 128;

// Shared by all workers, and still there when one was killed.
struct Shared {
    Features features;
    std::atomic<uint64_t> sequences, calls;
    std::atomic<uint64_t> accepted[max_commands], refused[max_commands];
    std::atomic<bool> kcov;
    std::atomic<uint32_t> kept; // places in the corpus that were taken
    uint32_t seeds;             // the first of them
    std::atomic<uint32_t> next_seed;
    std::atomic<uint8_t> ready[corpus_room];
    Sequence corpus[corpus_room];

    // A copy; one that is just being replaced may be a mixture of both, which does no harm.
    Sequence pick(Random& random) const {
        const auto count = std::min<size_t>(kept, corpus_room);
        const auto i = random() % count;
        Sequence copy;
        if (ready[i]) {
            copy = corpus[i];
            copy.count = std::min(copy.count, max_calls);
        }
        return copy;
    }

    // First the seeds as they are, so that even a short run has been through them; then what came of them. A
    // worker with a part comes back to it, since a connection needs two that meet.
    Sequence next(Random& random, const Sequence* part) {
        if (const uint32_t i = next_seed++; i < seeds)
            return corpus[i];
        const bool meets = part && random() % 2;
        Sequence sequence = meets ? *part : pick(random);
        const uint32_t unchanged_in = meets ? 2 : 8;
        if (random() % unchanged_in)
            mutate(sequence, pick(random), random);
        return sequence;
    }

    void keep(const Sequence& sequence, Random& random) {
        size_t i = kept++;
        if (i >= corpus_room)
            i = random() % corpus_room;
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
        if (call.twist)
            text += "~" + std::to_string(call.twist) + ":" + std::to_string(call.twist_arg);
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
    Worker(Shared& shared, const Targets& targets, uint64_t seed, const Sequence* part, bool verbose)
        : shared_(shared), targets_(targets), random_(seed), part_(part), verbose_(verbose) {}

    [[noreturn]] void run() {
        for (;;)
            one();
    }

private:
    // True if something was new.
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
                                           static_cast<uint64_t>(error & 0xff) << 8 | call.twist);
        }
        return fresh;
    }

    void one() {
        const Sequence sequence = shared_.next(random_, part_);
        if (verbose_)
            print(sequence);
        World world(targets_);
        world.open_all();
        std::thread beside;
        if (random_() % 2) {
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
    const Sequence* part_; // or NULL
    bool verbose_;
    Arena arena_, other_arena_;
    Coverage coverage_;
};

pid_t start_worker(Shared& shared, const Targets& targets, uint64_t seed, const Sequence* part,
                   bool verbose) {
    const pid_t child = fork();
    if (child < 0)
        prog::fail("fork: %s", std::strerror(errno));
    if (child) {
        setpgid(child, child); // here too: it may be killed before it has come to its own
        return child;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpgid(0, 0);
    // What a sequence maps and touches may not be there any more.
    for (const int signal : {SIGSEGV, SIGBUS})
        std::signal(signal, [](int) { _exit(3); });
    for (const int signal : {SIGIO, SIGPIPE})
        std::signal(signal, SIG_IGN);
    try {
        Worker(shared, targets, seed, part, verbose).run();
    } catch (const std::exception&) {
        _exit(4); // no memory, no thread: as good as killed
    }
}

// Waits for the death of a worker that was killed; false if it does not come.
bool dies(pid_t worker, prog::Clock::time_point until) {
    while (waitpid(worker, nullptr, WNOHANG) != worker) {
        if (prog::Clock::now() > until)
            return false;
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
        "--own=ADDRESS [--seconds=30] [--seed=1] [--workers=3] [--patience=60] [--uverbs=PATH] [--verbose]");
    const int seconds = args.number("seconds", 30), workers = args.number("workers", 3);
    const auto seed = static_cast<uint64_t>(args.number("seed", 1));
    const int patience_ms = 1000 * args.number("patience", 60); // for a worker that was killed
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
    const Sequence parts[] = {listening(), connecting()};
    uint64_t generation = 0;
    const auto start = [&](size_t place) -> Place {
        return {start_worker(shared, targets, seed * 1000000 + ++generation,
                             place < std::size(parts) ? &parts[place] : nullptr, args.has("verbose")),
                lifetime()};
    };
    std::vector<Place> places;
    for (int i = 0; i < workers; i++)
        places.push_back(start(places.size()));
    unsigned killed = 0, undead = 0;
    while (prog::Clock::now() < end && !undead) {
        usleep(20000);
        for (size_t i = 0; i < places.size(); i++) {
            Place& place = places[i];
            const bool ended = waitpid(place.worker, nullptr, WNOHANG) == place.worker;
            if (!ended && prog::Clock::now() < place.ends)
                continue;
            kill(-place.worker, SIGKILL); // and its children
            if (!ended) {
                killed++;
                undead += !dies(place.worker, prog::in_ms(patience_ms));
            }
            place = start(i);
        }
    }
    for (const auto& place : places) {
        kill(-place.worker, SIGKILL);
        undead += !dies(place.worker, prog::in_ms(patience_ms));
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
        .add("undead", undead)
        .add("never_accepted", never_accepted)
        .add("never_refused", never_refused)
        .finish(!undead);
}
