// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The bounds of docs/card-model.md ("Memory limits") count costs. Here these are compared with the heap,
// while a queue becomes long and while it becomes short. Counted at operator new.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <new>

#include <malloc.h>
#include <sys/mman.h>

#include "sim/card/base/faulty_host.hh"
#include "sim/card/rnic/mpa.hh"
#include "sim/card/sge/responses.hh"
#include "sim/core/dma_table.hh"
#include "sim/core/fifo.hh"
#include "sim/net/qemu_socket.hh"
#include "sim/net/wire.hh"
#include "sim/tcp/reassembly.hh"
#include "tests/sim/fake_host.hh"
#include "tests/sim/hostile/effort.hh"
#include "tests/sim/tcp/pair.hh"
#include "tests/sim/toe/lab.hh"

namespace {

std::atomic<std::size_t> in_use = 0; // bytes of the heap

} // namespace

// NOLINTBEGIN(misc-new-delete-overloads)
void* operator new(std::size_t size) {
    void* block = std::malloc(size);
    if (!block)
        throw std::bad_alloc();
    in_use += malloc_usable_size(block) + sizeof(std::size_t); // the allocator's header
    return block;
}
void operator delete(void* block) noexcept {
    if (block)
        in_use -= malloc_usable_size(block) + sizeof(std::size_t);
    std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
    operator delete(block);
}
// NOLINTEND(misc-new-delete-overloads)

namespace t3sim::test {
namespace {

/// Blocks of a thread that are kept, and what the test itself allocates.
constexpr std::size_t apart = 160 << 10;

TEST(MemoryCosts, OfSegmentsInASendQueue) {
    EventQueue events;
    tcp::test::End a(events), b(events);
    a.wire = [&](Buffer packet) {
        events.after(tcp::microsecond, [&b, packet = std::move(packet)] { b.engine.input(packet); });
    };
    b.wire = [&](Buffer packet) {
        events.after(tcp::microsecond, [&a, packet = std::move(packet)] { a.engine.input(packet); });
    };
    b.auto_accept = tcp::Options{.receive_buffer = 400}; // few packets are on their way at a time
    b.engine.listen(7, 0, tcp::test::a_to_b.remote_port);
    ASSERT_TRUE(a.engine.open(1, tcp::test::a_to_b, {}));
    const auto run_for = [&](Time time) { tcp::test::run(events, {&a, &b}, events.now() + time); };
    run_for(tcp::millisecond);
    ASSERT_TRUE(a.up);

    constexpr unsigned segments = 20'000;
    b.stream.reserve(segments);
    const std::size_t before = in_use;
    const auto expect_within = [&] {
        const std::size_t cost = a.engine.memory().sending, heap = in_use - before;
        ASSERT_LE(heap, cost + apart) << a.engine.unacknowledged(1) << " bytes are queued";
    };
    for (unsigned n = 0; n < segments; ++n)
        ASSERT_TRUE(a.engine.send(1, Packet(1, tcp::Engine::record_headroom)));
    expect_within();
    EXPECT_GT(in_use - before, segments * 256U) << "the heap is counted";

    unsigned seen = 0;
    a.on_acked = [&](tcp::ConnId) {
        ++seen;
        expect_within();
    };
    run_for(10 * tcp::second);
    EXPECT_EQ(a.engine.unacknowledged(1), 0U);
    EXPECT_GT(seen, 100U);
}

/// The peers have all bytes but the last ones, and do not take these: the block of the record is still there.
void acknowledge_in_part(std::uint16_t mss, std::size_t record, std::uint32_t rest) {
    EventQueue events;
    tcp::test::End end(events);
    constexpr unsigned connections = 100;
    constexpr std::uint32_t iss = 1000, peer_iss = 5000;
    end.params.iss = [](const tcp::FourTuple&) { return iss; };
    tcp::FourTuple tuple = tcp::test::a_to_b;
    const auto reply = [&](std::uint8_t flags, std::uint32_t seq, tcp::Seq ack, std::uint16_t window) {
        end.engine.input(
            tcp::encode({.tuple = {tuple.remote_ip, tuple.local_ip, tuple.remote_port, tuple.local_port},
                         .seq = tcp::Seq(seq),
                         .ack = ack,
                         .flags = flags,
                         .window = window,
                         .mss = mss},
                        1, 64));
    };
    std::size_t before = 0;
    const auto expect_within = [&] {
        constexpr std::size_t page = 4096; // a large block has whole ones
        const std::size_t queues = tuple.local_port * (Fifo<int>::kept_bytes + page);
        ASSERT_LE(in_use - before, end.engine.memory().sending + queues + apart) << tuple.local_port;
    };
    for (tcp::ConnId id = 1; id <= connections; ++id) {
        tuple.local_port = static_cast<std::uint16_t>(id);
        ASSERT_TRUE(end.engine.open(id, tuple, {.mss = mss}));
        reply(tcp::flag_syn | tcp::flag_ack, peer_iss, tcp::Seq(iss + 1), 0xffff);
    }
    before = in_use;
    for (tcp::ConnId id = 1; id <= connections; ++id) {
        tuple.local_port = static_cast<std::uint16_t>(id);
        ASSERT_TRUE(end.engine.send(id, Packet(record, tcp::Engine::record_headroom)));
        const auto last = tcp::Seq(iss + 1) + (static_cast<std::uint32_t>(record) - rest);
        while (end.engine.unacknowledged(id) > rest) {
            events.advance(events.now() + 1); // what one event sends and frees is limited
            const tcp::Seq sent = end.engine.view(id)->snd_max;
            reply(tcp::flag_ack, peer_iss + 1, std::min(sent, last), sent < last ? 0xffff : 0);
            ASSERT_NO_FATAL_FAILURE(expect_within());
        }
    }
    EXPECT_GT(in_use - before, connections * record) << "the heap is counted";
    for (tcp::ConnId id = 1; id <= connections; ++id)
        ASSERT_TRUE(end.engine.abort(id, false));
    EXPECT_EQ(end.engine.memory().sending, 0U);
}

TEST(MemoryCosts, OfARecordThatIsAcknowledgedInPart) {
    acknowledge_in_part(1460, 250'000, 1460);
}

TEST(MemoryCosts, OfASegmentThatIsAcknowledgedUpToItsLastByte) {
    acknowledge_in_part(8960, 8960, 1);
}

struct Sender : Endpoint {
    void frame_in(Bytes) override {}
    void carrier(bool) override {}
};

void send_frames(const Impairments& impairments, unsigned frames) {
    EventQueue events;
    Wire wire(events, "w");
    Sender a, b;
    wire.attach(a, "a");
    wire.attach(b, "b");
    wire.impair(0, impairments);
    const std::size_t before = in_use;
    for (unsigned n = 0; n < frames; ++n) {
        wire.send(a, Packet(60));
        ASSERT_LE(in_use - before, wire.in_flight(0) + apart);
    }
    EXPECT_GT(in_use - before, frames * 256U);
}

TEST(MemoryCosts, OfFramesOnAWire) {
    send_frames({}, 5000);
}

TEST(MemoryCosts, OfFramesThatAnImpairmentDelays) {
    Impairments far;
    far.delay = tcp::second;
    send_frames(far, 20'000);
}

/// Response queues, one of them without a credit.
struct WaitingMessages {
    explicit WaitingMessages(unsigned queue) {
        irq.add_hooks(hooks);
        responses.add_hooks(hooks);
        fill_register_file(regs, hooks);
        regs.write(reg::SG_CONTROL, hw::sg_control::global_enable);
        hw::response_context::size.set(*responses.response_context(queue), 1024);
    }
    FakeHost host;
    EventQueue events;
    RegisterBank regs{"costs", reg::file_size};
    Counters counters;
    Irq irq{host, regs};
    Faults faults{counters};
    RegisterHooks hooks;
    Responses responses{host, events, regs, irq, faults, counters, [](unsigned) {}};
};

TEST(MemoryCosts, OfMessagesThatWaitForTheHost) {
    WaitingMessages card(0);
    const std::size_t before = in_use;
    for (const std::size_t size : {32U, 100U, 2000U})
        for (int n = 0; n < 1500; ++n) {
            card.responses.post_cpl(0, Buffer(size, 0x39));
            ASSERT_LE(in_use - before, card.responses.waiting_bytes() + apart);
        }
    EXPECT_GT(in_use - before, 1500U * 2000);
    EXPECT_EQ(card.counters.value("sge.messages_lost"), 0U);
}

/// A restart takes the messages of a queue away, and the host fills it again at once.
TEST(MemoryCosts, OfMessagesOfQueuesThatAreRestarted) {
    constexpr std::size_t bound = hw::queue_sets * Responses::waiting_bytes_limit;
    WaitingMessages card(7);
    const std::size_t before = in_use;
    std::size_t most = 0;
    for (int restarts = 0; restarts < 12; ++restarts) {
        for (unsigned n = 0; n < Responses::waiting_bytes_limit / 300; ++n)
            card.responses.post_cpl(7, Buffer(144, 0x22));
        most = std::max(most, in_use - before);
        card.responses.restart(7);
    }
    EXPECT_LE(most, bound + apart);
    EXPECT_GT(most, bound / 2);
    EXPECT_EQ(card.counters.value("sge.messages_lost"), 0U);
    card.events.advance(tcp::second);
    EXPECT_LE(in_use - before, apart);
}

/// Before an event frees anything.
TEST(MemoryCosts, OfQueuesThatAreRestartedAgainAndAgain) {
    constexpr std::size_t bound = hw::queue_sets * Responses::waiting_bytes_limit;
    for (const unsigned messages : {1U, 1 + Discard::at_a_time}) {
        const auto run = [messages] {
            WaitingMessages card(7);
            Effort effort;
            const std::size_t before = in_use;
            for (unsigned restarts = messages == 1 ? 200'000 : 10'000; restarts != 0; --restarts) {
                for (unsigned n = 0; n < messages; ++n)
                    card.responses.post_cpl(7, Buffer(32, 0x22));
                effort.action_begins();
                card.responses.restart(7);
                effort.action_ends();
                if (in_use - before > bound + apart)
                    effort.look_at_heap(); // which is more than an Effort allows
            }
            return effort;
        };
        EXPECT_EQ(Effort::excess_each_time(run), "") << messages;
    }
}

/// A reset takes the connections away, and the host opens others at once.
TEST(MemoryCosts, OfConnectionsOfACardThatIsReset) {
    EventQueue events;
    Machine card(events);
    const Buffer l2t = words("01c00000 81000003 12000001 007ff801 00000007 43334400");
    Buffer open = words(TwoCards::act_open);
    std::size_t first = 0;
    const std::size_t before = in_use;
    for (int resets = 0; resets < 10; ++resets) {
        card.toe.control_wr(0, l2t);
        for (unsigned n = 0; n < 2000; ++n) {
            put_be16(&open[12], static_cast<std::uint16_t>(n)); // the port
            card.toe.control_wr(0, open);
        }
        card.sge.messages.clear();
        card.mac.frames.clear();
        card.mac.frames.shrink_to_fit();
        if (resets == 0)
            first = in_use - before;
        ASSERT_LE(in_use - before, 2 * first + apart) << resets;
        card.toe.reset();
    }
    EXPECT_GT(first, 2000U * 500);
    EXPECT_EQ(card.counters.value("toe.malformed"), 0U);
}

/// Each connection that ended while it waited for memory left an entry in the list of those that wait.
TEST(MemoryCosts, OfConnectionsThatEndWhileTheyWait) {
    constexpr Tid waiting = 500;
    CardAndScript script;
    Machine& card = script.a;
    Tid filling = 0;
    for (; card.toe.memory().sending < Toe::send_memory; ++filling) {
        script.connect_from(filling);
        script.offload_in_an_event(greedy_data(filling, 250'000));
    }
    card.toe.params().tids = filling + waiting;
    const std::size_t requests = card.toe.memory().work_requests;
    std::size_t before = 0;
    for (unsigned n = 0; n < 100; ++n) {
        for (Tid tid = filling; tid < filling + waiting; ++tid) { // the oldest first
            script.connect_from(tid);
            card.offload(greedy_data(tid, 10'000));
            ASSERT_GT(card.toe.memory().work_requests, requests) << "it waits";
            card.offload(abort_req(tid));
            card.control(tid_release(tid));
        }
        script.run(2 * tcp::millisecond);
        card.sge.messages.clear();
        card.mac.frames.clear();
        if (n == 2)
            before = in_use;
    }
    EXPECT_LE(in_use, before + (64U << 10));
}

/// FPDUs of three segments each, of connections that end. A guest that uses up each turn sends them.
TEST(MemoryCosts, OfFpdusOfConnectionsThatEnd) {
    constexpr Tid connections = 10;
    constexpr unsigned turns = 10, fpdus = 40;
    CardAndScript script;
    Machine& card = script.a;
    const std::function<void()> busy = [&] { script.events.after(0, busy); };
    busy();
    std::size_t of_one = 0;
    const std::size_t before = in_use;
    for (Tid first = 0; first < 20 * connections; first += connections) {
        card.toe.params().tids = first + connections;
        for (Tid tid = first; tid < first + connections; ++tid)
            script.connect_from(tid, 48);
        for (unsigned turn = 0; turn < turns; ++turn) {
            for (Tid tid = first; tid < first + connections; ++tid)
                for (unsigned n = 0; n < fpdus && card.toe.send_space_or_wait(tid) != 0; ++n)
                    card.toe.send_record(tid, Packet(136, Toe::record_headroom));
            bool over = false;
            script.events.run_due(script.events.now(), [&] { return !std::exchange(over, true); });
        }
        for (Tid tid = first; tid < first + connections; ++tid)
            card.offload(abort_req(tid));
        card.sge.messages.clear();
        card.mac.frames.clear();
        card.mac.frames.shrink_to_fit();
        if (first == 0)
            of_one = in_use - before;
        ASSERT_LE(in_use - before, 2 * of_one + apart) << first;
    }
    EXPECT_GT(of_one, connections * turns * fpdus * 3 * 64);
}

TEST(MemoryCosts, OfWorkRequestsThatWait) {
    constexpr Tid waiting = 500;
    CardAndScript script;
    Machine& card = script.a;
    Tid filling = 0;
    for (; card.toe.memory().sending < Toe::send_memory; ++filling) {
        script.connect_from(filling);
        script.offload_in_an_event(greedy_data(filling, 250'000));
    }
    card.toe.params().tids = filling + waiting;
    for (Tid tid = filling; tid < filling + waiting; ++tid)
        script.connect_from(tid);
    const std::size_t before = in_use, requests = card.toe.memory().work_requests;
    for (unsigned n = 0; n < 16; ++n) {
        for (Tid tid = filling; tid < filling + waiting; ++tid)
            card.offload(greedy_data(tid, 1));
        ASSERT_LE(in_use - before, card.toe.memory().work_requests - requests + apart) << n;
    }
    EXPECT_GT(in_use - before, std::size_t{16} * waiting * 64);
}

/// A client that has its memory mapped page by page.
TEST(MemoryCosts, OfTheTableOfAClientsMemory) {
    constexpr std::size_t bound = 8 << 20; // docs/card-model.md, Memory limits
    const Fd file(memfd_create("guest", MFD_CLOEXEC));
    ASSERT_EQ(ftruncate(file.get(), DmaTable::page), 0);
    Worker worker;
    const std::size_t before = in_use;
    DmaTable table(worker);
    for (std::uint64_t n = 0; n < DmaTable::max_ranges; ++n)
        ASSERT_EQ(table.map(2 * n * DmaTable::page, DmaTable::page, file.get(), 0, true, true), 0);
    EXPECT_LE(in_use - before, bound);
    EXPECT_GT(in_use - before, DmaTable::max_ranges * 64);
    table.clear();
    static std::atomic<bool> freed = false; // by the worker: the next test counts, too
    worker.run([] {
        freed = true;
        freed.notify_one();
    });
    freed.wait(false);
}

/// Ranges of one byte with holes between them.
TEST(MemoryCosts, OfDataBehindAHole) {
    EventQueue events;
    tcp::test::End end(events);
    constexpr unsigned connections = 200;
    tcp::FourTuple any = tcp::test::a_to_b;
    std::size_t before = 0;
    const auto segment = [&](unsigned n, std::uint8_t flags, std::uint32_t seq, std::uint32_t ack,
                             Bytes data) {
        tcp::Segment s{.tuple = {tcp::test::ip_b, tcp::test::ip_a, any.remote_port,
                                 static_cast<std::uint16_t>(1000 + n)},
                       .seq = tcp::Seq(seq),
                       .ack = tcp::Seq(ack),
                       .flags = flags,
                       .window = 0xffff,
                       .payload = data};
        const tcp::Headers h = encode(s, 1, 64);
        Buffer packet(h.bytes.begin(), h.bytes.begin() + static_cast<std::ptrdiff_t>(h.size));
        packet.insert(packet.end(), data.begin(), data.end());
        end.engine.input(packet);
    };
    end.params.iss = [](const tcp::FourTuple&) { return 1000U; };
    for (unsigned n = 0; n < connections; ++n) {
        any.local_port = static_cast<std::uint16_t>(1000 + n);
        ASSERT_TRUE(end.engine.open(1 + n, any, {.receive_buffer = 64 << 10}));
        segment(n, tcp::flag_syn | tcp::flag_ack, 5000, 1001, {});
        ASSERT_EQ(end.engine.view(1 + n)->state, tcp::State::established);
    }
    end.log.reserve(10);
    before = in_use;
    const std::uint8_t byte = 7;
    for (unsigned n = 0; n < connections; ++n)
        for (std::uint32_t i = 0; i < tcp::Reassembly::max_ranges; ++i) {
            segment(n, tcp::flag_ack, 5011 + 10 * i, 1001, Bytes(&byte, 1));
            ASSERT_LE(in_use - before, end.engine.memory().receiving + apart) << n << ", range " << i;
        }
    EXPECT_GT(in_use - before, connections * tcp::Reassembly::max_ranges * 32);
}

/// A window of data behind one hole.
TEST(MemoryCosts, OfMuchDataBehindAHole) {
    tcp::Reassembly held;
    const Buffer segment(1460);
    const std::size_t before = in_use;
    std::uint32_t end = 1;
    for (; end < 16U << 20; end += 1460) {
        ASSERT_TRUE(held.insert(tcp::Seq(end), segment));
        ASSERT_LE(in_use - before, held.cost() + apart) << end;
    }
    EXPECT_GT(in_use - before, 16U << 20);
    for (std::uint32_t next = 1; next != end;) {
        next += static_cast<std::uint32_t>(held.take(tcp::Seq(next)).size());
        ASSERT_LE(in_use - before, held.cost() + apart) << next;
    }
}

/// A peer sends each connection one FPDU of 64 KB with markers.
TEST(MemoryCosts, OfTheScratchOfFpdusWithMarkers) {
    constexpr std::size_t connections = 100, bound = 8 << 10;
    Framer framer({.markers = true});
    const Packet fpdu = framer.finish(Framer::start(60'000));
    fpdu.fill_in();
    std::vector<Deframer> all(connections, Deframer({.markers = true}));
    const std::size_t before = in_use;
    unsigned received = 0;
    for (Deframer& one : all)
        one.feed(fpdu, [&](Bytes ulpdu, MpaError error) {
            received += ulpdu.size() == 60'000 && error == MpaError::none;
            return true;
        });
    EXPECT_EQ(received, connections);
    EXPECT_LE(in_use - before, connections * bound);
}

/// The peer chooses the pieces.
TEST(MemoryCosts, OfAnFpduThatHasBegun) {
    Framer framer({});
    const Packet fpdu = framer.finish(Framer::start(65'000));
    const std::size_t most = fpdu.size() - 1;
    const std::size_t before = in_use;
    Deframer one({});
    for (std::size_t at = 0, size = 0; at < most; at += size) {
        size = std::min<std::size_t>(at % 2 == 0 ? 16'385 : 7'000, most - at);
        one.feed(Bytes(fpdu).subspan(at, size), [](Bytes, MpaError) { return true; });
        ASSERT_LE(in_use - before, 64U << 10);
    }
}

/// A QEMU that does not read.
TEST(MemoryCosts, OfFramesThatQemuDoesNotTake) {
    constexpr std::size_t bound = 1 << 20; // docs/card-model.md, Memory limits
    EventLoop loop;
    Wire wire(loop.queue(), "w");
    Sender card;
    char path[] = "/tmp/t3sim-memory-XXXXXX";
    const std::string folder = mkdtemp(path);
    {
        QemuSocket end(loop, wire, folder + "/n");
        wire.attach(end, "qemu");
        wire.attach(card, "a.0");
        const Fd qemu = connect_unix(folder + "/n");
        while (!end.connected())
            loop.run_once(10);
        const std::size_t before = in_use;
        const Buffer frame(60);
        while (end.dropped() < 100) {
            end.frame_in(frame);
            ASSERT_LE(in_use - before, bound + apart);
        }
        EXPECT_GT(in_use - before, bound / 2);
    }
    std::filesystem::remove_all(folder);
}

/// Operations of four bytes, which a fault delays.
TEST(MemoryCosts, OfDelayedOperations) {
    FakeHost host;
    EventQueue events;
    Counters counters;
    Faults faults{counters};
    FaultyHost bus{host, events, faults, counters["lost"]};
    const std::uint64_t at = host.alloc(4096);
    faults.dma.arm(1000);
    const Buffer word(4);
    const std::size_t before = in_use;
    for (int i = 0; i < 500; ++i) {
        bus.dma_write(at, word);
        ASSERT_LE(in_use - before, bus.waiting_bytes() + apart);
    }
    EXPECT_GT(in_use - before, 500U * 64);
}

} // namespace
} // namespace t3sim::test
