// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The module t3_races: points at which it holds a thread, and the device without hardware.
#pragma once

#include "../../modules/races/t3_races.h"

#include <cstdint>
#include <string>
#include <vector>

namespace races {

struct Passage {
    std::string point;
    bool may_sleep;
};

// 0 or an errno, in all that returns an int.
class Hook {
public:
    Hook();
    Hook(const Hook&) = delete;
    ~Hook();

    // In a child: only the parent's death, not its child's, lets go of a thread that is held.
    void forget();

    void record();
    std::vector<Passage> recording();

    void arm(const std::string& point, unsigned nth);
    // 0: a thread is held; ETIMEDOUT: none came by; EAGAIN: it may not sleep, and went on.
    int wait(unsigned ms);
    void release();

    int plug();
    int unplug();
    int say(t3_races_word word, uint32_t which, int status = 0);
    t3_races_state state();

private:
    int fd_;
};

} // namespace races
