// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Segments with valid checksums and random content, and host operations in random order. The engine must not
// crash, buffer beyond its window, or report events out of order.
#pragma once

#include <algorithm>
#include <string>

#include "tests/sim/choices.hh"
#include "tests/sim/tcp/pair.hh"

namespace t3sim::tcp::test {

class AnySegments {
public:
    explicit AnySegments(t3sim::test::Choices& choices) : choices_(choices) {
        options_.window_scale = 2;
        options_.receive_buffer = 20'000;
        options_.keepalive = true;
        end.params.iss = [](const FourTuple&) { return 1000U; };
        end.params.msl = choices_.below(2) * second;
        end.consume = false;
        end.on_received = [this](ConnId id, Bytes data) {
            received += data.size();
            if (choices_.one_in(50))
                end.engine.abort(id, choices_.below(2) != 0);
        };
        // Also called when a SYN replaces a connection in TIME_WAIT, with the same id.
        end.on_established = [this](ConnId) { end.stream.clear(); };
        end.engine.listen(9, 0, a_to_b.local_port);
    }

    void step() {
        const auto view = end.engine.view(id_);
        switch (choices_.below(12)) {
        case 0:
            if (!view && choices_.below(2))
                end.engine.open(id_, a_to_b, options_);
            else
                end.engine.accept(id_, options_);
            break;
        case 1:
            end.engine.send(id_, Buffer(1 + choices_.below(5000)), choices_.below(2) != 0);
            break;
        case 2:
            end.engine.credit(id_, choices_.below(30'000), choices_.below(2) != 0);
            break;
        case 3:
            end.engine.hold(id_, choices_.below(2) != 0);
            break;
        case 4: {
            const Time time =
                choices_.one_in(20) ? choices_.below(100) * second : choices_.below(1000) * millisecond;
            run(events, {&end}, events.now() + time);
            break;
        }
        case 5:
            if (choices_.one_in(20))
                end.engine.close(id_);
            else if (choices_.one_in(40))
                end.engine.abort(id_, true);
            break;
        case 6:
            end.engine.burst(true);
            for (unsigned n = choices_.below(8); n != 0; --n)
                input(end.engine.view(id_));
            end.engine.burst(false);
            break;
        default:
            input(view);
        }
        if (const auto v = end.engine.view(id_); !v || v->state == State::aborted) { // start a new connection
            end.engine.release(id_);
            id_ = end.next_id = id_ + 1;
            end.up.reset();
        }
    }

    /// Describes a violated invariant; empty: none.
    [[nodiscard]] std::string broken() const {
        if (end.engine.connections() > 2)
            return "connections are left over";
        if (std::count(end.log.begin(), end.log.end(), "gap") != 0)
            return "bytes were delivered out of sequence";
        const auto v = end.engine.view(id_);
        if (!v || v->state < State::established || v->state >= State::aborted)
            return "";
        if (v->rcv_adv - v->rcv_nxt > 65535 || v->rcv_adv - v->rcv_nxt < 0)
            return "the window is not within its buffer";
        if (v->snd_nxt - v->snd_una < 0 || v->snd_max - v->snd_nxt < 0 || v->snd_end - v->snd_max < 0)
            return "send pointers out of order";
        return "";
    }

    EventQueue events;
    End end{events};
    std::size_t received = 0;

private:
    void input(const std::optional<View>& view) {
        Segment s{.tuple = {ip_b, ip_a, a_to_b.remote_port, a_to_b.local_port},
                  .seq = Seq(choices_.word()),
                  .ack = Seq(choices_.word()),
                  .flags = static_cast<std::uint8_t>(
                      choices_.below(4) ? flag_ack | (choices_.below(8) ? 0 : flag_fin) : choices_.word()),
                  .window = static_cast<std::uint16_t>(choices_.word())};
        if (view && choices_.below(8)) { // near valid values
            s.seq = view->rcv_nxt + (choices_.below(3) ? 0 : choices_.below(40'000) - 10'000);
            s.ack = view->snd_una + choices_.below(static_cast<unsigned>(view->snd_max - view->snd_una) + 2);
        }
        Buffer data(choices_.below(3) ? choices_.below(1500) : 0, 'f');
        if (s.has(flag_syn))
            data.clear(); // encode() puts options there, decode() takes them out
        s.payload = data;
        const Headers h = encode(s, 1, 64);
        Buffer packet(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
        packet.insert(packet.end(), data.begin(), data.end());
        end.engine.input(packet);
    }

    t3sim::test::Choices& choices_;
    Options options_{.mss = 1000};
    ConnId id_ = 1;
};

} // namespace t3sim::tcp::test
