// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// The other end of the connection under test: an ordinary TCP socket at the peer's machine, remote
// controlled. The program at this end decides everything that goes over it, so both ends of the exchange are
// in one function.
#pragma once

#include <netinet/in.h>

#include "iwarp.hh"

namespace probe {

// What the peer's kernel reports about the socket.
struct TcpInfo {
    bool timestamps = false, sack = false, window_scale = false;
    unsigned data_segments_in = 0;
    unsigned dropped = 0; // segments that reached the socket and were not processed
};

class Peer {
public:
    // Control connection to serve(). Throws std::runtime_error, as all functions do.
    Peer(const std::string& address, uint16_t port);
    ~Peer();
    Peer(const Peer&) = delete;
    Peer& operator=(const Peer&) = delete;

    // Starts to listen at its port, with a receive buffer of so many bytes (0: as usual).
    void listen(unsigned receive_buffer = 0);
    void accept();
    // To a port of this machine.
    void connect(uint16_t port);
    void send(const Bytes& bytes);
    void send(const Segment& segment) { send(fpdu(segment)); }
    // At least so many bytes; fewer if the time ends, or the stream does. What was received before is in
    // front.
    Bytes& receive(size_t least, int ms);
    // True: the stream has ended or was reset.
    bool ended() const { return ended_; }
    TcpInfo info();
    // While it ignores them, the socket drops every segment that comes, and so it acknowledges nothing.
    void ignore_segments(bool ignored);
    void shut();  // FIN
    void reset(); // RST
    // The program at the other end ends.
    void quit();

    // FPDUs, until there are so many or the time ends.
    std::vector<Segment> fpdus(size_t least, int ms);

private:
    std::string ask(const std::string& line);

    int fd_;
    std::string input_;
    Bytes stream_;
    bool ended_ = false;
};

// The other side: serves one control connection after the other at port + 1, until quit. False: the port is
// in use.
bool serve(uint16_t port);

} // namespace probe
