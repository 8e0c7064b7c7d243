// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The STag table: every refusal of docs/hw/mr.md 9, page list arithmetic, and the work requests that change
// entries.
#include <gmock/gmock.h>

#include "sim/card/rnic/rqe.hh"
#include "sim/card/rnic/tpt.hh"
#include "tests/sim/rnic/node.hh"

namespace t3sim::test {

void PrintTo(hw::Status status, std::ostream* out) {
    *out << "status 0x" << std::hex << int(status);
}

namespace {

using hw::Status;

constexpr std::uint32_t stag = 0x001234ff;
constexpr std::uint64_t va = 0x00007f0012345678;
constexpr std::uint32_t length = 0x2000;

class TptTest : public testing::Test {
protected:
    /// An entry from its fields, in the order of docs/hw/mr.md 2.
    static Words entry(std::uint32_t state, std::uint32_t rights, std::uint32_t pbl, std::uint32_t len,
                       std::uint64_t at, std::uint32_t bindings = 0) {
        return {state, rights, pbl, len, wr::hi(at), wr::lo(at), bindings, 0};
    }
    void put(std::uint32_t tag, const Words& words) { memory.put(Node::tpt_address(tag), words); }
    Words get(std::uint32_t tag) { return memory.get(Node::tpt_address(tag), 8); }

    FakeMemory memory;
    Counters counters;
    Faults faults{counters};
    Tpt tpt{memory, faults.tpt_entry, faults.guesses};
    Protection who{.qp = 0x21, .pd = 1, .caps = 0x1f};
};

struct Row {
    const char* what;
    Words words;
    std::uint32_t tag = stag;
    std::uint64_t to = va;
    std::uint32_t size = length;
    Rights rights = remote_write;
    Status status = Status::success;
};

std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.what;
}

class Check : public TptTest, public testing::WithParamInterface<Row> {};

constexpr std::uint32_t good0 = 0xffc00001, good1 = 0xf6000000; // all rights, VA based
const Words good{good0, good1, 0x20, length, 0x7f00, 0x12345678, 0, 0};

Words with(std::size_t index, std::uint32_t word) {
    Words words = good;
    words[index] = word;
    return words;
}

INSTANTIATE_TEST_SUITE_P(
    Tpt, Check,
    testing::Values(
        Row{"the complete region", good}, Row{"its last byte", good, stag, va + length - 1, 1},
        Row{"no bytes at its end", good, stag, va + length, 0},
        Row{"not in use", with(0, 0x7fc00001), stag, va, 1, remote_write, Status::invalid_stag},
        Row{"invalidated", with(0, 0xff800001), stag, va, 1, remote_write, Status::invalid_stag},
        Row{"another key", good, 0x001234fe, va, 1, remote_write, Status::invalid_stag},
        Row{"STag 0", good, 0, va, 1, remote_write, Status::invalid_stag},
        Row{"index 0", good, 0xff, va, 1, remote_write, Status::invalid_stag},
        Row{"index behind the table", good, 0x008000ff, va, 1, remote_write, Status::invalid_stag},
        Row{"largest index", good, 0xffffffff, va, 1, remote_write, Status::invalid_stag},
        Row{"another PD", with(0, 0xffc00002), stag, va, 1, remote_write, Status::pd_mismatch},
        Row{"window without a region", with(0, 0xffe00001), stag, va, 1, remote_write, Status::invalid_stag},
        Row{"no remote write", with(1, 0xe4000000), stag, va, 1, remote_write, Status::access},
        Row{"no remote read", with(1, 0xd4000000), stag, va, 1, remote_read, Status::access},
        Row{"no local write", with(1, 0xb4000000), stag, va, 1, local_write, Status::access},
        Row{"no local read", with(1, 0x74000000), stag, va, 1, local_read, Status::access},
        Row{"read sink by local write", with(1, 0x44000000), stag, va, 1, read_sink},
        Row{"read sink by remote write", with(1, 0x14000000), stag, va, 1, read_sink},
        Row{"read sink without either", with(1, 0xa4000000), stag, va, 1, read_sink, Status::access},
        Row{"wraps", good, stag, 0xffffffffffffffff, 2, remote_write, Status::wrap},
        Row{"before the region", good, stag, va - 1, 1, remote_write, Status::bounds},
        Row{"one too many", good, stag, va + 1, length, remote_write, Status::bounds},
        Row{"far behind", good, stag, va + (1ULL << 40), 1, remote_write, Status::bounds},
        Row{"PBL behind its region", with(2, 0x2000), stag, va, 1, remote_write, Status::pbl_bounds},
        Row{"last page behind the PBL", with(2, 0x1ffe), stag, va, length, remote_write, Status::pbl_bounds},
        Row{"but the first pages are in it", with(2, 0x1ffe), stag, va, 0x1000, remote_write},
        Row{"largest PBL address", with(2, 0xffffffff), stag, va, 1, remote_write, Status::pbl_bounds}));

TEST_P(Check, GivesItsStatus) {
    const Row& row = GetParam();
    put(stag, row.words);
    Extent extent;
    EXPECT_EQ(tpt.check(who, row.tag, row.to, row.size, row.rights, &extent), row.status);
}

TEST_F(TptTest, ChecksComeInTheirOrder) {
    // This access violates all checks; each correction exposes the next one.
    put(stag, entry(0x7fc00002, 0x04000000, 0x2000, 1, va));
    const std::uint64_t to = 0xffffffffffffffff;
    Extent extent;
    const auto check = [&](std::uint64_t at) { return tpt.check(who, stag, at, 2, remote_write, &extent); };
    EXPECT_EQ(check(to), Status::invalid_stag);
    put(stag, entry(0xffc00002, 0x04000000, 0x2000, 1, va));
    EXPECT_EQ(check(to), Status::pd_mismatch);
    put(stag, entry(0xffc00001, 0x04000000, 0x2000, 1, va));
    EXPECT_EQ(check(to), Status::access);
    put(stag, entry(0xffc00001, 0x14000000, 0x2000, 1, va));
    EXPECT_EQ(check(to), Status::wrap);
    EXPECT_EQ(check(va), Status::bounds);
    put(stag, entry(0xffc00001, 0x14000000, 0x2000, 2, va));
    EXPECT_EQ(check(va), Status::pbl_bounds);
    put(stag, entry(0xffc00001, 0x14000000, 0x20, 2, va));
    EXPECT_EQ(check(va), Status::success);
}

TEST_F(TptTest, ResolvesVaBased) {
    put(stag, good);
    Extent extent;
    ASSERT_EQ(tpt.check(who, stag, va + 0x980, 100, local_read, &extent), Status::success);
    EXPECT_EQ(extent.pbl, 0x20U);
    EXPECT_EQ(extent.offset, 0xff8U);
    ASSERT_EQ(tpt.check(who, stag, va + 0x988, 92, local_read, &extent), Status::success);
    EXPECT_EQ(extent.pbl, 0x21U);
    EXPECT_EQ(extent.offset, 0U);
}

TEST_F(TptTest, ResolvesZeroBasedAndBigPages) {
    // First byte offset 0x12345 in 1 MiB pages, zero based.
    put(stag, entry(0xffc00001, 0xf0800000, 0x40, 0x200000, 0x12345));
    Extent extent;
    ASSERT_EQ(tpt.check(who, stag, 0xfffff, 1, remote_read, &extent), Status::success);
    EXPECT_EQ(extent.pbl, 0x41U);
    EXPECT_EQ(extent.offset, 0x12344U);
    EXPECT_EQ(extent.page_shift, 20U);
    EXPECT_EQ(tpt.check(who, stag, 0x1fffff, 1, remote_read, &extent), Status::success);
    EXPECT_EQ(tpt.check(who, stag, 0x200000, 1, remote_read, &extent), Status::bounds);
}

TEST_F(TptTest, WindowNeedsItsRegionAndItsQp) {
    const std::uint32_t window = 0x00200011;
    put(stag, good);
    put(window, entry(0x88e00001, 0x34000000, 0x20, 0x100, va, stag >> 8));
    Extent extent;
    EXPECT_EQ(tpt.check(who, window, va, 1, remote_read, &extent), Status::success);
    put(window, entry(0x88e00001, 0x34000022, 0x20, 0x100, va, stag >> 8));
    EXPECT_EQ(tpt.check(who, window, va, 1, remote_read, &extent), Status::qp_mismatch);
    put(window, entry(0x88e00001, 0x34000021, 0x20, 0x100, va, stag >> 8));
    EXPECT_EQ(tpt.check(who, window, va, 1, remote_read, &extent), Status::success);
    put(stag, with(0, 0xff800001));
    EXPECT_EQ(tpt.check(who, window, va, 1, remote_read, &extent), Status::invalid_stag);
}

TEST_F(TptTest, StagZeroNeedsItsCapability) {
    hw::Sge sge{};
    sge.to = 0x100000000;
    sge.length = 100;
    Extent extent;
    EXPECT_EQ(tpt.check_local(who, sge, local_read, &extent), Status::success);
    EXPECT_TRUE(extent.direct);
    EXPECT_EQ(extent.offset, 0x100000000U);
    sge.to = 0xfffffffffffffff0;
    EXPECT_EQ(tpt.check_local(who, sge, local_read, &extent), Status::wrap);
    who.caps = 0x0f;
    EXPECT_EQ(tpt.check_local(who, sge, local_read, &extent), Status::invalid_stag);
    sge.length = 0; // nothing is accessed
    EXPECT_EQ(tpt.check_local(who, sge, local_read, &extent), Status::success);
}

TEST_F(TptTest, Invalidates) {
    const struct {
        const char* what;
        Words words;
        std::uint32_t tag;
        Status local, remote;
    } rows[] = {
        {"a region", good, stag, Status::success, Status::success},
        {"one that is invalid already", with(0, 0xff800001), stag, Status::success, Status::invalid_stag},
        {"another key", good, 0x00123401, Status::invalid_stag, Status::invalid_stag},
        {"a free entry", with(0, 0), stag, Status::invalid_stag, Status::invalid_stag},
        {"another PD", with(0, 0xffc00007), stag, Status::pd_mismatch, Status::pd_mismatch},
        {"remote invalidation disabled", with(1, 0xfc000000), stag, Status::success, Status::access},
        {"a shared region", with(0, 0xffd00001), stag, Status::inv_shared, Status::inv_shared},
        {"a region with windows", with(6, 1), stag, Status::inv_bound, Status::inv_bound},
    };
    for (const auto& row : rows) {
        for (const auto by : {Tpt::Invalidator::local, Tpt::Invalidator::remote}) {
            SCOPED_TRACE(row.what);
            put(stag, row.words);
            const Status expected = by == Tpt::Invalidator::local ? row.local : row.remote;
            EXPECT_EQ(tpt.invalidate(who, row.tag, by), expected);
            Words after = row.words;
            if (expected == Status::success)
                after[0] &= ~0x00400000U; // only the state bit
            EXPECT_EQ(get(stag), after);
        }
    }
}

class FastRegister : public TptTest {
protected:
    Status run(const Words& words) {
        return tpt.fast_register(who, hw::load<hw::FastRegisterWr>(Node::pack(words)));
    }
    Words fresh = entry(0xff800001, 0x00000000, 0x100, 0, 0);
};

TEST_F(FastRegister, WritesTheEntryAndThePages) {
    put(stag, fresh);
    const std::uint64_t start = 0x1234567000 + 0x10;
    ASSERT_EQ(run(wr::fast_register(0, 0x00123442, start, 0x1ff0, {0xaaaa000, 0x1bbbb000}, 0xb)),
              Status::success);
    EXPECT_EQ(get(stag), (Words{0xa1400001, 0xb4000000, 0x100, 0x1ff0, 0x12, 0x34567010, 0, 0}));
    EXPECT_EQ(memory.get(0x07000800, 4), (Words{0, 0x0aaaa000, 0, 0x1bbbb000}));
    Extent extent;
    EXPECT_EQ(tpt.check(who, 0x00123442, start, 0x1ff0, remote_write, &extent), Status::success);
    EXPECT_EQ(tpt.check(who, stag, start, 1, remote_write, &extent), Status::invalid_stag);
}

TEST_F(FastRegister, MayUseMorePagesThanItsPblSize) {
    put(stag, fresh);
    EXPECT_EQ(run(wr::fast_register(0, stag, 0, 10 * 4096, std::vector<std::uint64_t>(10, 0x5000))),
              Status::success);
}

TEST_F(FastRegister, MayRepeat) {
    put(stag, good);
    EXPECT_EQ(run(wr::fast_register(0, stag, 0, 4096, {0x5000})), Status::success);
}

TEST_F(FastRegister, Refuses) {
    const auto one = [](std::uint32_t tag, std::uint32_t len = 4096) {
        return wr::fast_register(0, tag, 0, len, {0x5000});
    };
    put(stag, entry(0x00000000, 0, 0x100, 0, 0));
    EXPECT_EQ(run(one(stag)), Status::invalid_stag) << "free entry";
    put(stag, entry(0xffa00001, 0, 0x100, 0, 0));
    EXPECT_EQ(run(one(stag)), Status::invalid_stag) << "a window";
    put(stag, entry(0xff800002, 0, 0x100, 0, 0));
    EXPECT_EQ(run(one(stag)), Status::pd_mismatch);
    put(stag, fresh);
    EXPECT_EQ(run(one(0x42)), Status::invalid_stag) << "index 0";
    EXPECT_EQ(run(one(stag, 4097)), Status::bounds) << "longer than its pages";
    who.caps = 0x17;
    EXPECT_EQ(run(one(stag)), Status::access);
    who.caps = 0x1f;
    put(stag, entry(0xff800001, 0, 0x2000, 0, 0));
    EXPECT_EQ(run(one(stag)), Status::pbl_bounds);
}

class Bind : public TptTest {
protected:
    static constexpr std::uint32_t window = 0x00200011;
    void SetUp() override {
        put(stag, with(1, 0xf6000000)); // bind enable
        put(window, entry(0x88a00001, 0, 0, 0, 0));
    }
    Status run(const Words& words) { return tpt.bind(who, hw::load<hw::BindWr>(Node::pack(words))); }
};

TEST_F(Bind, OpensAPieceOfTheRegion) {
    ASSERT_EQ(run(wr::bind(0, stag, 0x00200012, va + 0x1000, 0x800, 0x21, 2)), Status::success);
    EXPECT_EQ(get(window), (Words{0x89600001, 0x24000000, 0x21, 0x800, 0x7f00, 0x12346678, 0x1234, 0}));
    EXPECT_EQ(get(stag)[6], 1U);
    Extent extent;
    EXPECT_EQ(tpt.check(who, 0x00200012, va + 0x1000, 0x800, remote_read, &extent), Status::success);
    EXPECT_EQ(extent.pbl, 0x21U);
    EXPECT_EQ(extent.offset, 0x678U);
    EXPECT_EQ(tpt.check(who, 0x00200012, va + 0x1000, 0x801, remote_read, &extent), Status::bounds);
    EXPECT_EQ(tpt.check(who, 0x00200012, va + 0x1000, 1, remote_write, &extent), Status::access);

    EXPECT_EQ(tpt.invalidate(who, stag, Tpt::Invalidator::local), Status::inv_bound);
    EXPECT_EQ(tpt.invalidate(who, 0x00200012, Tpt::Invalidator::remote), Status::success);
    EXPECT_EQ(get(stag)[6], 0U);
    EXPECT_EQ(tpt.invalidate(who, stag, Tpt::Invalidator::local), Status::success);
}

TEST_F(Bind, ZeroBasedCountsFromTheWindowsFirstByte) {
    ASSERT_EQ(run(wr::bind(0, stag, window, va + 0x1000, 0x800, 0x21, 2, 0)), Status::success);
    Extent extent;
    ASSERT_EQ(tpt.check(who, window, 0x10, 0x7f0, remote_read, &extent), Status::success);
    EXPECT_EQ(extent.pbl, 0x21U);
    EXPECT_EQ(extent.offset, 0x688U);
}

/// Its first byte would be at the place in the page of the address, before or behind the region.
TEST_F(Bind, AWindowWithAddressesStaysInsideAZeroBasedRegion) { // [guess G56]
    Words zero = get(stag);
    zero[1] &= ~(1U << 26);
    put(stag, zero);
    EXPECT_EQ(run(wr::bind(0, stag, window, 0, 0x800, 0x20, 2, 1)), Status::pbl_bounds);
    EXPECT_EQ(run(wr::bind(0, stag, window, 0, 0x800, 0x20, 2, 0)), Status::success);
    zero[5] = 0; // it begins with its page: both places are the same
    put(stag, zero);
    EXPECT_EQ(run(wr::bind(0, stag, window, 0, 0x800, 0x20, 2, 1)), Status::success);
}

TEST_F(Bind, RebindingAndUnbindingKeepTheCount) {
    ASSERT_EQ(run(wr::bind(0, stag, window, va, 0x800, 0x20)), Status::success);
    ASSERT_EQ(run(wr::bind(0, stag, 0x00200013, va, 0x900, 0x20)), Status::success);
    EXPECT_EQ(get(stag)[6], 1U);
    ASSERT_EQ(run(wr::bind(0, stag, 0x00200013, va, 0, 0x20)), Status::success);
    EXPECT_EQ(get(stag)[6], 0U);
    Extent extent;
    EXPECT_EQ(tpt.check(who, 0x00200013, va, 0, remote_read, &extent), Status::invalid_stag);
}

TEST_F(Bind, Refuses) {
    EXPECT_EQ(run(wr::bind(0, 0x001234fe, window, va, 1, 0x20)), Status::invalid_stag) << "region's key";
    EXPECT_EQ(run(wr::bind(0, stag, stag, va, 1, 0x20)), Status::invalid_stag) << "no window";
    EXPECT_EQ(run(wr::bind(0, window, window, va, 1, 0x20)), Status::invalid_stag) << "no region";
    EXPECT_EQ(run(wr::bind(0, stag, window, va - 1, 1, 0x20)), Status::bounds);
    EXPECT_EQ(run(wr::bind(0, stag, window, va + 1, length, 0x20)), Status::bounds);
    EXPECT_EQ(run(wr::bind(0, stag, window, UINT64_MAX, 2, 0x20)), Status::wrap);
    EXPECT_EQ(run(wr::bind(0, stag, window, va, 1, 0x21)), Status::pbl_bounds)
        << "not the page of the address";
    put(stag, with(1, 0xb6000000));
    EXPECT_EQ(run(wr::bind(0, stag, window, va, 1, 0x20)), Status::access)
        << "remote write without local write";
    EXPECT_EQ(run(wr::bind(0, stag, window, va, 1, 0x20, 2)), Status::success) << "but remote read";
    put(stag, with(1, 0xf4000000));
    EXPECT_EQ(run(wr::bind(0, stag, window, va, 1, 0x20)), Status::access) << "no bind enable";
    SetUp();
    who.caps = 0x1b;
    EXPECT_EQ(run(wr::bind(0, stag, window, va, 1, 0x20)), Status::access) << "the QP lacks the capability";
    who = {.qp = 0x21, .pd = 2, .caps = 0x1f};
    EXPECT_EQ(run(wr::bind(0, stag, window, va, 1, 0x20)), Status::pd_mismatch);
}

TEST_F(Bind, OtherAnswersCheckLess) {
    faults.guesses.set("G56=other");
    EXPECT_EQ(run(wr::bind(0, stag, window, va, 1, 0x1000)), Status::success) << "any page list";
    Extent extent;
    ASSERT_EQ(tpt.check(who, window, va, 1, remote_write, &extent), Status::success);
    EXPECT_EQ(extent.pbl, 0x1000U);
    put(stag, Words(8));
    EXPECT_EQ(tpt.check(who, window, va, 1, remote_write, &extent), Status::invalid_stag);
    faults.guesses.set("G57=other");
    EXPECT_EQ(tpt.check(who, window, va, 1, remote_write, &extent), Status::success) << "no region";
    put(stag, with(1, 0xfc000000));
    faults.guesses.set("G60=other");
    EXPECT_EQ(tpt.invalidate(who, stag, Tpt::Invalidator::remote), Status::success);
}

class Receives : public TptTest {
protected:
    Status run(const Words& words, FormB form_b = FormB::in_region) {
        return resolve_receive(tpt, who, hw::load<hw::ReceiveWr>(Node::pack(words)), &rqe, form_b);
    }
    void SetUp() override { put(stag, good); }
    Rqe rqe;
};

TEST_F(Receives, FormsAAndBAreTheSamePlace) {
    ASSERT_EQ(run(wr::receive({{stag, va + 0xa00, 0x1000}}, {0xdead, 0, 0, 0})), Status::success);
    const Extent a = rqe.part[0];
    EXPECT_EQ(a.pbl, 0x21U);
    EXPECT_EQ(a.offset, 0x78U);
    ASSERT_EQ(run(wr::receive({{stag, 0x078, 0x1000}}, {0x21, 0, 0, 0})), Status::success);
    EXPECT_EQ(rqe.part[0].pbl, a.pbl);
    EXPECT_EQ(rqe.part[0].offset, a.offset);
    EXPECT_EQ(rqe.length(), 0x1000U);
}

TEST_F(Receives, FormBStaysInTheRegion) {
    EXPECT_EQ(run(wr::receive({{stag, 0x677, 1}}, {0x20})), Status::bounds);
    EXPECT_EQ(run(wr::receive({{stag, 0x678, length}}, {0x20})), Status::success);
    EXPECT_EQ(run(wr::receive({{stag, 0x678, length + 1}}, {0x20})), Status::bounds);
    EXPECT_EQ(run(wr::receive({{stag, 0x677, 1}}, {0x22})), Status::success);
    EXPECT_EQ(run(wr::receive({{stag, 0x678, 1}}, {0x22})), Status::bounds);
    // An index outside the region's pages makes it form A, and that address is outside too.
    EXPECT_EQ(run(wr::receive({{stag, 0x678, 1}}, {0x23})), Status::bounds);
    ASSERT_EQ(run(wr::receive({{stag, 0x678, 1}}, {0x23}), FormB::anywhere), Status::success);
    EXPECT_EQ(rqe.part[0].pbl, 0x23U);
    EXPECT_EQ(run(wr::receive({{stag, 0x678, 1}}, {0x22}), FormB::none), Status::bounds);
}

TEST_F(Receives, FormCMakesAPageListInItsScratch) {
    const std::uint64_t bus = 0x1'07ff'fff0; // in the last bytes of a 128 MiB page
    ASSERT_EQ(run(wr::receive({{0, bus, 0x100}}, {0x300})), Status::success);
    EXPECT_EQ(memory.get(0x07001800, 4), (Words{1, 0, 1, 0x08000000}));
    EXPECT_EQ(rqe.part[0].pbl, 0x300U);
    EXPECT_EQ(rqe.part[0].page_shift, 27U);
    EXPECT_EQ(rqe.part[0].offset, 0x7fffff0U);
    EXPECT_EQ(run(wr::receive({{0, bus, 0x100}}, {0x2000})), Status::pbl_bounds);
    EXPECT_EQ(run(wr::receive({{0, bus, 0x10000000}}, {0x300})), Status::bounds);
    who.caps = 0x07;
    EXPECT_EQ(run(wr::receive({{0, bus, 0x100}}, {0x300})), Status::invalid_stag);
}

TEST_F(Receives, AreKeptInTheRqt) {
    ASSERT_EQ(run(wr::receive({{stag, va, 1}, {stag, va + 1, 0}, {0, 0x107fffff0, 3}, {stag, va + 0x1fff, 1}},
                              {0, 0, 0x300, 0})),
              Status::success);
    EXPECT_EQ(rqe.length(), 5U);
    for (const RqeLayout layout : {RqeLayout::modelled, RqeLayout::other}) {
        ASSERT_TRUE(store_rqe(memory, 0x06000400, rqe, layout));
        Rqe loaded;
        ASSERT_TRUE(load_rqe(memory, 0x06000400, &loaded, layout));
        for (unsigned i = 0; i < hw::max_sge; ++i) {
            EXPECT_EQ(loaded.part[i].pbl, rqe.part[i].pbl);
            EXPECT_EQ(loaded.part[i].offset, rqe.part[i].offset);
            EXPECT_EQ(loaded.part[i].length, rqe.part[i].length);
            EXPECT_EQ(loaded.part[i].page_shift, rqe.part[i].page_shift);
        }
        // The first SGE's length is the last word, or the first one.
        EXPECT_EQ(memory.get(layout == RqeLayout::modelled ? 0x0600040c : 0x06000400, 1), Words{1});
    }
    EXPECT_FALSE(store_rqe(memory, 0x06020000, rqe));
}

TEST(Extents, CrossPagesInOrder) {
    FakeHost host;
    FakeMemory memory;
    const std::uint64_t second = host.alloc(4096), first = host.alloc(4096);
    memory.put(0x07000000, {wr::hi(first), wr::lo(first), wr::hi(second), wr::lo(second)});
    const Extent extent{.pbl = 0, .offset = 0xff0, .length = 0x20};
    EXPECT_EQ(write_extent(host, memory, extent, 8, pattern(0x18)), hw::Status::success);
    EXPECT_EQ(*host.at(first + 0xff8), pattern(0x18)[0]);
    EXPECT_EQ(*host.at(first + 0xfff), pattern(0x18)[7]);
    EXPECT_EQ(*host.at(second), pattern(0x18)[8]);
    Buffer back(0x18);
    EXPECT_EQ(read_extent(host, memory, extent, 8, back), hw::Status::success);
    EXPECT_EQ(back, pattern(0x18));
    host.unmap(second, 4096);
    EXPECT_EQ(read_extent(host, memory, extent, 8, back), hw::Status::internal);
    const Extent outside{.pbl = 0x1fff, .offset = 0xff0, .length = 0x20};
    EXPECT_EQ(read_extent(host, memory, outside, 0x10, back), hw::Status::pbl_bounds);
}

/// Otherwise each end of a page would be that of another page, too.
TEST(Extents, PagesBeginAtMultiplesOfTheLeastPage) {
    FakeHost host;
    FakeMemory memory;
    const std::uint64_t page = host.alloc(4096);
    memory.put(0x07000000, {wr::hi(page), wr::lo(page) | 0xabc});
    const Extent extent{.pbl = 0, .offset = 0xff0, .length = 0x10};
    EXPECT_EQ(write_extent(host, memory, extent, 0, pattern(0x10)), hw::Status::success);
    EXPECT_EQ(*host.at(page + 0xff0), pattern(0x10)[0]);
}

} // namespace
} // namespace t3sim::test
