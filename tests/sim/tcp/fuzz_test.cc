// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// Segments with good checksums and any content, and host operations in any order. Nothing may crash, no
// buffer may grow past its window, no event may come out of order.
#include "tests/sim/tcp/script.hh"

#include <random>

namespace t3sim::tcp::test {
namespace {

class TcpFuzz : public Script, public testing::WithParamInterface<unsigned> {};

TEST_P(TcpFuzz, AnySegmentsAndAnyOperations) {
    std::mt19937 random(GetParam());
    const auto pick = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    options.receive_buffer = 20'000;
    options.window_scale = 2;
    options.keepalive = true;
    end.consume = false;
    end.params.msl = pick(2) * second;
    end.engine.listen(9, 0, 50000);
    std::size_t received = 0;
    end.on_received = [&](ConnId id, Bytes data) {
        received += data.size();
        if (pick(50) == 0)
            end.engine.abort(id, pick(2) != 0);
    };
    ConnId id = 1;
    for (int step = 0; step < 4000; ++step) {
        const auto view = end.engine.view(id);
        switch (pick(12)) {
        case 0:
            if (!view && pick(2))
                end.engine.open(id, a_to_b, options);
            else
                end.engine.accept(id, options);
            break;
        case 1:
            end.engine.send(id, Buffer(1 + pick(5000)), pick(2) != 0);
            break;
        case 2:
            end.engine.credit(id, pick(30'000), pick(2) != 0);
            break;
        case 3:
            end.engine.hold(id, pick(2) != 0);
            break;
        case 4:
            run(pick(20) == 0 ? pick(100) * second : pick(1000) * millisecond);
            break;
        case 5:
            if (pick(20) == 0)
                end.engine.close(id);
            else if (pick(40) == 0)
                end.engine.abort(id, true);
            break;
        default: {
            Say s{.flags =
                      static_cast<std::uint8_t>(pick(4) ? flag_ack | (pick(8) ? 0 : flag_fin) : random()),
                  .seq = static_cast<std::uint32_t>(random()),
                  .ack = static_cast<std::uint32_t>(random()),
                  .data = std::string(pick(3) ? pick(1500) : 0, 'f'),
                  .window = static_cast<std::uint16_t>(random())};
            if (view && pick(8)) { // near what is right
                s.seq = (view->rcv_nxt + (pick(3) ? 0 : pick(40'000) - 10'000)).value();
                s.ack =
                    (view->snd_una + pick(static_cast<unsigned>(view->snd_max - view->snd_una) + 2)).value();
            }
            if (s.flags & flag_syn)
                s.data.clear(); // encode() puts options there, decode() takes them out
            say(s);
        }
        }
        sent.clear();
        payloads.clear();
        if (const auto v = end.engine.view(id);
            v && v->state >= State::established && v->state < State::dead) {
            ASSERT_LE(v->rcv_adv - v->rcv_nxt, 65535);
            ASSERT_GE(v->rcv_adv - v->rcv_nxt, 0);
            ASSERT_LE(v->snd_una, v->snd_nxt);
            ASSERT_LE(v->snd_nxt, v->snd_max);
            ASSERT_LE(v->snd_max, v->snd_end);
        } else if (!v || v->state == State::dead) { // next life
            end.engine.forget(id);
            id = end.next_id = id + 1;
            end.stream.clear();
            end.up.reset();
        }
        ASSERT_LE(end.engine.connections(), 2U);
    }
    EXPECT_EQ(std::count(end.log.begin(), end.log.end(), "gap"), 0);
    EXPECT_GT(std::count(end.log.begin(), end.log.end(), "established"), 5) << "this seed has tried little";
    EXPECT_GT(received, 10'000U);
}
INSTANTIATE_TEST_SUITE_P(Seeds, TcpFuzz, testing::Range(0U, 12U));

} // namespace
} // namespace t3sim::tcp::test
