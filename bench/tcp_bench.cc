// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
//   tcp_bench CONNECTIONS COUNT     COUNT data segments, each to another of so many connections of one engine
//
// bench/run counts instructions: the cost of a segment must not depend on the number of connections.
#include <cstdio>
#include <cstdlib>

#include "tests/sim/tcp/pair.hh"

namespace {

using namespace t3sim;
using namespace t3sim::tcp;

class Peers {
public:
    explicit Peers(unsigned count) : next_(count, 5001) {
        end_.params.iss = [](const FourTuple&) { return 1000U; };
        for (unsigned n = 0; n < count; n++) {
            if (!end_.engine.open(n, tuple(n), {}))
                std::abort();
            inject(n, flag_syn | flag_ack, 5000, {});
        }
        if (end_.engine.connections() != count)
            std::abort();
        end_.log.clear();
        end_.log.shrink_to_fit();
    }
    void segment(unsigned n) {
        inject(n, flag_ack, next_[n], data_);
        next_[n] += static_cast<std::uint32_t>(data_.size());
        end_.stream.clear();
    }

private:
    static FourTuple tuple(unsigned n) {
        return {.local_ip = 0x0a000001,
                .remote_ip = 0x0a000002 + n / 50'000,
                .local_port = static_cast<std::uint16_t>(1024 + n % 50'000),
                .remote_port = 7471};
    }
    void inject(unsigned n, int flags, std::uint32_t seq, Bytes data) {
        const FourTuple t = tuple(n);
        const Segment s{.tuple = {t.remote_ip, t.local_ip, t.remote_port, t.local_port},
                        .seq = Seq(seq),
                        .ack = Seq(1001),
                        .flags = static_cast<std::uint8_t>(flags),
                        .window = 0xffff,
                        .payload = data};
        const Headers h = encode(s, 1, 64);
        packet_.assign(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
        packet_.insert(packet_.end(), data.begin(), data.end());
        if (!end_.engine.input(packet_))
            std::abort();
    }

    EventQueue events_;
    tcp::test::End end_{events_};
    std::vector<std::uint32_t> next_;
    Buffer data_ = Buffer(1000, 'x'), packet_;
};

} // namespace

int main(int argc, char** argv) {
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s CONNECTIONS COUNT\n", argv[0]);
        return 2;
    }
    const auto connections = static_cast<unsigned>(std::atoi(argv[1]));
    Peers peers(connections);
    for (unsigned i = 0; i < static_cast<unsigned>(std::atoi(argv[2])); i++)
        peers.segment(i * 7919 % connections);
}
