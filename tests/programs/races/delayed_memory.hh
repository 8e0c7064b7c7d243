// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// User memory whose accesses can be delayed: pages of a userfaultfd. The arguments of a thread's system calls
// are there, and the kernel's access waits until the page is provided.
#pragma once

#include <cstdint>

namespace races {

class DelayedMemory {
public:
    // All functions run in the process that owns the memory. False: the kernel has no userfaultfd.
    bool begin();
    // From now on the calling thread's arguments are in this memory.
    void use_here();
    // Provides pages until it is killed. Signals `held` at the nth fault and provides that page after `go_on`
    // (both eventfds); with 0 no page is delayed.
    [[noreturn]] void serve(unsigned nth, int held, int go_on, uint32_t* count);

private:
    int fd_ = -1;
};

} // namespace races
