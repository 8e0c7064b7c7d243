// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/register_bank.hh"

#include <bit>
#include <stdexcept>
#include <utility>

#include "sim/core/log.hh"

namespace t3sim {
namespace {

spdlog::logger& mmio_log = logger("mmio");

[[noreturn]] void bad_row(const std::string& bank, const std::string& what) {
    throw std::logic_error("register bank " + bank + ": " + what);
}

} // namespace

RegisterBank::RegisterBank(std::string name, std::uint32_t size, std::uint32_t stride)
    : name_(std::move(name)), size_(size), shift_(static_cast<unsigned>(std::countr_zero(stride))) {
    if (!std::has_single_bit(stride) || size % stride != 0)
        bad_row(name_, "the stride is not a power of two that divides the size");
    values_.resize(size / stride);
    index_.resize(size / stride);
    unknown_logged_.resize(size / stride);
}

void RegisterBank::add(Register row, std::uint32_t base, const std::string& prefix) {
    if (row.name == nullptr || *row.name == 0)
        bad_row(name_, fmt::format("row at {:#x} has no name", row.offset + base));
    std::string name = prefix + row.name;
    row.offset += base;
    if (row.offset >= size_)
        bad_row(name_, fmt::format("{} at {:#x} is outside of {:#x} bytes", name, row.offset, size_));
    if (slot(row.offset) << shift_ != row.offset)
        bad_row(name_, fmt::format("{} at {:#x} is not aligned", name, row.offset));
    std::uint32_t& index = index_[slot(row.offset)];
    if (index != 0)
        bad_row(name_, fmt::format("{} overlaps {} at {:#x}", name, entries_[index - 1].name, row.offset));
    values_[slot(row.offset)] = row.reset;
    entries_.push_back(Entry{.row = std::move(row), .name = std::move(name)});
    index = static_cast<std::uint32_t>(entries_.size());
}

void RegisterBank::add(std::initializer_list<Register> rows, std::uint32_t base, const std::string& prefix) {
    add(std::span(rows.begin(), rows.size()), base, prefix);
}

void RegisterBank::add(std::span<const Register> rows, std::uint32_t base, const std::string& prefix) {
    for (const Register& row : rows)
        add(row, base, prefix);
}

void RegisterBank::no_row(std::uint32_t offset) const {
    bad_row(name_, fmt::format("the model uses {:#x}, which has no row", offset));
}

std::span<std::uint32_t> RegisterBank::values(std::uint32_t offset, std::uint32_t count) {
    if (slot(offset) << shift_ != offset || slot(offset) >= values_.size() ||
        count > values_.size() - slot(offset))
        no_row(offset);
    return std::span(values_).subspan(slot(offset), count);
}

const char* RegisterBank::name(std::uint32_t offset) const {
    const std::uint32_t found = find(offset);
    return found == nowhere ? nullptr : entries_[found].name.c_str();
}

void RegisterBank::log_unmodelled(Entry& entry, const char* how) {
    if (!std::exchange(entry.logged, true))
        mmio_log.info("{}: {} of {} ({:#x}), which is not modelled", name_, how, entry.name,
                      entry.row.offset);
}

void RegisterBank::log_unknown(std::uint32_t offset, const char* how) {
    if (offset < size_) {
        if (unknown_logged_[slot(offset)])
            return;
        unknown_logged_[slot(offset)] = true;
    }
    mmio_log.debug("{}: {} of {:#x}, where no register is documented", name_, how, offset);
}

std::uint32_t RegisterBank::read(std::uint32_t offset) {
    const std::uint32_t found = find(offset);
    if (found == nowhere) {
        log_unknown(offset, "read");
        return 0;
    }
    Entry& entry = entries_[found];
    if (!entry.row.modelled) {
        log_unmodelled(entry, "read");
        return entry.row.reset;
    }
    std::uint32_t& stored = values_[slot(offset)];
    const std::uint32_t value = entry.row.on_read ? entry.row.on_read(stored) : stored;
    stored &= ~entry.row.rc;
    mmio_log.trace("{}: read  {} = {:#010x}", name_, entry.name, value);
    return value;
}

void RegisterBank::write_lanes(std::uint32_t offset, std::uint32_t value, std::uint32_t lanes) {
    const std::uint32_t found = find(offset);
    if (found == nowhere) {
        log_unknown(offset, "write");
        return;
    }
    Entry& entry = entries_[found];
    if (!entry.row.modelled) {
        log_unmodelled(entry, "write");
        return;
    }
    value &= lanes;
    if (mmio_log.should_log(spdlog::level::trace)) [[unlikely]]
        mmio_log.trace("{}: write {} = {:#010x}", name_, entry.name, value);
    const Register& row = entry.row;
    std::uint32_t& stored = values_[slot(offset)];
    const std::uint32_t before = stored;
    const std::uint32_t take = row.write & lanes & ~row.w1c & ~row.self_clear;
    stored = ((before & ~take) | (value & take)) & ~(value & row.w1c);
    if (row.on_write)
        row.on_write(value, before);
}

std::uint64_t RegisterBank::read_bytes(std::uint64_t offset, unsigned size) {
    std::uint64_t value = 0;
    for (unsigned done = 0; done < size;) {
        const std::uint64_t where = offset + done;
        const unsigned lane = where % 4;
        const unsigned part = std::min(4 - lane, size - done);
        const std::uint64_t word = where < size_ ? read(static_cast<std::uint32_t>(where - lane)) : 0;
        const std::uint64_t mask = (std::uint64_t{1} << 8 * part) - 1;
        value |= (word >> 8 * lane & mask) << 8 * done;
        done += part;
    }
    return value;
}

void RegisterBank::write_bytes(std::uint64_t offset, unsigned size, std::uint64_t value) {
    if (size == 4 && offset % 4 == 0 && offset < size_) [[likely]] {
        write_lanes(static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(value), 0xffffffff);
        return;
    }
    for (unsigned done = 0; done < size;) {
        const std::uint64_t where = offset + done;
        const unsigned lane = where % 4;
        const unsigned part = std::min(4 - lane, size - done);
        const auto mask = static_cast<std::uint32_t>(((std::uint64_t{1} << 8 * part) - 1) << 8 * lane);
        const auto word = static_cast<std::uint32_t>(value >> 8 * done << 8 * lane);
        if (where < size_)
            write_lanes(static_cast<std::uint32_t>(where - lane), word, mask);
        done += part;
    }
}

void RegisterBank::reset() {
    for (const Entry& entry : entries_)
        values_[slot(entry.row.offset)] = entry.row.reset;
}

} // namespace t3sim
