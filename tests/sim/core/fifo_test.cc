// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "sim/core/fifo.hh"

namespace t3sim {
namespace {

TEST(Fifo, OrderIsThatOfADequeWhateverIsDone) {
    std::mt19937 random(7);
    Fifo<int> fifo;
    std::deque<int> model;
    for (int n = 0; n < 4000; ++n) {
        // Long phases of growing and of shrinking, so that the block is released and wraps around.
        const bool grows = n / 200 % 2 == 0;
        switch (random() % 6) {
        case 0:
            if (const std::size_t at = random() % (model.size() + 1); grows) {
                fifo.insert(at, n);
                model.insert(model.begin() + static_cast<std::ptrdiff_t>(at), n);
            }
            break;
        case 1:
            fifo.push_back(n);
            model.push_back(n);
            break;
        case 2:
            if (grows) {
                fifo.emplace_back() = n;
                model.push_back(n);
            } else if (!model.empty()) {
                fifo.pop_back();
                model.pop_back();
            }
            break;
        case 3:
            if (!model.empty() && !grows) {
                ASSERT_EQ(fifo.take_front(), model.front());
                model.pop_front();
            }
            break;
        default:
            if (!model.empty() && !grows) {
                fifo.pop_front();
                model.pop_front();
            }
        }
        ASSERT_EQ(fifo.size(), model.size());
        ASSERT_EQ(fifo.empty(), model.empty());
        for (std::size_t at = 0; at < model.size(); ++at)
            ASSERT_EQ(fifo[at], model[at]);
        if (!model.empty()) {
            ASSERT_EQ(fifo.front(), model.front());
            ASSERT_EQ(fifo.back(), model.back());
        }
    }
}

struct Moved {
    static inline unsigned moves = 0;
    Moved() = default;
    Moved(const Moved&) = delete;
    Moved(Moved&&) noexcept { ++moves; }
    Moved& operator=(const Moved&) = delete;
    Moved& operator=(Moved&&) noexcept {
        ++moves;
        return *this;
    }
    ~Moved() = default;
};

TEST(Fifo, InsertingNearAnEndMovesFew) {
    Fifo<Moved> fifo;
    for (int n = 0; n < 3000; ++n) // of 4,096 places
        fifo.emplace_back();
    Moved::moves = 0;
    for (int n = 0; n < 1000; ++n)
        fifo.insert(1, Moved());
    fifo.insert(fifo.size() - 1, Moved());
    EXPECT_LT(Moved::moves, 20'000U);
    EXPECT_EQ(fifo.size(), 4001U);
}

TEST(Fifo, RemovedElementsAreDestroyed) {
    Fifo<std::shared_ptr<int>> fifo;
    const auto element = std::make_shared<int>(1);
    for (int n = 0; n < 3; ++n)
        fifo.push_back(element);
    EXPECT_EQ(element.use_count(), 4);
    fifo.pop_front();
    EXPECT_EQ(element.use_count(), 3);
    fifo.pop_back();
    EXPECT_EQ(element.use_count(), 2);
    EXPECT_EQ(fifo.take_front(), element);
    EXPECT_EQ(element.use_count(), 1);
    fifo.push_back(element);
    EXPECT_EQ(fifo.emplace_back(), nullptr) << "the slot was used before";
    fifo.clear();
    EXPECT_EQ(element.use_count(), 1);
    EXPECT_TRUE(fifo.empty());
}

TEST(Fifo, ASmallBlockIsKeptAndALargeOneBecomesSmaller) {
    Fifo<int> fifo;
    EXPECT_EQ(fifo.capacity_bytes(), 0U);
    fifo.push_back(1);
    fifo.pop_front();
    EXPECT_GT(fifo.capacity_bytes(), 0U);
    for (int n = 0; n < 10000; ++n)
        fifo.push_back(n);
    EXPECT_GT(fifo.capacity_bytes(), Fifo<int>::kept_bytes);
    while (!fifo.empty()) {
        ASSERT_LE(fifo.capacity_bytes(),
                  std::max(Fifo<int>::kept_bytes, fifo.size() * Fifo<int>::place_cost));
        fifo.pop_front();
    }
    EXPECT_LE(fifo.capacity_bytes(), Fifo<int>::kept_bytes);
}

} // namespace
} // namespace t3sim
