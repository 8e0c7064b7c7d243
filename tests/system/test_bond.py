# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A bond that fails over, with either connection manager: ADDR_CHANGE over RoCE (rxe) and iWARP (siw), and what a T3
does whose ports are the bond.

In each of two guests the ports of a card are an active-backup bond. A cable is pulled, and both guests take the other
one.
"""

import json
import pathlib

import pytest
from conftest import Keeper, lend_made
from labkit import siw, stack
from roce import MODULES
from stock import wait_listening, wait_no_objects

HERE = pathlib.Path(__file__).parent / "guest"
KINDS = tuple(stack.SOFTWARE)
NETWORK = 9
PORT = 7500
# The bond has the address of its active port ("active"), so its peers and our consumers must know; or both ports have
# one address ("none").
FOLLOWS, STAYS = "active", "none"


def address(guest):
    return stack.address(NETWORK, guest.number)


def wait_until(guest, condition):
    guest.check(
        (
            f"for try in $(seq 300); do {condition} && exit; sleep 0.1; done; cat /proc/net/bonding/bond0; rdma link;"
            " exit 1"
        ),
        60,
    )


class Bonded:
    """Two guests with a bond, a connection manager, and a device of a kind on the bond."""

    def __init__(self, lab):
        self.lab = lab
        self._bond = self._used = None
        for guest in lab.guests:
            guest.check("modprobe bonding max_bonds=0")
            guest.push(HERE / "cm.py", "/tmp/cm.py", 0o755)

    def _make_bonds(self, fail_over_mac):
        for guest in self.lab.guests:
            guest.check(
                f"""[ ! -e /sys/class/net/bond0 ] || ip link delete bond0
                ip link add bond0 type bond mode active-backup miimon 100 fail_over_mac {fail_over_mac}
                for name in {' '.join(guest.interfaces)}; do
                    ip addr flush dev $name && ip link set $name down && ip link set $name master bond0 || exit
                done
                ip addr add {address(guest)}/24 dev bond0 && ip link set bond0 up""",
                30,
            )

    def use(self, manager, kind, fail_over_mac=FOLLOWS):
        wanted = manager, kind, fail_over_mac
        if wanted != self._used:
            self._used = None
            stack.unload_access(self.lab.guests)
            for guest in self.lab.guests:
                guest.check("[ ! -e /sys/module/iw_cxgb3 ] || rmmod iw_cxgb3")
            if fail_over_mac != self._bond:
                self._make_bonds(fail_over_mac)
                self._bond = fail_over_mac
            stack.load_access(self.lab.guests, ("ib_uverbs", MODULES[manager]))
            if kind == "t3":
                stack.bring_up_cards(self.lab.guests)
            else:
                stack.add_links(self.lab.guests, kind, lambda _guest: ["bond0"])
            self._used = wanted
        self._wait_redundant()
        return self.lab.guests

    def _wait_redundant(self):
        """Both ports of each bond have a carrier, and the same port is active in both guests."""
        for guest in self.lab.guests:
            wait_until(guest, "[ $(grep -c '^MII Status: up' /proc/net/bonding/bond0) = 3 ]")
        wanted = self._active(self.lab.guests[0])
        other = self.lab.guests[1]
        if self._active(other) != wanted:
            other.check(f"echo {other.interfaces[wanted]} >/sys/class/net/bond0/bonding/active_slave")

    @staticmethod
    def _active(guest):
        return guest.interfaces.index(guest.check("cat /sys/class/net/bond0/bonding/active_slave").strip())

    def fail_over(self):
        """Returns when both guests use the other cable; the one that was pulled is plugged in again."""
        active = self._active(self.lab.guests[0])
        self.lab.sim.cable(f"p{active}", plugged=False)
        for guest in self.lab.guests:
            wait_until(guest, f"[ $(cat /sys/class/net/bond0/bonding/active_slave) = {guest.interfaces[1 - active]} ]")
        self.lab.sim.cable(f"p{active}", plugged=True)
        self._wait_redundant()


@pytest.fixture(scope="module")
def _keeper(suite, kernel, pytestconfig):
    if not pytestconfig.getoption("--no-build") and not kernel:
        siw.module(suite)
    keeper = Keeper(guests=2, suite=suite, kernel=kernel, name="bond", load="nic")
    yield keeper
    keeper.drop()


@pytest.fixture
def bonded(request, _keeper):
    yield from lend_made(_keeper, request, Bonded)


def names(command):
    return [line["event"] for line in map(json.loads, command.output.splitlines()) if "event" in line]


def is_6_1(guest):
    return guest.check("uname -r").startswith("6.1.")


def bind(guest, port):
    """An id that is bound to the address of the bond."""
    bound = guest.start(f"exec /tmp/cm.py bind {address(guest)} {port}")
    bound.expect("bound", 20)
    return bound


def connected(server, client):
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --count 9")
    wait_listening(server, PORT)
    connecting = client.start(f"exec /tmp/cm.py connect {address(server)} {PORT} --watch")
    for side in (serving, connecting):
        side.expect("ESTABLISHED", 30)
    return serving, connecting


def connects_again(server, client):
    """ib_core adds the GIDs of the bond again in a work item."""
    return client.check(
        f"for try in $(seq 100); do /tmp/cm.py connect {address(server)} {PORT} && exit; sleep 0.1; done; exit 1", 60
    )


def notified_once(serving, connecting, bound):
    """serving has two ids, that of the listener and that of the connection."""
    reports = [names(command).count("ADDR_CHANGE") for command in (serving, connecting, bound)]
    assert reports == [2, 1, 1], [names(command) for command in (serving, connecting, bound)]


def fail_over_with_ids(bonded, server, client):
    """A listener and its connection, the connection's other end, and an id that is bound; each has got the event of a
    failover."""
    serving, connecting = connected(server, client)
    bound = bind(client, PORT + 1)
    bonded.fail_over()
    for command in (serving, connecting, bound):
        command.expect("ADDR_CHANGE", 30)
    return serving, connecting, bound


def end(*commands):
    for command in commands:
        command.kill()
        command.wait(30)


@pytest.mark.parametrize("manager", MODULES)
def test_each_id_over_roce_gets_the_event(bonded, manager):
    """Once per failover that changes the address that the id knows; the second failover gives the first ids their
    address back."""
    server, client = bonded.use(manager, "rxe")
    serving, connecting, bound = fail_over_with_ids(bonded, server, client)
    later = bind(client, PORT + 2)
    connects_again(server, client)
    bonded.fail_over()
    later.expect("ADDR_CHANGE", 30)
    connects_again(server, client)
    assert names(later) == ["ADDR_CHANGE"]
    notified_once(serving, connecting, bound)
    end(bound, later, connecting, serving)


@pytest.mark.parametrize("manager", MODULES)
def test_each_id_over_iwarp_gets_the_event(bonded, manager):
    """The connection goes on over the other cable. siw of 6.1 keeps the GID that it made of the address of the
    interface, so it has no new ids in-tree until the bond has that address again."""
    server, client = bonded.use(manager, "siw")
    serving, connecting, bound = fail_over_with_ids(bonded, server, client)
    later = client.start(f"exec /tmp/cm.py bind {address(client)} {PORT + 2}")
    bound_later = not (is_6_1(client) and manager == "in-tree")
    assert (later.expect("bound|No such device", 30)[0] == "bound") == bound_later
    assert "DISCONNECTED" not in names(connecting) + names(serving)
    end(connecting)
    serving.expect("DISCONNECTED", 30)
    bonded.fail_over()
    connects_again(server, client)
    notified_once(serving, connecting, bound)
    end(bound, serving, *([later] if bound_later else []))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("manager", MODULES)
def test_a_bond_that_keeps_its_address(bonded, manager, kind):
    """There is no event. The events of the later connection are behind those of the failover."""
    server, client = bonded.use(manager, kind, STAYS)
    serving, connecting = connected(server, client)
    bound = bind(client, PORT + 1)
    bonded.fail_over()
    connects_again(server, client)
    assert not [name for command in (serving, connecting, bound) for name in names(command) if name == "ADDR_CHANGE"]
    end(bound, connecting, serving)


@pytest.mark.parametrize("manager", MODULES)
def test_the_ports_of_a_card_are_a_bond(bonded, manager):
    """There is no connection: the card has no bonds (docs/limits.md). In-tree 6.1 binds an id to the active port, and
    the id gets the event of the failover."""
    server, client = bonded.use(manager, "t3")
    if not (is_6_1(client) and manager == "in-tree"):
        refused = client.run(f"/tmp/cm.py bind {address(client)} {PORT}", 30)
        assert refused.rc and "No such device" in refused.stdout, refused
        return
    bound = bind(client, PORT + 1)
    for guest, command in ((server, "listen"), (client, "connect")):
        refused = guest.run(f"/tmp/cm.py {command} {address(server)} {PORT}", 30)
        assert refused.rc and "Cannot assign requested address" in refused.stdout, refused
    bonded.fail_over()
    bound.expect("ADDR_CHANGE", 30)
    end(bound)
    for guest in bonded.lab.guests:
        wait_no_objects(guest)
