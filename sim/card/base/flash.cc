// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/flash.hh"

#include <algorithm>

#include "sim/hw/sge.hh"

namespace t3sim {

namespace {

constexpr std::size_t flash_size = 512 << 10, sector = 64 << 10, page = 256;
constexpr std::uint32_t firmware_version_at = 0x7fffc;
constexpr std::uint8_t firmware_version[] = {0x00, 0x0c, 0x07, 0x10}; // T3, 7.12.0: 0x10070c00
constexpr std::size_t command_limit = 4 + page;                       // the longest command

enum Command : std::uint8_t {
    program_page = 0x02,
    write_disable = 0x04,
    read_status = 0x05,
    write_enable = 0x06,
    fast_read = 0x0b,
    erase_sector = 0xd8,
};

constexpr std::uint32_t op_send = hw::bit(0), op_continue = hw::bit(3);

} // namespace

Flash::Flash(RegisterBank& regs) : regs_(regs) {
    restore();
}

void Flash::restore() {
    content_.assign(flash_size, 0xff);
    std::copy(std::begin(firmware_version), std::end(firmware_version),
              content_.begin() + firmware_version_at);
    write_enabled_ = false;
}

void Flash::add_hooks(RegisterHooks& hooks) {
    hooks.on_write(reg::SF_OP, [this](std::uint32_t written, std::uint32_t) { transfer(written); });
}

void Flash::transfer(std::uint32_t op) {
    const unsigned count = bits(op, 2, 1) + 1;
    if ((op & op_send) != 0) {
        const std::uint32_t data = regs_.peek(reg::SF_DATA);
        for (unsigned i = 0; i < count; ++i)
            send(static_cast<std::uint8_t>(data >> 8 * i));
    } else {
        std::uint32_t data = 0;
        for (unsigned i = 0; i < count; ++i)
            data |= static_cast<std::uint32_t>(receive()) << 8 * i;
        regs_.poke(reg::SF_DATA, data);
    }
    if ((op & op_continue) == 0)
        finish();
}

void Flash::send(std::uint8_t byte) {
    if (command_.size() < command_limit)
        command_.push_back(byte);
}

std::uint8_t Flash::receive() {
    if (command_.empty())
        return 0xff;
    const std::uint32_t n = received_++;
    if (command_[0] == fast_read && command_.size() >= 4 && n > 0) // byte 0 is the dummy
        return content_[(be32(command_.data()) + n - 1) % flash_size];
    return 0; // status: never busy
}

/// Chip select becomes inactive: executes the command.
void Flash::finish() {
    if (!command_.empty()) {
        const std::uint8_t command = command_[0];
        if (command == write_enable)
            write_enabled_ = true;
        else if (command == write_disable)
            write_enabled_ = false;
        else if (write_enabled_ && command_.size() >= 4 &&
                 (command == erase_sector || command == program_page)) {
            const std::size_t at = (be32(command_.data()) & 0xffffff) % flash_size;
            if (command == erase_sector) {
                const auto begin = content_.begin() + static_cast<std::ptrdiff_t>(at / sector * sector);
                std::fill(begin, begin + sector, std::uint8_t{0xff});
            } else {
                // Programming clears bits and wraps within the page.
                for (std::size_t i = 4; i < command_.size(); ++i)
                    content_[at / page * page + (at + i - 4) % page] &= command_[i];
            }
            write_enabled_ = false;
        }
    }
    command_.clear();
    received_ = 0;
}

} // namespace t3sim
