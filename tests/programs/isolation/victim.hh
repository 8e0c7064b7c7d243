// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The other user of the card: a process with another user id, which does what the attacker's process asks it
// to, as the scheduler could let it do at that time.
#pragma once

#include "peer.hh"

#include <cstdint>
#include <string>
#include <sys/types.h>

namespace isolation {

constexpr uid_t attacker_uid = 2001, victim_uid = 2002;

// The victim's memory repeats this, so that any 32 bytes of it that the accomplice receives are recognized.
constexpr char secret[] = "the-secret-of-the-victims-memory";
constexpr size_t secret_length = sizeof(secret) - 1;

enum class Take : uint8_t {
    region, // memory, which it registers
    pages,  // memory only, four times as much
    huge,   // a huge page, of which it registers the first 4 KB
};

// Its process has ended, which no case asks it to do.
struct VictimEnded {
    int signal;
};

class Victim {
public:
    // Forks. Peer: of the victim's own connection, at this address and port.
    Victim(const std::string& address, uint16_t port);
    ~Victim();
    Victim(const Victim&) = delete;
    Victim& operator=(const Victim&) = delete;

    // It allocates memory and fills it.
    void take(Take what, size_t bytes);
    // How many bytes of it have changed. It frees the memory.
    uint64_t changed();

    // It makes a connection's objects; the number of its QP.
    uint32_t make_qp();
    // The state of that QP, which it asks the driver for.
    unsigned qp_state();
    // It connects that QP if it is not, and exchanges a message with its peer. Empty: it works.
    std::string exchange();
    // How often its context got DEVICE_FATAL.
    uint64_t fatal_events();

private:
    std::string ask(const std::string& line);
    [[noreturn]] void ended();

    pid_t process_;
    int socket_;
};

// The rest of this process runs as another user.
void become(uid_t user);

} // namespace isolation
