// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/hw/regs.hh"

#include <stdexcept>
#include <string>
#include <utility>

namespace t3sim {

namespace {

#define T3_REG(reg_name, reg_offset, ...)                                                                    \
    Register{.offset = reg_offset, .name = #reg_name __VA_OPT__(, ) __VA_ARGS__},
#define T3_MC7(...)
#define T3_XGM(...)
const Register single[] = {
#include "sim/hw/regs.def"
};
#undef T3_REG
#undef T3_MC7
#define T3_REG(...)
#define T3_MC7(reg_name, reg_offset, ...)                                                                    \
    Register{.offset = reg_offset, .name = #reg_name __VA_OPT__(, ) __VA_ARGS__},
const Register per_memory[] = {
#include "sim/hw/regs.def"
};
#undef T3_MC7
#undef T3_XGM
#define T3_MC7(...)
#define T3_XGM(reg_name, reg_offset, ...)                                                                    \
    Register{.offset = reg_offset, .name = #reg_name __VA_OPT__(, ) __VA_ARGS__},
const Register per_port[] = {
#include "sim/hw/regs.def"
};
#undef T3_REG
#undef T3_MC7
#undef T3_XGM

template <typename Map, typename Hook> void add_hook(Map& map, std::uint32_t offset, Hook hook) {
    if (!map.emplace(offset, std::move(hook)).second)
        throw std::logic_error("two hooks of one kind for register " + std::to_string(offset));
}

} // namespace

void RegisterHooks::on_read(std::uint32_t offset, std::function<std::uint32_t(std::uint32_t)> hook) {
    add_hook(read_, offset, std::move(hook));
}

void RegisterHooks::on_write(std::uint32_t offset, std::function<void(std::uint32_t, std::uint32_t)> hook) {
    add_hook(write_, offset, std::move(hook));
}

void fill_register_file(RegisterBank& bank, const RegisterHooks& hooks) {
    std::size_t used = 0;
    const auto add = [&](std::span<const Register> rows, std::uint32_t base, const std::string& prefix) {
        for (Register row : rows) {
            if (const auto it = hooks.read_.find(base + row.offset); it != hooks.read_.end()) {
                row.on_read = it->second;
                ++used;
            }
            if (const auto it = hooks.write_.find(base + row.offset); it != hooks.write_.end()) {
                row.on_write = it->second;
                ++used;
            }
            bank.add(std::move(row), base, prefix);
        }
    };
    add(single, 0, "");
    const char* const memories[] = {"PMRX ", "PMTX ", "CM "};
    for (std::uint32_t i = 0; i < 3; ++i)
        add(per_memory, reg::mc7_base + i * reg::mc7_stride, memories[i]);
    for (std::uint32_t i = 0; i < 2; ++i)
        add(per_port, reg::xgm_base + i * reg::xgm_stride, "port " + std::to_string(i) + " ");
    if (used != hooks.read_.size() + hooks.write_.size())
        throw std::logic_error("a hook names a register that is not in regs.def");
}

} // namespace t3sim
