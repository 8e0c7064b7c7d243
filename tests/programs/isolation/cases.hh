// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#pragma once

#include "program.hh"
#include "victim.hh"

namespace isolation {

struct Case {
    const prog::Args& args;
    Victim& victim;
    uint16_t peer_port; // of the accomplice
};

// Each returns a result; it is good if the attacker achieved nothing.
void memory(Case&);
void qp_number(Case&);
void malformed(Case&);
void invalidate(Case&);
void dead_peers(Case&);
void resolve(Case&);
void hoard(Case&);

} // namespace isolation
