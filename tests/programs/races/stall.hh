// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// User memory that stalls: pages behind a userfaultfd. What a thread hands to the kernel is moved there, and
// the kernel's access waits until the page is given.
#pragma once

#include <cstdint>

namespace races {

class Stall {
public:
    // All in the process whose memory it is. False: the kernel has no userfaultfd.
    bool begin();
    // The calling thread's arguments lie there from now on.
    void use_here();
    // Gives pages until it is killed. The nth that is asked for is announced by `held` and given after
    // `go_on` (both eventfds); n is 0: none is held.
    [[noreturn]] void serve(unsigned nth, int held, int go_on, uint32_t* count);

private:
    int fd_ = -1;
};

} // namespace races
