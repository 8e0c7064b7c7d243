# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian's own RDMA programs, as the tests start them."""

from labkit import stack
from labkit.guest import Guest

RPING_PORT = 7174


def address(guest: Guest, port: int = 0) -> str:
    """The address of a guest's port."""
    return stack.address(port, guest.number)


def wait_listening(guest: Guest, port: int, timeout: int = 20) -> None:
    """Returns once a program in the guest listens on the RDMA port; connecting earlier would be refused."""
    guest.check(f"""for try in $(seq {timeout * 10}); do
            rdma resource show cm_id | grep -q 'state LISTEN.*:{port} ' && exit 0
            sleep 0.1
        done
        echo 'nobody listens on port {port} after {timeout} s:'; rdma resource show cm_id; exit 1""", timeout * 3)


def rping_server(guest: Guest, options: str = "", listen_port: int = RPING_PORT, card_port: int = 0):
    """Starts an rping server and returns when it listens."""
    server = guest.start(f"exec rping -s -a {address(guest, card_port)} -p {listen_port} {options}")
    wait_listening(guest, listen_port)
    return server


def rping_client(guest: Guest, server: Guest, options: str = "", listen_port: int = RPING_PORT, card_port: int = 0):
    return guest.start(f"exec rping -c -a {address(server, card_port)} -p {listen_port} {options}")


def objects(guest: Guest) -> dict[str, int]:
    """Counts of the RDMA objects that exist in the guest, by kind."""
    words = guest.check("rdma resource show").split()
    return {kind: int(count) for kind, count in zip(words[2::2], words[3::2])}
