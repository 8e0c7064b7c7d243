// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// One Ethernet port: the XGMAC with its address filters and counters, and the endpoint of the cable.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "sim/card/engines.hh"
#include "sim/core/budget.hh"
#include "sim/core/counters.hh"
#include "sim/core/event_queue.hh"
#include "sim/core/host.hh"
#include "sim/hw/regs.hh"
#include "sim/net/link.hh"

namespace t3sim {

class Mac final : public Endpoint {
public:
    using User = MacServices::User;
    /// Receives the frames that pass the filters. @p intact: see ToeServices::frame_in().
    using Accept = std::function<void(unsigned port, Bytes frame, const Packet* intact)>;
    /// Wakes a user for which ready_or_wait() was false.
    using Resume = std::function<void(unsigned port, User user)>;

    /// @p toe gets the bursts; the constructor does not use it.
    Mac(unsigned port, EventQueue& events, RegisterBank& regs, Counters& counters, Accept accept,
        Resume resume, ToeServices& toe);
    /// Frames that one event may send although they are lost here: they fill no wire.
    static constexpr unsigned dropped_at_a_time = 256;
    void add_hooks(RegisterHooks& hooks);
    /// Call after the registers were reset. The cable stays connected.
    void reset();
    void connect(Link& link) { link_ = &link; }
    /// Whether byte counts and sizes include the FCS [guess G43].
    bool counts_fcs = true;
    /// Sets the signal, independent of the cable.
    void set_signal(bool there) { signal_ = there; }

    /// Sends a frame without FCS to the wire; pads short ones.
    void transmit(Packet&& frame);
    /// See MacServices::ready_or_wait(). False while another user waits: otherwise that user could starve.
    bool ready_or_wait(User user);

    // Endpoint
    void resume_send() override;
    void frame_in(Bytes frame) override { receive(frame, nullptr); }
    void packet_in(const Packet& frame) override { receive(frame.raw(), frame.intact() ? &frame : nullptr); }
    [[nodiscard]] bool takes_bursts() const override { return toe_.takes_bursts(); }
    void burst(bool on) override { toe_.burst(on); }
    void carrier(bool) override {} // no register latches a change: the driver polls XGM_SERDES_STAT

private:
    void receive(Bytes frame, const Packet* intact);
    /// If false, resume_send() follows.
    [[nodiscard]] bool accepts();
    [[nodiscard]] bool linked() const { return signal_ && link_ && link_->up(); }
    [[nodiscard]] std::uint32_t get(std::uint32_t offset) const { return regs_.peek(offset + block_); }
    /// @p counters: of one direction.
    void count_frame(std::span<std::uint32_t> counters, Bytes frame) const;
    [[nodiscard]] bool filter(const std::uint8_t* destination) const;

    unsigned port_;
    std::uint32_t block_; ///< offset of this MAC's registers from those of port 0
    RegisterBank& regs_;
    const std::uint32_t &tx_ctrl_, &txfifo_cfg_, &rx_ctrl_, &rx_cfg_, &rx_max_pkt_size_; ///< registers
    const std::span<std::uint32_t> tx_counters_, rx_counters_;                           ///< the same
    Accept accept_;
    Resume resume_;
    ToeServices& toe_;
    std::array<bool, 2> waiting_{};     ///< users for which ready_or_wait() was false
    std::size_t first_user_ = 0;        ///< to wake first at the next time
    Budget drops_;                      ///< frames, in the present event
    EventQueue::Repeated resume_later_; ///< after this event has used it up
    bool granting_ = false; ///< in resume_send(): the user that it wakes may send although others wait
    Link* link_ = nullptr;
    bool signal_ = true;
    std::array<bool, 8> armed_{}; ///< exact-match filters
    Counter &tx_dropped_, &rx_filtered_, &rx_disabled_, &rx_malformed_, &rx_too_long_;
};

} // namespace t3sim
