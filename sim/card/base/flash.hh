// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The serial flash of SF_OP and SF_DATA: 512 KiB, read, erased and programmed one command at a time. It
// contains the version word of firmware 7.12.0, so that the driver loads no firmware.
#pragma once

#include "sim/core/bytes.hh"
#include "sim/hw/regs.hh"

namespace t3sim {

class Flash {
public:
    explicit Flash(RegisterBank& regs);
    void add_hooks(RegisterHooks& hooks);
    /// Resets the bus. The contents are kept in a chip reset.
    void reset() {
        command_.clear();
        received_ = 0;
    }
    /// Gives it its first contents.
    void restore();

private:
    void transfer(std::uint32_t op);
    void send(std::uint8_t byte);
    [[nodiscard]] std::uint8_t receive();
    void finish();

    RegisterBank& regs_;
    Buffer content_;
    Buffer command_;             ///< bytes sent since chip select went active
    std::uint32_t received_ = 0; ///< bytes received since then
    bool write_enabled_ = false;
};

} // namespace t3sim
