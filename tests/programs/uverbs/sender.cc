// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sender.hh"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace uv {

namespace {

template <typename T> void append(std::vector<uint8_t>& to, T value) {
    const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
    to.insert(to.end(), bytes, bytes + sizeof(value));
}

std::string hex(std::vector<uint8_t> bytes, const std::vector<Span>& changing) {
    if (std::ranges::all_of(bytes, [](uint8_t b) { return b == Slot::filler; }))
        return "nothing";
    std::string text;
    for (size_t i = 0; i < bytes.size(); i++) {
        const bool masked = std::ranges::any_of(
            changing, [i](const Span& span) { return i >= span.at && i < span.at + span.length; });
        char digits[3];
        std::snprintf(digits, sizeof(digits), "%02x", bytes[i]);
        text += masked ? "xx" : digits;
    }
    return text;
}

} // namespace

uint32_t Outcome::word(size_t at) const {
    uint32_t word = 0;
    if (response.size() >= at + sizeof(word))
        std::memcpy(&word, &response[at], sizeof(word));
    return word;
}

Outcome Sender::write(int fd, const Message& m) {
    const size_t response_bytes = m.out + m.driver_out;
    const uint64_t response = response_.place(m.response, response_bytes);
    auto core = m.core;
    std::vector<uint8_t> bytes;
    const auto words = [](size_t length, size_t word, long off) {
        return static_cast<uint16_t>(static_cast<long>(length / word) + off);
    };
    if (m.extended) {
        append(bytes, m.command | 0x80000000);
        append(bytes, words(core.size(), 8, m.in_words_off));
        append(bytes, words(m.out, 8, m.out_words_off));
        append(bytes, m.has_response ? response : uint64_t{0});
        append(bytes, words(m.driver.size(), 8, m.driver_in_off));
        append(bytes, words(m.driver_out, 8, m.driver_out_off));
        append(bytes, m.reserved);
    } else {
        append(bytes, m.command);
        append(bytes, words(8 + core.size() + m.driver.size(), 4, m.in_words_off));
        append(bytes, words(response_bytes, 4, m.out_words_off));
        if (m.has_response && core.size() >= sizeof(response))
            std::memcpy(core.data(), &response, sizeof(response));
    }
    bytes.insert(bytes.end(), core.begin(), core.end());
    bytes.insert(bytes.end(), m.driver.begin(), m.driver.end());
    const size_t count = static_cast<size_t>(static_cast<long>(bytes.size()) + m.count_off);
    const uint64_t request = request_.place(m.request, bytes.size(), bytes);

    Outcome outcome;
    const ssize_t written = ::write(fd, reinterpret_cast<const void*>(request), count);
    if (written < 0)
        outcome.error = errno;
    else if (static_cast<size_t>(written) != count)
        outcome.effect = "wrote " + std::to_string(written) + ", ";
    outcome.response = response_.content();
    if (response_bytes)
        outcome.effect += "response " + hex(outcome.response, m.changing);
    return outcome;
}

Outcome Sender::invoke_write(int fd, const Message& m) {
    const uint64_t response = response_.place(m.response, m.out + m.driver_out);
    auto core = m.core;
    if (!m.extended && m.has_response && core.size() >= sizeof(response))
        std::memcpy(core.data(), &response, sizeof(response));
    Ioctl call;
    call.object = UVERBS_OBJECT_DEVICE;
    call.method = UVERBS_METHOD_INVOKE_WRITE;
    using Role = Attribute::Role;
    const auto in = [&](uint16_t id, const std::vector<uint8_t>& bytes) {
        Attribute attribute{.role = Role::in,
                            .id = id,
                            .length = static_cast<uint16_t>(bytes.size()),
                            .pointed = bytes,
                            .where = m.request};
        if (bytes.size() <= sizeof(attribute.data))
            std::memcpy(&attribute.data, bytes.data(), bytes.size());
        call.attributes.push_back(attribute);
    };
    const auto out = [&](uint16_t id, size_t bytes, bool changing) {
        call.attributes.push_back({.role = Role::out,
                                   .id = id,
                                   .length = static_cast<uint16_t>(bytes),
                                   .where = m.response,
                                   .changing = changing});
    };
    if (!core.empty())
        in(UVERBS_ATTR_CORE_IN, core);
    if (m.out)
        out(UVERBS_ATTR_CORE_OUT, m.out, !m.changing.empty());
    call.attributes.push_back({.role = Role::in,
                               .id = UVERBS_ATTR_WRITE_CMD,
                               .length = 8,
                               .data = m.extended ? m.command | 0x80000000 : m.command});
    if (!m.driver.empty())
        in(UVERBS_ATTR_UHW_IN, m.driver);
    if (m.driver_out)
        out(UVERBS_ATTR_UHW_OUT, m.driver_out, true);
    return ioctl(fd, call);
}

Outcome Sender::ioctl(int fd, Ioctl m) {
    std::vector<uint8_t> bytes;
    const auto number = static_cast<uint16_t>(static_cast<long>(m.attributes.size()) + m.number_off);
    append(bytes, static_cast<uint16_t>(24 + 16 * static_cast<long>(m.attributes.size()) + m.length_off));
    append(bytes, m.object);
    append(bytes, m.method);
    append(bytes, number);
    append(bytes, m.reserved1);
    append(bytes, driver_ + m.driver);
    append(bytes, m.reserved2);
    for (size_t i = 0; i < m.attributes.size(); i++) {
        Attribute& a = m.attributes[i];
        Slot& slot = attributes_.at(i);
        if (a.role == Attribute::Role::out)
            a.data = slot.place(a.where, a.length);
        else if (a.role == Attribute::Role::in && a.length > sizeof(a.data))
            a.data = slot.place(a.where, a.length, a.pointed);
        append(bytes, a.id);
        append(bytes, a.length);
        append(bytes, a.flags);
        append(bytes, a.reserved);
        append(bytes, a.data);
    }
    const uint64_t at = request_.place(m.list, bytes.size(), bytes);

    Outcome outcome;
    if (::ioctl(fd, m.request ? m.request : RDMA_VERBS_IOCTL, at) < 0)
        outcome.error = errno;
    const auto after = request_.content();
    for (size_t i = 0; i < m.attributes.size(); i++) {
        const Attribute& a = m.attributes[i];
        const size_t place = 24 + 16 * i;
        const std::string name = std::to_string(a.id);
        if (a.role == Attribute::Role::out) {
            const auto output = attributes_.at(i).content();
            outcome.effect +=
                name + ": " +
                hex(output, a.changing ? std::vector<Span>{{0, output.size()}} : std::vector<Span>{});
            if (after.size() >= place + 8 && after[place + 4] & UVERBS_ATTR_F_VALID_OUTPUT &&
                !(a.flags & UVERBS_ATTR_F_VALID_OUTPUT))
                outcome.effect += " marked";
            outcome.effect += ' ';
        } else if (a.role == Attribute::Role::created && after.size() >= place + 16) {
            uint64_t id;
            std::memcpy(&id, &after[place + 8], sizeof(id));
            if (id != a.data)
                outcome.effect += name + " created " + std::to_string(id) + ' ';
        }
    }
    return outcome;
}

} // namespace uv
