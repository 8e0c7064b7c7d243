// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
#include "sim/core/fd.hh"

#include <array>
#include <string>
#include <string_view>

#include <fcntl.h>

namespace t3sim {

bool set_nonblocking(const Fd& fd) {
    const int flags = fcntl(fd.get(), F_GETFL);
    return flags >= 0 && ((flags & O_NONBLOCK) != 0 || fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) == 0);
}

bool usable_eventfd(const Fd& fd) {
    const std::string link = "/proc/self/fd/" + std::to_string(fd.get());
    std::array<char, 64> target{};
    return readlink(link.c_str(), target.data(), target.size() - 1) >= 0 &&
           std::string_view(target.data()) == "anon_inode:[eventfd]" && set_nonblocking(fd);
}

} // namespace t3sim
