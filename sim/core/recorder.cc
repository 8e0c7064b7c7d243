// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/recorder.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <unistd.h>

#include "sim/core/log.hh"

namespace t3sim {
namespace {

spdlog::logger& record_log = logger("record");

constexpr std::size_t flush_size = 64 << 10;
constexpr Time flush_time = 100'000'000;

template <typename Int> void put_le(Buffer& to, Int value) {
    for (unsigned byte = 0; byte < sizeof value; ++byte)
        to.push_back(static_cast<std::uint8_t>(value >> 8 * byte));
}

} // namespace

Recorder::Recorder(const EventQueue& queue, std::string path, std::uint64_t limit, Component component)
    : queue_(queue), path_(std::move(path)), limit_(limit), component_(component), flushed_(queue.now()) {
    if (limit_ != 0 && limit_ < trace_file::min_limit)
        throw std::runtime_error("a recording needs a limit of at least " +
                                 std::to_string(trace_file::min_limit) + " bytes");
    // Removes the older part of an earlier recording.
    unlink(trace_file::older_part(path_).c_str());
    begin();
    flush();
}

Recorder::~Recorder() {
    flush();
}

void Recorder::begin() {
    file_ = Fd(open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0600));
    if (!file_)
        throw std::runtime_error("cannot write '" + path_ + "': " + std::strerror(errno));
    written_ = 0;
    waiting_.assign(trace_file::magic.begin(), trace_file::magic.end());
    put_le(waiting_, trace_file::version);
    put_le(waiting_, static_cast<std::uint16_t>(trace_file::header_size));
    put_le(waiting_, part_);
    put_le(waiting_, component_.id);
    // Zeroes, unless the recording has several files.
    put_le(waiting_, component_.number);
    put_le(waiting_, component_.count == 1 ? 0 : component_.count);
    for (std::size_t card = 0; card < cards_.size(); ++card)
        put_name(static_cast<std::uint8_t>(card));
}

std::uint8_t Recorder::add_card(const std::string& name) {
    const auto found = std::find(cards_.begin(), cards_.end(), name);
    const auto card = static_cast<std::uint8_t>(found - cards_.begin());
    if (found == cards_.end()) {
        cards_.push_back(name);
        put_name(card);
    }
    return card;
}

void Recorder::put_name(std::uint8_t card) {
    const std::string& name = cards_[card];
    append(card, {.kind = EventKind::card, .length = static_cast<std::uint32_t>(name.size())},
           {reinterpret_cast<const std::uint8_t*>(name.data()), name.size()});
}

void Recorder::append(std::uint8_t card, const RecordHead& head, Bytes data) {
    data = data.first(std::min(data.size(), trace_file::max_data));
    put_le(waiting_, static_cast<std::uint16_t>(trace_file::head_size + data.size()));
    waiting_.push_back(static_cast<std::uint8_t>(head.kind));
    waiting_.push_back(card);
    put_le(waiting_, head.unit);
    put_le(waiting_, head.flags);
    put_le(waiting_, queue_.now());
    put_le(waiting_, head.where);
    put_le(waiting_, head.length);
    put_le(waiting_, head.tid);
    put_le(waiting_, head.qp);
    waiting_.insert(waiting_.end(), data.begin(), data.end());
}

void Recorder::record(std::uint8_t card, const RecordHead& head, Bytes data) {
    if (failed_)
        return;
    constexpr std::size_t most = trace_file::head_size + trace_file::max_data;
    if (limit_ != 0 && written_ + waiting_.size() + most > limit_ / 2) {
        flush();
        ++part_;
        try {
            if (rename(path_.c_str(), trace_file::older_part(path_).c_str()) != 0)
                throw std::runtime_error("cannot rename '" + path_ + "': " + std::strerror(errno));
            begin();
        } catch (const std::runtime_error& e) {
            record_log.error("the recording ends: {}", e.what());
            failed_ = true;
            return;
        }
    }
    append(card, head, data);
    if (waiting_.size() >= flush_size || queue_.now() - flushed_ >= flush_time)
        flush();
}

void Recorder::flush() {
    flushed_ = queue_.now();
    for (Bytes left = waiting_; !left.empty() && !failed_;) {
        const ssize_t n = write(file_.get(), left.data(), left.size());
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            record_log.error("the recording ends: cannot write '{}': {}", path_, std::strerror(errno));
            failed_ = true;
            break;
        }
        left = left.subspan(static_cast<std::size_t>(n));
    }
    written_ += waiting_.size();
    waiting_.clear();
}

} // namespace t3sim
