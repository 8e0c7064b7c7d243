// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/t3accept/job.hh"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace t3accept {

namespace {

constexpr auto pause = std::chrono::milliseconds(20);
constexpr auto end_limit = std::chrono::seconds(10); // after a signal to the program
constexpr std::size_t most_output = 16 << 10;

volatile std::sig_atomic_t signal_came = 0;

} // namespace

void handle_signals() {
    signal_came = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { signal_came = 1; };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP})
        sigaction(signal, &action, nullptr);
}

bool interrupted() {
    return signal_came != 0;
}

Job::Job(const std::vector<std::string>& words) {
    // In memory, so that a program that prints much never waits for a reader.
    output_ = memfd_create("output", MFD_CLOEXEC);
    if (output_ < 0)
        throw std::runtime_error(std::string("memfd_create: ") + std::strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output_, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output_, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    std::vector<char*> argv;
    for (const auto& word : words)
        argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    const int failed = posix_spawnp(&child_, argv[0], &actions, &attributes, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed != 0) {
        close(output_);
        if (failed == ENOENT)
            throw Missing{words[0]};
        throw std::runtime_error(words[0] + ": " + std::strerror(failed));
    }
}

Job::~Job() {
    if (!ended_)
        finish(std::chrono::milliseconds(0));
    close(output_);
}

void Job::kill_group() const {
    kill(-child_, SIGKILL);
}

bool Job::running() {
    if (!ended_ && waitpid(child_, &status_, WNOHANG) == child_)
        ended_ = true;
    return !ended_;
}

std::string Job::output() const {
    std::string text;
    std::array<char, 4096> chunk{};
    off_t at = 0;
    for (ssize_t got; (got = pread(output_, chunk.data(), chunk.size(), at)) > 0; at += got)
        text.append(chunk.data(), static_cast<std::size_t>(got));
    if (text.size() > most_output)
        text = "[...]\n" + text.substr(text.size() - most_output);
    return text;
}

void Job::terminate() {
    const auto until = Clock::now() + end_limit;
    if (running())
        kill(child_, SIGTERM);
    while (running() && Clock::now() < until)
        std::this_thread::sleep_for(pause);
}

Done Job::finish(std::chrono::milliseconds limit) {
    const auto until = Clock::now() + limit;
    Done done;
    while (running() && Clock::now() < until && !interrupted())
        std::this_thread::sleep_for(pause);
    if (running()) {
        done.late = true;
        kill_group();
        const auto killed = Clock::now();
        while (running() && Clock::now() - killed < end_limit)
            std::this_thread::sleep_for(pause);
    }
    done.seconds = std::chrono::duration<double>(Clock::now() - started_).count();
    done.output = output();
    if (!ended_) {
        done.output += "\nt3accept: the program could not be killed\n";
        ended_ = true; // nothing more can be done
        done.status = 128 + SIGKILL;
        return done;
    }
    done.status = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    return done;
}

} // namespace t3accept
