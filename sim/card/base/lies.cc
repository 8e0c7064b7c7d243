// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/card/base/lies.hh"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace t3sim {

namespace {

constexpr std::size_t opcode_word = 4;       // bytes
constexpr std::size_t longest_message = 512; // of those whose length is a lie
constexpr std::uint32_t tid_mask = 0xffffff;

constexpr Lies::Row kinds[] = {
    {"register", "a read of a register: a bit, all ones, 0, or any value"},
    {"vpd", "the same for the VPD, and for the serial flash with the version of the firmware"},
    {"cpl", "a message: lost, twice, late, an old one again, its TID, opcode, length or contents"},
    {"cqe",
     "a completion: lost, twice, at another index, its QP, generation, status, length or MSN; an event, "
     "also its CQ"},
    {"buffer",
     "a response: its length, free list, flags, generation or credits; a free-list buffer left out"},
    {"interrupt", "lost, twice, or on another vector"},
    {"doorbell", "lost without a report, or a wrong report of the FIFO's state"},
};

/// A field of a word: any value, or one close to the true one.
std::uint32_t wrong(Random& random, std::uint32_t value) {
    constexpr std::uint32_t edges[] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
    switch (random.below(4)) {
    case 0:
        return edges[random.below(std::size(edges))];
    case 1:
        return value + random.below(5) - 2;
    case 2:
        return value ^ hw::bit(random.below(32));
    default:
        return static_cast<std::uint32_t>(random());
    }
}

} // namespace

std::span<const Lies::Row> Lies::rows() {
    return kinds;
}

Lies::Lies(Counters& counters) {
    for (std::size_t kind = 0; kind < streams_.size(); ++kind)
        streams_[kind].count = &counters["lies." + std::string(kinds[kind].name)];
}

void Lies::begin(std::uint64_t seed, double rate, std::span<const std::string> names) {
    std::array<bool, std::size(kinds)> on{};
    on.fill(names.empty());
    for (const std::string& name : names) {
        const auto* row =
            std::find_if(std::begin(kinds), std::end(kinds), [&](const Row& r) { return name == r.name; });
        if (row == std::end(kinds))
            throw std::invalid_argument("there is no kind of lie '" + name + "'; lie --list shows all");
        on[static_cast<std::size_t>(row - kinds)] = true;
    }
    for (std::size_t kind = 0; kind < streams_.size(); ++kind) {
        streams_[kind].on = on[kind];
        streams_[kind].random = Random(seed + (kind << 56));
    }
    rate_ = rate;
    forget();
    any_ = true;
}

void Lies::forget() {
    messages_ = {};
    held_.reset();
    qps_ = {};
}

bool Lies::now(Kind kind) {
    Stream& s = stream(kind);
    if (!s.on || !s.random.chance(rate_))
        return false;
    ++*s.count;
    return true;
}

std::uint64_t Lies::read(Kind kind, std::uint64_t value, unsigned size) {
    if (!now(kind))
        return value;
    Random& random = stream(kind).random;
    const std::uint64_t ones = ~std::uint64_t{0} >> (64 - 8 * std::min(size, 8U));
    switch (random.below(4)) {
    case 0:
        return value ^ std::uint64_t{1} << random.below(8 * std::size_t{size});
    case 1:
        return ones;
    case 2:
        return 0;
    default:
        return random() & ones;
    }
}

/// The message with another TID, opcode or length, or with other contents.
Buffer Lies::changed(Random& random, Bytes cpl) {
    Buffer lie(cpl.begin(), cpl.end());
    switch (random.below(5)) {
    case 0: {
        const std::uint32_t ot = be32(lie.data());
        const std::uint32_t tid =
            random.below(2) != 0 ? be32(messages_.any(random).data()) : wrong(random, ot);
        put_be32(lie.data(), (ot & ~tid_mask) | (tid & tid_mask));
        break;
    }
    case 1:
        lie[0] = random.below(4) != 0 ? messages_.any(random)[0] : static_cast<std::uint8_t>(random());
        break;
    case 2: {
        const std::size_t before = lie.size();
        lie.resize(opcode_word + random.below(random.below(2) != 0 ? before : longest_message));
        for (std::size_t at = before; at < lie.size(); ++at)
            lie[at] = static_cast<std::uint8_t>(random());
        break;
    }
    case 3: // a status is a small number
        lie[1 + random.below(lie.size() - 1)] = static_cast<std::uint8_t>(random.below(64));
        break;
    default: {
        const std::size_t at = 4 * std::size_t{random.below(lie.size() / 4)};
        put_be32(&lie[at], wrong(random, be32(&lie[at])));
    }
    }
    return lie;
}

std::vector<Lies::Message> Lies::messages(unsigned queue, Bytes cpl) {
    std::vector<Message> sent;
    const Message truth{queue, Buffer(cpl.begin(), cpl.end())};
    if (!stream(Kind::cpl).on || cpl.size() < opcode_word)
        return {truth};
    messages_.add(truth.cpl);
    std::optional<Message> late = std::exchange(held_, std::nullopt);
    if (now(Kind::cpl)) {
        Random& random = stream(Kind::cpl).random;
        switch (random.below(8)) {
        case 0:
            break;
        case 1:
            sent = {truth, truth};
            break;
        case 2:
            held_ = truth;
            break;
        case 3:
            sent = {truth, {queue, messages_.any(random)}};
            break;
        default:
            sent = {{queue, changed(random, cpl)}};
        }
    } else {
        sent = {truth};
    }
    if (late)
        sent.push_back(std::move(*late));
    return sent;
}

unsigned Lies::completions() {
    if (!now(Kind::cqe))
        return 1;
    return 2 * stream(Kind::cqe).random.below(2);
}

/// Changes one field.
void Lies::change(Random& random, hw::CqeLayout& cqe) {
    constexpr hw::Field qp{0, 30, 12}, generation{0, 10, 10}, status{0, 9, 5}, type{0, 4, 4}, opcode{0, 3, 0};
    std::array<std::uint32_t, 1> header{cqe.header};
    switch (random.below(8)) {
    case 0:
        qp.set(header, random.below(2) != 0 ? qps_.any(random) : wrong(random, qp.get(header)));
        break;
    case 1:
        generation.set(header, generation.get(header) ^ 1);
        break;
    case 2:
        status.set(header, random.below(32));
        break;
    case 3:
        type.set(header, type.get(header) ^ 1);
        break;
    case 4:
        opcode.set(header, random.below(16));
        break;
    case 5:
        cqe.length = wrong(random, cqe.length);
        break;
    case 6:
        cqe.word2 = wrong(random, cqe.word2);
        break;
    default:
        cqe.word3 = wrong(random, cqe.word3);
    }
    cqe.header = header[0];
}

void Lies::entry(hw::CqeLayout& cqe, std::uint32_t& index, std::uint32_t size) {
    qps_.add(cqe.qp());
    if (!now(Kind::cqe))
        return;
    Random& random = stream(Kind::cqe).random;
    if (random.below(8) == 0)
        index = random.below(size);
    else
        change(random, cqe);
}

void Lies::event(std::array<std::uint32_t, 2>& head, hw::CqeLayout& cqe) {
    qps_.add(cqe.qp());
    if (!now(Kind::cqe))
        return;
    Random& random = stream(Kind::cqe).random;
    if (random.below(4) == 0) {
        std::uint32_t& word = head[random.below(head.size())];
        word = wrong(random, word);
    } else {
        change(random, cqe);
    }
}

void Lies::response(MutableBytes descriptor) {
    if (!now(Kind::buffer))
        return;
    Random& random = stream(Kind::buffer).random;
    constexpr std::uint32_t flags[] = {hw::response::gen1,  hw::response::offload, hw::response::immediate,
                                       hw::response::async, hw::response::sop,     hw::response::eop};
    switch (random.below(5)) {
    case 0:
        descriptor.back() ^= 1;
        break;
    case 1:
        put_be32(&descriptor[8], be32(&descriptor[8]) ^ flags[random.below(std::size(flags))]);
        break;
    case 2:
        put_be32(&descriptor[8], be32(&descriptor[8]) ^ hw::bit(random.below(24)));
        break;
    case 3:
        put_be32(&descriptor[12], be32(&descriptor[12]) ^ hw::response::free_list_1);
        break;
    default:
        put_be32(&descriptor[12], wrong(random, be32(&descriptor[12])));
    }
}

std::vector<unsigned> Lies::interrupts(unsigned vector) {
    if (!now(Kind::interrupt))
        return {vector};
    Random& random = stream(Kind::interrupt).random;
    const unsigned other = random.below(hw::queue_sets + 1);
    switch (random.below(4)) {
    case 0:
        return {};
    case 1:
        return {vector, vector};
    case 2:
        return {other};
    default:
        return {vector, other};
    }
}

Lies::Doorbell Lies::doorbell() {
    constexpr Doorbell all[] = {{.lost = true},
                                {.cause = hw::sg_int::db_full},
                                {.cause = hw::sg_int::db_empty},
                                {.cause = hw::sg_int::db_drop}};
    return now(Kind::doorbell) ? all[stream(Kind::doorbell).random.below(std::size(all))] : Doorbell{};
}

} // namespace t3sim
