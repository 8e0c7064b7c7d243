// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The card's network interface, which is the one that leads to the peer.
#pragma once

#include <string>

namespace probe {

// Sends datagrams to the discard port of an address.
class Datagrams {
public:
    explicit Datagrams(const std::string& address);
    ~Datagrams();
    Datagrams(const Datagrams&) = delete;
    Datagrams& operator=(const Datagrams&) = delete;
    // Of connect(), or 0.
    int error() const { return error_; }
    const int fd;

private:
    int error_;
};

// The interface that leads to this address; empty if there is none.
std::string interface_to(const std::string& address);

} // namespace probe
