// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// Code that driver and provider share, with the tables of tests/tables.
#include <cctype>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include "tests/tables/requests.h"

namespace {

template <class Row, size_t N> auto rows(const Row (&table)[N]) {
    return testing::ValuesIn(table);
}
template <class Row> std::string name_of(const testing::TestParamInfo<Row>& info) {
    std::string name;
    for (const char c : std::string(info.param.name))
        name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    return name + "_" + std::to_string(info.index);
}

class Request : public testing::TestWithParam<t3_request_row> {};
class Header : public testing::TestWithParam<t3_header_row> {};
class Entry : public testing::TestWithParam<t3_entry_row> {};

} // namespace

TEST_P(Request, IsBuiltAsTabulated) {
    const t3_request_row& row = GetParam();
    for (const int pattern : {0xa5, 0x5a}) {
        t3_wr_slot slot;
        std::memset(static_cast<void*>(&slot), pattern, sizeof(slot));
        const auto* bytes = reinterpret_cast<const uint8_t*>(&slot);
        ASSERT_EQ(t3_build_row(&row, &slot), row.flits);
        if (row.flits < 0)
            continue;
        EXPECT_EQ(t3_row_compare(row.words, bytes + 16), 8 * (row.flits - 2));
        for (size_t i = 0; i < 16; i++)
            EXPECT_EQ(bytes[i], pattern) << "the header is the caller's, byte " << i;
        for (size_t i = 8 * T3_RECV_FLITS; i < sizeof(slot); i++)
            EXPECT_EQ(bytes[i], pattern) << "status word and generation, byte " << i;
    }
}
INSTANTIATE_TEST_SUITE_P(Shared, Request, rows(t3_request_rows), name_of<t3_request_row>);

TEST_P(Header, IsBuiltAsTabulated) {
    const t3_header_row& row = GetParam();
    const __be32 words[] = {t3_wr_hi(row.opcode, row.flags), t3_wr_lo(row.flits, row.tid, row.gen)};
    EXPECT_EQ(t3_row_compare(row.words, reinterpret_cast<const uint8_t*>(words)), 8);
}
INSTANTIATE_TEST_SUITE_P(Shared, Header, rows(t3_header_rows), name_of<t3_header_row>);

TEST_P(Entry, IsDecodedAsTabulated) {
    const t3_entry_row& row = GetParam();
    EXPECT_EQ(t3_header_qpid(row.header), row.qpid);
    EXPECT_EQ(t3_header_status(row.header), row.status);
    EXPECT_EQ(t3_header_opcode(row.header), row.opcode);
    EXPECT_EQ(t3_header_is_sq(row.header), row.sq);
    EXPECT_EQ(t3_header_gen(row.header), row.gen);
    EXPECT_EQ(t3_header_kind(row.header), row.kind);
    EXPECT_TRUE(t3_cqe_valid(t3_to_be32(row.header), row.gen));
    EXPECT_FALSE(t3_cqe_valid(t3_to_be32(row.header), !row.gen));
}
INSTANTIATE_TEST_SUITE_P(Shared, Entry, rows(t3_entry_rows), name_of<t3_entry_row>);

TEST(Entry, IsClassifiedByTypeAndOpcode) {
    for (unsigned op = 0; op < 16; op++) {
        EXPECT_EQ(t3_header_kind(T3_CQE_TYPE_SQ | op) == T3_KIND_SENT, (T3_SENT_OPCODES >> op & 1) != 0)
            << op;
        EXPECT_EQ(t3_kind_is_message(t3_header_kind(op)), (T3_MESSAGE_OPCODES >> op & 1) != 0) << op;
        EXPECT_EQ(t3_header_kind(op) == T3_KIND_READ, op == T3_RDMA_READ_RESP) << op;
    }
}

TEST(Status, MapsToAWcStatus) {
    unsigned known = 0;
    for (unsigned status = 0; status < 256; status++) {
        uint8_t wc = T3_WC_FATAL_ERR;
        for (const auto& row : t3_status_rows) {
            if (row.status == status) {
                wc = row.wc;
                known++;
            }
        }
        EXPECT_EQ(t3_status_to_wc(static_cast<uint8_t>(status)), wc) << status;
    }
    EXPECT_EQ(known, std::size(t3_status_rows));
}

TEST(Status, MsnGapFailsAMessage) {
    for (const auto& row : t3_msn_rows)
        EXPECT_EQ(t3_message_status(static_cast<uint32_t>(row.status) << 5, row.msn, row.expected),
                  row.result)
            << row.msn << " for " << row.expected;
}

TEST(Generation, AlternatesWithEachLap) {
    for (unsigned log2 = 1; log2 < 12; log2++) {
        for (const uint32_t counter : {0u, 1u, 1u << log2, (2u << log2) - 1, 2u << log2, ~0u})
            EXPECT_EQ(t3_gen(counter, log2), !(counter >> log2 & 1));
    }
    EXPECT_EQ(t3_wr_gen2(true), t3_to_be64(1));
    EXPECT_EQ(t3_wr_gen2(false), 0u);
}
