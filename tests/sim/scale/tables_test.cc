// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The tables of `t3sim ctl`, of cards with connections.
#include "sim/rig/tables.hh"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "tests/sim/scale/test_driver.hh"

namespace t3sim::test {
namespace {

constexpr unsigned connections = 300; // more than a part of a table has

/// Card and number of a row.
std::pair<std::string, unsigned> id(const Json& row, const char* column) {
    return {row["card"].get<std::string>(), row[column].get<unsigned>()};
}

class Tables : public testing::Test {
protected:
    Tables() : pairs(1, connections) {
        pairs.connect_all();
        pairs.traffic();
        for (const char* name : {"a", "b"})
            cards.push_back({name, &pairs.card(static_cast<unsigned>(cards.size())).card()});
    }
    Json whole(const std::string& table) {
        Json rows = Json::array();
        TablePart part;
        parts = 0;
        do {
            part = table_part(table, cards, part.card, part.number);
            EXPECT_LE(part.rows.size(), rows_per_part);
            for (Json& row : part.rows)
                rows.push_back(std::move(row));
            ++parts;
        } while (!part.card.empty());
        return rows;
    }

    CardPairs pairs;
    std::vector<NamedCard> cards;
    unsigned parts = 0;
};

TEST_F(Tables, HaveEveryConnectionOnce) {
    const Json rows = whole("connections");
    ASSERT_EQ(rows.size(), 2 * connections);
    EXPECT_GT(parts, 2U);
    std::set<std::pair<std::string, unsigned>> ids;
    std::set<std::string> local, peer;
    for (const Json& row : rows) {
        ids.insert(id(row, "tid"));
        EXPECT_EQ(row["state"], "ESTABLISHED");
        EXPECT_EQ(row["rdma"], true);
        EXPECT_EQ(row["unacknowledged"], 0);
        EXPECT_GT(row["receive_window"], 0);
        local.insert(row["local"].get<std::string>());
        peer.insert(row["peer"].get<std::string>());
    }
    EXPECT_EQ(ids.size(), 2 * connections);
    EXPECT_EQ(local, peer) << "the peer of a connection is an end of another card's";
}

TEST_F(Tables, QpsMatchConnectionsRingsAndQueues) {
    std::set<std::pair<std::string, unsigned>> tids, of_qps, of_rings, cqs;
    for (const Json& row : whole("connections"))
        tids.insert(id(row, "tid"));
    for (const Json& row : whole("cqs"))
        cqs.insert(id(row, "cq"));
    for (const Json& row : whole("qps")) {
        of_qps.insert(id(row, "tid"));
        EXPECT_EQ(row["state"], "running");
        EXPECT_TRUE(cqs.contains(id(row, "send_cq")));
        EXPECT_EQ(row["messages"], 0);
    }
    std::set<std::string> types;
    for (const Json& row : whole("rings")) {
        types.insert(row["type"].get<std::string>());
        if (row["type"] == "QP") {
            of_rings.insert(id(row, "tid"));
        } else {
            EXPECT_EQ(row["tid"], nullptr);
        }
    }
    EXPECT_EQ(of_qps, tids);
    EXPECT_EQ(of_rings, tids);
    EXPECT_EQ(types, (std::set<std::string>{"QP", "control QP", "offload", "control", "Ethernet", "free list",
                                            "responses"}));
}

TEST_F(Tables, ShowReceivesThatWait) {
    const auto posted = [&] {
        std::uint64_t sum = 0;
        for (const Json& row : whole("qps"))
            sum += row["receives"].get<std::uint64_t>();
        return sum;
    };
    const std::uint64_t before = posted();
    pairs.card(0).receive_and_send(0); // its message consumes a receive of the peer's, if one is posted
    EXPECT_NE(posted(), before);
}

TEST_F(Tables, EndWithTheConnections) {
    pairs.card(0).disconnect(7);
    pairs.card(1).disconnect(7);
    pairs.settle();
    EXPECT_EQ(whole("qps").size(), 2 * (connections - 1));
    pairs.card(0).card().reset();
    std::string closed; // the host has not released its TID
    for (const Json& row : whole("connections"))
        if (row["state"] != "ESTABLISHED")
            closed += row["state"].get<std::string>();
    EXPECT_EQ(closed, "closed");
    for (const char* table : {"connections", "qps", "cqs", "regions", "rings"})
        for (const Json& row : whole(table))
            EXPECT_EQ(row["card"], "b") << table;
}

TEST_F(Tables, RegionsAreEntriesInUse) {
    EXPECT_TRUE(whole("regions").empty());
    pairs.card(1).register_memory();
    pairs.settle();
    const Json expected = {{"card", "b"},     {"stag", 0x100},      {"type", "region"},
                           {"valid", true},   {"rights", "rw-W"},   {"pd", 1},
                           {"qp", 0},         {"va_based", true},   {"va", 0},
                           {"length", 65536}, {"page_size", 65536}, {"pbl_index", 0},
                           {"windows", 0}};
    EXPECT_EQ(whole("regions"), Json::array({expected}));
}

TEST_F(Tables, BeginInTheMiddleOfACard) {
    const TablePart part = table_part("qps", std::span(cards).last(1), "b", 0);
    EXPECT_EQ(part.rows[0]["card"], "b");
    EXPECT_TRUE(table_part("qps", cards, "nowhere", 0).rows.empty());
    EXPECT_TRUE(table_part("connections", cards, "b", 0xffffffff).rows.empty());
}

TEST_F(Tables, AsText) {
    const std::string text = table_text("connections", whole("connections"));
    EXPECT_EQ(text.find("card  tid  state        rdma  port  local"), 0U) << text.substr(0, 100);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 2 * connections);
    EXPECT_EQ(table_text("qps", Json::array()), "no qps\n");
    const std::string rings = table_text("rings", whole("rings"));
    EXPECT_NE(rings.find("  0x"), std::string::npos);
    EXPECT_NE(rings.find("  -  "), std::string::npos);
}

/// The context memory begins with the TCBs (docs/hw/memory.md 2), which the offload engine keeps.
TEST_F(Tables, TcbsAreInTheContextMemory) {
    Card& card = pairs.card(0).card();
    constexpr std::uint32_t block = 2 * reg::mc7_stride;
    const auto word_at = [&](std::uint32_t addr) {
        std::uint64_t word = 0;
        for (std::uint32_t k = 0; k < 4; ++k) { // it is 16 bits wide
            card.mmio_write(0, reg::MC7_BD_ADDR + block, 4, addr / 8 * 32 + 8 * k);
            card.mmio_write(0, reg::MC7_BD_OP + block, 4, 0);
            word = word << 16 | card.mmio_read(0, reg::MC7_BD_DATA1 + block, 4) >> 16;
        }
        return word;
    };
    for (const Json& row : whole("connections"))
        if (row["card"] == "a") {
            const auto [name, tid] = id(row, "tid");
            EXPECT_EQ(word_at(tid * 128 + 120) & 15, 3U) << "T_STATE of TID " << tid;
            EXPECT_NE(word_at(tid * 128 + 72), 0U) << "DIP of TID " << tid;
        }
    EXPECT_EQ(word_at(card.connection_limit() * 128 + 120), 0U);
}

} // namespace
} // namespace t3sim::test
