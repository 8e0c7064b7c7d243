// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/irq.hh"

#include "sim/hw/sge.hh"

namespace t3sim {

namespace {

constexpr unsigned slow_path_vector = 0;
constexpr std::uint32_t data_intr_error = hw::bit(31);

struct Source {
    unsigned bit; ///< in PL_INT_CAUSE0
    std::uint32_t cause, enable;
};
constexpr Source sources[] = {
    {0, reg::SG_INT_CAUSE, reg::SG_INT_ENABLE},
    {1, reg::PCIE_INT_CAUSE, reg::PCIE_INT_ENABLE},
    {2, reg::MC7_INT_CAUSE, reg::MC7_INT_ENABLE},
    {3, reg::MC7_INT_CAUSE + reg::mc7_stride, reg::MC7_INT_ENABLE + reg::mc7_stride},
    {4, reg::MC7_INT_CAUSE + 2 * reg::mc7_stride, reg::MC7_INT_ENABLE + 2 * reg::mc7_stride},
    {5, reg::CIM_HOST_INT_CAUSE, reg::CIM_HOST_INT_ENABLE},
    {6, reg::TP_INT_CAUSE, reg::TP_INT_ENABLE},
    {7, reg::ULPRX_INT_CAUSE, reg::ULPRX_INT_ENABLE},
    {8, reg::ULPTX_INT_CAUSE, reg::ULPTX_INT_ENABLE},
    {9, reg::PM1_RX_INT_CAUSE, reg::PM1_RX_INT_ENABLE},
    {10, reg::PM1_TX_INT_CAUSE, reg::PM1_TX_INT_ENABLE},
    {11, reg::MPS_INT_CAUSE, reg::MPS_INT_ENABLE},
    {12, reg::CPL_INTR_CAUSE, reg::CPL_INTR_ENABLE},
    {18, reg::MC5_DB_INT_CAUSE, reg::MC5_DB_INT_ENABLE},
    {19, reg::XGM_INT_CAUSE, reg::XGM_INT_ENABLE},
    {20, reg::XGM_INT_CAUSE + reg::xgm_stride, reg::XGM_INT_ENABLE + reg::xgm_stride},
    {23, reg::T3DBG_INT_CAUSE, reg::T3DBG_INT_ENABLE},
};

} // namespace

void Irq::add_hooks(RegisterHooks& hooks) {
    const auto refresh = [this](std::uint32_t, std::uint32_t) { update(); };
    for (const Source& source : sources) {
        hooks.on_write(source.cause, refresh);
        hooks.on_write(source.enable, refresh);
    }
    // An acknowledged bit whose cause is still set is set again, as a new event.
    hooks.on_write(reg::PL_INT_CAUSE0, [this](std::uint32_t written, std::uint32_t) {
        reported_ &= ~written;
        update();
    });
    hooks.on_write(reg::PL_INT_ENABLE0, refresh);
    hooks.on_write(reg::PL_CLI, [this](std::uint32_t, std::uint32_t) { set_pin(false); });
    hooks.on_read(reg::SG_DATA_INTR, [this](std::uint32_t queues) {
        const bool error = (regs_.peek(reg::PL_INT_CAUSE0) & regs_.peek(reg::PL_INT_ENABLE0)) != 0;
        return queues | (error ? data_intr_error : 0);
    });
}

void Irq::raise(std::uint32_t cause_register, std::uint32_t bits) {
    regs_.set_bits(cause_register, bits);
    update();
}

void Irq::update() {
    std::uint32_t top = 0;
    for (const Source& source : sources)
        if ((regs_.peek(source.cause) & regs_.peek(source.enable)) != 0)
            top |= hw::bit(source.bit);
    regs_.set_bits(reg::PL_INT_CAUSE0, top);

    const std::uint32_t enabled = regs_.peek(reg::PL_INT_CAUSE0) & regs_.peek(reg::PL_INT_ENABLE0);
    const bool any_new = (enabled & ~reported_) != 0;
    reported_ = enabled;
    if (!any_new)
        return;
    host_->raise_irq(slow_path_vector);
    if ((regs_.peek(reg::SG_CONTROL) & hw::sg_control::one_int_mult_q) != 0)
        set_pin(true);
}

void Irq::data_intx(unsigned queue) {
    regs_.set_bits(reg::SG_DATA_INTR, hw::bit(queue));
    set_pin(true);
}

void Irq::set_pin(bool asserted) {
    if (pin_ != asserted)
        host_->set_intx(asserted);
    pin_ = asserted;
}

void Irq::reset() {
    reported_ = 0;
    set_pin(false);
}

} // namespace t3sim
