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

// How an object is made, used and destroyed. The use is refused for another reason when the object could be
// had, so that it leaves nothing behind.
struct Life {
    std::string_view name, create, use, destroy, destroy_by_ioctl;
    size_t handle_in_use, handle_in_destroy; // where the handle stands in the request
    std::optional<std::pair<size_t, uint32_t>> spoil_use;
};

const std::vector<Life> lives = {
    {"pd", "alloc_pd", "alloc_mw", "dealloc_pd", "destroy_pd", 8, 0, {{12, 99}}}, // a type of window that is
                                                                                  // none
    {"cq", "create_cq", "create_qp", "destroy_cq", "destroy_cq", 20, 8, {{53, 77}}}, // a type of QP that is
                                                                                     // none
    {"qp", "create_qp", "query_qp", "destroy_qp", "destroy_qp", 8, 8, {}},
    {"mr", "reg_mr", "rereg_mr", "dereg_mr", "destroy_mr", 8, 0, {{12, 0x80000000}}}, // a flag that is none
    {"mw", "alloc_mw", "", "dealloc_mw", "destroy_mw", 0, 0, {}},
};

Message about(const World& world, std::string_view name, size_t at, uint32_t handle) {
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

Round run_round(const World& world, std::deque<Doors>& doors, const Life& life, bool by_ioctl,
                uint32_t handle) {
    Round round{std::vector<int>(destroyers), {}};
    std::barrier start(destroyers + 1);
    std::vector<std::thread> threads;
    std::atomic<unsigned> left{destroyers};
    for (unsigned i = 0; i < destroyers; i++) {
        threads.emplace_back([&, i] {
            const Message message = about(world, life.destroy, life.handle_in_destroy, handle);
            Ioctl call = world.call(method(life.destroy_by_ioctl));
            call.attributes[0].data = handle;
            start.arrive_and_wait();
            round.destroyed[i] =
                by_ioctl ? doors[i].ioctl(world.fd(), call).error : doors[i].write(world.fd(), message).error;
            left--;
        });
    }
    start.arrive_and_wait();
    while (left && !life.use.empty()) {
        Message message = about(world, life.use, life.handle_in_use, handle);
        if (life.spoil_use)
            std::memcpy(&message.core[life.spoil_use->first], &life.spoil_use->second,
                        life.use == "rereg_mr" ? 4 : 1);
        round.used.push_back(doors.back().write(world.fd(), message).error);
    }
    for (auto& thread : threads)
        thread.join();
    return round;
}

std::string judge(const World& world, std::deque<Doors>& doors, const Life& life, bool by_ioctl,
                  uint32_t handle) {
    const Round round = run_round(world, doors, life, by_ioctl, handle);
    unsigned gone = 0;
    for (const int error : round.destroyed) {
        gone += error == 0;
        if (error && error != EBUSY && error != ENOENT)
            return std::string("destroying: ") + std::strerror(error);
    }
    for (const int error : round.used)
        if (error && error != EBUSY && error != ENOENT && error != EINVAL && error != EOPNOTSUPP)
            return std::string("using: ") + std::strerror(error);
    if (gone > 1)
        return "destroyed more than once";
    // All found it busy: then it is there. Otherwise it is not.
    const int error =
        doors.back().write(world.fd(), about(world, life.destroy, life.handle_in_destroy, handle)).error;
    if (error != (gone ? ENOENT : 0))
        return std::string("afterwards: ") + std::strerror(error);
    return "at most one wins";
}

} // namespace

void race(const World& world, unsigned rounds,
          const std::function<void(const std::string& what, const std::string& seen)>& sink) {
    std::deque<Doors> doors; // one for each thread
    for (unsigned i = 0; i <= destroyers; i++)
        doors.emplace_back(3);
    for (const Life& life : lives) {
        for (const bool by_ioctl : {false, true}) {
            std::string seen;
            for (unsigned i = 0; i < rounds && (seen.empty() || seen == "at most one wins"); i++) {
                const Outcome made = doors.back().write(world.fd(), world.message(command(life.create)));
                seen = made.error ? std::string("making: ") + std::strerror(made.error)
                                  : judge(world, doors, life, by_ioctl, made.handle());
            }
            sink(std::string(life.name) + (by_ioctl ? " by ioctl" : " by write"),
                 seen + ", " + world.census());
        }
    }
}

} // namespace uv
