// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/log_sink.hh"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spdlog/pattern_formatter.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace t3sim {
namespace {

/// Equal for lines of one logger that differ only in their numbers.
std::size_t kind_of(const spdlog::details::log_msg& message) {
    std::size_t hash =
        std::hash<std::string_view>()({message.logger_name.data(), message.logger_name.size()});
    bool number = false;
    for (const char c : message.payload) {
        const auto byte = static_cast<unsigned char>(c);
        const bool before = std::exchange(number, std::isdigit(byte) != 0 ||
                                                      (number && (std::isxdigit(byte) != 0 || c == 'x')));
        if (!number || !before)
            hash = hash * 31 + (number ? 0 : byte);
    }
    return hash;
}

constexpr const char* color_of(spdlog::level::level_enum level) {
    return level >= spdlog::level::err ? "\033[31m" : level == spdlog::level::warn ? "\033[33m" : "\033[32m";
}

} // namespace

LogSink::LogSink(int fd) : fd_(fd), terminal_(isatty(fd) != 0) {
    set_pattern("%H:%M:%S.%f %^%-5l%$ %-5n %v");
    struct stat file {};
    if (terminal_ || (fstat(fd, &file) == 0 && S_ISFIFO(file.st_mode)))
        own_.reset(
            open(fmt::format("/proc/self/fd/{}", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
}

void LogSink::report(spdlog::log_clock::time_point now) {
    const std::lock_guard lock(mutex_);
    begin_second(now);
}

void LogSink::begin_second(spdlog::log_clock::time_point now) {
    const auto second = std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch());
    if (second == std::exchange(second_, second))
        return;
    for (const auto& [hash, kind] : std::exchange(kinds_, {}))
        if (kind.more != 0)
            put({now, {}, kind.part, kind.level, fmt::format("{} more like this: {}", kind.more, kind.last)});
}

void LogSink::sink_it_(const spdlog::details::log_msg& message) {
    begin_second(message.time);
    if (message.level >= spdlog::level::info) {
        const auto [found, is_new] = kinds_.try_emplace(kinds_.size() < max_kinds ? kind_of(message) : 0);
        if (!is_new) {
            Kind& kind = found->second;
            ++kind.more;
            kind.part.assign(message.logger_name.data(), message.logger_name.size());
            kind.last.assign(message.payload.data(), std::min(message.payload.size(), max_line / 2));
            kind.level = message.level;
            return;
        }
    }
    put(message);
}

void LogSink::put(const spdlog::details::log_msg& message) {
    spdlog::memory_buf_t text;
    formatter_->format(message, text);
    std::string line(text.data(), std::min(text.size(), max_line - 16));
    if (line.size() < text.size())
        line += '\n';
    if (terminal_ && message.color_range_end > message.color_range_start) {
        line.insert(message.color_range_end, "\033[0m");
        line.insert(message.color_range_start, color_of(message.level));
    }
    write_line(line);
}

void LogSink::write_line(std::string_view line) {
    if (dropped_ != 0) {
        const std::string lost =
            fmt::format("{} lines of the log were dropped, which were not read\n", dropped_);
        if (write_now(lost))
            dropped_ = 0;
    }
    if (dropped_ != 0 || !write_now(line))
        ++dropped_;
}

bool LogSink::write_now(std::string_view line) {
    const int fd = own_ ? own_.get() : fd_;
    pollfd writable{.fd = fd, .events = POLLOUT, .revents = 0};
    if (poll(&writable, 1, 0) != 1 || (writable.revents & POLLOUT) == 0)
        return false;
    const std::string text = line_is_cut_ ? '\n' + std::string(line) : std::string(line);
    ssize_t n = send(fd, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == ENOTSOCK)
        n = write(fd, text.data(), text.size());
    if (n <= 0)
        return false;
    line_is_cut_ = static_cast<std::size_t>(n) < text.size();
    return true;
}

LogSink& stderr_sink() {
    static auto* sink = new LogSink(STDERR_FILENO); // static references to loggers are in use until the end
    return *sink;
}

} // namespace t3sim
