// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The driver's side of SGE rings, for tests: builders of contexts and descriptors, a reader of responses.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "sim/card/engines.hh"
#include "sim/hw/sge.hh"
#include "tests/sim/fake_host.hh"

namespace t3sim::test {

/// Big-endian words of a descriptor or message as one readable line.
inline std::string words(Bytes bytes) {
    std::string out;
    char text[10];
    for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        std::snprintf(text, sizeof text, "%s%08x", i ? " " : "", be32(&bytes[i]));
        out += text;
    }
    return out;
}

/// A ring of descriptors host -> card, with the producer's index and generation.
class EgressRing {
public:
    EgressRing(FakeHost& host, unsigned entries)
        : host_(host), base(host.alloc(entries * slot_size)), entries(entries) {}

    [[nodiscard]] hw::Context context(hw::EgressType type, std::uint32_t token, unsigned rspq) const {
        namespace ec = hw::egress_context;
        hw::Context c{};
        ec::size.set(c, entries);
        ec::set_base(c, base);
        ec::type.set(c, static_cast<std::uint32_t>(type));
        ec::token.set(c, token);
        ec::rspq.set(c, rspq);
        ec::gen.set(c, 1);
        ec::valid.set(c, 1);
        return c;
    }

    /// One descriptor of @p flits (first two words of it are the header, without the generation).
    void post(Bytes flits, bool first_gen = true, bool second_gen = true) {
        std::uint8_t* d = host_.at(base + index * slot_size, slot_size);
        std::copy(flits.begin(), flits.end(), d);
        const std::uint32_t lo = be32(d + 4) & 0x7fffffff;
        put_be32(d + 4, lo | (first_gen ? gen : gen ^ 1) << 31);
        put_be64(d + 120, second_gen ? gen : gen ^ 1);
        if (++index == entries) {
            index = 0;
            gen ^= 1;
        }
    }
    void post(std::initializer_list<std::uint32_t> list) {
        Buffer flits(list.size() * 4);
        std::size_t at = 0;
        for (std::uint32_t w : list) {
            put_be32(&flits[at], w);
            at += 4;
        }
        post(flits);
    }

private:
    FakeHost& host_;

public:
    std::uint64_t base;
    unsigned entries;
    unsigned index = 0;
    std::uint32_t gen = 1;
};

struct Response {
    Buffer bytes;

    [[nodiscard]] std::uint8_t opcode() const { return bytes[0]; }
    [[nodiscard]] std::uint32_t flags() const { return be32(&bytes[8]); }
    [[nodiscard]] std::uint32_t length() const { return be32(&bytes[12]) & 0x7fffffff; }
    [[nodiscard]] unsigned list() const { return be32(&bytes[12]) >> 31; }
    [[nodiscard]] bool immediate() const { return (flags() & hw::response::immediate) != 0; }
    [[nodiscard]] bool pure() const {
        return (flags() & (hw::response::immediate | hw::response::async)) == 0 && length() == 0;
    }
    [[nodiscard]] std::uint32_t credits(unsigned tx_queue) const {
        return flags() >> hw::response::credit_shift[tx_queue] & hw::response::max_credits;
    }
};

class ResponseRing {
public:
    ResponseRing(FakeHost& host, unsigned entries)
        : host_(host), base(host.alloc(entries * hw::response_size)), entries(entries) {}

    [[nodiscard]] hw::Context context(unsigned vector, std::uint32_t threshold, bool intr_en = true) const {
        namespace rc = hw::response_context;
        hw::Context c{};
        rc::size.set(c, entries);
        c[1] = static_cast<std::uint32_t>(base >> 12);
        rc::base_hi.set(c, static_cast<std::uint32_t>(base >> 44));
        rc::gen.set(c, 1);
        rc::intr_en.set(c, intr_en);
        rc::vector.set(c, vector);
        c[3] = threshold;
        return c;
    }
    /// The next response, if the generation in its last byte matches.
    std::optional<Response> next() {
        const std::uint64_t at = base + index * hw::response_size;
        if ((*host_.at(at + hw::response_size - 1) & 1U) != gen)
            return std::nullopt;
        const Bytes b = host_.bytes(at, hw::response_size);
        Response r{Buffer(b.begin(), b.end())};
        if (++index == entries) {
            index = 0;
            gen ^= 1;
        }
        return r;
    }

private:
    FakeHost& host_;

public:
    std::uint64_t base;
    unsigned entries;
    unsigned index = 0;
    std::uint32_t gen = 1;
};

class FreeList {
public:
    FreeList(FakeHost& host, unsigned entries, std::uint32_t buffer_size)
        : host_(host), base(host.alloc(entries * hw::free_list_entry)), entries(entries),
          buffer_size(buffer_size) {}

    [[nodiscard]] hw::Context context() const {
        namespace fl = hw::free_list_context;
        hw::Context c{};
        c[0] = static_cast<std::uint32_t>(base >> 12);
        fl::base_hi.set(c, static_cast<std::uint32_t>(base >> 44));
        fl::size.set(c, entries);
        fl::gen.set(c, 1);
        fl::entry_size_lo.set(c, buffer_size & 0x7ff);
        fl::entry_size_hi.set(c, buffer_size >> 11);
        return c;
    }
    /// Adds a new buffer; returns its address.
    std::uint64_t add() {
        const std::uint64_t buffer = host_.alloc(buffer_size, 64);
        const std::uint64_t at = base + index * hw::free_list_entry;
        host_.put_words(at, {static_cast<std::uint32_t>(buffer), gen << 31, gen,
                             static_cast<std::uint32_t>(buffer >> 32)});
        advance();
        return buffer;
    }
    /// Adds the buffer that the card used first, once every entry has one; returns its address.
    std::uint64_t add_again() {
        const std::uint64_t at = base + index * hw::free_list_entry;
        host_.put_words(at + 4, {gen << 31, gen});
        advance();
        return std::uint64_t{host_.word(at + 12)} << 32 | host_.word(at);
    }

private:
    void advance() {
        if (++index == entries) {
            index = 0;
            gen ^= 1;
        }
    }

    FakeHost& host_;

public:
    std::uint64_t base;
    unsigned entries;
    std::uint32_t buffer_size;
    unsigned index = 0;
    std::uint32_t gen = 1;
};

} // namespace t3sim::test
