# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian's RDMA programs, as the tests start them."""

import signal
from collections import Counter
from typing import Callable

from labkit import stack
from labkit.channel import Command, CommandTimeout, Result
from labkit.guest import Guest

RPING_PORT = 7174
PERFTEST_PORT = 18515
ATTEMPTS = 3
SETTLE = 30  # seconds in which the objects of a killed process must be destroyed


def address(guest: Guest, port: int = 0) -> str:
    """The address of a guest's port."""
    return stack.address(port, guest.number)


def wait_listening(guest: Guest, port: int, timeout: int = 20) -> None:
    """Returns once a program in the guest listens on the RDMA port; connecting earlier would be refused."""
    guest.check(f"""for try in $(seq {timeout * 10}); do
            rdma resource show cm_id | grep -q 'state LISTEN.*:{port} ' && exit 0
            sleep 0.1
        done
        echo 'no listener on port {port} after {timeout} s:'; rdma resource show cm_id; exit 1""", timeout * 3)


def rping_server(guest: Guest, options: str = "", listen_port: int = RPING_PORT, card_port: int = 0):
    """Starts an rping server and returns when it listens."""
    server = guest.start(f"exec rping -s -a {address(guest, card_port)} -p {listen_port} {options}")
    wait_listening(guest, listen_port)
    return server


def rping_client(guest: Guest, server: Guest, options: str = "", listen_port: int = RPING_PORT, card_port: int = 0):
    return guest.start(f"exec rping -c -a {address(server, card_port)} -p {listen_port} {options}")


def objects(guest: Guest, device: str = "") -> dict[str, int]:
    """Counts of the RDMA objects that exist in the guest, on one device or on all, by kind."""
    counts: Counter[str] = Counter()
    for words in map(str.split, guest.check(f"rdma resource show {device}").splitlines()):
        counts.update({kind: int(count) for kind, count in zip(words[2::2], words[3::2])})
    return dict(counts)


def run_both(start_server: Callable[[], Command], start_client: Callable[[], Command], timeout: float = 120.0, *,
             may_hang: bool = False) -> tuple[Result, Result]:
    """Results of client and server, which both must succeed.

    Two errors of other software are tried again. A perftest whose connection is rejected retries with ids that it has freed. siw
    (may_hang) sends the MPA reply before it handles data of the QP: data that a fast initiator sends in between is not processed until
    more arrives, which in a request and response protocol never happens.
    """
    for attempt in range(1, ATTEMPTS + 1):
        serving = start_server()
        client = start_client()
        try:
            done = client.wait(timeout)
        except CommandTimeout:
            client.kill()
            client.wait(10)
            serving.kill()
            serving.wait(10)
            if may_hang and attempt < ATTEMPTS:
                continue
            raise
        if done.rc:
            serving.kill()
        served = serving.wait(30)
        if done.rc != -signal.SIGSEGV or attempt == ATTEMPTS:
            break
    assert done.rc == 0, f"client: {done}\nserver: {served}"
    assert served.rc == 0, f"server: {served}"
    return done, served


def perftest(server: Guest, client: Guest, tool: str, options: str, *, network: int = 0, timeout: float = 120.0,
             may_hang: bool = False) -> list[str]:
    """The columns of the client's line of figures."""
    def start_server():
        serving = server.start(f"exec {tool} -R -F {options}")
        wait_listening(server, PERFTEST_PORT)
        return serving

    done, _ = run_both(start_server, lambda: client.start(f"exec {tool} -R -F {options} {address(server, network)}"), timeout,
                       may_hang=may_hang)
    lines = done.stdout.splitlines()
    header = max(number for number, line in enumerate(lines) if line.lstrip().startswith("#bytes"))
    figures = next((line.split() for line in lines[header + 1:] if line.split()[:1] and line.split()[0].isdigit()), None)
    assert figures, done
    return figures


def wait_no_objects(guest: Guest, timeout: int = SETTLE) -> None:
    """Returns once no RDMA object is left in the guest."""
    guest.check(f"""for try in $(seq {timeout * 10}); do
            rdma resource show | grep -qE ' [a-z_]+ [1-9]' || exit 0
            sleep 0.1
        done
        rdma resource show; rdma resource show qp; rdma resource show cm_id; exit 1""", timeout * 3)
