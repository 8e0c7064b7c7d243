// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "malform.hh"

#include <algorithm>
#include <cstring>
#include <rdma/rdma_user_ioctl.h>
#include <set>
#include <unistd.h>
#include <utility>

namespace uv {

namespace {

constexpr uint64_t ones = ~uint64_t{0};

struct Value {
    std::string name;
    uint64_t value;
};

// Wrong values of a handle: unused, of another file, of another type.
std::vector<Value> wrong_handles(Object object, const World& here, const World& elsewhere) {
    const Object other = object == Object::pd || object == Object::spare_pd ? Object::mr : Object::pd;
    return {{"none", 0x7ffffff0},
            {"all ones", 0xffffffff},
            {"of another file", elsewhere.of(object == Object::none ? Object::pd : object)},
            {"of another type", here.of(other)}};
}

std::vector<Value> wrong_files(Object object, const World& here, const World& elsewhere) {
    const Object other = object == Object::async ? Object::channel : Object::async;
    return {{"-1", 0xffffffff},
            {"-2", 0xfffffffe},
            {"not open", 4711},
            {"an ordinary file", STDERR_FILENO},
            {"of another file", elsewhere.of(object == Object::none ? Object::channel : object)},
            {"of another type", here.of(other)},
            {"the device", static_cast<uint64_t>(here.fd())}};
}

std::vector<Value> numbers(size_t bytes) {
    const unsigned bits = static_cast<unsigned>(8 * bytes);
    return {
        {"0", 0}, {"1", 1}, {"the top bit", uint64_t{1} << (bits - 1)}, {"all ones", ones >> (64 - bits)}};
}

std::vector<Value> wrong_values(const Field& field, const World& here, const World& elsewhere) {
    std::vector<Value> values;
    switch (field.kind) {
    case Kind::response:
        break;
    case Kind::handle:
        return wrong_handles(field.object, here, elsewhere);
    case Kind::fd:
        return wrong_files(field.object, here, elsewhere);
    case Kind::number:
        return numbers(field.bytes);
    case Kind::flags:
        for (unsigned bit = 0; bit < 8U * field.bytes; bit++)
            values.push_back({"bit " + std::to_string(bit), field.value ^ (uint64_t{1} << bit)});
        values.push_back({"all ones", ones});
        break;
    case Kind::reserved:
        values = {{"first bit", 1}, {"last bit", uint64_t{1} << (8 * field.bytes - 1)}};
        break;
    case Kind::address:
        static Slot slot;
        for (const Where where :
             {Where::nowhere, Where::no_access, Where::read_only, Where::kernel, Where::odd})
            values.push_back({name_of(where), slot.place(where, 64)});
        break;
    }
    return values;
}

void malform_fields(const std::vector<Field>& fields, std::vector<uint8_t> Message::*part,
                    const Message& good, const World& here, const World& elsewhere, const MessageSink& sink) {
    size_t at = 0;
    for (const Field& field : fields) {
        for (const Value& wrong : wrong_values(field, here, elsewhere)) {
            Message message = good;
            std::memcpy(&(message.*part)[at], &wrong.value, field.bytes);
            sink(std::string(field.name) + ": " + wrong.name, message);
        }
        at += field.bytes;
    }
}

template <typename Change>
void with(const Message& good, const MessageSink& sink, const std::string& what, Change change) {
    Message message = good;
    change(message);
    sink(what, message);
}

} // namespace

void malform_content(const Command& command, const World& here, const World& elsewhere,
                     const MessageSink& sink) {
    const Message good = here.message(command);
    const size_t unit = good.extended ? 8 : 4;
    malform_fields(command.fields, &Message::core, good, here, elsewhere, sink);
    malform_fields(command.driver, &Message::driver, good, here, elsewhere, sink);

    for (const size_t left : std::set<size_t>{0, unit, 2 * unit, good.core.size() - unit})
        if (left < good.core.size())
            with(good, sink, "short: " + std::to_string(left),
                 [left](Message& m) { m.core.resize(left), m.driver.clear(); });
    for (const uint8_t filling : {uint8_t{0}, uint8_t{1}})
        for (const size_t more : {unit, size_t{64}})
            with(good, sink, "longer by " + std::to_string(more) + (filling ? ", not zero" : ", zero"),
                 [=](Message& m) {
                     (m.driver.empty() ? m.core : m.driver)
                         .insert((m.driver.empty() ? m.core : m.driver).end(), more, filling);
                 });
    with(good, sink, "all ones", [](Message& m) { std::ranges::fill(m.core, uint8_t{0xff}); });
    if (!good.driver.empty())
        with(good, sink, "without the driver's part", [](Message& m) { m.driver.clear(); });

    if (good.out) {
        with(good, sink, "no response space", [](Message& m) { m.out = m.driver_out = 0; });
        with(good, sink, "too little response space",
             [unit](Message& m) { m.out -= unit, m.driver_out = 0; });
        with(good, sink, "one word of response space",
             [unit](Message& m) { m.out = unit, m.driver_out = 0; });
        with(good, sink, "more response space",
             [](Message& m) { (m.driver_out ? m.driver_out : m.out) += 64; });
        for (const Where where :
             {Where::half, Where::no_access, Where::read_only, Where::nowhere, Where::kernel, Where::odd})
            with(good, sink, std::string("response: ") + name_of(where),
                 [where](Message& m) { m.response = where; });
    } else {
        with(good, sink, "response space without a response", [](Message& m) { m.out = 8; });
    }
    if (good.driver_out) {
        with(good, sink, "no response space for the driver", [](Message& m) { m.driver_out = 0; });
        with(good, sink, "too little response space for the driver",
             [unit](Message& m) { m.driver_out = unit; });
    }
    for (const Where where : {Where::half, Where::no_access, Where::nowhere, Where::kernel, Where::odd})
        with(good, sink, std::string("request: ") + name_of(where),
             [where](Message& m) { m.request = where; });
}

void malform_frame(const Command& command, const World& here, const MessageSink& sink) {
    const Message good = here.message(command);
    for (const long off : {-1, 1}) {
        const std::string sign = off < 0 ? "one less" : "one more";
        with(good, sink, "words of the request: " + sign, [off](Message& m) { m.in_words_off = off; });
        with(good, sink, "words of the response: " + sign, [off](Message& m) { m.out_words_off = off; });
        if (good.extended) {
            with(good, sink, "words from the driver: " + sign, [off](Message& m) { m.driver_in_off = off; });
            with(good, sink, "words to the driver: " + sign, [off](Message& m) { m.driver_out_off = off; });
        }
    }
    for (const long off : {-4, -1, 1, 4})
        with(good, sink, "bytes written: " + std::to_string(off) + " more",
             [off](Message& m) { m.count_off = off; });
    const long total = static_cast<long>(good.core.size() + good.driver.size() + (good.extended ? 24 : 8));
    for (const long left : {0, 4, 7, 8, 16})
        if (left < total)
            with(good, sink, "only " + std::to_string(left) + " bytes",
                 [=](Message& m) { m.count_off = left - total; });
    for (const unsigned bit : {8U, 24U, 30U, 31U})
        with(good, sink, "bit " + std::to_string(bit) + " of the command",
             [bit](Message& m) { m.command ^= 1U << bit; });
    if (good.extended) {
        with(good, sink, "reserved word of the header", [](Message& m) { m.reserved = 1; });
        with(good, sink, good.has_response ? "response address missing" : "response address set",
             [](Message& m) { m.has_response = !m.has_response; });
    }
}

namespace {

std::vector<Value> wrong_values(const Attr& attr, const World& here, const World& elsewhere) {
    switch (attr.kind) {
    case AttrKind::handle: {
        auto values = wrong_handles(attr.object, here, elsewhere);
        values.push_back({"above 32 bits", here.of(attr.object) | uint64_t{1} << 32});
        values.push_back({"64 ones", ones});
        return values;
    }
    case AttrKind::fd: {
        auto values = wrong_files(attr.object, here, elsewhere);
        values.push_back({"above 32 bits", here.of(attr.object) | uint64_t{1} << 32});
        values.push_back({"64 ones", ones});
        return values;
    }
    case AttrKind::number:
        return attr.bytes <= 8 ? numbers(attr.bytes) : std::vector<Value>{};
    case AttrKind::constant:
        return {{"0", 0},
                {"1", 1},
                {"2", 2},
                {"255", 255},
                {"256", 256},
                {"bit 16", 1 << 16},
                {"bit 31", 1U << 31},
                {"bit 32", uint64_t{1} << 32},
                {"all ones", ones}};
    case AttrKind::flags: {
        std::vector<Value> values;
        for (unsigned bit = 0; bit < 64; bit++)
            values.push_back({"bit " + std::to_string(bit), attr.value ^ (uint64_t{1} << bit)});
        return values;
    }
    default:
        return {};
    }
}

// Malformations of any attribute: length, flags, reserved bytes, missing, duplicate.
void malform_attribute(const Ioctl& good, size_t i, const IoctlSink& sink) {
    const Attribute& attribute = good.attributes[i];
    const std::string name = "attribute " + std::to_string(attribute.id) + ": ";
    const auto changed = [&](const std::string& what, auto change) {
        Ioctl call = good;
        change(call.attributes[i]);
        sink(name + what, call);
    };
    const auto resized = [&](const std::string& what, uint16_t length, uint8_t filling) {
        changed(what, [=](Attribute& a) {
            if (a.length <= sizeof(a.data)) { // inline so far
                a.pointed.assign(reinterpret_cast<const uint8_t*>(&a.data),
                                 reinterpret_cast<const uint8_t*>(&a.data) + a.length);
            }
            a.pointed.resize(length, filling);
            if (a.role == Attribute::Role::in && length <= sizeof(a.data)) {
                a.data = 0;
                std::memcpy(&a.data, a.pointed.data(), length);
            }
            a.length = length;
        });
    };
    Ioctl without = good;
    without.attributes.erase(without.attributes.begin() + static_cast<long>(i));
    sink(name + "missing", without);
    Ioctl twice = good;
    twice.attributes.push_back(attribute);
    sink(name + "duplicate", twice);

    changed("not mandatory", [](Attribute& a) { a.flags = 0; });
    changed("marked as written", [](Attribute& a) { a.flags |= UVERBS_ATTR_F_VALID_OUTPUT; });
    changed("unknown flag", [](Attribute& a) { a.flags |= 0x8000; });
    changed("element id", [](Attribute& a) { a.reserved = 1; });
    changed("reserved byte", [](Attribute& a) { a.reserved = 0x100; });
    resized("empty", 0, 0);
    if (attribute.length > 1)
        resized("short by a byte", static_cast<uint16_t>(attribute.length - 1), 0);
    for (const uint8_t filling : {uint8_t{0}, uint8_t{1}})
        for (const uint16_t more : {uint16_t{1}, uint16_t{4}, uint16_t{64}})
            resized("longer by " + std::to_string(more) + (filling ? ", not zero" : ", zero"),
                    static_cast<uint16_t>(attribute.length + more), filling);
    if (attribute.role == Attribute::Role::out || attribute.length > sizeof(attribute.data))
        for (const Where where :
             {Where::half, Where::no_access, Where::read_only, Where::nowhere, Where::kernel, Where::odd})
            changed(name_of(where), [where](Attribute& a) { a.where = where; });
}

template <typename Change>
void with(const Ioctl& good, const IoctlSink& sink, const std::string& what, Change change) {
    Ioctl call = good;
    change(call);
    sink(what, call);
}

} // namespace

void malform_ioctl(const Method& method, const World& here, const World& elsewhere, const IoctlSink& sink) {
    const Ioctl good = here.call(method);
    for (size_t i = 0; i < method.attributes.size(); i++) {
        malform_attribute(good, i, sink);
        for (const Value& wrong : wrong_values(method.attributes[i], here, elsewhere))
            with(good, sink, "attribute " + std::to_string(method.attributes[i].id) + ": " + wrong.name,
                 [&](Ioctl& c) { c.attributes[i].data = wrong.value; });
    }
    for (const uint16_t id : {uint16_t{99}, uint16_t{0x1000}, uint16_t{0x1001}, uint16_t{0x1032},
                              uint16_t{0x2000}, uint16_t{0xffff}})
        for (const uint16_t flags : {uint16_t{0}, uint16_t{1}})
            with(good, sink, "unknown attribute " + std::to_string(id) + (flags ? ", mandatory" : ""),
                 [=](Ioctl& c) {
                     c.attributes.push_back(
                         {.role = Attribute::Role::in, .id = id, .length = 8, .flags = flags});
                 });
    with(good, sink, "length: one less", [](Ioctl& c) { c.length_off = -1; });
    with(good, sink, "length: one more", [](Ioctl& c) { c.length_off = 1; });
    with(good, sink, "length: a page too long", [](Ioctl& c) { c.length_off = 4096; });
    with(good, sink, "attributes: one less", [](Ioctl& c) { c.number_off = -1; });
    with(good, sink, "attributes: one more", [](Ioctl& c) { c.number_off = 1; });
    with(good, sink, "attributes: one more, in the length too",
         [](Ioctl& c) { c.number_off = 1, c.length_off = 16; });
    with(good, sink, "attributes: 255, in the length too", [](Ioctl& c) {
        const long more = 254 - static_cast<long>(c.attributes.size());
        c.number_off = more, c.length_off = 16 * more;
    });
    with(good, sink, "driver: another", [](Ioctl& c) { c.driver = 1; });
    with(good, sink, "reserved: first", [](Ioctl& c) { c.reserved1 = uint64_t{1} << 63; });
    with(good, sink, "reserved: second", [](Ioctl& c) { c.reserved2 = 1; });
    with(good, sink, "method: none", [](Ioctl& c) { c.method = 7; });
    with(good, sink, "method: of a driver", [](Ioctl& c) { c.method |= 0x1000; });
    with(good, sink, "object: none", [](Ioctl& c) { c.object = 19; });
    with(good, sink, "object: of a driver", [](Ioctl& c) { c.object |= 0x1000; });
    with(good, sink, "another ioctl", [](Ioctl& c) { c.request = 0x5401; });
    with(good, sink, "another ioctl of RDMA", [](Ioctl& c) { c.request = RDMA_VERBS_IOCTL + 1; });
    for (const Where where :
         {Where::half, Where::no_access, Where::read_only, Where::nowhere, Where::kernel, Where::odd})
        with(good, sink, std::string("list: ") + name_of(where), [where](Ioctl& c) { c.list = where; });
}

} // namespace uv
