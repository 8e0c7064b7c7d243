// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <gtest/gtest.h>

#include <memory>

#include "sim/core/id_table.hh"

namespace t3sim::test {
namespace {

TEST(IdTable, DropsObjectsAndNoEmptyPlaces) {
    IdTable<std::unique_ptr<int>> table;
    EXPECT_EQ(table.last(), nullptr);
    EXPECT_FALSE(table.drop_last());
    table.set(3, std::make_unique<int>(3));
    table.set(1000, std::make_unique<int>(1000));
    table.set(5000, std::make_unique<int>(5000));
    table.take(5000);
    EXPECT_EQ(*table.last(), 1000);
    EXPECT_TRUE(table.drop_last());
    EXPECT_EQ(*table.last(), 3);
    EXPECT_FALSE(table.drop_last());
    EXPECT_EQ(table.last(), nullptr);
}

} // namespace
} // namespace t3sim::test
