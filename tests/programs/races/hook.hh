// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The points of the modules, at which the module t3_races holds a thread.
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

class Hook {
public:
    Hook();
    Hook(const Hook&) = delete;
    ~Hook();

    // In a child: closes its copy of the file, so that only the parent's exit releases a held thread.
    void forget();

    void record();
    std::vector<Passage> recording();

    void arm(const std::string& point, unsigned nth);
    // 0: a thread is held; ETIMEDOUT: none passed; EAGAIN: one passed that must not sleep.
    int wait(unsigned ms);
    void release();

private:
    int fd_;
};

} // namespace races
