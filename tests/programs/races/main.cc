// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Races, one after another: each pair of operations, the first held at one of the points that it passes, or
// in one of its accesses to user memory, while the second runs to its end.
//
//     t3-races [--modules DIR] [--sample N] [--seed S] [--from K] [--pair NAME] [--list]
//
// A line for each pair: its place in the order, its name, and what came of it. The kernel's complaints,
// objects that are left and threads that never end are reported with the pair. Exit status: 0, all ran; 3,
// the kernel must be started anew before the next pair.
#include "netlink.hh"
#include "operations.hh"
#include "stall.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <map>
#include <optional>
#include <poll.h>
#include <random>
#include <set>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace races {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* stall_point = "stall";
constexpr unsigned most_of_a_point = 3; // a loop passes it as often as it turns
constexpr auto hung_after = 40s;        // the kernel itself complains a little later
constexpr auto counts_settle = 10s;

struct Pair {
    const Operation* first;
    std::string point;
    unsigned nth;
    const Operation* second;
    std::string prevented; // why it need not be tried

    std::string name() const {
        return first->name + "@" + point + "#" + std::to_string(nth) + "+" + second->name;
    }
};

// ---- signals between the explorer and its subject

class Event {
public:
    Event() : fd_(eventfd(0, EFD_CLOEXEC)) {}
    Event(const Event&) = delete;
    ~Event() { close(fd_); }

    void set() const {
        const uint64_t one = 1;
        if (write(fd_, &one, sizeof(one)) != sizeof(one))
            std::abort();
    }
    bool wait(int ms) const {
        pollfd ready{fd_, POLLIN, 0};
        return poll(&ready, 1, ms) == 1;
    }
    void take() const {
        uint64_t value;
        if (read(fd_, &value, sizeof(value)) != sizeof(value))
            std::abort();
    }
    int fd() const { return fd_; }

private:
    int fd_;
};

// Between the processes, by shared memory.
struct Shared {
    Facts facts;
    std::array<pid_t, 2> thread;
    std::array<int, 2> result;
    uint32_t stalls;
};

struct Signals {
    Event ready, finish, held, go_on;
    std::array<Event, 2> go, done;
};

// ---- the kernel's log

class KernelLog {
public:
    KernelLog() : fd_(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) { lseek(fd_, 0, SEEK_END); }

    // The complaints since the last call.
    std::string complaints() {
        static constexpr std::array<const char*, 19> signs = {"BUG: ",
                                                              "BUG at",
                                                              "WARNING: ",
                                                              "KASAN",
                                                              "KCSAN",
                                                              "UBSAN",
                                                              "refcount_t:",
                                                              "corruption",
                                                              "INFO: task",
                                                              "soft lockup",
                                                              "detected stall",
                                                              "possible recursive",
                                                              "possible circular",
                                                              "possible irq",
                                                              "inconsistent lock state",
                                                              "suspicious RCU",
                                                              "bad unlock",
                                                              "scheduling while",
                                                              "general protection"};
        std::string found;
        std::array<char, 8192> record{};
        for (;;) {
            const ssize_t got = read(fd_, record.data(), record.size() - 1);
            if (got < 0 && errno == EPIPE)
                continue; // some were overwritten
            if (got <= 0)
                return found;
            record.at(static_cast<size_t>(got)) = 0;
            const char* text = std::strchr(record.data(), ';');
            if (!text)
                continue;
            const std::string line(text + 1, std::strcspn(text + 1, "\n"));
            if (std::ranges::any_of(
                    signs, [&line](const char* sign) { return line.find(sign) != std::string::npos; }))
                found += (found.empty() ? "" : "; ") + line;
        }
    }

private:
    int fd_;
};

// ---- one pair

// The state of a thread, as in /proc/TID/stat; 0: it is not there any more.
char state_of(pid_t thread) {
    std::ifstream stat("/proc/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t at = text.rfind(')');
    return at == std::string::npos || at + 2 >= text.size() ? '\0' : text[at + 2];
}

std::string stack_of(pid_t thread) {
    std::ifstream file("/proc/" + std::to_string(thread) + "/stack");
    std::string text, line;
    for (int i = 0; i < 12 && std::getline(file, line); i++)
        text += "\n    " + line;
    return text;
}

// A subject with its two threads, or threads out here, and the two operations in them.
class Duel {
public:
    Duel(Hook& hook, const Operation& first, const Operation* second, std::optional<unsigned> stall)
        : hook_(hook), operations_{&first, second}, stall_(stall),
          shared_(static_cast<Shared*>(
              mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
    Duel(const Duel&) = delete;
    ~Duel() {
        for (std::thread& thread : threads_)
            if (thread.joinable())
                thread.detach(); // it hangs; the explorer ends soon
        munmap(shared_, sizeof(Shared));
    }

    bool begin() {
        subject_ = fork();
        if (subject_ == 0)
            be_subject();
        const auto deadline = Clock::now() + hung_after;
        while (!signals_.ready.wait(50)) {
            if (subject_gone())
                return false;
            if (Clock::now() > deadline)
                kill(subject_, SIGKILL);
        }
        return true;
    }

    void start(size_t which) {
        const Operation& operation = *operations_.at(which);
        if (operation.place == Place::subject) {
            signals_.go.at(which).set();
            return;
        }
        threads_.at(which) = std::thread([this, which, &operation] {
            shared_->thread.at(which) = static_cast<pid_t>(syscall(SYS_gettid));
            const Outside at{hook_, shared_->facts, subject_};
            shared_->result.at(which) = operation.outside(at);
            signals_.done.at(which).set();
        });
    }

    // It returned, or the process that it ran in is gone.
    bool done(size_t which, int ms) {
        const Operation& operation = *operations_.at(which);
        const bool returned = signals_.done.at(which).wait(ms);
        if (operation.place == Place::ends)
            return returned && subject_gone();
        return returned || (operation.place == Place::subject && subject_gone());
    }

    bool done_by(size_t which, Clock::time_point deadline) {
        while (!done(which, 20))
            if (Clock::now() > deadline)
                return false;
        return true;
    }

    // Until the second operation is done, or sleeps for good: what it waits for is what the first one has.
    bool second_ends_first() {
        const unsigned patience = operations_[1]->patient ? 40 : 8;
        for (unsigned asleep = 0; asleep < patience;) {
            if (signals_.done[1].wait(10) && operations_[1]->place != Place::ends)
                return true;
            if (done(1, 0))
                return true;
            const char state = operations_[1]->place == Place::ends ? 'S' : state_of(shared_->thread[1]);
            asleep = state == 'S' || state == 'D' ? asleep + 1 : 0;
        }
        return false;
    }

    bool end(Clock::time_point deadline) {
        signals_.finish.set();
        while (!subject_gone()) {
            if (Clock::now() > deadline)
                return false;
            std::this_thread::sleep_for(1ms);
        }
        for (std::thread& thread : threads_)
            if (thread.joinable())
                thread.join();
        return true;
    }

    bool held_in_memory(int ms) { return signals_.held.wait(ms); }
    void give_memory() { signals_.go_on.set(); }
    uint32_t stalls() const { return shared_->stalls; }
    int result(size_t which) const { return shared_->result.at(which); }
    bool subject_gone() {
        if (subject_ > 0 && waitpid(subject_, &status_, WNOHANG) == subject_)
            subject_ = -1;
        return subject_ < 0;
    }
    std::string stacks() const {
        return stack_of(shared_->thread[0]) + "\n   and" + stack_of(shared_->thread[1]);
    }

private:
    [[noreturn]] void be_subject() {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const rlimit no_core{0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        hook_.forget();
        Hook hook;
        // What happens to the machine happens to both kinds of files.
        const bool connections = operations_[0]->connections || operations_[0]->place != Place::subject ||
                                 (operations_[1] && operations_[1]->connections);
        const bool mapped = operations_[0]->mapped || (operations_[1] && operations_[1]->mapped);
        auto* stage = new Stage(connections, mapped, shared_->facts, hook);
        Stall stall;
        if (stall_ && !stall.begin())
            _exit(8);
        for (size_t which = 0; which < 2; which++)
            if (operations_.at(which) && operations_.at(which)->place == Place::subject)
                std::thread([this, which, stage, &stall] { act(which, *stage, stall); }).detach();
        for (size_t which = 0; which < 2; which++)
            while (operations_.at(which) && operations_.at(which)->place == Place::subject &&
                   !__atomic_load_n(&shared_->thread.at(which), __ATOMIC_ACQUIRE))
                std::this_thread::yield();
        signals_.ready.set();
        if (stall_)
            std::thread([this, &stall] {
                stall.serve(*stall_, signals_.held.fd(), signals_.go_on.fd(), &shared_->stalls);
            }).detach();
        signals_.finish.take();
        _exit(0);
    }

    void act(size_t which, Stage& stage, Stall& stall) {
        if (which == 0 && stall_)
            stall.use_here();
        __atomic_store_n(&shared_->thread.at(which), static_cast<pid_t>(syscall(SYS_gettid)),
                         __ATOMIC_RELEASE);
        signals_.go.at(which).take();
        shared_->result.at(which) = operations_.at(which)->inside(stage);
        signals_.done.at(which).set();
        for (;;)
            pause();
    }

    Hook& hook_;
    std::array<const Operation*, 2> operations_;
    std::optional<unsigned> stall_;
    Shared* shared_;
    Signals signals_;
    pid_t subject_ = -1;
    int status_ = 0;
    std::array<std::thread, 2> threads_;
};

// ---- all pairs

int uses_of(const std::string& module) {
    int count = 0;
    std::ifstream("/sys/module/" + module + "/refcnt") >> count;
    return count;
}

// An open file of debugfs is a use of the module, so this must not keep it open.
std::vector<std::string> ids_left() {
    std::ifstream file("/sys/kernel/debug/t3_rdma_cm/ids");
    std::vector<std::string> ids;
    std::string line;
    while (std::getline(file, line))
        if (line.starts_with("id "))
            ids.push_back(line);
    return ids;
}

class Explorer {
public:
    struct Options {
        unsigned sample = 0, seed = 1, from = 0;
        std::string only;
        bool list = false;
    };

    explicit Explorer(Options options) : options_(std::move(options)) {}

    int run();

private:
    void enumerate();
    void alone(const Operation& operation);
    void add(const Operation& first, const std::string& point, unsigned nth, const std::string& prevented);
    std::string try_pair(const Pair& pair);
    std::string left();
    bool report(const std::string& name, const std::string& what);
    bool find_named();

    Options options_;
    Hook hook_;
    KernelLog log_;
    std::vector<Pair> pairs_;
    std::map<std::string, int> uses_; // of each module by its like, not by programs
    unsigned refused_ = 0, reports_ = 0;
    bool broken_ = false; // only a new kernel helps
};

bool Explorer::report(const std::string& name, const std::string& what) {
    if (what.empty())
        return false;
    reports_++;
    std::printf("report %s: %s\n", name.c_str(), what.c_str());
    std::fflush(stdout);
    return true;
}

// What should have gone with the subject, if it has not: waits for workers.
std::string Explorer::left() {
    static constexpr std::array<const char*, T3_RACES_KINDS> kinds = {
        "contexts", "PDs", "MRs", "MWs", "CQs", "QPs", "listeners", "requests", "connections"};
    const auto deadline = Clock::now() + counts_settle;
    for (;;) {
        std::string text;
        const t3_races_state state = hook_.state();
        for (size_t kind = 0; kind < T3_RACES_KINDS; kind++)
            if (state.live[kind])
                text += std::string(text.empty() ? "" : ", ") + std::to_string(state.live[kind]) + " " +
                        kinds.at(kind);
        for (const std::string& id : ids_left())
            text += (text.empty() ? "" : ", ") + id;
        for (const char* module : {"t3_uverbs", "t3_rdma_cm"}) {
            const int count = uses_of(module) - uses_[module];
            if (count)
                text += std::string(text.empty() ? "" : ", ") + std::to_string(count) + " uses of " + module;
        }
        if (const auto device = find_device("race"))
            for (const auto& [name, count] : resources(device->index))
                if (count)
                    text += std::string(text.empty() ? "" : ", ") + std::to_string(count) + " " + name +
                            " in `rdma resource`";
        if (text.empty() || Clock::now() > deadline)
            return text.empty() ? text : "left behind: " + text;
        std::this_thread::sleep_for(2ms);
    }
}

void Explorer::add(const Operation& first, const std::string& point, unsigned nth,
                   const std::string& prevented) {
    for (const Operation& second : operations()) {
        // Without connections there is nothing for it to meet.
        if (!second.second || (second.connections && !first.connections && first.place == Place::subject))
            continue;
        // A process that ends does nothing else.
        if (second.place == Place::subject && (first.ends_subject || first.place == Place::ends))
            continue;
        pairs_.push_back({&first, point, nth, &second, prevented});
    }
}

// The points that an operation passes when nothing else happens, and its accesses to user memory.
void Explorer::alone(const Operation& operation) {
    Duel duel(hook_, operation, nullptr, std::nullopt);
    if (!duel.begin()) {
        report(operation.name, "alone: no stage");
        return;
    }
    hook_.record();
    duel.start(0);
    const bool ended = duel.done_by(0, Clock::now() + hung_after);
    // What it left to workers.
    std::this_thread::sleep_for(30ms);
    const std::vector<Passage> passages = hook_.recording();
    const int result = duel.result(0);
    if (!ended || !duel.end(Clock::now() + hung_after)) {
        report(operation.name, "alone: it does not end" + duel.stacks());
        broken_ = true;
        return;
    }
    report(operation.name, restore(hook_));
    report(operation.name, left());
    report(operation.name, log_.complaints());
    if (result && !operation.name.starts_with("guess.")) {
        refused_++;
        if (options_.list)
            std::printf("refused %s: %s\n", operation.name.c_str(), std::strerror(result));
        if (result == EOPNOTSUPP || result == EPROTONOSUPPORT)
            return;
    }
    std::map<std::string, unsigned> seen;
    for (const Passage& passage : passages)
        if (++seen[passage.point] <= most_of_a_point)
            add(operation, passage.point, seen[passage.point],
                passage.may_sleep ? "" : "an interrupt, or a spinlock held");
    if (operation.place != Place::subject || operation.ends_subject)
        return;

    Duel stalling(hook_, operation, nullptr, 0);
    if (!stalling.begin())
        return; // no userfaultfd here
    stalling.start(0);
    const bool came = stalling.done_by(0, Clock::now() + hung_after);
    const uint32_t stalls = stalling.stalls();
    if (!came || !stalling.end(Clock::now() + hung_after)) {
        report(operation.name, "alone, with memory that comes late: it does not end" + stalling.stacks());
        broken_ = true;
        return;
    }
    report(operation.name, restore(hook_));
    report(operation.name, left());
    for (unsigned nth = 1; nth <= std::min(stalls, 8U); nth++)
        add(operation, stall_point, nth, "");
}

std::string Explorer::try_pair(const Pair& pair) {
    const bool stall = pair.point == stall_point;
    Duel duel(hook_, *pair.first, pair.second, stall ? std::optional(pair.nth) : std::nullopt);
    if (!duel.begin()) {
        report(pair.name(), "no stage");
        return "no stage";
    }
    if (!stall)
        hook_.arm(pair.point, pair.nth);
    duel.start(0);
    int held = ETIMEDOUT;
    const auto deadline = Clock::now() + 10s;
    bool over = false;
    while (held == ETIMEDOUT && !over && Clock::now() < deadline) {
        over = duel.done(0, 0);
        // What an operation leaves to a worker comes a moment after it.
        held = stall ? (duel.held_in_memory(over ? 1 : 10) ? 0 : ETIMEDOUT) : hook_.wait(over ? 60 : 10);
    }
    std::string outcome = held == 0 ? "" : held == EAGAIN ? "must not sleep there" : "does not pass there";
    if (held == 0) {
        duel.start(1);
        outcome = duel.second_ends_first() ? "ran" : "waits";
    }
    if (stall)
        duel.give_memory();
    else
        hook_.release();
    const auto patience = Clock::now() + hung_after;
    const bool ended = duel.done_by(0, patience) && (held != 0 || duel.done_by(1, patience));
    if (!ended || !duel.end(patience)) {
        report(pair.name(), "it does not end:" + duel.stacks());
        broken_ = true;
    }
    return outcome;
}

bool Explorer::find_named() {
    const size_t at = options_.only.find('@'), hash = options_.only.find('#'), plus = options_.only.find('+');
    if (at == std::string::npos || hash == std::string::npos || plus == std::string::npos)
        return false;
    const auto find = [](const std::string& name) -> const Operation* {
        for (const Operation& operation : operations())
            if (operation.name == name)
                return &operation;
        return nullptr;
    };
    const Operation* first = find(options_.only.substr(0, at));
    const Operation* second = find(options_.only.substr(plus + 1));
    if (!first || !second)
        return false;
    pairs_.push_back({first, options_.only.substr(at + 1, hash - at - 1),
                      static_cast<unsigned>(std::stoul(options_.only.substr(hash + 1, plus - hash - 1))),
                      second, ""});
    return true;
}

void Explorer::enumerate() {
    std::vector<const Operation*> chosen;
    for (const Operation& operation : operations())
        chosen.push_back(&operation);
    // To learn what each of them passes would take longer than a small sample of pairs.
    constexpr size_t pairs_of_each = 5;
    if (options_.sample && options_.sample / pairs_of_each < chosen.size()) {
        std::mt19937 random(options_.seed);
        std::ranges::shuffle(chosen, random);
        chosen.resize(std::max<size_t>(options_.sample / pairs_of_each, 2));
    }
    for (const Operation* operation : chosen)
        if (!broken_)
            alone(*operation);
}

int Explorer::run() {
    report("the beginning", restore(hook_));
    log_.complaints();
    for (const char* module : {"t3_uverbs", "t3_rdma_cm"})
        uses_[module] = uses_of(module);
    if (options_.only.empty()) {
        enumerate();
    } else if (!find_named()) {
        std::fprintf(stderr, "no such pair: %s\n", options_.only.c_str());
        return 2;
    }
    std::vector<size_t> order(pairs_.size());
    for (size_t i = 0; i < order.size(); i++)
        order[i] = i;
    if (options_.sample && options_.sample < order.size()) {
        std::mt19937 random(options_.seed);
        std::ranges::shuffle(order, random);
        order.resize(options_.sample);
    }
    std::printf("pairs %zu chosen %zu refused %u\n", pairs_.size(), order.size(), refused_);
    std::fflush(stdout);
    for (size_t i = options_.from; i < order.size() && !broken_; i++) {
        const Pair& pair = pairs_[order[i]];
        if (options_.list || !pair.prevented.empty()) {
            std::printf("pair %zu %s: prevented: %s\n", i, pair.name().c_str(), pair.prevented.c_str());
            continue;
        }
        std::printf("pair %zu %s: ", i, pair.name().c_str());
        std::fflush(stdout);
        const std::string outcome = try_pair(pair);
        std::printf("%s\n", outcome.c_str());
        std::fflush(stdout);
        if (!broken_) {
            broken_ = report(pair.name(), restore(hook_));
            // What is left once is left for ever: the next pairs would be blamed for it.
            broken_ |= report(pair.name(), left());
        }
        report(pair.name(), log_.complaints());
    }
    return broken_ ? 3 : 0;
}

} // namespace

int explore(int argc, char** argv) {
    Explorer::Options options;
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name == "--list") {
            options.list = true;
            continue;
        }
        if (i + 1 == argc)
            return 2;
        const std::string value = argv[++i];
        if (name == "--sample")
            options.sample = static_cast<unsigned>(std::stoul(value));
        else if (name == "--seed")
            options.seed = static_cast<unsigned>(std::stoul(value));
        else if (name == "--from")
            options.from = static_cast<unsigned>(std::stoul(value));
        else if (name == "--pair")
            options.only = value;
        else if (name == "--modules")
            modules_folder = value;
        else
            return 2;
    }
    set_exclusive_namespaces();
    return Explorer(options).run();
}

} // namespace races

int main(int argc, char** argv) {
    return races::explore(argc, argv);
}
