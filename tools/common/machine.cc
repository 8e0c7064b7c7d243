// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "tools/common/machine.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include <fcntl.h>
#include <spawn.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

namespace t3tools {

namespace fs = std::filesystem;

fs::path Machine::path(const fs::path& absolute) const {
    return root_ / absolute.relative_path();
}

std::optional<std::string> Machine::read(const fs::path& file) const {
    std::ifstream stream(path(file), std::ios::binary);
    if (!stream)
        return std::nullopt;
    std::ostringstream text;
    text << stream.rdbuf();
    if (stream.bad())
        return std::nullopt;
    std::string content = text.str();
    if (!content.empty() && content.back() == '\n')
        content.pop_back();
    return content;
}

std::vector<std::string> Machine::list(const fs::path& folder) const {
    std::vector<std::string> names;
    std::error_code error;
    // Entries of /proc come and go while they are listed.
    for (fs::directory_iterator entry(path(folder), fs::directory_options::skip_permission_denied, error),
         end;
         !error && entry != end; entry.increment(error))
        names.push_back(entry->path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

std::string Machine::link_target(const fs::path& link) const {
    std::error_code error;
    return fs::read_symlink(path(link), error).string();
}

std::string Machine::link_name(const fs::path& link) const {
    return fs::path(link_target(link)).filename();
}

bool Machine::exists(const fs::path& file) const {
    std::error_code error;
    return fs::exists(path(file), error);
}

std::string Machine::kernel_release() const {
    utsname name{};
    return uname(&name) == 0 ? name.release : "";
}

bool Machine::privileged() const {
    return geteuid() == 0;
}

Outcome Machine::run(const std::vector<std::string>& words) const {
    std::array<int, 2> pipe_ends{};
    if (pipe2(pipe_ends.data(), O_CLOEXEC) != 0)
        return {127, std::strerror(errno)};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipe_ends[1], STDERR_FILENO);
    std::vector<char*> argv;
    for (const auto& word : words)
        argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    pid_t child = 0;
    const int failed = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    close(pipe_ends[1]);
    Outcome outcome;
    if (failed != 0) {
        close(pipe_ends[0]);
        return {127, words[0] + ": " + std::strerror(failed)};
    }
    std::array<char, 4096> chunk{};
    for (;;) {
        const ssize_t got = ::read(pipe_ends[0], chunk.data(), chunk.size());
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        outcome.output.append(chunk.data(), static_cast<std::size_t>(got));
    }
    close(pipe_ends[0]);
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    while (!outcome.output.empty() && outcome.output.back() == '\n')
        outcome.output.pop_back();
    return outcome;
}

bool Machine::write(const fs::path& file, std::string_view content) const {
    std::ofstream stream(path(file), std::ios::trunc);
    stream << content;
    return static_cast<bool>(stream.flush());
}

bool Machine::remove(const fs::path& file) const {
    std::error_code error;
    fs::remove(path(file), error);
    return !error;
}

} // namespace t3tools
