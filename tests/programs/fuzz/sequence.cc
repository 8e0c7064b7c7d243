// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sequence.hh"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace fuzz {

static Call usual_call(uint16_t number) {
    const Command& command = commands()[number];
    Call call{};
    call.command = number;
    for (size_t i = 0; i < command.fields.size(); i++)
        call.value[i] = command.fields[i].usual;
    return call;
}

static unsigned below(Random& random, size_t limit) {
    return static_cast<unsigned>(random() % limit);
}

// ---- seeds

// A command of a seed: its name, the values of fields other than the usual ones, and which of the two files
// gets it.
struct Step {
    const char* name;
    std::initializer_list<std::pair<unsigned, uint64_t>> values = {};
    uint8_t file = 0;
};

static Sequence sequence(std::initializer_list<Step> steps) {
    Sequence made;
    for (const auto& step : steps) {
        Call call = usual_call(command_named(step.name));
        for (const auto& [field, value] : step.values)
            call.value[field] = value;
        call.file = step.file;
        made.add(call);
    }
    return made;
}

static Sequence connecting() {
    return sequence({{"get_context"},   {"alloc_pd"},     {"create_cq"},
                     {"create_qp"},     {"cm_create_id"}, {"cm_resolve_addr"},
                     {"wait"},          {"cm_get_event"}, {"cm_resolve_route"},
                     {"wait"},          {"cm_get_event"}, {"cm_init_qp_attr"},
                     {"modify_qp"},     {"cm_connect"},   {"wait", {{0, 100}}},
                     {"cm_get_event"},  {"map"},          {"touch"},
                     {"cm_disconnect"}, {"wait"},         {"cm_get_event"},
                     {"destroy_qp"},    {"cm_destroy_id"}});
}

static Sequence listening() {
    return sequence({{"get_context"},
                     {"alloc_pd"},
                     {"create_cq"},
                     {"create_qp"},
                     {"cm_create_id"},
                     {"cm_set_option"},
                     {"cm_bind_ip", {{1, 2}}},
                     {"cm_listen"},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_init_qp_attr"},
                     {"modify_qp"},
                     {"cm_accept"},
                     {"wait"},
                     {"cm_get_event"},
                     {"cm_disconnect"},
                     {"wait"},
                     {"cm_get_event"},
                     {"destroy_qp"},
                     {"cm_destroy_id"},
                     {"cm_destroy_id", {{0, 1}}}});
}

// The other file takes the id over.
static Sequence migrated_listener() {
    constexpr unsigned from = 1;
    return sequence({{"cm_create_id"},
                     {"cm_set_option"},
                     {"cm_bind_ip"},
                     {"cm_listen"},
                     {"cm_query"},
                     {"cm_query_route"},
                     {"cm_migrate", {{from, 1}}, 1},
                     {"cm_destroy_id", {}, 1},
                     {"fork"}});
}

// ---- over RoCE: the QP is a number

// Fields of cm_commands.cc.
constexpr unsigned port_space = 1, qp_type = 2, bind_address = 1, join_address = 3, query_option = 1,
                   accept_valid = 6;
constexpr uint64_t ps_udp = 0x0111, ud = 4, any = 2, group = 5 | 0x01010101 << 5; // 225.1.1.1

static Sequence roce_connecting() {
    return sequence({{"cm_create_id"},
                     {"cm_resolve_addr"},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_resolve_route"},
                     {"wait"},
                     {"cm_get_event"},
                     {"cm_init_qp_attr"},
                     {"cm_connect"},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_init_qp_attr"},
                     {"cm_accept", {{accept_valid, 0}}}, // RTU
                     {"wait"},
                     {"cm_disconnect"},
                     {"wait"},
                     {"cm_get_event"},
                     {"cm_destroy_id"}});
}

static Sequence roce_listening() {
    return sequence({{"cm_create_id"},
                     {"cm_set_option"},
                     {"cm_bind_ip", {{bind_address, any}}},
                     {"cm_listen"},
                     {"wait", {{0, 250}}},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_init_qp_attr"},
                     {"cm_accept"},
                     {"cm_notify"},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_disconnect"},
                     {"wait"},
                     {"cm_get_event"},
                     {"cm_destroy_id"},
                     {"cm_destroy_id", {{0, 1}}}});
}

static Sequence sending_datagrams() {
    return sequence({{"cm_create_id", {{port_space, ps_udp}, {qp_type, ud}}},
                     {"cm_resolve_ip"},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_resolve_route"},
                     {"wait"},
                     {"cm_get_event"},
                     {"cm_init_qp_attr"},
                     {"cm_connect"},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_query", {{query_option, 1}}},
                     {"cm_destroy_id"}});
}

static Sequence receiving_datagrams() {
    return sequence({{"cm_create_id", {{port_space, ps_udp}, {qp_type, ud}}},
                     {"cm_set_option"},
                     {"cm_bind_ip", {{bind_address, any}}},
                     {"cm_listen"},
                     {"wait", {{0, 250}}},
                     {"wait", {{0, 250}}},
                     {"cm_get_event"},
                     {"cm_accept"},
                     {"cm_destroy_id"},
                     {"cm_destroy_id"}});
}

static std::vector<Sequence> roce_seeds() {
    return {
        migrated_listener(),
        sequence({{"cm_create_id"},
                  {"cm_bind"},
                  {"cm_listen"},
                  {"wait", {{0, 250}}},
                  {"cm_get_event"},
                  {"cm_reject"},
                  {"cm_destroy_id"},
                  {"cm_destroy_id"}}),
        sequence({{"cm_create_id", {{port_space, ps_udp}, {qp_type, ud}}},
                  {"cm_bind_ip"},
                  {"cm_join", {{join_address, group}}},
                  {"wait"},
                  {"cm_get_event"},
                  {"cm_leave"},
                  {"cm_join_ip", {{bind_address, group}}},
                  {"wait"},
                  {"cm_destroy_id"}}),
        roce_connecting(),
        roce_listening(),
        sending_datagrams(),
        receiving_datagrams(),
    };
}

std::vector<Sequence> roles() {
    if (roce())
        return {roce_listening(), roce_connecting(), receiving_datagrams(), sending_datagrams()};
    return {listening(), connecting()};
}

std::vector<Sequence> seeds() {
    if (roce())
        return roce_seeds();
    // Field numbers are those of uverbs_commands.cc and cm_commands.cc.
    constexpr unsigned state = 2, qp_option = 1, cq_channel = 3;
    std::vector<Sequence> made = {
        sequence({{"get_context"},
                  {"query_device"},
                  {"query_device_ex"},
                  {"query_port"},
                  {"query_port_i"},
                  {"query_gids_i"},
                  {"query_gid_i"},
                  {"query_context_i"},
                  {"invoke_i"},
                  {"handles_i"}}),
        sequence({{"get_context"},
                  {"alloc_pd"},
                  {"reg_mr"},
                  {"query_mr_i"},
                  {"alloc_pd"},
                  {"rereg_mr"},
                  {"dealloc_pd"},
                  {"dereg_mr"},
                  {"alloc_mw"},
                  {"dealloc_mw_i"},
                  {"alloc_mw"},
                  {"dealloc_mw"},
                  {"reg_mr"},
                  {"dereg_mr_i"},
                  {"dealloc_pd_i"}}),
        sequence({{"get_context_i"},
                  {"async_event_i"},
                  {"create_channel"},
                  {"create_cq", {{cq_channel, 0}}},
                  {"map"},
                  {"touch"},
                  {"notify_cq"},
                  {"poll_cq"},
                  {"resize_cq"},
                  {"destroy_cq"},
                  {"read_events"},
                  {"close_events"}}),
        sequence({{"get_context_i"},
                  {"async_event_i"},
                  {"alloc_pd"},
                  {"create_channel"},
                  {"create_cq_i"},
                  {"create_qp_i"},
                  {"query_qp"},
                  {"modify_qp_ex"},
                  {"read_events"},
                  {"destroy_qp_i"},
                  {"destroy_cq_i"}}),
        sequence({{"get_context"},
                  {"alloc_pd"},
                  {"create_cq"},
                  {"create_qp"},
                  {"map"},
                  {"map", {{0, 1}}},
                  {"touch"},
                  {"modify_qp"},
                  {"post_send"},
                  {"post_recv"},
                  {"fork"},
                  {"modify_qp", {{state, 6}}},
                  {"destroy_qp"},
                  {"unmap"},
                  {"destroy_cq"},
                  {"dealloc_pd"}}),
        sequence({{"get_context"},
                  {"alloc_pd"},
                  {"create_cq_ex"},
                  {"create_qp_ex"},
                  {"attach_mcast"},
                  {"create_srq"},
                  {"create_srq_i"},
                  {"create_ah"},
                  {"open_xrcd"},
                  {"create_flow"},
                  {"advise_mr_i"},
                  {"modify_cq"},
                  {"reopen"}}),
        migrated_listener(),
        sequence({{"cm_create_id"},
                  {"cm_bind"},
                  {"cm_listen"},
                  {"wait", {{0, 50}}},
                  {"cm_get_event"},
                  {"cm_reject"},
                  {"cm_get_event"},
                  {"cm_destroy_id"},
                  {"cm_destroy_id"}}),
        sequence({{"cm_create_id"},
                  {"cm_resolve_ip"},
                  {"wait"},
                  {"cm_get_event"},
                  {"cm_resolve_route"},
                  {"wait"},
                  {"cm_get_event"},
                  {"cm_query", {{qp_option, 1}}},
                  {"cm_query", {{qp_option, 2}}},
                  {"cm_init_qp_attr"},
                  {"cm_join_ip"},
                  {"cm_join"},
                  {"cm_leave"},
                  {"cm_notify"}}),
        connecting(),
        listening(),
    };
    return made;
}

// ---- changes

static uint64_t interesting(Random& random) {
    static constexpr std::array<uint64_t, 30> limits = {
        0,    1,     2,     3,          4,          5,          6,          7,          8,     15,
        16,   31,    32,    63,         64,         127,        128,        255,        256,   4095,
        4096, 65535, 65536, 0x7fffffff, 0x80000000, 0xffffffff, 1ULL << 32, 1ULL << 63, ~0ULL, ~0ULL - 4095};
    switch (below(random, 4)) {
    case 0:
        return random();
    case 1:
        return 1ULL << below(random, 64);
    default:
        return limits[below(random, limits.size())];
    }
}

static void change_value(Call& call, Random& random) {
    const auto& fields = commands()[call.command].fields;
    if (fields.empty())
        return;
    const auto i = below(random, fields.size());
    switch (fields[i].role) {
    case Role::Handle:
        // Usually another object of its kind, sometimes any number.
        call.value[i] = below(random, 8) ? below(random, 6) : 1ULL << 63 | below(random, 70);
        break;
    case Role::Pointer:
    case Role::Address:
        call.value[i] = below(random, 4) ? below(random, 64) : random();
        break;
    default:
        call.value[i] = below(random, 5) ? interesting(random) : call.value[i] + below(random, 5) - 2;
    }
}

Call random_call(Random& random) {
    Call call = usual_call(static_cast<uint16_t>(below(random, commands().size())));
    for (unsigned changes = below(random, 3); changes; changes--)
        change_value(call, random);
    if (!below(random, 6))
        call.file = 1;
    if (!below(random, 6)) {
        call.malformation = static_cast<uint8_t>(below(random, Malformations));
        call.malformation_arg = static_cast<uint32_t>(random());
    }
    return call;
}

static void insert(Sequence& s, const Call& call, Random& random) {
    if (s.count == max_calls)
        s.count--;
    const auto at = below(random, s.count + 1);
    std::copy_backward(s.calls + at, s.calls + s.count, s.calls + s.count + 1);
    s.calls[at] = call;
    s.count++;
}

void mutate(Sequence& s, const Sequence& other, Random& random) {
    for (unsigned changes = 1 + below(random, 4); changes; changes--) {
        if (!s.count) {
            s.add(random_call(random));
            continue;
        }
        Call& call = s.calls[below(random, s.count)];
        switch (below(random, 9)) {
        case 0:
        case 1:
        case 2:
            change_value(call, random);
            break;
        case 3:
            call.malformation = static_cast<uint8_t>(below(random, Malformations));
            call.malformation_arg = static_cast<uint32_t>(random());
            break;
        case 4:
            call.malformation = WellFormed;
            break;
        case 5:
            insert(s, random_call(random), random);
            break;
        case 6:
            if (other.count)
                insert(s, other.calls[below(random, other.count)], random);
            break;
        case 7:
            std::copy(&call + 1, s.calls + s.count, &call);
            s.count--;
            break;
        case 8: // the tail of another one
            if (other.count) {
                s.count = 1 + below(random, s.count);
                for (auto from = below(random, other.count); from < other.count; from++)
                    s.add(other.calls[from]);
            }
            break;
        }
    }
}

} // namespace fuzz
