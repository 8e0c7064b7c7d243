// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Runs pairs of operations, one pair after another: the first operation is held at a point that it passes, or
// in an access to user memory, while the second runs to its end.
//
//     t3-races --operations                      all operations: name, place and properties
//     t3-races [--modules DIR] --alone FILE      runs each operation of FILE alone: the points that it passes
//     t3-races [--modules DIR] --pairs FILE      runs the pairs of FILE in order
//     t3-races [--modules DIR] --pair NAME
//     t3-races --peer                            the other end of a card or of rxe, in another guest
//
// --card INTERFACE: on the T3 card of a network interface, instead of the device without hardware.
// --rxe INTERFACE: on the rxe device of a network interface, only the operations on connections.
// It prints two lines for each pair: its name, and its outcome. Errors in the kernel log, objects that are
// left and threads that do not end are reported with the pair. Exit status: 0, all pairs ran; 3, the guest
// must be restarted before the next pair. tests/races/pairs.py chooses the pairs.
#include "delayed_memory.hh"
#include "hook.hh"
#include "netlink.hh"
#include "operations.hh"
#include "peer.hh"

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
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace races {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr const char* memory_point = "user_memory";
constexpr unsigned most_of_a_point = 3;        // a loop may pass a point many times
constexpr unsigned most_of_memory = 8;         // accesses to user memory
constexpr unsigned looks = 6, slow_looks = 40; // 5 ms between two
constexpr auto hung_after = 40s;               // before the kernel reports a hung task
constexpr auto counts_settle = 10s;

struct Pair {
    const Operation* first;
    std::string point;
    unsigned nth;
    const Operation* second;

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
    uint32_t accesses;
    bool shows_removed_device;
    std::array<char, 120> error; // why there is no fixture
};

struct Signals {
    Event ready, finish, held, go_on;
    std::array<Event, 2> go, done;
};

// ---- the kernel's log

class KernelLog {
public:
    KernelLog() : fd_(open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC)) { lseek(fd_, 0, SEEK_END); }

    // The errors since the last call.
    std::string new_errors() {
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
            if (uncounted_pages_ && line.find("Bad rss-counter state") != std::string::npos)
                continue;
            if (std::ranges::any_of(
                    signs, [&line](const char* sign) { return line.find(sign) != std::string::npos; }))
                found += (found.empty() ? "" : "; ") + line;
        }
    }

private:
    static bool is_user_mode_linux() {
        utsname name{};
        uname(&name);
        return std::strstr(name.release, "-uml") != nullptr;
    }

    int fd_;
    // User Mode Linux has no special ptes, so it does not count the removal of the page that replaces a page
    // of a removed device.
    bool uncounted_pages_ = is_user_mode_linux();
};

// ---- one pair

// The state of a thread as in /proc/TID/stat; 0: it has ended.
char state_of(pid_t thread) {
    std::ifstream stat("/proc/" + std::to_string(thread) + "/stat");
    std::string text;
    std::getline(stat, text);
    const size_t at = text.rfind(')');
    return at == std::string::npos || at + 2 >= text.size() ? '\0' : text[at + 2];
}

// Whether a thread in this state executes nothing: it sleeps, or it has ended (it calls exit(), and its
// process waits for the held thread).
bool rests(char state) {
    return state == 'S' || state == 'D' || state == 'Z' || state == 'X' || state == '\0';
}

// The number of runnable threads, including this one.
int running() {
    std::ifstream load("/proc/loadavg");
    std::string skipped;
    int count = 1;
    load >> skipped >> skipped >> skipped >> count;
    return count;
}

std::string stack_of(pid_t thread) {
    std::ifstream file("/proc/" + std::to_string(thread) + "/stack");
    std::string text, line;
    for (int i = 0; i < 12 && std::getline(file, line); i++)
        text += "\n    " + line;
    return text;
}

// Whether a thread waits for a grace period, a timeout or a worker rather than for the held thread.
bool waits_for_time(pid_t thread) {
    static constexpr std::array<const char*, 6> signs = {
        "rcu", "sleep", "flush", "completion_timeout", "timeout_interruptible", "timeout_uninterruptible"};
    const std::string stack = stack_of(thread);
    return std::ranges::any_of(signs,
                               [&stack](const char* sign) { return stack.find(sign) != std::string::npos; });
}

// One run of a pair: the subject process with its threads, threads of this process, and the two operations.
class PairRun {
public:
    PairRun(Hook& hook, const Operation& first, const Operation* second, std::optional<unsigned> access)
        : hook_(hook), operations_{&first, second}, access_(access),
          shared_(static_cast<Shared*>(
              mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
    PairRun(const PairRun&) = delete;
    ~PairRun() { munmap(shared_, sizeof(Shared)); }

    // For one whose operation does not end: its thread still uses it. The explorer exits soon.
    static void leave(std::unique_ptr<PairRun> run) { static_cast<void>(run.release()); }

    bool begin() {
        subject_ = fork();
        if (subject_ == 0)
            run_subject();
        const auto deadline = Clock::now() + hung_after;
        while (!signals_.ready.wait(50)) {
            if (subject_exited())
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
            const Outside at{shared_->facts, subject_};
            shared_->result.at(which) = operation.outside(at);
            signals_.done.at(which).set();
        });
    }

    // The operation returned, or its process exited.
    bool done(size_t which, int ms) {
        const Operation& operation = *operations_.at(which);
        const bool returned = signals_.done.at(which).wait(ms);
        if (operation.place == Place::ends)
            return returned && subject_exited();
        return returned || (operation.place == Place::subject && subject_exited());
    }

    bool done_by(size_t which, Clock::time_point deadline) {
        while (!done(which, 20))
            if (Clock::now() > deadline)
                return false;
        return true;
    }

    // Waits until the second operation returns (true), or sleeps without any other runnable thread, so that
    // it waits for the first (false). The state is sampled longer if it may wait for a timeout or a worker.
    bool second_ends_first() {
        const bool ends = operations_[1]->place == Place::ends;
        unsigned samples = operations_[1]->slow || ends ? slow_looks : looks;
        const auto deadline = Clock::now() + 10s;
        for (unsigned asleep = 0; asleep < samples && Clock::now() < deadline;) {
            if (signals_.done[1].wait(5) && !ends)
                return true;
            if (done(1, 0))
                return true;
            const char state = ends ? 'S' : state_of(shared_->thread[1]);
            if (!rests(state))
                asleep = 0;
            else if (running() <= 1)
                asleep++;
            if (asleep == looks && samples == looks && waits_for_time(shared_->thread[1]))
                samples = slow_looks;
        }
        return false;
    }

    bool end(Clock::time_point deadline) {
        signals_.finish.set();
        while (!subject_exited()) {
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
    void provide_memory() { signals_.go_on.set(); }
    uint32_t accesses() const { return shared_->accesses; }
    bool shows_removed_device() const { return shared_->shows_removed_device; }
    int result(size_t which) const { return shared_->result.at(which); }
    std::string error() const {
        const std::string why(shared_->error.data());
        return "no fixture: " + (why.empty() ? "its process ended with " + std::to_string(status_) : why);
    }
    bool subject_exited() {
        if (subject_ > 0 && waitpid(subject_, &status_, WNOHANG) == subject_)
            subject_ = -1;
        return subject_ < 0;
    }
    std::string stacks() const {
        return stack_of(shared_->thread[0]) + "\n   and" + stack_of(shared_->thread[1]);
    }

private:
    [[noreturn]] void run_subject() {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        const rlimit no_core{0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        hook_.forget();
        fixture_error = shared_->error;
        const auto either = [this](bool Operation::*property) {
            return operations_[0]->*property || (operations_[1] && operations_[1]->*property);
        };
        // Operations of the machine affect both kinds of files.
        const bool connections = operations_[0]->place != Place::subject || either(&Operation::connections);
        auto* fixture = new Fixture({.files = !either(&Operation::closed),
                                     .connections = connections,
                                     .mapped = either(&Operation::mapped)},
                                    shared_->facts);
        DelayedMemory memory;
        if (access_ && !memory.begin()) {
            std::snprintf(shared_->error.data(), shared_->error.size(), "no userfaultfd: %s",
                          std::strerror(errno));
            _exit(8);
        }
        for (size_t which = 0; which < 2; which++)
            if (operations_.at(which) && operations_.at(which)->place == Place::subject)
                std::thread([this, which, fixture, &memory] {
                    run_operation(which, *fixture, memory);
                }).detach();
        for (size_t which = 0; which < 2; which++)
            while (operations_.at(which) && operations_.at(which)->place == Place::subject &&
                   !__atomic_load_n(&shared_->thread.at(which), __ATOMIC_ACQUIRE))
                std::this_thread::yield();
        signals_.ready.set();
        if (access_)
            std::thread([this, &memory] {
                memory.serve(*access_, signals_.held.fd(), signals_.go_on.fd(), &shared_->accesses);
            }).detach();
        signals_.finish.take();
        shared_->shows_removed_device = fixture->shows_removed_device();
        _exit(0);
    }

    void run_operation(size_t which, Fixture& fixture, DelayedMemory& memory) {
        if (which == 0 && access_)
            memory.use_here();
        __atomic_store_n(&shared_->thread.at(which), static_cast<pid_t>(syscall(SYS_gettid)),
                         __ATOMIC_RELEASE);
        signals_.go.at(which).take();
        shared_->result.at(which) = operations_.at(which)->inside(fixture);
        signals_.done.at(which).set();
        for (;;)
            pause();
    }

    Hook& hook_;
    std::array<const Operation*, 2> operations_;
    std::optional<unsigned> access_;
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

// An open file of debugfs holds a reference to the module, so this must not keep it open.
std::vector<std::string> ids_left() {
    std::ifstream file("/sys/kernel/debug/t3_rdma_cm/ids");
    std::vector<std::string> ids;
    std::string line;
    while (std::getline(file, line))
        if (line.starts_with("id "))
            ids.push_back(line);
    return ids;
}

// The ids that are left, with their history.
std::string ids_with_history() {
    std::ifstream file("/sys/kernel/debug/t3_rdma_cm/ids");
    std::string text, line;
    while (std::getline(file, line))
        text += "\n    " + line;
    return text.empty() ? "\n    no id is left" : "\n   and" + text;
}

// The time spent in each step.
class Times {
public:
    template <typename Step> auto operator()(const char* name, Step step) {
        const Add add{spent_[name], Clock::now()};
        return step();
    }
    // The time since the last call, for each step that took some.
    std::string since_last() {
        std::string text;
        for (const auto& [name, spent] : spent_) {
            const auto ms =
                std::chrono::duration_cast<std::chrono::milliseconds>(spent - shown_[name]).count();
            if (ms)
                text += " " + std::string(name) + " " + std::to_string(ms);
            shown_[name] = spent;
        }
        return text;
    }
    void print() const {
        for (const auto& [name, spent] : spent_)
            std::printf(
                "time %s %lld ms\n", name.c_str(),
                static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(spent).count()));
    }

private:
    struct Add {
        Clock::duration& sum;
        Clock::time_point since;
        ~Add() { sum += Clock::now() - since; }
    };
    std::map<std::string, Clock::duration> spent_, shown_;
};

class Explorer {
public:
    // Returns the exit status.
    int run_alone(const std::vector<std::string>& names);
    int run_pairs(const std::vector<std::string>& names);

private:
    void begin();
    int end() const;
    void alone(const Operation& operation);
    void show_passages(const Operation& operation, const std::vector<Passage>& passages);
    void count_accesses(const Operation& operation);
    std::string try_pair(const Pair& pair);
    std::string left();
    bool report(const std::string& name, const std::string& what);
    void settle(const std::string& name, bool changed);

    Hook hook_;
    KernelLog log_;
    Times times_;
    std::map<std::string, int> uses_; // of each module by other modules, not by programs
    bool broken_ = false;             // the guest must be restarted
};

bool Explorer::report(const std::string& name, const std::string& what) {
    if (what.empty())
        return false;
    std::printf("report %s: %s\n", name.c_str(), what.c_str());
    std::fflush(stdout);
    return true;
}

// Objects that are left after the subject exited; waits for workers first.
std::string Explorer::left() {
    const auto deadline = Clock::now() + counts_settle;
    for (;;) {
        std::string text = device().objects();
        for (const std::string& id : ids_left())
            text += (text.empty() ? "" : ", ") + id;
        for (const std::string& module : device().modules()) {
            const int count = uses_of(module) - uses_[module];
            if (count)
                text += std::string(text.empty() ? "" : ", ") + std::to_string(count) + " uses of " + module;
        }
        if (const auto found = find_device(device().prefix))
            for (const auto& [name, count] : resources(found->index)) {
                const auto& kernel = device().kernel_objects();
                const auto at = kernel.find(name);
                if (count != (at == kernel.end() ? 0 : at->second))
                    text += std::string(text.empty() ? "" : ", ") + std::to_string(count) + " " + name +
                            " in `rdma resource`";
            }
        if (text.empty() || Clock::now() > deadline)
            return text.empty() ? text : "left: " + text;
        std::this_thread::sleep_for(2ms);
    }
}

// Restores the machine for the next pair. After a leak no other pair can run: it would be reported for them
// too.
void Explorer::settle(const std::string& name, bool changed) {
    if (!broken_) {
        if (changed)
            broken_ = report(name, times_("restore", [] { return restore(); }));
        broken_ |= report(name, times_("left", [this] { return left(); }));
    }
    report(name, times_("log", [this] { return log_.new_errors(); }));
}

void Explorer::show_passages(const Operation& operation, const std::vector<Passage>& passages) {
    std::map<std::string, unsigned> seen;
    for (const Passage& passage : passages)
        if (++seen[passage.point] <= most_of_a_point)
            std::printf("point %s %s %u %s\n", operation.name.c_str(), passage.point.c_str(),
                        seen[passage.point], passage.may_sleep ? "sleeps" : "atomic");
    for (const auto& [point, count] : seen)
        if (count > most_of_a_point)
            std::printf("more %s %s %u\n", operation.name.c_str(), point.c_str(), count - most_of_a_point);
    if (passages.size() == T3_RACES_MOST)
        std::printf("full %s\n", operation.name.c_str());
}

// The points that an operation passes when it runs alone, and the number of its accesses to user memory.
void Explorer::alone(const Operation& operation) {
    auto run = std::make_unique<PairRun>(hook_, operation, nullptr, std::nullopt);
    if (!run->begin()) {
        report(operation.name, "alone: " + run->error());
        return;
    }
    hook_.record();
    run->start(0);
    const bool ended = run->done_by(0, Clock::now() + hung_after);
    // For work that it queued.
    std::this_thread::sleep_for(30ms);
    const std::vector<Passage> passages = hook_.recording();
    const int result = run->result(0);
    if (!ended || !run->end(Clock::now() + hung_after)) {
        report(operation.name, "alone: it does not end" + run->stacks());
        broken_ = true;
        PairRun::leave(std::move(run));
        return;
    }
    settle(operation.name, operation.changes);
    show_passages(operation, passages);
    if (result)
        std::printf("refused %s %s\n", operation.name.c_str(), std::strerror(result));
    if (operation.place == Place::subject && !operation.ends_subject && !broken_)
        count_accesses(operation);
}

void Explorer::count_accesses(const Operation& operation) {
    auto run = std::make_unique<PairRun>(hook_, operation, nullptr, 0);
    if (!run->begin()) {
        std::printf("not_delayed %s %s\n", operation.name.c_str(), run->error().c_str());
        return;
    }
    run->start(0);

    const bool ended = run->done_by(0, Clock::now() + hung_after);
    const uint32_t accesses = run->accesses();

    if (!ended || !run->end(Clock::now() + hung_after)) {
        report(operation.name, "alone, with delayed memory: it does not end" + run->stacks());
        broken_ = true;
        PairRun::leave(std::move(run));
        return;
    }
    settle(operation.name, operation.changes);
    for (unsigned nth = 1; nth <= std::min(accesses, most_of_memory); nth++)
        std::printf("point %s %s %u sleeps\n", operation.name.c_str(), memory_point, nth);
    if (accesses > most_of_memory)
        std::printf("more %s %s %u\n", operation.name.c_str(), memory_point, accesses - most_of_memory);
}

// Why an operation did not pass the point where it was to be held.
std::string why_missed(bool over, int result) {
    if (!over)
        return "missed: the first neither passes the point nor returns within 10 s";
    return result ? std::string("missed: the first fails before the point: ") + std::strerror(result)
                  : "missed: the first succeeds without passing the point";
}

std::string Explorer::try_pair(const Pair& pair) {

    const bool in_memory = pair.point == memory_point;
    auto run = std::make_unique<PairRun>(hook_, *pair.first, pair.second,
                                         in_memory ? std::optional(pair.nth) : std::nullopt);
    if (!times_("fixture", [&run] { return run->begin(); })) {
        report(pair.name(), run->error());
        return run->error();
    }
    if (!in_memory)
        hook_.arm(pair.point, pair.nth);
    bool over = false;
    const int held = times_("first", [&] {
        int got = ETIMEDOUT;
        const auto deadline = Clock::now() + 10s;
        run->start(0);
        while (got == ETIMEDOUT && !over && Clock::now() < deadline) {
            over = run->done(0, 0);
            // Work that it queued may pass the point shortly after it returns.
            got =
                in_memory ? (run->held_in_memory(over ? 1 : 10) ? 0 : ETIMEDOUT) : hook_.wait(over ? 60 : 10);
        }
        return got;
    });
    std::string outcome;
    if (held == 0) {
        run->start(1);
        const bool ran = times_("second", [&run] { return run->second_ends_first(); });
        outcome = ran ? "ran" : "waits";
    } else if (held == EAGAIN) {
        outcome = "missed: the first passes the point with a spinlock held, or in an interrupt";
    } else {
        outcome = why_missed(over, run->result(0));
    }

    if (in_memory)
        run->provide_memory();
    else
        hook_.release();
    const bool ended = times_("end", [&] {
        const auto deadline = Clock::now() + hung_after;
        return run->done_by(0, deadline) && (held != 0 || run->done_by(1, deadline)) && run->end(deadline);
    });
    if (!ended) {
        report(pair.name(), "it does not end:" + run->stacks() + ids_with_history());
        broken_ = true;
        PairRun::leave(std::move(run));
    } else if (run->shows_removed_device()) {
        report(pair.name(), "a mapping shows a page of the removed device");
    }
    return outcome;
}

const Operation* find_operation(const std::string& name) {
    for (const Operation& operation : operations())
        if (operation.name == name)
            return &operation;
    return nullptr;
}

std::optional<Pair> find_pair(const std::string& name) {
    const size_t at = name.find('@'), hash = name.find('#'), plus = name.find('+');
    if (at == std::string::npos || hash == std::string::npos || plus == std::string::npos)
        return std::nullopt;
    const Operation* first = find_operation(name.substr(0, at));
    const Operation* second = find_operation(name.substr(plus + 1));
    if (!first || !second)
        return std::nullopt;
    return Pair{first, name.substr(at + 1, hash - at - 1),
                static_cast<unsigned>(std::stoul(name.substr(hash + 1, plus - hash - 1))), second};
}

int no_such(const std::string& name) {
    std::fprintf(stderr, "there is no %s\n", name.c_str());
    return 2;
}

void Explorer::begin() {
    set_exclusive_namespaces();
    report("the beginning", restore());
    log_.new_errors();
    for (const std::string& module : device().modules())
        uses_[module] = uses_of(module);
}

int Explorer::end() const {
    times_.print();
    return broken_ ? 3 : 0;
}

int Explorer::run_alone(const std::vector<std::string>& names) {
    begin();
    for (const std::string& name : names) {
        if (broken_)
            break;
        const Operation* operation = find_operation(name);
        if (!operation)
            return no_such(name);
        std::printf("alone %s\n", name.c_str());
        std::fflush(stdout);
        alone(*operation);
    }
    return end();
}

int Explorer::run_pairs(const std::vector<std::string>& names) {
    begin();
    for (const std::string& name : names) {
        if (broken_)
            break;
        const std::optional<Pair> pair = find_pair(name);
        if (!pair)
            return no_such(name);
        std::printf("begin %s\n", name.c_str());
        std::fflush(stdout);
        const std::string outcome = try_pair(*pair);
        std::printf("pair %s: %s\n", name.c_str(), outcome.c_str());
        std::fflush(stdout);
        settle(name, pair->first->changes || pair->second->changes);
        std::printf("took %s:%s\n", name.c_str(), times_.since_last().c_str());
    }
    return end();
}

void list_operations() {
    static constexpr std::array<const char*, 3> places = {"subject", "outside", "ends"};
    for (const Operation& operation : operations())
        std::printf("operation %s %s%s%s%s%s%s\n", operation.name.c_str(),
                    places.at(static_cast<size_t>(operation.place)),
                    operation.connections ? " connections" : "", operation.second ? " second" : "",
                    operation.ends_subject ? " ends_subject" : "", operation.closed ? " closed" : "",
                    operation.bare ? " bare" : "");
}

std::vector<std::string> lines_of(const std::string& path) {
    std::ifstream file(path);
    std::vector<std::string> lines;
    std::string line;
    while (std::getline(file, line))
        if (!line.empty())
            lines.push_back(line);
    return lines;
}

} // namespace

int explore(int argc, char** argv) {
    for (int i = 1; i < argc; i++) {
        const std::string name = argv[i];
        if (name == "--operations") {
            list_operations();
            return 0;
        }
        if (name == "--peer")
            be_peer();
        if (i + 1 == argc)
            return 2;
        const std::string value = argv[++i];
        if (name == "--modules")
            modules_folder = value;
        else if (name == "--card")
            use_card(value);
        else if (name == "--rxe")
            use_rxe(value);
        else if (name == "--alone")
            return Explorer().run_alone(lines_of(value));
        else if (name == "--pairs")
            return Explorer().run_pairs(lines_of(value));
        else if (name == "--pair")
            return Explorer().run_pairs({value});
        else
            return 2;
    }
    return 2;
}

} // namespace races

int main(int argc, char** argv) {
    return races::explore(argc, argv);
}
