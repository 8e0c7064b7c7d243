// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
//
// The input is what a client sends to the vfio-user server after a valid VERSION.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include <sys/socket.h>

#include "sim/core/log.hh"
#include "sim/vfio/server.hh"
#include "tests/fuzz/toy.hh"

using namespace t3sim;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    static const bool quiet = set_log_levels("off", nullptr);
    (void)quiet;
    EventLoop loop;
    vfio::Server server(loop);
    Toy toy(server);
    server.attach(toy);
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        std::abort();
    const Fd client(pair[0]);
    server.adopt(Fd(pair[1]));
    const struct {
        vfio::Header header;
        vfio::Version version;
    } hello{{.id = 1, .command = 1, .size = 20, .flags = 0, .error = 0}, {}};
    if (send(client.get(), &hello, sizeof hello, MSG_NOSIGNAL) != sizeof hello)
        std::abort();
    std::uint8_t drain[4096];
    for (int idle = 0; idle < 3 && server.connected();) {
        const ssize_t sent = size != 0 ? send(client.get(), data, size, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        if (sent > 0) {
            data += sent;
            size -= static_cast<std::size_t>(sent);
        }
        loop.run_once(0);
        bool got = false;
        while (recv(client.get(), drain, sizeof drain, MSG_DONTWAIT) > 0)
            got = true;
        idle = sent > 0 || got ? 0 : idle + 1;
    }
    return 0;
}
