// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <algorithm>
#include <array>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <random>

#include <linux/magic.h>
#include <sys/vfs.h>

#include "sim/core/log.hh"
#include "tests/sim/hostile/effort.hh"
#include "tests/sim/vfio/client.hh"
#include "tests/sim/waiters.hh"

namespace t3sim::vfio {
namespace {

using Access = RecordingDevice::Access;
constexpr std::uint32_t eventfds = set_irqs::data_eventfd | set_irqs::trigger;

// Of memory_file(), in this process. The worker of an earlier test may have some.
bool guests_have_mappings(std::ptrdiff_t count) {
    return eventually([count] {
        std::ifstream maps("/proc/self/maps");
        std::ptrdiff_t found = 0;
        for (std::string line; std::getline(maps, line);)
            found += line.find("/memfd:guest") != std::string::npos;
        return found == count;
    });
}

TEST_F(ServerTest, VersionReplyIsNotLongerThanTheRequest) {
    const auto reply = call(Command::version, version_body());
    EXPECT_EQ(reply.as<Version>().minor, 0);
    EXPECT_LE(reply.body.size(), version_body().size());
    EXPECT_NE(std::string(reply.body.begin() + 4, reply.body.end()).find("write_multiple"),
              std::string::npos);
    EXPECT_EQ(reply.body.back(), 0);
}

/// With the request of cloud-hypervisor's client, which reads the capabilities without looking for them, and
/// with shorter ones.
TEST_F(ServerTest, VersionReplyHasTheCapabilitiesThatFit) {
    const auto reply_to = [this](const std::string& text) {
        Buffer body = raw(Version{0, 0});
        body.insert(body.end(), text.c_str(), text.c_str() + text.size() + 1);
        const Buffer reply = call(Command::version, body).body;
        EXPECT_LE(reply.size(), body.size());
        client.reset();
        settle();
        connect();
        return std::string(reply.begin() + 4, reply.end());
    };
    using namespace std::string_literals;
    EXPECT_EQ(reply_to(R"({"capabilities":{"max_msg_fds":1,"max_data_xfer_size":1048576,)"
                       R"("migration":{"pgsize":4096}}})"),
              R"({"capabilities":{"max_msg_fds":16,"max_data_xfer_size":4096,"write_multiple":true}})"
              "\0"s);
    EXPECT_EQ(reply_to(R"({"capabilities":{"max_msg_fds":8,"max_dma_maps":8}})"),
              R"({"capabilities":{"max_data_xfer_size":4096}})"
              "\0"s);
    EXPECT_EQ(reply_to(R"({"capabilities":{}})"), R"({"capabilities":{}})"
                                                  "\0"s);
    EXPECT_EQ(reply_to("{}"), "");
}

TEST_F(ServerTest, VersionWithoutTextGetsNone) {
    EXPECT_EQ(call(Command::version, raw(Version{0, 0})).body.size(), 4U);
}

TEST_F(ServerTest, VersionsThatAreRefused) {
    call(Command::version, raw(Version{1, 0}), EINVAL);
    call(Command::version, join({raw(Version{0, 0}), {'{', '}'}}), EINVAL); // no NUL
    call(Command::version, join({raw(Version{0, 0}), {'{', 'x', 0}}), EINVAL);
    call(Command::version, {1}, EINVAL);
    Buffer text(4097, ' '); // one byte longer than a client may send
    text.front() = '{';
    text[4095] = '}';
    text.back() = 0;
    call(Command::version, join({raw(Version{0, 0}), text}), EINVAL);
    negotiate();
    call(Command::version, version_body(), EINVAL); // twice
}

TEST_F(ServerTest, AnythingBeforeVersionEndsTheConnection) {
    send_raw(frame(Command::device_reset, {}));
    EXPECT_TRUE(hung_up());
    EXPECT_FALSE(server.connected());
}

TEST_F(ServerTest, DeviceRegionsAndInterrupts) {
    negotiate();
    const auto info = call(Command::device_get_info, raw(DeviceInfo{16, 0, 0, 0})).as<DeviceInfo>();
    EXPECT_EQ(info.flags, 3U);
    EXPECT_EQ(info.num_regions, 9U);
    EXPECT_EQ(info.num_irqs, 5U);
    const std::uint64_t sizes[] = {4096, 0, 8 << 20, 0, 16384, 0, 0, 4096, 0};
    for (std::uint32_t i = 0; i < std::size(sizes); i++) {
        const auto region =
            call(
                Command::device_get_region_info,
                raw(RegionInfo{.argsz = 32, .flags = 0, .index = i, .cap_offset = 0, .size = 0, .offset = 0}))
                .as<RegionInfo>();
        EXPECT_EQ(region.size, sizes[i]) << i;
        EXPECT_EQ(region.flags, sizes[i] ? 3U : 0U) << i;
    }
    const std::uint32_t counts[] = {1, 1, 9, 1, 0};
    for (std::uint32_t i = 0; i < std::size(counts); i++)
        EXPECT_EQ(call(Command::device_get_irq_info, raw(IrqInfo{16, 0, i, 0})).as<IrqInfo>().count,
                  counts[i])
            << i;
    call(Command::device_get_region_info, raw(RegionInfo{32, 0, 9, 0, 0, 0}), EINVAL);
    call(Command::device_get_irq_info, raw(IrqInfo{16, 0, 5, 0}), EINVAL);
    call(Command::device_get_info, raw(std::uint32_t{16}), EINVAL);
    call(Command::device_get_info, raw(DeviceInfo{8, 0, 0, 0}), EINVAL);
}

TEST_F(ServerTest, RegisterReadsAndWrites) {
    negotiate();
    call(Command::region_write, join({raw(RegionAccess{0x10, 0, 4}), raw(std::uint32_t{0x12345678})}));
    const auto reply = call(Command::region_read, raw(RegionAccess{0x10, 0, 4}));
    ASSERT_EQ(reply.body.size(), 20U);
    std::uint32_t value;
    std::memcpy(&value, reply.body.data() + 16, 4);
    EXPECT_EQ(value, 0x12345678U);
    EXPECT_EQ(reply.as<RegionAccess>().count, 4U);
    EXPECT_EQ(device.writes, (std::vector<Access>{{0, 0x10, 4, 0x12345678}}));
}

TEST_F(ServerTest, OddSizesBecomeAlignedAccesses) {
    negotiate();
    call(Command::region_read, raw(RegionAccess{0x3, 0, 11}));
    EXPECT_EQ(device.reads, (std::vector<Access>{{0, 3, 1, 0}, {0, 4, 4, 0}, {0, 8, 4, 0}, {0, 12, 2, 0}}));
    EXPECT_EQ(call(Command::region_read, raw(RegionAccess{0x10, 0, 0})).body.size(), 16U);
}

TEST_F(ServerTest, PostedWritesGetNoReply) {
    negotiate();
    send_raw(frame(Command::region_write, join({raw(RegionAccess{0x20, 2, 4}), raw(std::uint32_t{7})}),
                   flag::no_reply));
    send_raw(frame(Command::region_write, join({raw(RegionAccess{0x7fffff, 2, 4}), raw(std::uint32_t{7})}),
                   flag::no_reply)); // out of bounds: still no reply
    EXPECT_FALSE(receive());
    EXPECT_EQ(device.writes, (std::vector<Access>{{2, 0x20, 4, 7}}));
    EXPECT_TRUE(server.connected());
}

TEST_F(ServerTest, WriteMultiKeepsOrderAndSkipsTheBad) {
    negotiate();
    Buffer body = raw(std::uint64_t{4});
    for (std::uint32_t i = 0; i < 4; i++) {
        WriteMultiElement e{.offset = i * 8, .region = i == 2 ? 6U : 2U, .count = 4, .data = {}};
        e.data[0] = static_cast<std::uint8_t>(i + 1);
        body = join({body, raw(e)});
    }
    send_raw(frame(Command::region_write_multi, body, flag::no_reply));
    EXPECT_FALSE(receive());
    EXPECT_EQ(device.writes, (std::vector<Access>{{2, 0, 4, 1}, {2, 8, 4, 2}, {2, 24, 4, 4}}));
    call(Command::region_write_multi, join({raw(std::uint64_t{0xaaaaaaaaaaaaaab}), Buffer(24)}), EINVAL);
    call(Command::region_write_multi, join({raw(std::uint64_t{2}), Buffer(24)}), EINVAL);
    EXPECT_EQ(call(Command::region_write_multi, raw(std::uint64_t{0})).as<std::uint64_t>(), 0U);
}

/// With a device whose register writes take longer than a turn, one message of many writes must not starve
/// other descriptors.
TEST_F(ServerTest, AMessageOfManyLongWritesTakesManyTurns) {
    struct Slow : RecordingDevice {
        void mmio_write(unsigned bar, std::uint64_t offset, unsigned size, std::uint64_t value) override {
            RecordingDevice::mmio_write(bar, offset, size, value);
            const auto end =
                std::chrono::steady_clock::now() + 2 * std::chrono::nanoseconds(EventLoop::turn_time);
            while (std::chrono::steady_clock::now() < end) {
            }
        }
    } slow;
    server.attach(slow);
    negotiate();
    constexpr std::uint32_t count = 100;
    Buffer body = raw(std::uint64_t{count});
    for (std::uint32_t n = 0; n < count; ++n)
        body = join({body, raw(WriteMultiElement{.offset = 4 * n, .region = 2, .count = 4, .data = {}})});
    send_raw(frame(Command::region_write_multi, body));

    const Fd other(eventfd(1, EFD_CLOEXEC)); // always ready
    std::size_t longest = 0, last = 0;
    const auto watch = loop.watch(other.get(), EPOLLIN, [&](std::uint32_t) {
        longest = std::max(longest, slow.writes.size() - last);
        last = slow.writes.size();
    });
    for (int turns = 0; turns < 1000 && slow.writes.size() < count; ++turns)
        loop.run_once(0);
    loop.unwatch(watch);
    EXPECT_EQ(slow.writes.size(), count);
    EXPECT_LT(longest, 10U);
    const auto reply = receive();
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->as<std::uint64_t>(), count);
    set_command(0); // and the connection goes on
    client.reset();
    settle();
    server.attach(device);
}

TEST_F(ServerTest, AccessesOutOfBounds) {
    negotiate();
    const RegionAccess bad[] = {{4096, 0, 1},       {4094, 0, 4}, {~0ULL, 0, 4}, {~0ULL - 3, 0, 8},
                                {0, 1, 4},          {0, 6, 4},    {0, 8, 1},     {0, 9, 1},
                                {0, 0xffffffff, 4}, {4095, 7, 2}, {0, 2, 4097},  {0, 2, 0xffffffff}};
    for (const auto& access : bad)
        call(Command::region_read, raw(access), EINVAL);
    for (const auto& access : {bad[0], bad[1], bad[2], bad[4], bad[10]})
        call(Command::region_write, join({raw(access), Buffer(access.count)}), EINVAL);
    call(Command::region_write, join({raw(RegionAccess{0, 0, 8}), Buffer(4)}),
         EINVAL); // less data than the count
    call(Command::region_write, join({raw(RegionAccess{0, 0, 4}), Buffer(8)}), EINVAL); // more
    call(Command::region_read, Buffer(15), EINVAL);
    EXPECT_TRUE(device.reads.empty());
    EXPECT_TRUE(device.writes.empty());
    EXPECT_EQ(call(Command::region_read, raw(RegionAccess{0, 7, 4096})).body.size(), 16U + 4096U);
}

TEST_F(ServerTest, DmaThroughAMappedFile) {
    negotiate();
    const Fd file = memory_file(0x10000);
    map(0x100000, 0x10000, file);
    const Buffer data{1, 2, 3, 4, 5};
    EXPECT_FALSE(server.dma_write(0x100100, data)) << "bus mastering is off";
    set_command(0x0006);
    EXPECT_TRUE(server.dma_write(0x100100, data));
    Buffer there(5);
    ASSERT_EQ(pread(file.get(), there.data(), 5, 0x100), 5);
    EXPECT_EQ(there, data);
    Buffer back(5);
    EXPECT_TRUE(server.dma_read(0x100100, back));
    EXPECT_EQ(back, data);
    EXPECT_TRUE(server.dma_store(0x100200, 0xcafe));
    std::uint32_t word = 0;
    EXPECT_TRUE(server.dma_load(0x100200, word));
    EXPECT_EQ(word, 0xcafeU);
    EXPECT_FALSE(server.dma_load(0x100202, word)) << "not aligned";
    EXPECT_EQ(word, 0U);
}

TEST_F(ServerTest, DmaAcrossTwoMapsAndAcrossAHole) {
    negotiate();
    set_command(0x0006);
    const Fd file = memory_file(0x4000);
    map(0x0000, 0x1000, file, 0x0000);
    map(0x1000, 0x1000, file, 0x2000); // adjacent in the guest, not in the file
    map(0x3000, 0x1000, file, 0x3000); // a hole at 0x2000
    const Buffer data(16, 0x5a);
    EXPECT_TRUE(server.dma_write(0xff8, data));
    Buffer there(8);
    ASSERT_EQ(pread(file.get(), there.data(), 8, 0x2000), 8);
    EXPECT_EQ(there, Buffer(8, 0x5a));

    EXPECT_FALSE(server.dma_write(0x1ff8, data)) << "runs into the hole";
    ASSERT_EQ(pread(file.get(), there.data(), 8, 0x2ff8), 8);
    EXPECT_EQ(there, Buffer(8, 0)) << "nothing may have been written before the hole";
    Buffer back(16, 0xee);
    EXPECT_FALSE(server.dma_read(0x2ff8, back));
    EXPECT_EQ(back, Buffer(16, 0)) << "zeroed";
    EXPECT_FALSE(server.dma_read(~std::uint64_t{0} - 7, back)) << "wraps";
    EXPECT_FALSE(server.dma_read(0x4000, back));
    EXPECT_TRUE(server.dma_read(0x9999999, {})) << "an empty read succeeds";
}

TEST_F(ServerTest, DmaRespectsAccessRights) {
    negotiate();
    set_command(0x0006);
    const Fd file = memory_file(0x2000);
    map(0x0000, 0x1000, file, 0, dma_readable);
    map(0x1000, 0x1000, file, 0x1000);
    Buffer data(8, 1);
    EXPECT_TRUE(server.dma_read(0, data));
    EXPECT_FALSE(server.dma_write(0, data)) << "read-only, as the firmware is";
    EXPECT_FALSE(server.dma_store(0, 1));
    EXPECT_FALSE(server.dma_write(0xffc, data)) << "begins read-only";
    map(0x8000, 0x1000, Fd());
    EXPECT_FALSE(server.dma_read(0x8000, data)) << "no descriptor, no access";
}

TEST_F(ServerTest, MapsThatAreRefused) {
    negotiate();
    const Fd file = memory_file(0x3000);
    map(0x1000, 0x1000, file);
    constexpr auto rw = dma_readable | dma_writable;
    map(0x1000, 0x1000, file, 0, rw, EEXIST);
    map(0x0000, 0x2000, file, 0, rw, EEXIST);
    map(0x0000, 0x3000, file, 0, rw, EEXIST);
    map(0x4000, 0, file, 0, rw, EINVAL);
    map(~0ULL - 0xfff, 0x2000, file, 0, rw, EINVAL);      // wraps
    map(0x4000, 0x1000, file, 0x3000, rw, EINVAL);        // beyond the end of the file
    map(0x4000, 0x1000, file, ~0ULL - 0xfff, rw, EINVAL); // offset wraps
    map(0x4000, 0x1000, file, 0, 4, EINVAL);              // unknown flag
    const Fd pipe_like(eventfd(0, EFD_CLOEXEC));
    map(0x4000, 0x1000, pipe_like, 0, rw, EINVAL);
    call(Command::dma_map, raw(DmaMapRequest{32, 3, 0, 0x4000, 0x1000}), EINVAL, {file.get(), file.get()});
    call(Command::dma_map, Buffer(31), EINVAL);
    map(0x2000, 0x1000, file, 0x1000);
    map(~0ULL - 0xfff, 0x1000, file); // the very top is fine
}

/// Of ranges of one byte a transfer of 64 KiB would have 65,536.
TEST_F(ServerTest, RangesConsistOfPages) {
    negotiate();
    const Fd file = memory_file(0x3000);
    constexpr auto rw = dma_readable | dma_writable;
    map(0x4000, 1, file, 0, rw, EINVAL);
    map(0x4000, 0x800, file, 0, rw, EINVAL);
    map(0x4800, 0x1000, file, 0, rw, EINVAL);
    map(0x4000, 0x1000, file, 0x800, rw, EINVAL);
    map(0x4000, 1, Fd(), 0, rw, EINVAL);
    map(0x4000, 0x1000, Fd(), 0x800); // of a range without a file no offset is used
}

TEST_F(ServerTest, OnlyFilesInMemoryAreMapped) {
    negotiate();
    constexpr auto rw = dma_readable | dma_writable;
    const Fd disk(open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
    if (struct statfs system{}; fstatfs(disk.get(), &system) == 0 && system.f_type != TMPFS_MAGIC)
        map(0, 0x1000, disk, 0, dma_readable, EINVAL);
    const Fd folder(open("/dev/shm", O_RDONLY | O_CLOEXEC)), zero(open("/dev/zero", O_RDWR | O_CLOEXEC)),
        path(open("/proc/self/exe", O_PATH | O_CLOEXEC));
    for (const int fd : {folder.get(), zero.get(), path.get()})
        call(Command::dma_map,
             raw(DmaMapRequest{.argsz = 32, .flags = rw, .offset = 0, .address = 0, .size = 0x1000}), EINVAL,
             {fd});
    char name[] = "/dev/shm/t3sim-XXXXXX";
    const Fd shm(mkostemp(name, O_CLOEXEC));
    unlink(name);
    ASSERT_EQ(ftruncate(shm.get(), 0x1000), 0);
    map(0, 0x1000, shm);
}

/// As QEMU does when a guest's IOMMU drops a table of pages, of which only some are mapped.
TEST_F(ServerTest, UnmapAllInsideARange) {
    negotiate();
    set_command(0x0006);
    const Fd file = memory_file(0x6000);
    for (const std::uint64_t at : {0x0U, 0x2000U, 0x4000U, 0x5000U})
        map(at, 0x1000, file, at);
    const auto readable = [this] {
        std::string found;
        Buffer data(4);
        for (std::uint64_t at = 0; at < 0x6000; at += 0x1000)
            found += server.dma_read(at, data) ? '1' : '0';
        return found;
    };
    EXPECT_EQ(readable(), "101011");
    // Without a range inside, or with one that would be cut at its start or end, nothing is removed.
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x3000, 0x1000}), ENOENT);
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x800, 0x3000}), ENOENT);
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x2000, 0x2800}), ENOENT);
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x2000, 0}), EINVAL);
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x2000, ~0ULL}), EINVAL);
    EXPECT_EQ(readable(), "101011");
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x1000, 0x4000}));
    EXPECT_EQ(readable(), "100001");
    map(0x4000, 0x1000, file);
    EXPECT_EQ(readable(), "100011");
}

TEST_F(ServerTest, UnmapExactOrAll) {
    negotiate();
    set_command(0x0006);
    const Fd file = memory_file(0x2000);
    map(0x1000, 0x1000, file);
    map(0x2000, 0x1000, file, 0x1000);
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x1000, 0x800}), ENOENT);
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x1800, 0x800}), ENOENT);
    EXPECT_EQ(call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0x1000, 0x1000})).body.size(), 24U);
    Buffer data(4);
    EXPECT_FALSE(server.dma_read(0x1000, data));
    EXPECT_TRUE(server.dma_read(0x2000, data));
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, unmap_all, 0, 0}));
    EXPECT_FALSE(server.dma_read(0x2000, data));
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 1, 0, 0}), EINVAL);
}

/// What took the place of the lost pages would be memory of this process.
TEST_F(ServerTest, AClientThatShrinksItsFileIsDropped) {
    for (const bool by_word : {false, true}) {
        negotiate();
        set_command(0x0006);
        const Fd file = memory_file(0x10000);
        map(0, 0x10000, file);
        ASSERT_EQ(ftruncate(file.get(), 0), 0);
        Buffer data(16, 9);
        std::uint32_t word = 0;
        if (by_word) {
            EXPECT_FALSE(server.dma_load(0x8000, word));
            EXPECT_FALSE(server.dma_store(0x8000, word));
        } else {
            EXPECT_FALSE(server.dma_write(0x8000, data));
            EXPECT_FALSE(server.dma_read(0x8000, data));
        }
        ASSERT_EQ(ftruncate(file.get(), 0x10000), 0);
        EXPECT_FALSE(server.dma_write(0, data)) << "before the client is dropped";
        EXPECT_TRUE(hung_up());
        connect();
    }
    negotiate();
}

TEST_F(ServerTest, AClientWithoutMemoryIsDroppedAlthoughItsCardGoesOn) {
    negotiate();
    set_command(0x0006);
    const Fd file = memory_file(4096);
    map(0, 4096, file);
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
    const std::function<void()> transfer = [&] {
        EXPECT_FALSE(server.dma_write(0, Buffer(16)));
        if (server.connected())
            loop.queue().after(0, transfer);
    };
    transfer();
    loop.queue().after(0, transfer);
    EXPECT_TRUE(hung_up());
    loop.run_once(0);
}

/// The replacement of all of them took longer than other cards may wait.
TEST_F(ServerTest, OnlySomeOfTheLostPagesAreReplaced) {
    negotiate();
    set_command(0x0006);
    constexpr std::uint64_t size = 64 << 20, piece = 2 << 20;
    const Fd file = memory_file(size);
    map(0, size, file);
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
    Buffer data(8192);
    EXPECT_FALSE(
        server.dma_write(5 * piece - 4096, data)); // the end of a piece, and the start of another one
    std::ifstream maps("/proc/self/maps");
    std::uint64_t left = 0;
    for (std::string line; std::getline(maps, line);)
        if (line.find("/memfd:guest") != std::string::npos)
            left +=
                std::stoull(line.substr(line.find('-') + 1), nullptr, 16) - std::stoull(line, nullptr, 16);
    EXPECT_GE(left, size - 2 * piece);
    EXPECT_LT(left, size);
    EXPECT_TRUE(hung_up());
    EXPECT_TRUE(guests_have_mappings(0));
}

/// Linux refuses to remove or replace a part of a huge page.
TEST_F(ServerTest, AFileOfHugePagesMayEndInsideAPage) {
    constexpr std::uint64_t huge = 2 << 20, rest = 4096;
    const Fd file(memfd_create("guest", MFD_CLOEXEC | MFD_HUGETLB));
    if (!file || fallocate(file.get(), 0, 0, huge + rest) != 0)
        GTEST_SKIP() << "needs two huge pages of 2 MiB";
    negotiate();
    set_command(0x0006);
    map(0, huge + rest, file, 0, dma_readable | dma_writable, EINVAL);
    map(0, huge, file);
    ASSERT_EQ(ftruncate(file.get(), 0), 0);
    Buffer data(16);
    EXPECT_FALSE(server.dma_write(0x8000, data));
    EXPECT_TRUE(hung_up());
    EXPECT_TRUE(guests_have_mappings(0));
}

TEST_F(ServerTest, OneClientCannotUseUpTheAddressSpace) {
    negotiate();
    constexpr auto half = DmaTable::max_bytes / 2;
    const Fd file = memory_file(half), small = memory_file(4096);
    map(0, 4096, file);
    map(4096, 4096, file, 0, dma_readable); // another mapping
    map(8192, 4096, small, 0, dma_readable, ENOSPC);
    map(8192, 4096, file, half - 4096);
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 4096, 4096}));
    const Buffer again =
        raw(DmaMapRequest{.argsz = 32, .flags = dma_readable, .offset = 0, .address = 4096, .size = 4096});
    EXPECT_TRUE(eventually([&] { // when it has been removed
        send_raw(frame(Command::dma_map, again), {small.get()});
        const auto reply = receive();
        return reply && reply->header.error == 0;
    }));
}

TEST_F(ServerTest, AMessageThatFailsDropsItsClient) {
    negotiate();
    send_raw(frame(Command::region_write, join({raw(RegionAccess{16380, 4, 4}), raw(std::uint32_t{1})})));
    EXPECT_NO_THROW(settle());
    EXPECT_TRUE(hung_up());
    EXPECT_EQ(device.resets, 1);
    connect();
    negotiate();
    send_raw(frame(Command::region_write_multi,
                   join({raw(std::uint64_t{1}),
                         raw(WriteMultiElement{.offset = 16380, .region = 4, .count = 4, .data = {}})})));
    EXPECT_NO_THROW(settle());
    EXPECT_TRUE(hung_up());
}

TEST_F(ServerTest, OneClientCannotUseUpTheProcessMappings) {
    negotiate();
    const Fd file = memory_file(4096);
    map(0, 4096, file);
    std::uint64_t n = 1;
    for (; n < DmaTable::max_files; ++n)
        map(n * 8192, 4096, memory_file(4096));
    map(n * 8192, 4096, memory_file(4096), 0, dma_readable, ENOSPC);
    for (; n < DmaTable::max_ranges; ++n)
        map(n * 8192, 4096, file);
    map(n * 8192, 4096, file, 0, dma_readable | dma_writable, ENOSPC);
}

/// The longest event, of all that this message and the end of the connection cause.
/// A close looks at all locks of the file, and each client can have millions: 0.1 s in the thread of all
/// cards.
TEST_F(ServerTest, AFileWithManyLocksIsClosedByTheWorker) {
    const Fd file = memory_file(4096);
    const auto lock = [&](short type, off_t start, off_t size) {
        struct flock range {};
        range.l_type = type;
        range.l_whence = SEEK_SET;
        range.l_start = start;
        range.l_len = size;
        return fcntl(file.get(), F_OFD_SETLK, &range);
    };
    constexpr off_t locks = 100'000;
    ASSERT_EQ(lock(F_WRLCK, 0, 2 * locks), 0);
    for (off_t n = 2 * locks - 1; n > 0; n -= 2)
        ASSERT_EQ(lock(F_UNLCK, n, 1), 0);
    const auto cost_of = [](const auto& action) {
        const std::uint64_t from = test::Effort::cpu_time();
        action();
        return test::Effort::cpu_time() - from;
    };
    negotiate();
    send_raw(frame(Command::dma_map,
                   raw(DmaMapRequest{
                       .argsz = 32, .flags = dma_readable, .offset = 0, .address = 0, .size = 4096})),
             {file.get()});
    const auto handled = cost_of([&] { loop.run_once(0); });
    ASSERT_TRUE(receive());
    const auto closed = cost_of([&] { Fd(dup(file.get())).reset(); });
    EXPECT_LT(handled, closed / 2);
}

TEST_F(ServerTest, ManyRangesAreRemovedInManyEvents) {
    const Fd file = memory_file(4096);
    const auto run = [&] {
        negotiate();
        for (std::uint64_t n = 0; n < DmaTable::max_ranges; ++n)
            call(Command::dma_map,
                 raw(DmaMapRequest{
                     .argsz = 32, .flags = dma_readable, .offset = 0, .address = n * 8192, .size = 4096}),
                 0, {file.get()});
        settle();
        test::Effort effort;
        const auto turns = [&] {
            for (int i = 0; i < 100; ++i) {
                effort.action_begins();
                loop.run_once(0);
                effort.action_ends();
            }
        };
        // All but the first and the last one.
        constexpr std::uint64_t last = (DmaTable::max_ranges - 1) * std::uint64_t{8192};
        send_raw(frame(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 8192, last - 8192})));
        for (int i = 0; i < 3; ++i) {
            effort.action_begins();
            loop.run_once(0);
            effort.action_ends();
        }
        std::uint8_t byte;
        EXPECT_EQ(recv(client.get(), &byte, 1, MSG_DONTWAIT | MSG_PEEK), -1) << "it takes more turns";
        turns();
        const auto reply = receive();
        EXPECT_TRUE(reply && reply->header.error == 0);
        map(0, 4096, file, 0, dma_readable, EEXIST);
        map(8192, 4096, file, 0, dma_readable);
        map(last - 8192, 4096, file, 0, dma_readable);
        map(last, 4096, file, 0, dma_readable, EEXIST);
        client.reset();
        turns();
        connect();
        return effort;
    };
    EXPECT_EQ(test::Effort::excess_each_time(run), "");
}

// As behind an IOMMU.
TEST_F(ServerTest, RangesOfOneFileShareItsMapping) {
    negotiate();
    set_command(0x0006);
    constexpr std::uint64_t page = 4096, pages = 1000;
    const Fd file = memory_file(pages * page);
    for (std::uint64_t n = 0; n < pages; ++n)
        map(n * 3 * page, page, file, (pages - 1 - n) * page);
    EXPECT_TRUE(guests_have_mappings(1));
    Buffer there(16);
    for (std::uint64_t n = 0; n < pages; n += 99) {
        const Buffer data(16, static_cast<std::uint8_t>(n + 1));
        ASSERT_TRUE(server.dma_write(n * 3 * page + 100, data));
        ASSERT_EQ(pread(file.get(), there.data(), 16, static_cast<off_t>((pages - 1 - n) * page + 100)), 16);
        EXPECT_EQ(there, data);
    }
    for (std::uint64_t n = 1; n < pages; ++n)
        call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, n * 3 * page, page}));
    EXPECT_TRUE(server.dma_read(100, there)) << "it has the last range";
    EXPECT_FALSE(server.dma_read(3 * page, there));
    call(Command::dma_unmap, raw(DmaUnmapRequest{24, 0, 0, page}));
    EXPECT_TRUE(guests_have_mappings(0));
}

TEST_F(ServerTest, AFileThatHasGrownIsMappedAgain) {
    negotiate();
    set_command(0x0006);
    const Fd file = memory_file(4096);
    map(0, 4096, file);
    ASSERT_EQ(ftruncate(file.get(), 8192), 0);
    map(4096, 4096, file, 4096);
    const Buffer data(8192, 7);
    ASSERT_TRUE(server.dma_write(0, data));
    Buffer there(8192);
    ASSERT_EQ(pread(file.get(), there.data(), 8192, 0), 8192);
    EXPECT_EQ(there, data);
}

TEST_F(ServerTest, MsixAsQemuSetsItUp) {
    negotiate();
    set_command(0x0006);
    server.raise_irq(1);                // not enabled: dropped
    set_irqs(eventfds, irq_msix, 0, 1); // enable, without a descriptor
    server.raise_irq(1);                // enabled, no descriptor yet: kept
    const Fd first(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    set_irqs(eventfds, irq_msix, 1, 1, {first.get()});
    EXPECT_TRUE(eventually([&] { return events(first) == 1; }));
    server.raise_irq(1);
    EXPECT_TRUE(eventually([&] { return events(first) == 1; }));
    const Fd second(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    set_irqs(eventfds, irq_msix, 1, 1, {second.get()}); // replaced, as on each unmask
    server.raise_irq(1);
    EXPECT_EQ(events(first), 0U);
    EXPECT_TRUE(eventually([&] { return events(second) == 1; }));
    server.raise_irq(100); // a vector that does not exist is ignored
    set_irqs(set_irqs::data_none | set_irqs::trigger, irq_msix, 0, 0);
    server.raise_irq(1);
    EXPECT_EQ(events(second), 0U);
    set_irqs(eventfds, irq_msix, 1, 1, {second.get()});
    EXPECT_EQ(events(second), 0U) << "interrupts while disabled are lost";
}

TEST_F(ServerTest, NoInterruptWithoutBusMastering) {
    negotiate();
    const Fd fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    set_irqs(eventfds, irq_msix, 0, 1, {fd.get()});
    server.raise_irq(0);
    EXPECT_EQ(events(fd), 0U);
}

TEST_F(ServerTest, IntxIsALevel) {
    negotiate();
    const Fd fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    set_irqs(eventfds, irq_intx, 0, 1, {fd.get()});
    server.set_intx(true);
    server.set_intx(true);
    EXPECT_TRUE(eventually([&] { return events(fd) == 1; })) << "masked by the event";
    set_irqs(set_irqs::data_none | set_irqs::unmask, irq_intx, 0, 1);
    EXPECT_TRUE(eventually([&] { return events(fd) == 1; })) << "still asserted";
    server.set_intx(false);
    set_irqs(set_irqs::data_none | set_irqs::unmask, irq_intx, 0, 1);
    EXPECT_EQ(events(fd), 0U);
    set_command(0x0400);
    server.set_intx(true);
    EXPECT_EQ(events(fd), 0U) << "disabled in the command register";
    set_command(0x0000);
    EXPECT_TRUE(eventually([&] { return events(fd) == 1; }));
}

TEST_F(ServerTest, InterruptRequestsThatAreRefused) {
    negotiate();
    const Fd fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    set_irqs(eventfds, 5, 0, 1, {}, EINVAL);
    set_irqs(eventfds, irq_msix, 9, 1, {}, EINVAL);
    set_irqs(eventfds, irq_msix, 8, 2, {}, EINVAL);
    set_irqs(eventfds, irq_msix, 1, 0xffffffff, {}, EINVAL);
    set_irqs(eventfds, irq_msix, 0xffffffff, 1, {}, EINVAL);
    set_irqs(eventfds, irq_msix, 0, 3, {fd.get()}, EINVAL);                                // one for three
    set_irqs(set_irqs::data_none | eventfds, irq_msix, 0, 1, {}, EINVAL);                  // two kinds
    set_irqs(set_irqs::data_eventfd, irq_msix, 0, 1, {}, EINVAL);                          // no action
    set_irqs(set_irqs::data_none | set_irqs::trigger, irq_msix, 0, 1, {fd.get()}, EINVAL); // fd unasked
    set_irqs(set_irqs::data_bool | set_irqs::trigger, irq_msix, 0, 4, {}, EINVAL);         // no bools
    set_irqs(set_irqs::data_none | set_irqs::mask, irq_msix, 0, 1, {}, EINVAL);            // not maskable
    set_irqs(set_irqs::data_bool | set_irqs::unmask, irq_intx, 0, 1, {}, EINVAL);          // no bools
    set_irqs(0x1000 | eventfds, irq_msix, 0, 1, {}, EINVAL);
    int pipes[2];
    ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
    set_irqs(eventfds, irq_msix, 0, 1, {pipes[1]}, EINVAL);
    close(pipes[0]);
    close(pipes[1]);
    call(Command::device_set_irqs, Buffer(19), EINVAL);
}

TEST_F(ServerTest, FullEventfdDoesNotBlock) {
    negotiate();
    set_command(0x0006);
    const Fd fd(eventfd(0, EFD_CLOEXEC)); // a blocking one
    const std::uint64_t nearly = ~std::uint64_t{0} - 1;
    ASSERT_EQ(write(fd.get(), &nearly, sizeof nearly), 8);
    set_irqs(eventfds, irq_msix, 0, 1, {fd.get()});
    ASSERT_EQ(fcntl(fd.get(), F_SETFL, O_RDWR), 0); // the flags are those of both ends
    server.raise_irq(0);
    server.raise_irq(0);
    EXPECT_GE(events(fd), nearly);
}

TEST_F(ServerTest, OnlyTheFirstSignalThatTakesLongDelaysOthers) {
    negotiate();
    set_command(0x0006);
    const Fd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    test::Waiters waiters(fd);
    set_irqs(eventfds, irq_msix, 0, 1, {fd.get()});
    const auto raise = [&] {
        EXPECT_TRUE(eventually([&] { return events(fd) == 0; }));
        waiters.wait_again();
        test::Effort effort;
        server.raise_irq(0);
        effort.action_ends();
        return effort.longest_action();
    };
    EXPECT_GT(raise(), 1'500'000U);
    EXPECT_TRUE(eventually([&] { return events(fd) == 1; }));
    int longer = 0;
    for (int i = 0; i < 10; ++i) {
        longer += raise() >= 500'000U * test::Effort::slowness;
        EXPECT_TRUE(eventually([&] { return events(fd) == 1; }));
    }
    EXPECT_LE(longer, test::Effort::interrupted);
}

/// One event of the card may signal all vectors.
TEST_F(ServerTest, SignalsThatTakeHalfAMillisecondDoNotAddUp) {
    negotiate();
    set_command(0x0006);
    const Fd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    test::Waiters waiters(fd, 20);
    std::uint64_t first = 0;
    int longer = 0;
    for (std::uint32_t vector = 0; vector < 9; ++vector) {
        set_irqs(eventfds, irq_msix, vector, 1, {fd.get()});
        waiters.wait_again();
        test::Effort effort;
        server.raise_irq(vector);
        effort.action_ends();
        if (vector == 0)
            first = effort.longest_action();
        else
            longer += effort.longest_action() > first / 2;
        EXPECT_TRUE(eventually([&] { return events(fd) == 1; }));
    }
    EXPECT_GT(first, 100'000U) << "less does not count as long";
    EXPECT_LE(longer, 1 + test::Effort::interrupted);
}

TEST_F(ServerTest, ResetByCommand) {
    negotiate();
    const Fd file = memory_file(0x1000);
    map(0, 0x1000, file);
    set_command(0x0006);
    call(Command::device_reset, {});
    EXPECT_EQ(device.resets, 1);
    Buffer data(4);
    EXPECT_FALSE(server.dma_read(0, data)) << "the reset disabled bus mastering";
    set_command(0x0006);
    EXPECT_TRUE(server.dma_read(0, data)) << "maps are kept";
}

TEST_F(ServerTest, MigrationAndUnknownCommandsAreRefused) {
    negotiate();
    for (const int command : {0, 6, 11, 12, 14, 16, 17, 18, 19, 999, 65535})
        call(static_cast<Command>(command), Buffer(8), ENOTSUP);
    call(Command::device_get_info, raw(DeviceInfo{16, 0, 0, 0}));
}

TEST_F(ServerTest, MessagesInPiecesAndSeveralAtOnce) {
    negotiate();
    const Buffer one =
        frame(Command::region_write, join({raw(RegionAccess{4, 0, 4}), raw(std::uint32_t{1})}));
    for (const std::uint8_t byte : one) {
        send_raw(Bytes(&byte, 1));
        settle();
    }
    EXPECT_TRUE(receive());
    const Fd file = memory_file(0x2000);
    // Descriptors must stay with their own message when the stream holds several.
    const Buffer plain = frame(Command::dma_map, raw(DmaMapRequest{32, 3, 0, 0xf000, 0x1000}));
    const Buffer with = frame(Command::dma_map, raw(DmaMapRequest{32, 3, 0, 0x0000, 0x1000}));
    send_raw(plain);
    send_raw(with, {file.get()});
    send_raw(frame(Command::dma_map, raw(DmaMapRequest{32, 3, 0, 0x1000, 0x1000})));
    for (int i = 0; i < 3; i++)
        EXPECT_TRUE(receive());
    set_command(0x0006);
    Buffer data(4);
    EXPECT_TRUE(server.dma_read(0x0000, data));
    EXPECT_FALSE(server.dma_read(0x1000, data));
    EXPECT_FALSE(server.dma_read(0xf000, data));
}

TEST_F(ServerTest, BrokenFramingEndsTheConnection) {
    const auto header = [](std::uint32_t size, std::uint32_t flags = 0) {
        return raw(Header{.id = 1, .command = 13, .size = size, .flags = flags, .error = 0});
    };
    for (const auto& bad : {header(15), header(0), header(0xffffffff), header(max_message + 1),
                            header(16, flag::reply), header(16, 7)}) {
        negotiate();
        send_raw(bad);
        EXPECT_TRUE(hung_up());
        EXPECT_FALSE(server.connected());
        connect();
    }
    negotiate();
    call(Command::device_reset, {});
}

TEST_F(ServerTest, TooManyDescriptors) {
    negotiate();
    const Fd file = memory_file(0x1000);
    send_raw(frame(Command::device_reset, {}), std::vector(40, file.get()));
    EXPECT_TRUE(hung_up());
}

TEST_F(ServerTest, UnusedDescriptorsAreClosed) {
    negotiate();
    const auto open_fds = [] {
        int n = 0;
        for (int fd = 0; fd < 256; fd++)
            n += fcntl(fd, F_GETFD) >= 0;
        return n;
    };
    const int before = open_fds();
    const Fd file = memory_file(0x1000);
    for (int i = 0; i < 20; i++)
        call(Command::device_get_info, raw(DeviceInfo{16, 0, 0, 0}), 0, {file.get(), file.get(), file.get()});
    call(Command::device_get_info, raw(DeviceInfo{16, 0, 0, 0}));
    EXPECT_TRUE(eventually([&] { return open_fds() <= before + 1; }));
}

/// It would keep the connection open when the client has gone.
TEST_F(ServerTest, AClientCannotLeaveItsEndHere) {
    negotiate();
    const Buffer message = frame(Command::dma_map, raw(DmaMapRequest{32, 3, 0, 0xf000, 0x1000}));
    send_raw(Bytes(message).first(20), {client.get()});
    settle();
    client.reset();
    EXPECT_TRUE(eventually([&] {
        settle();
        return !server.connected();
    }));
}

/// The same behind replies that it does not read: then nothing more is received.
TEST_F(ServerTest, AClientThatLeavesItsEndBehindUnreadRepliesIsDropped) {
    negotiate();
    const Buffer request = frame(Command::region_read, raw(RegionAccess{0, 2, 4096}));
    for (int sent = 0; sent < 200; sent++) {
        if (::send(client.get(), request.data(), request.size(), MSG_DONTWAIT) < 0)
            break;
        loop.run_once(0);
    }
    send_raw(request, {client.get()});
    client.reset();
    EventQueue& events = loop.queue();
    for (int rest = 0; rest < 10; ++rest) { // of a client whose requests took long, on a busy machine
        settle();
        events.advance(events.now() + 1'000'000'000);
    }
    events.advance(events.now() + Server::patience / 2);
    EXPECT_TRUE(server.connected());
    events.advance(events.now() + Server::patience);
    EXPECT_FALSE(server.connected());
}

/// A guest that is suspended for days.
TEST_F(ServerTest, AnIdleClientIsKept) {
    negotiate();
    loop.queue().advance(loop.queue().now() + 1000 * Server::patience);
    call(Command::device_get_info, raw(DeviceInfo{16, 0, 0, 0}));
}

TEST_F(ServerTest, HangUpAtAnyPointThenAgain) {
    const Buffer message = frame(Command::version, version_body());
    for (std::size_t cut = 0; cut < message.size(); cut += 7) {
        send_raw(Bytes(message).first(cut));
        settle();
        client.reset();
        settle();
        EXPECT_FALSE(server.connected()) << "cut at " << cut;
        connect();
    }
    negotiate();
}

TEST_F(ServerTest, DisconnectRemovesMapsInterruptsAndState) {
    negotiate();
    const Fd file = memory_file(0x1000), fd(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
    map(0, 0x1000, file);
    set_command(0x0006);
    set_irqs(eventfds, irq_msix, 0, 1, {fd.get()});
    const int resets = device.resets;
    client.reset();
    settle();
    EXPECT_EQ(device.resets, resets + 1);
    EXPECT_EQ(device.restores, 1) << "the next guest finds a device as new";
    connect();
    negotiate();
    set_command(0x0006);
    Buffer data(4);
    EXPECT_FALSE(server.dma_read(0, data));
    server.raise_irq(0);
    EXPECT_EQ(events(fd), 0U);
}

TEST_F(ServerTest, ClientThatDoesNotReadDelaysOnlyItself) {
    negotiate();
    const Buffer request = frame(Command::region_read, raw(RegionAccess{0, 2, 4096}));
    // Far more replies than any socket buffer holds. The server must neither block nor queue all of them.
    int sent = 0;
    for (; sent < 2000; sent++) {
        if (::send(client.get(), request.data(), request.size(), MSG_DONTWAIT) < 0)
            break;
        loop.run_once(0);
    }
    settle();
    EXPECT_TRUE(server.connected());
    EXPECT_LT(device.reads.size(), 2000U * 4096 / 8) << "it did not stop replying";
    // Now the client reads: everything arrives, complete and in order.
    std::size_t got = 0;
    Buffer piece(1 << 20);
    EXPECT_TRUE(eventually([&] {
        settle();
        const ssize_t n = recv(client.get(), piece.data(), piece.size(), MSG_DONTWAIT);
        if (n > 0)
            got += static_cast<std::size_t>(n);
        return got >= static_cast<std::size_t>(sent) * (32 + 4096);
    }));
    EXPECT_EQ(got, static_cast<std::size_t>(sent) * (32 + 4096));
}

TEST_F(ServerTest, SeededGarbageNeverEndsTheServer) {
    constexpr unsigned seed = 1425;
    std::mt19937 random(seed);
    SCOPED_TRACE("seed " + std::to_string(seed));
    set_log_levels("off", nullptr); // each dropped client is a warning
    const Fd file = memory_file(0x4000);
    for (int i = 0; i < 3000; i++) {
        if (!server.connected()) {
            connect();
            set_nonblocking(client); // the server does not read while its worker has too much to close
        }
        if (random() % 8 != 0) {
            send_with(client, frame(Command::version, version_body()), {});
            settle();
        }
        for (int k = 0; k < 4 && server.connected(); k++) {
            Buffer body(random() % 64);
            for (auto& byte : body) // small numbers and all-ones get further than noise
                byte = static_cast<std::uint8_t>(random() % 3 ? random() % 10 : random() % 2 ? 0xff : 0);
            Buffer message =
                frame(static_cast<Command>(random() % 20), body, random() % 4 ? 0 : random() % 64);
            if (random() % 10 == 0)
                message[4 + random() % 4] ^= static_cast<std::uint8_t>(1U << random() % 8);
            const std::vector<int> fds(random() % 3, file.get());
            send_with(client, message, fds);
            loop.run_once(0);
        }
        Buffer drain(1 << 16);
        while (recv(client.get(), drain.data(), drain.size(), MSG_DONTWAIT) > 0)
            loop.run_once(0);
        server.raise_irq(random() % 12);
        server.dma_write(random() % 0x8000, Buffer(random() % 64));
        if (random() % 16 == 0)
            client.reset();
        settle();
    }
    if (server.connected()) {
        client.reset();
        settle();
    }
    connect();
    negotiate();
    set_log_levels("info", nullptr);
}

} // namespace
} // namespace t3sim::vfio
