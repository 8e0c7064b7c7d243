// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "races.hh"

#include <atomic>
#include <barrier>
#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

namespace uv {

namespace {

constexpr unsigned destroyers = 3;

// The commands that create, use and destroy an object. The use has an invalid field beside the handle, so
// that it fails also while the object exists and creates nothing.
struct ObjectCommands {
    std::string_view name, create, use, destroy, destroy_by_ioctl;
    size_t handle_in_use, handle_in_destroy; // offset of the handle in the request
    std::optional<std::pair<size_t, uint32_t>> invalid_field;
};

const std::vector<ObjectCommands> object_kinds = {
    {"pd", "alloc_pd", "alloc_mw", "dealloc_pd", "destroy_pd", 8, 0, {{12, 99}}},    // an unknown type of
                                                                                     // window
    {"cq", "create_cq", "create_qp", "destroy_cq", "destroy_cq", 20, 8, {{53, 77}}}, // an unknown type of
                                                                                     // QP
    {"qp", "create_qp", "query_qp", "destroy_qp", "destroy_qp", 8, 8, {}},
    {"mr", "reg_mr", "rereg_mr", "dereg_mr", "destroy_mr", 8, 0, {{12, 0x80000000}}}, // an unknown flag
    {"mw", "alloc_mw", "", "dealloc_mw", "destroy_mw", 0, 0, {}},
};

Message message_with_handle(const World& world, std::string_view name, size_t at, uint32_t handle) {
    Message message = world.message(command(name));
    std::memcpy(&message.core[at], &handle, sizeof(handle));
    return message;
}

const Method& method(std::string_view name) {
    for (const Method& candidate : methods())
        if (candidate.name == name)
            return candidate;
    std::abort();
}

// The errors of one round: of each thread that destroys, and of the one that uses.
struct Round {
    std::vector<int> destroyed;
    std::vector<int> used;
};

Round run_round(const World& world, std::deque<Sender>& senders, const ObjectCommands& kind, bool by_ioctl,
                uint32_t handle) {
    Round round{std::vector<int>(destroyers), {}};
    std::barrier start(destroyers + 1);
    std::vector<std::thread> threads;
    std::atomic<unsigned> left{destroyers};
    for (unsigned i = 0; i < destroyers; i++) {
        threads.emplace_back([&, i] {
            const Message message = message_with_handle(world, kind.destroy, kind.handle_in_destroy, handle);
            Ioctl call = world.call(method(kind.destroy_by_ioctl));
            call.attributes[0].data = handle;
            start.arrive_and_wait();
            round.destroyed[i] = by_ioctl ? senders[i].ioctl(world.fd(), call).error
                                          : senders[i].write(world.fd(), message).error;
            left--;
        });
    }
    start.arrive_and_wait();
    while (left && !kind.use.empty()) {
        Message message = message_with_handle(world, kind.use, kind.handle_in_use, handle);
        if (kind.invalid_field)
            std::memcpy(&message.core[kind.invalid_field->first], &kind.invalid_field->second,
                        kind.use == "rereg_mr" ? 4 : 1);
        round.used.push_back(senders.back().write(world.fd(), message).error);
    }
    for (auto& thread : threads)
        thread.join();
    return round;
}

std::string check_round(const World& world, std::deque<Sender>& senders, const ObjectCommands& kind,
                        bool by_ioctl, uint32_t handle) {
    const Round round = run_round(world, senders, kind, by_ioctl, handle);
    unsigned succeeded = 0;
    for (const int error : round.destroyed) {
        succeeded += error == 0;
        if (error && error != EBUSY && error != ENOENT)
            return std::string("destroying: ") + std::strerror(error);
    }
    for (const int error : round.used)
        if (error && error != EBUSY && error != ENOENT && error != EINVAL && error != EOPNOTSUPP)
            return std::string("using: ") + std::strerror(error);
    if (succeeded > 1)
        return "destroyed more than once";
    // If all failed with EBUSY the object still exists, otherwise it does not.
    const int error =
        senders.back()
            .write(world.fd(), message_with_handle(world, kind.destroy, kind.handle_in_destroy, handle))
            .error;
    if (error != (succeeded ? ENOENT : 0))
        return std::string("afterwards: ") + std::strerror(error);
    return "at most one succeeds";
}

} // namespace

void race(const World& world, unsigned rounds,
          const std::function<void(const std::string& what, const std::string& result)>& sink) {
    std::deque<Sender> senders; // one for each thread
    for (unsigned i = 0; i <= destroyers; i++)
        senders.emplace_back(3);
    for (const ObjectCommands& kind : object_kinds) {
        for (const bool by_ioctl : {false, true}) {
            std::string result;
            for (unsigned i = 0; i < rounds && (result.empty() || result == "at most one succeeds"); i++) {
                const Outcome made = senders.back().write(world.fd(), world.message(command(kind.create)));
                result = made.error ? std::string("making: ") + std::strerror(made.error)
                                    : check_round(world, senders, kind, by_ioctl, made.handle());
            }
            sink(std::string(kind.name) + (by_ioctl ? " by ioctl" : " by write"),
                 result + ", " + world.census());
        }
    }
}

} // namespace uv
