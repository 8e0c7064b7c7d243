# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Rules of the verbs for objects and processes."""

import pathlib

import pytest
from programs import run_alone, run_pair
from stock import objects

HERE = pathlib.Path(__file__).parent / "guest"


def test_domains_and_device_queries(pair):
    server, client = pair.guests
    assert run_alone(client, server, "domains")["checks"] >= 30
    assert not any(objects(client).values())


def test_fork_while_sending(pair):
    server, client = run_pair(*pair.guests, "fork")
    for side in (server, client):
        assert side["children"] == 12
        assert side["mapped"] >= 4, "two CQ rings, a QP ring and a doorbell page, none of which a child has"
    for guest in pair.guests:
        assert not any(objects(guest).values())


def test_objects_of_another_process(pair):
    server, client = pair.guests
    run_alone(client, server, "import")
    assert not any(objects(client).values())


@pytest.mark.parametrize("last", ["old_key", "less_access", "other_domain"])
def test_reregistered_memory(pair, last):
    """The keys change with each call, and the peer's last write is refused."""
    run_pair(*pair.guests, "rereg", f"--last={last}")
    for guest in pair.guests:
        assert not any(objects(guest).values())


# docs/limits.md
def test_what_a_t3_does_differently(pair):
    """A SEND in INIT, a list with empty SGEs, a move to SQD, and completions that were not polled."""
    server, client = run_pair(*pair.guests, "limits")
    assert server["intact"] == server["messages"] == 7
    assert server["disconnected"] and client["disconnected"] and client["left"] == 0


UPPER = {
    "macvlan": "ip link add upper link {port} type macvlan",
    "bridge": "ip link add upper type bridge && ip link set {port} master upper",
}


# docs/limits.md
@pytest.mark.parametrize("kind", UPPER)
def test_a_bridge_and_a_macvlan_have_no_card(pair, kind):
    """As bonds: rdma_cm of 6.1 finds the port by the bridge's link address, and the connect fails."""
    guest = pair.guests[0]
    guest.push(HERE / "cm.py", "/tmp/cm.py", 0o755)
    port = guest.interfaces[1]
    try:
        guest.check(
            f"""{UPPER[kind].format(port=port)} && ip addr add 10.0.9.1/24 dev upper && ip link set upper up &&
            ip neigh add 10.0.9.2 lladdr 02:00:00:00:00:09 dev upper nud permanent"""
        )
        refused = guest.run("/tmp/cm.py connect 10.0.9.2 7500", 30)
        assert refused.rc and any(
            error in refused.stdout for error in ("Cannot assign requested address", "ADDR_ERROR")
        ), refused
    finally:
        guest.check("ip link del upper")
