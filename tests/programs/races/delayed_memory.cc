// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "delayed_memory.hh"

#include "../uverbs/memory.hh"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace races {

namespace {

constexpr size_t page = 4096;
constexpr size_t most = 256;

uint8_t* area; // registered
size_t used;   // pages of it
std::array<uint8_t*, most> origin;

uint64_t move(uint64_t at, size_t) {
    if (used == most)
        return at;
    origin.at(used) = reinterpret_cast<uint8_t*>(at & ~(page - 1));
    return reinterpret_cast<uint64_t>(area + page * used++) + at % page;
}

} // namespace

bool DelayedMemory::begin() {
    fd_ = static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK));
    uffdio_api api{};
    api.api = UFFD_API;
    if (fd_ < 0 || ioctl(fd_, UFFDIO_API, &api) < 0)
        return false;
    void* pages = mmap(nullptr, most * page, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    area = static_cast<uint8_t*>(pages);
    uffdio_register wanted{};
    wanted.range = {reinterpret_cast<uint64_t>(area), most * page};
    wanted.mode = UFFDIO_REGISTER_MODE_MISSING;
    return pages != MAP_FAILED && ioctl(fd_, UFFDIO_REGISTER, &wanted) == 0;
}

void DelayedMemory::use_here() {
    uv::Slot::moved = move;
}

void DelayedMemory::serve(unsigned nth, int held, int go_on, uint32_t* count) {
    for (;;) {
        pollfd ready{fd_, POLLIN, 0};
        uffd_msg message;
        if (poll(&ready, 1, -1) < 1 || read(fd_, &message, sizeof(message)) != sizeof(message) ||
            message.event != UFFD_EVENT_PAGEFAULT)
            continue;
        if (++*count == nth) {
            uint64_t one = 1;
            if (write(held, &one, sizeof(one)) != sizeof(one) ||
                read(go_on, &one, sizeof(one)) != sizeof(one))
                _exit(1);
        }
        const uint64_t at = message.arg.pagefault.address & ~(page - 1);
        uffdio_copy copy{};
        copy.dst = at;
        copy.src = reinterpret_cast<uint64_t>(origin.at((at - reinterpret_cast<uint64_t>(area)) / page));
        copy.len = page;
        ioctl(fd_, UFFDIO_COPY, &copy);
    }
}

} // namespace races
