// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The other end of the connections of a card or of rxe, in another guest. It does what it is asked to do by
// UDP datagrams.
#pragma once

#include <cstdint>

namespace races {

struct PeerRequest {
    enum What : uint32_t {
        connect, // to a listener; number: its TCP port
        accept,  // a connection; number: the QP's number in its connect request, also of the following ones
        reject,
        give_up,    // rejects, if the connect request is there and has no reply yet
        disconnect, // in order
        abort,      // destroys the QP
        establish,  // sends RTU; number: the QP's number in the reply
        end_all,    // ends all connections, those without a reply too
    };
    uint32_t what;
    uint32_t number;
    uint32_t sequence = 0;
};

// Returns 0 or an errno: what the peer returned, or ETIMEDOUT.
int ask_peer(PeerRequest request);

// Serves requests until it is killed.
[[noreturn]] void be_peer();

} // namespace races
