// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/tcp/segment.hh"

#include "sim/core/ones_complement.hh"

namespace t3sim::tcp {
namespace {

constexpr std::size_t ip_header = 20, tcp_header = 20;
constexpr std::uint8_t protocol_tcp = 6;

enum Option : std::uint8_t {
    opt_end = 0,
    opt_nop = 1,
    opt_mss = 2,
    opt_window_scale = 3,
    opt_sack_permitted = 4,
    opt_timestamps = 8
};

std::size_t ip_length(Bytes p) {
    return (p[0] & 0xfU) * std::size_t{4};
}
std::size_t tcp_length(const std::uint8_t* t) {
    return (t[12] >> 4) * std::size_t{4};
}

/// Whether a range that includes its checksum is correct. @p sum: of the range, in memory order.
bool correct(std::uint64_t sum) {
    return ones_complement_fold(sum) == 0xffff;
}

/// Of an IP packet and the TCP segment in it.
bool correct_checksums(Bytes p, Bytes t) {
    // In memory order, as the sums of ranges are. The addresses are one word of the pseudo header.
    std::uint64_t addresses;
    std::memcpy(&addresses, &p[12], sizeof addresses);
    std::uint8_t rest[4] = {0, protocol_tcp};
    put_be16(&rest[2], static_cast<std::uint16_t>(t.size()));
    std::uint32_t protocol_and_length;
    std::memcpy(&protocol_and_length, rest, sizeof rest);
    const std::uint64_t pseudo = ones_complement_add_word(addresses, protocol_and_length);
    const std::size_t ip = ip_length(p);
    const std::uint64_t ip_sum = ip == ip_header ? ones_complement_add_few(0, p.first<ip_header>())
                                                 : ones_complement_add_few(0, p.first(ip));
    return correct(ip_sum) && correct(ones_complement_add(pseudo, t));
}

/// False: an option exceeds the header, or has an invalid length for its kind.
bool decode_options(Bytes o, Segment& s) {
    for (std::size_t i = 0; i < o.size() && o[i] != opt_end;) {
        if (o[i] == opt_nop) {
            ++i;
            continue;
        }
        if (o.size() - i < 2 || o[i + 1] < 2 || o[i + 1] > o.size() - i)
            return false;
        const std::size_t length = o[i + 1];
        switch (o[i]) {
        case opt_mss:
            if (length != 4)
                return false;
            s.mss = be16(&o[i + 2]);
            break;
        case opt_window_scale:
            if (length != 3)
                return false;
            s.window_scale = o[i + 2];
            break;
        case opt_sack_permitted:
            s.sack_permitted = true;
            break;
        case opt_timestamps:
            s.timestamps = true;
            break;
        default:
            break;
        }
        i += length;
    }
    return true;
}

} // namespace

std::uint64_t sum(Bytes data, std::uint64_t start) {
    const std::uint16_t in_memory_order = ones_complement_fold(ones_complement_add(0, data));
    return start + be16(reinterpret_cast<const std::uint8_t*>(&in_memory_order));
}

std::uint16_t fold(std::uint64_t s) {
    return static_cast<std::uint16_t>(~ones_complement_fold(s));
}

std::optional<Addressed> peek(Bytes p) {
    if (p.size() < ip_header || p[0] >> 4 != 4 || ip_length(p) < ip_header || p[9] != protocol_tcp)
        return std::nullopt;
    constexpr std::uint16_t more_fragments = 0x2000, offset = 0x1fff;
    if (be16(&p[6]) & (more_fragments | offset))
        return std::nullopt;
    if (p.size() < ip_length(p) + tcp_header)
        return std::nullopt;
    const std::uint8_t* t = &p[ip_length(p)];
    return Addressed{{.local_ip = be32(&p[16]),
                      .remote_ip = be32(&p[12]),
                      .local_port = be16(t + 2),
                      .remote_port = be16(t)},
                     t[13]};
}

bool decode(Bytes p, Segment& s, const Packet* intact) {
    const std::size_t ip = ip_length(p), total = be16(&p[2]);
    if (total > p.size() || total < ip + tcp_header)
        return false;
    const Bytes t = p.subspan(ip, total - ip); // the remaining bytes are Ethernet padding
    const std::size_t header = tcp_length(t.data());
    if (header < tcp_header || header > t.size())
        return false;
    if (!intact && !correct_checksums(p, t))
        return false;

    s.tuple = {be32(&p[16]), be32(&p[12]), be16(&t[2]), be16(&t[0])};
    s.seq = Seq(be32(&t[4]));
    s.ack = Seq(be32(&t[8]));
    s.flags = t[13];
    s.window = be16(&t[14]);
    s.tos = p[1];
    s.payload = t.subspan(header);
    s.intact = intact;
    return decode_options(t.subspan(tcp_header, header - tcp_header), s);
}

std::size_t header_size(const Segment& s) {
    constexpr std::size_t mss_option = 4, window_scale_option = 4;
    std::size_t size = data_headers;
    if (s.has(flag_syn))
        size += (s.mss ? mss_option : 0) + (s.window_scale ? window_scale_option : 0);
    return size;
}

void encode(const Segment& s, std::uint16_t ip_id, std::uint8_t ttl, std::uint8_t* ip) {
    encode_without_payload(s, ip_id, ttl, ip);
    std::uint8_t* const checksum = ip + ip_header + 16;
    put_be16(checksum, fold(s.payload.empty() ? be16(checksum) : sum(s.payload, be16(checksum))));
}

void encode_without_payload(const Segment& s, std::uint16_t ip_id, std::uint8_t ttl, std::uint8_t* ip) {
    std::uint8_t* t = ip + ip_header;
    std::size_t length = tcp_header;
    if (s.has(flag_syn) && s.mss) {
        t[length] = opt_mss;
        t[length + 1] = 4;
        put_be16(t + length + 2, *s.mss);
        length += 4;
    }
    if (s.has(flag_syn) && s.window_scale) {
        t[length] = opt_nop;
        t[length + 1] = opt_window_scale;
        t[length + 2] = 3;
        t[length + 3] = *s.window_scale;
        length += 4;
    }
    const std::size_t total = ip_header + length + s.payload.size();

    ip[0] = 0x45;
    ip[1] = s.tos;
    put_be16(ip + 2, static_cast<std::uint16_t>(total));
    put_be16(ip + 4, ip_id);
    put_be16(ip + 6, 0x4000); // don't fragment
    ip[8] = ttl;
    ip[9] = protocol_tcp;
    put_be32(ip + 12, s.tuple.local_ip);
    put_be32(ip + 16, s.tuple.remote_ip);
    put_be16(t, s.tuple.local_port);
    put_be16(t + 2, s.tuple.remote_port);
    put_be32(t + 4, s.seq.value());
    const std::uint32_t ack = s.has(flag_ack) ? s.ack.value() : 0;
    put_be32(t + 8, ack);
    t[12] = static_cast<std::uint8_t>(length / 4 << 4);
    t[13] = s.flags;
    put_be16(t + 14, s.window);

    // The checksums from the values, so that the headers are not read again. A word of 32 bits counts as its
    // halves do: 2^16 is 1 modulo 2^16 - 1.
    const std::uint64_t addresses = std::uint64_t{s.tuple.local_ip} + s.tuple.remote_ip;
    put_be16(ip + 10, fold(addresses + (0x4500U | s.tos) + total + ip_id + 0x4000 +
                           (unsigned{ttl} << 8 | protocol_tcp)));
    const std::uint64_t fixed = addresses + protocol_tcp + length + s.payload.size() + s.tuple.local_port +
                                s.tuple.remote_port + s.seq.value() + ack +
                                (static_cast<unsigned>(length) << 10 | s.flags) + s.window;
    const std::uint64_t options = length == tcp_header ? 0 : sum({t + tcp_header, length - tcp_header});
    put_be16(t + 16, ones_complement_fold(fixed + options));
    put_be16(t + 18, 0); // the urgent pointer
}

} // namespace t3sim::tcp
