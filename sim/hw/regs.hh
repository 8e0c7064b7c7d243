// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The registers of BAR0 by name; regs.def describes each. `reg::XGM_TX_CTRL + block(port)` addresses a
// register of a block with several instances.
#pragma once

#include <cstdint>
#include <functional>
#include <map>

#include "sim/core/register_bank.hh"

namespace t3sim {

namespace reg {
constexpr std::uint32_t file_size = 0x1000;
constexpr std::uint32_t mc7_base = 0x100, mc7_stride = 0x80;
constexpr std::uint32_t xgm_base = 0x800, xgm_stride = 0x200;

#define T3_REG(name, offset, ...) inline constexpr std::uint32_t name = offset;
#define T3_MC7(name, offset, ...) inline constexpr std::uint32_t name = mc7_base + offset;
#define T3_XGM(name, offset, ...) inline constexpr std::uint32_t name = xgm_base + offset;
#include "sim/hw/regs.def"
#undef T3_REG
#undef T3_MC7
#undef T3_XGM
} // namespace reg

/// The behaviour of registers, collected from the blocks before the bank is filled.
class RegisterHooks {
public:
    void on_read(std::uint32_t offset, std::function<std::uint32_t(std::uint32_t stored)> hook);
    void on_write(std::uint32_t offset,
                  std::function<void(std::uint32_t written, std::uint32_t before)> hook);

private:
    friend void fill_register_file(RegisterBank&, const RegisterHooks&);
    std::map<std::uint32_t, std::function<std::uint32_t(std::uint32_t)>> read_;
    std::map<std::uint32_t, std::function<void(std::uint32_t, std::uint32_t)>> write_;
};

/// Adds all rows of regs.def, with their hooks, to an empty bank of reg::file_size bytes. A hook for a
/// register that does not exist, or two for one, throws std::logic_error.
void fill_register_file(RegisterBank& bank, const RegisterHooks& hooks);

} // namespace t3sim
