// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/nic/mac.hh"

#include <algorithm>
#include <bit>
#include <string>
#include <utility>

#include "sim/hw/sge.hh"

namespace t3sim {

namespace {

constexpr std::size_t header_size = 14, min_frame = 60, fcs_size = 4;
constexpr std::size_t max_frame = 0x3fff; // RXMAXPKTSIZE has 14 bits

constexpr std::uint32_t tx_en = hw::bit(0), rx_en = hw::bit(0); // XGM_TX_CTRL, RX_CTRL
constexpr std::uint32_t copy_all = hw::bit(0), dis_bcast = hw::bit(1), hash_mcast = hw::bit(2); // XGM_RX_CFG
constexpr std::uint32_t en_1536 = hw::bit(8), dis_pause = hw::bit(9);
constexpr std::uint32_t end_drop_pkt = hw::bit(21); // XGM_TXFIFO_CFG
constexpr std::uint32_t low_signal = hw::bit(0);    // XGM_SERDES_STATn
constexpr std::uint32_t clr_stats = hw::bit(2);     // XGM_STAT_CTRL

/// The counters of one direction in their order: bytes (64 bits), frames (64 bits), broadcast, multicast,
/// pause, then the sizes.
constexpr std::size_t bytes_at = 0, frames_at = 2, broadcast_at = 4, multicast_at = 5, pause_at = 6,
                      sizes_at = 7;
/// The size counters are of 64 bytes, FCS included, and below each power of two up to 1024, of up to 1518
/// bytes, and of more.
constexpr std::size_t sizes = 7, below_1519 = 5, more = 6;
constexpr std::size_t direction_counters = sizes_at + sizes;
std::size_t size_counter(std::size_t size) {
    if (size >= 1024)
        return size < 1519 ? below_1519 : more;
    return size <= 64 ? 0 : static_cast<std::size_t>(std::bit_width(size)) - 6;
}
static_assert(reg::XGM_STAT_TX_BYTE_LOW + 4 * (direction_counters - 1) == reg::XGM_STAT_TX_1519_MAXB_FRAMES);
static_assert(reg::XGM_STAT_RX_BYTES_LOW + 4 * (direction_counters - 1) == reg::XGM_STAT_RX_1519_MAXB_FRAMES);

bool is_multicast(const std::uint8_t* address) {
    return (address[0] & 1) != 0;
}
bool is_broadcast(const std::uint8_t* address) {
    return std::all_of(address, address + 6, [](std::uint8_t b) { return b == 0xff; });
}
bool is_pause(Bytes frame) {
    return be16(&frame[12]) == 0x8808;
}

/// Six bits: bit n of the address, counted from the lowest bit of the first octet, is XORed into bit n mod 6.
unsigned multicast_hash(const std::uint8_t* address) {
    unsigned hash = 0;
    for (unsigned n = 0; n < 48; ++n)
        hash ^= (address[n / 8] >> n % 8 & 1U) << n % 6;
    return hash;
}

} // namespace

Mac::Mac(unsigned port, EventQueue& events, RegisterBank& regs, Counters& counters, Accept accept,
         Resume resume, ToeServices& toe)
    : port_(port), block_(port * reg::xgm_stride), regs_(regs),
      tx_ctrl_(regs.value(reg::XGM_TX_CTRL + block_)), txfifo_cfg_(regs.value(reg::XGM_TXFIFO_CFG + block_)),
      rx_ctrl_(regs.value(reg::XGM_RX_CTRL + block_)), rx_cfg_(regs.value(reg::XGM_RX_CFG + block_)),
      rx_max_pkt_size_(regs.value(reg::XGM_RX_MAX_PKT_SIZE + block_)),
      tx_counters_(regs.values(reg::XGM_STAT_TX_BYTE_LOW + block_, direction_counters)),
      rx_counters_(regs.values(reg::XGM_STAT_RX_BYTES_LOW + block_, direction_counters)),
      accept_(std::move(accept)), resume_(std::move(resume)), toe_(toe), drops_(events, dropped_at_a_time),
      resume_later_(events, [this] { resume_send(); }),
      tx_dropped_(counters["mac" + std::to_string(port) + ".tx_dropped"]),
      rx_filtered_(counters["mac" + std::to_string(port) + ".rx_filtered"]),
      rx_disabled_(counters["mac" + std::to_string(port) + ".rx_disabled"]),
      rx_malformed_(counters["mac" + std::to_string(port) + ".rx_malformed"]),
      rx_too_long_(counters["mac" + std::to_string(port) + ".rx_too_long"]) {}

void Mac::add_hooks(RegisterHooks& hooks) {
    // Writing the low half of a filter's address disables it, writing the high half enables it.
    for (std::uint32_t n = 0; n < armed_.size(); ++n) {
        hooks.on_write(reg::XGM_RX_EXACT_MATCH_LOW_1 + block_ + 8 * n,
                       [this, n](std::uint32_t, std::uint32_t) { armed_[n] = false; });
        hooks.on_write(reg::XGM_RX_EXACT_MATCH_HIGH_1 + block_ + 8 * n,
                       [this, n](std::uint32_t, std::uint32_t) { armed_[n] = true; });
    }
    for (std::uint32_t lane = 0; lane < 4; ++lane)
        hooks.on_read(reg::XGM_SERDES_STAT0 + block_ + 4 * lane,
                      [this](std::uint32_t) { return linked() ? 0 : low_signal; });
    hooks.on_write(reg::XGM_STAT_CTRL + block_, [this](std::uint32_t written, std::uint32_t) {
        if ((written & clr_stats) != 0) {
            for (std::uint32_t at = reg::XGM_STAT_TX_BYTE_LOW; at <= reg::XGM_STAT_RX_SYM_CODE_ERR_FRAMES;
                 at += 4)
                regs_.poke(at + block_, 0);
        }
    });
    // A mask with separate registers to set and to clear bits; it reads back from the first.
    const std::uint32_t mask = reg::XGM_XGM_INT_ENABLE + block_;
    hooks.on_write(mask, [this, mask](std::uint32_t, std::uint32_t before) { regs_.set_bits(mask, before); });
    hooks.on_write(reg::XGM_XGM_INT_DISABLE + block_,
                   [this, mask](std::uint32_t off, std::uint32_t) { regs_.clear_bits(mask, off); });
}

void Mac::reset() {
    armed_ = {};
    waiting_ = {}; // the users are reset too
}

void Mac::count_frame(std::span<std::uint32_t> counters, Bytes frame) const {
    const std::size_t size = std::max(frame.size(), min_frame) + (counts_fcs ? fcs_size : 0);
    const auto count64 = [counters](std::size_t low, std::size_t n) {
        counters[low] += static_cast<std::uint32_t>(n);
        if (counters[low] < n)
            ++counters[low + 1];
    };
    count64(bytes_at, size);
    count64(frames_at, 1);
    if (is_multicast(frame.data()))
        ++counters[is_pause(frame) ? pause_at : is_broadcast(frame.data()) ? broadcast_at : multicast_at];
    ++counters[sizes_at + size_counter(size)];
}

void Mac::transmit(Packet&& frame) {
    const bool off = (tx_ctrl_ & tx_en) == 0 || (txfifo_cfg_ & end_drop_pkt) != 0;
    if (off || !link_ || !signal_ || frame.size() < header_size || frame.size() > max_frame) {
        ++tx_dropped_;
        drops_.use(1);
        return;
    }
    count_frame(tx_counters_, frame.raw());
    frame.pad(min_frame);
    link_->send(*this, std::move(frame));
}

bool Mac::accepts() {
    if (drops_.left() == 0) {
        resume_later_.soon();
        return false;
    }
    return !link_ || link_->ready_or_wait(*this);
}

bool Mac::ready_or_wait(User user) {
    const auto index = static_cast<std::size_t>(user);
    const bool free = granting_ || !(waiting_[0] || waiting_[1]);
    if (free && accepts())
        return true;
    waiting_[index] = true;
    return false;
}

/// The user that was second before is first now, if it waits: the first one may have filled the wire.
void Mac::resume_send() {
    const std::size_t first = waiting_[first_user_] ? first_user_ : 1 - first_user_;
    first_user_ = 1 - first;
    granting_ = true;
    for (const std::size_t user : {first, first_user_}) {
        if (waiting_[user] && accepts()) {
            waiting_[user] = false;
            resume_(port_, static_cast<User>(user));
        }
    }
    granting_ = false;
}

bool Mac::filter(const std::uint8_t* destination) const {
    if ((rx_cfg_ & copy_all) != 0)
        return true;
    if (is_broadcast(destination))
        return (rx_cfg_ & dis_bcast) == 0;
    const std::uint32_t low = destination[0] | destination[1] << 8 | destination[2] << 16 |
                              static_cast<std::uint32_t>(destination[3]) << 24;
    const std::uint32_t high = destination[4] | destination[5] << 8;
    for (std::uint32_t n = 0; n < armed_.size(); ++n)
        if (armed_[n] && get(reg::XGM_RX_EXACT_MATCH_LOW_1 + 8 * n) == low &&
            (get(reg::XGM_RX_EXACT_MATCH_HIGH_1 + 8 * n) & 0xffff) == high)
            return true;
    if (!is_multicast(destination) || (rx_cfg_ & hash_mcast) == 0)
        return false;
    const unsigned hash = multicast_hash(destination);
    return (get(hash < 32 ? reg::XGM_RX_HASH_LOW : reg::XGM_RX_HASH_HIGH) >> hash % 32 & 1) != 0;
}

void Mac::receive(Bytes frame, const Packet* intact) {
    if (!signal_ || (rx_ctrl_ & rx_en) == 0) {
        ++rx_disabled_;
        return;
    }
    if (frame.size() < header_size) {
        ++rx_malformed_;
        return;
    }
    const bool to_1536 = (rx_cfg_ & en_1536) != 0 && frame.size() <= 1536;
    if (frame.size() > bits(rx_max_pkt_size_, 13, 0) && !to_1536) {
        regs_.poke(reg::XGM_RX_MAX_PKT_SIZE_ERR_CNT + block_, get(reg::XGM_RX_MAX_PKT_SIZE_ERR_CNT) + 1);
        ++rx_too_long_;
        return;
    }
    const bool pause = is_pause(frame);
    if (!pause && !filter(frame.data())) {
        ++rx_filtered_;
        return;
    }
    count_frame(rx_counters_, frame);
    if (pause && (rx_cfg_ & dis_pause) != 0)
        return;
    accept_(port_, frame, intact);
}

} // namespace t3sim
