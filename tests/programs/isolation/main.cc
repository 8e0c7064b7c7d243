// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
// An attacker with a process: user 2001 of a card does all that the device files allow, user 2002 of the same
// card is its victim, and an accomplice controls the other end of the attacker's connections, as an ordinary
// program with sockets at the peer's machine.
//
//     t3-isolation server [--count=N]                   the accomplice's sockets, at N pairs of ports
//     t3-isolation client ADDRESS --case=CASE [...]     as root, which it gives up
//
//     memory       regions are deregistered between a request and its delivery [--kinds=LIST --rounds=N]
//     qp_number    connects and accepts with the number of the victim's QP
//     malformed    malformed requests in its own ring
//     invalidate   a client invalidates a region that other clients of the server use
//     dead_peers   makes N connections, waits for a line, closes them, and waits to be killed [--count=N]
//     resolve      resolves addresses and prints how long it took [--seconds=N]
//     hoard        makes N ids, waits for a line, and resolves their addresses without reading events
//     [--count=N]
//
// The result names what reached the victim.
#include "cases.hh"

#include <csignal>
#include <map>
#include <stdexcept>
#include <sys/prctl.h>
#include <unistd.h>

#include "card.hh"

using namespace isolation;

int main(int argc, char** argv) {
    const prog::Args args(argc, argv, "--case=NAME [--kinds=LIST] [--rounds=N] [--count=N] [--seconds=N]");
    const auto count = static_cast<unsigned>(args.number("count", 2));
    const auto port_of = [&](unsigned number) { return static_cast<uint16_t>(args.port + 2 * number); };
    if (args.server) {
        for (unsigned number = 1; number < count; number++)
            if (fork() == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                probe::serve(port_of(number));
                _exit(0);
            }
        if (!probe::serve(port_of(0)))
            prog::fail("the port %u is in use", args.port + 1);
        prog::Json().finish(true);
    }
    const std::map<std::string, void (*)(Case&)> cases{
        {"memory", memory},         {"qp_number", qp_number},   {"malformed", malformed},
        {"invalidate", invalidate}, {"dead_peers", dead_peers}, {"resolve", resolve},
        {"hoard", hoard},
    };
    const auto found = cases.find(args.value("case", ""));
    if (found == cases.end())
        prog::fail("no such case");
    try {
        Victim victim(args.address, port_of(1));
        become(attacker_uid);
        Case c{args, victim, port_of(0)};
        found->second(c);
    } catch (const VictimEnded& end) {
        prog::Json().add("victim_ended_by_signal", end.signal).finish(false);
    } catch (const probe::NotObserved& reason) {
        prog::fail("%s", reason.why.c_str());
    } catch (const std::exception& error) {
        prog::fail("%s", error.what());
    }
}
