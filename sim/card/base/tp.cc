// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/tp.hh"

#include "sim/hw/sge.hh"

namespace t3sim {

namespace {

constexpr std::uint32_t sram_version = 0x00010100; // 1.1.0: the driver loads no protocol SRAM image
constexpr std::uint32_t embed_done = hw::bit(0);
constexpr std::uint32_t table_entry_valid = hw::bit(31);

const Register pio_rows[] = {
    {.offset = 0x20, .name = "TP_TX_TRC_KEY0"},      {.offset = 0x21, .name = "TP_TX_TRC_MASK0"},
    {.offset = 0x22, .name = "TP_TX_TRC_KEY1"},      {.offset = 0x23, .name = "TP_TX_TRC_MASK1"},
    {.offset = 0x24, .name = "TP_TX_TRC_KEY2"},      {.offset = 0x25, .name = "TP_TX_TRC_MASK2"},
    {.offset = 0x26, .name = "TP_TX_TRC_KEY3"},      {.offset = 0x27, .name = "TP_TX_TRC_MASK3"},
    {.offset = 0x120, .name = "TP_RX_TRC_KEY0"},     {.offset = 0x121, .name = "TP_RX_TRC_MASK0"},
    {.offset = 0x122, .name = "TP_RX_TRC_KEY1"},     {.offset = 0x123, .name = "TP_RX_TRC_MASK1"},
    {.offset = 0x124, .name = "TP_RX_TRC_KEY2"},     {.offset = 0x125, .name = "TP_RX_TRC_MASK2"},
    {.offset = 0x126, .name = "TP_RX_TRC_KEY3"},     {.offset = 0x127, .name = "TP_RX_TRC_MASK3"},
    {.offset = 0x12b, .name = "TP_TX_DROP_CFG_CH0"}, {.offset = 0x12c, .name = "TP_TX_DROP_CFG_CH1"},
    {.offset = 0x12d, .name = "TP_TX_DROP_CNT_CH0"}, {.offset = 0x12e, .name = "TP_TX_DROP_CNT_CH1"},
    {.offset = 0x12f, .name = "TP_TX_DROP_MODE"},    {.offset = 0x145, .name = "TP_EGRESS_CONFIG"},
};

constexpr const char* rate_limit_names[] = {"TP_TX_MOD_Q7_Q6_RATE_LIMIT", "TP_TX_MOD_Q5_Q4_RATE_LIMIT",
                                            "TP_TX_MOD_Q3_Q2_RATE_LIMIT", "TP_TX_MOD_Q1_Q0_RATE_LIMIT"};

/// An indirect register window: an address register and a data register.
void add_window(RegisterHooks& hooks, RegisterBank& regs, RegisterBank& space, std::uint32_t addr,
                std::uint32_t data) {
    hooks.on_write(data, [&regs, &space, addr](std::uint32_t value, std::uint32_t) {
        space.write(regs.peek(addr), value);
    });
    hooks.on_read(data, [&regs, &space, addr](std::uint32_t) { return space.read(regs.peek(addr)); });
}

} // namespace

Tp::Tp(RegisterBank& regs) : regs_(regs), pio_("tp-pio", 0x200, 1), tm_pio_("tp-tm-pio", 0x10, 1) {
    for (const Register& row : pio_rows)
        pio_.add(row);
    for (std::uint32_t i = 0; i < std::size(rate_limit_names); ++i)
        tm_pio_.add({.offset = 5 + i, .name = rate_limit_names[i]});
}

void Tp::add_hooks(RegisterHooks& hooks) {
    add_window(hooks, regs_, pio_, reg::TP_PIO_ADDR, reg::TP_PIO_DATA);
    add_window(hooks, regs_, tm_pio_, reg::TP_TM_PIO_ADDR, reg::TP_TM_PIO_DATA);
    hooks.on_read(reg::TP_MIB_RDATA, [this](std::uint32_t) { return mib(regs_.peek(reg::TP_MIB_INDEX)); });

    hooks.on_read(reg::TP_EMBED_OP_FIELD0, [](std::uint32_t stored) { return stored | embed_done; });
    hooks.on_write(reg::TP_EMBED_OP_FIELD0, [this](std::uint32_t command, std::uint32_t) {
        if (command == 0)
            regs_.poke(reg::TP_EMBED_OP_FIELD1, sram_version);
    });

    // Tables: a write stores an entry, or, with the upper bits all ones, selects the one to read.
    hooks.on_write(reg::TP_RSS_MAP_TABLE, [this](std::uint32_t value, std::uint32_t) {
        if (value >> 16 == 0xffff)
            regs_.poke(reg::TP_RSS_MAP_TABLE, rss_map_[value % 64] | table_entry_valid);
        else
            rss_map_[(value >> 16) % 64] = value & 0xffff;
    });
    hooks.on_write(reg::TP_RSS_LKP_TABLE, [this](std::uint32_t value, std::uint32_t) {
        if (value >> 16 == 0xffff)
            regs_.poke(reg::TP_RSS_LKP_TABLE, rss_lookup_[value % 64] | table_entry_valid);
        else
            rss_lookup_[(value >> 16) % 64] = value & 0x3f3f;
    });
    hooks.on_write(reg::TP_MTU_TABLE, [this](std::uint32_t value, std::uint32_t) {
        if (value >> 24 == 0xff) {
            regs_.poke(reg::TP_MTU_TABLE, mtu_[value % 16]);
            return;
        }
        const unsigned index = (value >> 24) % 16;
        mtu_[index] = static_cast<std::uint16_t>(bits(value, 13, 0));
        if (mtu_listener_)
            mtu_listener_(index, mtu_[index]);
    });
    hooks.on_write(reg::TP_CCTRL_TABLE, [this](std::uint32_t value, std::uint32_t) {
        if (value >> 16 == 0xffff)
            regs_.poke(reg::TP_CCTRL_TABLE, bits(congestion_control_[bits(value, 8, 5)][value % 32], 12, 0));
        else
            congestion_control_[bits(value, 24, 21)][bits(value, 20, 16)] = static_cast<std::uint16_t>(value);
    });
}

void Tp::reset() {
    pio_.reset();
    tm_pio_.reset();
    rss_map_ = {};
    rss_lookup_ = {};
    mtu_ = {};
    congestion_control_ = {};
    congestion_drops_ = {};
}

unsigned Tp::rss_queue(unsigned port, std::uint32_t hash) const {
    const std::uint32_t line = rss_lookup_[bits(hash, 6, 1)];
    const std::uint32_t entry = (hash & 1) != 0 ? bits(line, 12, 8) : bits(line, 4, 0);
    return rss_map_[(port << 5 | entry) % 64] % hw::queue_sets;
}

std::uint32_t Tp::mib(std::uint32_t index) const {
    constexpr std::uint32_t tcp_words = 46, drops = 50;
    if (index < tcp_words)
        return mib_source_ ? mib_source_(index) : 0;
    return index == drops || index == drops + 1 ? congestion_drops_[index - drops] : 0;
}

} // namespace t3sim
