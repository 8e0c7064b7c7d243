# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian's RDMA programs, as the tests start them."""

import re
from collections import Counter
from typing import Callable, Collection

from labkit import stack
from labkit.channel import Command, CommandTimeout, Result
from labkit.guest import Guest

RPING_PORT = 7174
PERFTEST_PORT = 18515
UCMATOSE_PORT = 7471
RCOPY_PORT = 7427
CMTIME_TCP_PORT = 7471
SETTLE = 30  # seconds in which the objects of a killed process must be destroyed


def address(guest: Guest, port: int = 0) -> str:
    """The address of a guest's port."""
    return stack.address(port, guest.number)


def listeners(guest: Guest, port: int) -> list[str]:
    """The ids that listen on the RDMA port, with device and number: "cxgb3_0/- cm-idn 7"."""
    ids = guest.check("rdma resource show cm_id")
    return re.findall(rf"^link (\S+ cm-idn \d+) .*state LISTEN.*:{port} ", ids, re.MULTILINE)


def wait_listening(
    guest: Guest, port: int, timeout: int = 20, *, device: str = "", after: Collection[str] = ()
) -> None:
    """Returns once a program in the guest listens on the RDMA port; connecting earlier would be refused. A wildcard
    listener comes to one device after the other: `device` is the one that is needed, if there are several. The in-tree
    manager shows the state before the card has replied. The listeners `after` are those of before, which do not count.
    """
    others = f"| grep -vE 'link ({'|'.join(after)}) '" if after else ""
    guest.check(
        f"""of_the_card() {{ [ ! -e "$1" ] || {{ ! grep -q 'no reply' "$@" && grep -q half-open "$@"; }}; }}
        for try in $(seq {timeout * 10}); do
            case $(rdma resource show cm_id | grep 'link {device and device + "/"}.*state LISTEN.*:{port} ' {others}) in
            *cxgb3_*) of_the_card /sys/kernel/debug/iw_cxgb3/*/cm/listeners && exit 0 ;;
            ?*) exit 0 ;;
            esac
            sleep 0.1
        done
        echo 'no listener on port {port} after {timeout} s:'; rdma resource show cm_id; exit 1""",
        timeout * 3,
    )


def rping_server(guest: Guest, options: str = "", listen_port: int = RPING_PORT, card_port: int = 0):
    """Starts an rping server and returns when it listens."""
    server = guest.start(f"exec rping -s -a {address(guest, card_port)} -p {listen_port} {options}")
    wait_listening(guest, listen_port)
    return server


def rping_client(guest: Guest, server: Guest, options: str = "", listen_port: int = RPING_PORT, card_port: int = 0):
    return guest.start(f"exec rping -c -a {address(server, card_port)} -p {listen_port} {options}")


def complete(done: Result) -> bool:
    """Success. rping's exit status is 0 also when the peer disconnects before the last round; then it writes for which
    step it waited."""
    return done.rc == 0 and "wait for RDMA_" not in done.stderr


def assert_complete(done: Result) -> None:
    assert complete(done), done


def rping(
    server: Guest,
    client: Guest,
    options: str = "-C 5 -V",
    timeout: float = 60.0,
    *,
    listen_port: int = RPING_PORT,
    card_port: int = 0,
) -> Result:
    """Runs rping between two guests until both ends have finished all rounds; returns the result of the client."""
    serving = rping_server(server, options, listen_port, card_port)
    done = rping_client(client, server, options, listen_port, card_port).wait(timeout)
    assert_complete(done)
    assert serving.wait(60).rc == 0
    return done


def reload_driver(guest: Guest) -> None:
    """Unloads and loads iw_cxgb3, whose device appears some time after insmod has returned."""
    guest.check("rmmod iw_cxgb3", 60)
    assert "cxgb3_0" not in guest.check("rdma dev show")
    guest.check("insmod /t3/modules/iw_cxgb3.ko", 60)
    guest.check("for try in $(seq 100); do ibv_devinfo -d cxgb3_0 && exit; sleep 0.1; done; exit 1", 60)


def objects(guest: Guest, device: str = "") -> dict[str, int]:
    """Counts of the RDMA objects that exist in the guest, on one device or on all, by kind."""
    counts: Counter[str] = Counter()
    for words in map(str.split, guest.check(f"rdma resource show {device}").splitlines()):
        counts.update({kind: int(count) for kind, count in zip(words[2::2], words[3::2])})
    return dict(counts)


def run_both(
    start_server: Callable[[], Command],
    start_client: Callable[[], Command],
    timeout: float = 120.0,
) -> tuple[Result, Result]:
    """Results of client and server, which both must succeed."""
    serving = start_server()
    client = start_client()
    try:
        done = client.wait(timeout)
    except CommandTimeout:
        client.kill()
        client.wait(10)
        serving.kill()
        serving.wait(10)
        raise
    if done.rc:
        serving.kill()
    served = serving.wait(30)
    assert complete(done), f"client: {done}\nserver: {served}"
    assert served.rc == 0, f"server: {served}"
    return done, served


def listening(guest: Guest, command: str, port: int, device: str = "") -> Command:
    """Starts a server and returns when it listens."""
    process = guest.start(f"exec {command}")
    wait_listening(guest, port, device=device)
    return process


def ucmatose(server: Guest, client: Guest, options: str, timeout: float = 60.0, *, card_port: int = 0) -> None:
    at = address(server, card_port)
    for side in run_both(
        lambda: listening(server, f"ucmatose -b {at} {options}", UCMATOSE_PORT),
        lambda: client.start(f"exec ucmatose -s {at} {options}"),
        timeout,
    ):
        assert "return status 0" in side.stdout, side


def rdma_client(server: Guest, client: Guest, timeout: float = 60.0, *, card_port: int = 0, device: str = "") -> None:
    done, served = run_both(
        lambda: listening(server, "rdma_server -p 7480", 7480, device),
        lambda: client.start(f"exec rdma_client -s {address(server, card_port)} -p 7480"),
        timeout,
    )
    assert done.stdout.endswith("rdma_client: end 0\n") and served.stdout.endswith("rdma_server: end 0\n"), (
        done,
        served,
    )


def rcopy(
    server: Guest,
    client: Guest,
    size: int = 1_000_000,
    timeout: float = 60.0,
    *,
    card_port: int = 0,
    device: str = "",
) -> None:
    """Copies random bytes from the client to the server and compares them."""
    client.check(f"head -c {size} /dev/urandom > /tmp/sent")
    serving = listening(server, "rcopy", RCOPY_PORT, device)
    done = client.run(f"rcopy /tmp/sent {address(server, card_port)}:/tmp/received", timeout)
    serving.kill()  # it serves for ever
    served = serving.wait(20)
    assert done.rc == 0, f"client: {done}\nserver: {served}"
    sent, received = (
        guest.check(f"sha256sum < {path}; rm {path}")
        for guest, path in ((client, "/tmp/sent"), (server, "/tmp/received"))
    )
    assert sent == received


def cmtime(server: Guest, client: Guest, connections: int) -> None:
    if "controller_address" in server.run("cmtime -h").stdout:
        return _cmtime_of_peers(server, client, connections)
    serving = listening(server, f"cmtime -b {address(server)} -c {connections}", UCMATOSE_PORT)
    done = client.run(f"cmtime -s {address(server)} -c {connections}", 60)
    assert done.rc == 0 and "connect" in done.stdout, done
    serving.kill()
    serving.wait(10)


def _cmtime_of_peers(server: Guest, client: Guest, connections: int) -> None:
    """Of rdma-core 65: both ends meet at a TCP port of one of them, and both end with the test."""
    options = f"-C {address(server)} -c {connections} -P 2"
    serving = server.start(f"exec cmtime -L -b {address(server)} {options}")
    server.check(
        (
            f"for try in $(seq 200); do grep -q ':{CMTIME_TCP_PORT:04X} 00000000:0000 0A' /proc/net/tcp && exit; sleep"
            " 0.1; done; exit 1"
        ),
        60,
    )
    done = client.run(f"cmtime -b {address(client)} {options}", 60)
    assert done.rc == 0 and "connect" in done.stdout, (done, serving.output)
    assert serving.wait(30).rc == 0


def perftest_sides(
    server: Guest,
    client: Guest,
    tool: str,
    options: str,
    *,
    network: int = 0,
    timeout: float = 120.0,
    device: str = "",
) -> tuple[Result, Result]:
    """Results of client and server. The first connection exchanges parameters. Then the server listens again, and a
    client that connects before is rejected, so this one waits."""
    first: list[str] = []

    def start_server():
        serving = server.start(f"exec {tool} -R -F {options}")
        wait_listening(server, PERFTEST_PORT, device=device)
        first.extend(listeners(server, PERFTEST_PORT))
        return serving

    def start_client():
        client.check("rm -f /tmp/connect")
        preloaded = "T3_CONNECT_AFTER=/tmp/connect LD_PRELOAD=/t3/bin/t3-connect_later.so"
        running = client.start(f"{preloaded} exec {tool} -R -F {options} {address(server, network)}")
        wait_listening(server, PERFTEST_PORT, device=device, after=first)
        client.check("touch /tmp/connect")
        return running

    return run_both(start_server, start_client, timeout)


def perftest(
    server: Guest,
    client: Guest,
    tool: str,
    options: str,
    *,
    network: int = 0,
    timeout: float = 120.0,
    device: str = "",
) -> list[str]:
    """The columns of the client's line of figures."""
    done, _ = perftest_sides(server, client, tool, options, network=network, timeout=timeout, device=device)
    lines = done.stdout.splitlines()
    header = max(number for number, line in enumerate(lines) if line.lstrip().startswith("#bytes"))
    figures = next(
        (line.split() for line in lines[header + 1 :] if line.split()[:1] and line.split()[0].isdigit()), None
    )
    assert figures, done
    return figures


def wait_no_objects(guest: Guest, timeout: int = SETTLE) -> None:
    """Returns once no RDMA object is left in the guest."""
    guest.check(
        f"""for try in $(seq {timeout * 10}); do
            rdma resource show | grep -qE ' [a-z_]+ [1-9]' || exit 0
            sleep 0.1
        done
        rdma resource show; rdma resource show qp; rdma resource show cm_id; exit 1""",
        timeout * 3,
    )
