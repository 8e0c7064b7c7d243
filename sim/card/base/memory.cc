// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/memory.hh"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace t3sim {

namespace {

constexpr std::size_t mib = 1 << 20;
constexpr std::uint32_t straps[] = {0x100, 0x200, 0x200}; // MC7_CFG WIDTH: 128, 64 and 64 MB

constexpr std::uint32_t width_code(unsigned which) {
    return bits(straps[which], 9, 8);
}

} // namespace

SparseMemory::SparseMemory(std::size_t size, std::size_t& filled)
    : size_(size), filled_(filled),
      bytes_(static_cast<std::uint8_t*>(
          mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
      state_((size + piece - 1) / piece), next_to_free_(state_.size()) {
    if (bytes_ == MAP_FAILED)
        throw std::system_error(errno, std::generic_category(), "memory of the card");
}

SparseMemory::~SparseMemory() {
    munmap(bytes_, size_);
}

void SparseMemory::fill(std::uint32_t pattern) {
    pattern_ = pattern;
    std::replace(state_.begin(), state_.end(), State::used, State::old);
    next_to_free_ = 0;
}

bool SparseMemory::free_piece() {
    next_to_free_ = static_cast<std::size_t>(
        std::find(state_.begin() + static_cast<std::ptrdiff_t>(next_to_free_), state_.end(), State::old) -
        state_.begin());
    if (next_to_free_ == state_.size())
        return false;
    madvise(bytes_ + next_to_free_ * piece, std::min(piece, size_ - next_to_free_ * piece), MADV_DONTNEED);
    state_[next_to_free_] = State::unused;
    return true;
}

void SparseMemory::use(std::size_t n) {
    ++filled_;
    if (std::exchange(state_[n], State::used) == State::old || pattern_ != 0)
        for (std::size_t at = n * piece; at < std::min((n + 1) * piece, size_); at += 4)
            put_be32(bytes_ + at, pattern_);
}

Memory::Memory(RegisterBank& regs, const Guesses& guesses)
    : regs_(regs),
      guesses_(guesses), tpt_{regs.value(reg::ULPTX_TPT_LLIMIT), regs.value(reg::ULPTX_TPT_ULIMIT)},
      pbl_{regs.value(reg::ULPTX_PBL_LLIMIT), regs.value(reg::ULPTX_PBL_ULIMIT)},
      rqt_{regs.value(reg::ULPRX_RQ_LLIMIT), regs.value(reg::ULPRX_RQ_ULIMIT)},
      memories_{SparseMemory(128 * mib, filled_), SparseMemory(64 * mib, filled_),
                SparseMemory(64 * mib, filled_)} {}

void Memory::add_hooks(RegisterHooks& hooks) {
    for (unsigned which : {pmrx_memory, pmtx_memory, context_memory}) {
        const std::uint32_t block = which * reg::mc7_stride;
        hooks.on_write(reg::MC7_BIST_OP + block, [this, which](std::uint32_t op, std::uint32_t) {
            if ((op & 1) != 0)
                fill(which);
        });
        hooks.on_write(reg::MC7_BD_OP + block, [this, which](std::uint32_t op, std::uint32_t) {
            if ((op & 1) == 0)
                back_door_read(which);
        });
    }
}

void Memory::reset() {
    for (unsigned which : {pmrx_memory, pmtx_memory, context_memory}) {
        memories_[which].fill(0);
        regs_.poke(reg::MC7_CFG + which * reg::mc7_stride, straps[which]);
    }
}

bool Memory::free_piece() {
    return std::any_of(memories_.begin(), memories_.end(), [](SparseMemory& m) { return m.free_piece(); });
}

/// The built-in self test fills the memory with a pattern. Its address registers count words of the
/// controller; the driver always selects the complete range.
void Memory::fill(unsigned which) {
    const std::uint32_t pattern = regs_.peek(reg::MC7_BIST_DATA + which * reg::mc7_stride);
    memories_[which].fill(pattern);
}

/// The word is the big-endian value of the eight bytes in memory order [guess G27]. The engine keeps the
/// TCBs, so they are composed here.
std::uint64_t Memory::word_at(unsigned which, std::uint64_t addr) const {
    constexpr std::size_t tcb_size = std::tuple_size_v<TcbBytes>;
    std::optional<TcbBytes> tcb;
    if (which == context_memory && tcb_source_)
        tcb = tcb_source_(static_cast<Tid>(addr / tcb_size));
    const std::uint8_t* bytes = tcb ? &(*tcb)[addr % tcb_size] : memories_[which].at(addr, 8);
    if (!bytes)
        return 0;
    const std::uint64_t word = be64(bytes);
    return guesses_.other(Guess::back_door_big_endian) ? __builtin_bswap64(word) : word;
}

/// One of the 2^WIDTH reads that return a 64-bit word. WIDTH 0 returns all of it in DATA1 and DATA0, the
/// others a slice in the top bits of DATA1, most significant slice first.
void Memory::back_door_read(unsigned which) {
    const std::uint32_t block = which * reg::mc7_stride;
    const unsigned width = width_code(which);
    const std::uint32_t addr = regs_.peek(reg::MC7_BD_ADDR + block);
    const std::uint32_t slice = addr / 8 % (1U << width);
    const std::uint64_t word = word_at(which, (addr / 8 >> width) * 8);
    const unsigned slice_bits = 64U >> width;
    const std::uint64_t shifted = word << slice * slice_bits;
    auto data1 = static_cast<std::uint32_t>(shifted >> 32);
    if (slice_bits < 32)
        data1 &= ~(0xffffffffU >> slice_bits);
    regs_.poke(reg::MC7_BD_DATA1 + block, data1);
    regs_.poke(reg::MC7_BD_DATA0 + block, width == 0 ? static_cast<std::uint32_t>(word) : 0);
}

bool Memory::pmrx_write(std::uint32_t addr, Bytes from) {
    std::uint8_t* to = memories_[pmrx_memory].at(addr, from.size());
    if (to)
        std::copy(from.begin(), from.end(), to);
    return to != nullptr;
}

} // namespace t3sim
