// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Where log lines go. A guest can cause any number of them, and they may not be read. So lines of
// level "info" and above that differ only in their numbers are written once a second, then counted; and a
// line that the descriptor does not take at once is dropped and counted.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <spdlog/sinks/base_sink.h>

#include "sim/core/fd.hh"

namespace t3sim {

class LogSink : public spdlog::sinks::base_sink<std::mutex> {
public:
    /// Different lines of a second; more of them count as one.
    static constexpr std::size_t max_kinds = 1024;
    /// A pipe takes a line of this length completely or not at all.
    static constexpr std::size_t max_line = 4096;

    explicit LogSink(int fd);
    /// Writes the counts of seconds that have passed.
    void report(spdlog::log_clock::time_point now = spdlog::log_clock::now());

protected:
    void sink_it_(const spdlog::details::log_msg& message) override;
    void flush_() override {}

private:
    struct Kind {
        std::uint64_t more = 0; ///< lines that were not written
        std::string part, last;
        spdlog::level::level_enum level{};
    };

    void begin_second(spdlog::log_clock::time_point now);
    void put(const spdlog::details::log_msg& message);
    void write_line(std::string_view line);
    [[nodiscard]] bool write_now(std::string_view line);

    int fd_;
    Fd own_; ///< the same pipe or terminal, but O_NONBLOCK for this process only
    bool terminal_;
    std::chrono::seconds second_{};
    std::unordered_map<std::size_t, Kind> kinds_; ///< of this second
    std::uint64_t dropped_ = 0;
    bool line_is_cut_ = false;
};

/// The sink of all loggers.
LogSink& stderr_sink();

} // namespace t3sim
