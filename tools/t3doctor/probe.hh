// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include "tools/t3doctor/checks.hh"

namespace t3doctor {

/// The running kernel, libibverbs and librdmacm.
class SystemProbe : public Probe {
public:
    Interface interface(const std::string& name) override;
    Memlock memlock() override;
    Verbs verbs() override;
    Route route(const std::string& address) override;
    Connection connect(const std::string& address, int port) override;
    bool may_open(const std::string& node) override;
};

} // namespace t3doctor
