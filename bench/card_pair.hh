// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Two cards with a wire between them and one connection, in segments of MTU 1500 with CRCs; memory registered
// on both sides.
#pragma once

#include "tests/sim/scale/test_driver.hh"

namespace t3sim::bench {

struct CardPair {
    CardPair() {
        pairs.connect_all();
        for (unsigned side : {0U, 1U})
            pairs.card(side).register_memory();
        pairs.settle();
    }
    /// A send of @p size bytes, from the doorbells to the completions of both sides.
    void send(std::uint32_t size) {
        pairs.card(1).receive(0, size);
        pairs.card(0).send(0, size);
        pairs.settle();
    }
    /// RDMA writes of 64 KiB, @p count with one doorbell, until they are acknowledged.
    void write(unsigned count) {
        for (unsigned n = 0; n < count; ++n)
            pairs.card(0).post_full_write(0);
        pairs.card(0).ring_doorbell(0);
        pairs.settle();
    }

    test::CardPairs pairs{1, 1, nullptr, 128};
};

} // namespace t3sim::bench
