# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The port mapper of iWARP: Debian's iwpmd on both machines, on one, killed, stopped and started again, with our
connection manager at both ends and with the in-tree one at either end.

The wire shows which port a connection has: the SYN is captured. The programs see their own ports.
"""

import pathlib
import re
import subprocess

import pytest
from conftest import Keeper, lend
from labkit import siw, stack
from labkit.sim import Wire
from stock import (
    RPING_PORT,
    address,
    assert_complete,
    rping_client,
    rping_server,
    run_both,
    wait_listening,
    wait_no_objects,
)

HERE = pathlib.Path(__file__).parent / "guest"
MODULES = {"ours": "t3_rdma_cm", "in-tree": "rdma_ucm"}
MAPPINGS = "/sys/kernel/debug/t3_rdma_cm/mappings"
PORT = 7500
CARD_AND_SIW, SIW_AND_SIW = (
    1,
    2,
)  # networks: port 1 of the server's card and a NIC of the third guest; NICs of the client and of that guest
UNANSWERED = 10  # seconds until the kernel gives up


class Ends:
    """A server and a client with cards, and a guest with siw, with a connection manager and perhaps a daemon each."""

    def __init__(self, lab):
        self.lab = lab
        self.server, self.client, self.siw = lab.guests
        self._managers = [None, None, None]
        for guest in lab.guests:
            stack.load_access([guest], ("ib_uverbs",))
            if guest.cards:
                stack.bring_up_cards([guest])
            guest.push(HERE / "cm.py", "/tmp/cm.py", 0o755)
            guest.check("pidof iwpmd && kill $(pidof iwpmd) || true")

    def use(self, *managers):
        for number, manager in enumerate(managers):
            guest = self.lab.guests[number]
            if manager == self._managers[number]:
                continue
            stack.unload_access([guest])
            stack.load_access([guest], ("ib_uverbs", MODULES[manager]))
            if guest.nics:
                stack.add_links([guest], "siw")
            self._managers[number] = manager
        return self

    def start_daemon(self, guest):
        """Returns when the daemon has introduced itself to the kernel."""
        daemon = guest.start("exec iwpmd --systemd")
        known = f"grep -q '^daemon: [0-9]' {MAPPINGS}" if self._managers[guest.number] == "ours" else "true"
        guest.check(
            f"for try in $(seq 100); do grep -q ':0F5F ' /proc/net/udp && {known} && exit 0; sleep 0.1; done; cat"
            f" {MAPPINGS}; exit 1"
        )
        return daemon

    def syns(self, folder, act):
        """The source and destination ports of the connections that are opened meanwhile on all wires; all after the
        first are retries."""
        with self.lab.sim.capturing(folder):
            act()
        ports = []
        for path in sorted(folder.glob("*.pcapng")):
            done = subprocess.run(
                ["tshark", "-r", path, "-Y", "tcp.flags.syn == 1 && tcp.flags.ack == 0"]
                + "-T fields -e tcp.srcport -e tcp.dstport".split(),
                capture_output=True,
                text=True,
                check=True,
            )
            ports += [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        assert ports
        return ports


def kill(guest, daemon, signal="KILL"):
    guest.check(f"kill -{signal} {daemon.pid}")


def mappings(guest):
    return guest.check(f"cat {MAPPINGS}")


def wait_mapped(guest, pattern, timeout=20):
    """Returns once a line matches."""
    guest.check(
        (
            f"for try in $(seq {timeout * 10}); do grep -qE '{pattern}' {MAPPINGS} && exit 0; sleep 0.1; done; cat"
            f" {MAPPINGS}; exit 1"
        ),
        timeout * 3,
    )
    return re.search(pattern, mappings(guest), re.MULTILINE)


def mapped_port(guest, port):
    """The port of a listener on the wire; ours maps it while it listens already."""
    return int(wait_mapped(guest, f"^listener .*:{port} mapped to port ([0-9]+)$")[1])


def connections(guest):
    """The ports of the connections, as `rdma resource` shows them."""
    return re.findall(r"state CONNECT .*src-addr \S+:(\d+) dst-addr \S+:(\d+)", guest.check("rdma resource show cm_id"))


@pytest.fixture(scope="module")
def _keeper(suite, pytestconfig):
    if not pytestconfig.getoption("--no-build"):
        siw.module(suite)
    wires = [Wire("cards", ("c0.0", "c1.0")), Wire("mixed", ("c0.1", "n2")), Wire("siws", ("n1", "n2"))]
    keeper = Keeper(guests=3, cards=(1, 1, 0), wires=wires, suite=suite, name="port-mapper", load="nic")
    yield keeper
    keeper.drop()


@pytest.fixture
def ends(request, _keeper):
    """All with our manager, and no daemon; `use` changes the managers."""
    lending = lend(_keeper, request)
    lab = next(lending)
    yield _keeper.made(Ends).use("ours", "ours", "ours")
    for guest in lab.guests:
        guest.end_commands()
        wait_no_objects(guest)
    yield from lending


def rping(server, client, options="-C 10 -V", **where):
    return run_both(
        lambda: rping_server(server, options, **where),
        lambda: rping_client(client, server, options, **where),
        60,
    )


def test_the_wire_has_other_ports_than_the_programs(ends, tmp_path):
    for guest in (ends.server, ends.client):
        ends.start_daemon(guest)
    server = ends.server.start(f"exec /tmp/cm.py listen {address(ends.server)} {PORT}")
    mapped = mapped_port(ends.server, PORT)
    assert mapped != PORT

    def connect():
        ends.client.start(f"exec /tmp/cm.py connect {address(ends.server)} {PORT} --hold 600")
        wait_mapped(ends.client, f"^connection .* - .*:{PORT} mapped")
        ends.server.check(
            "for try in $(seq 200); do rdma resource show cm_id | grep -q CONNECT && exit 0; sleep 0.1; done; exit 1",
            60,
        )

    syns = ends.syns(tmp_path, connect)
    shown = re.search(
        rf"^connection .*:(\d+) - .*:{PORT} mapped to ports (\d+) - (\d+)$", mappings(ends.client), re.MULTILINE
    )
    port, mapped_source, mapped_target = map(int, shown.groups())
    assert mapped_target == mapped and mapped_source != port
    assert set(syns) == {(mapped_source, mapped)}
    # Both see the ports of the programs.
    assert connections(ends.client) == [(str(port), str(PORT))]
    assert connections(ends.server) == [(str(PORT), str(port))]
    # The host's TCP can have neither the port of the program nor the one on the wire.
    for taken in (PORT, mapped):
        bound = ends.server.run(
            f"python3 -c 'import socket; socket.create_server((\"{address(ends.server)}\", {taken}))'"
        )
        assert "Address already in use" in bound.stderr, (taken, bound)
    server.kill()


def test_rping_and_nothing_is_left(ends):
    for guest in (ends.server, ends.client):
        ends.start_daemon(guest)
    rping(ends.server, ends.client)
    for guest in (ends.server, ends.client):
        wait_no_objects(guest)
        guest.check(
            f"for try in $(seq 100); do grep -qE '^(listener|connection)' {MAPPINGS} || exit 0; sleep 0.1; done; cat"
            f" {MAPPINGS}; exit 1"
        )
        assert "requests: 0" in mappings(guest)


@pytest.mark.parametrize(
    "managers", [("ours", "in-tree"), ("in-tree", "ours")], ids=lambda pair: "->".join(reversed(pair))
)
def test_against_the_in_tree_manager(ends, tmp_path, managers):
    ends.use(*managers)
    for guest in (ends.server, ends.client):
        ends.start_daemon(guest)
    serving = rping_server(ends.server, "-C 10 -V")
    if managers[0] == "ours":
        assert mapped_port(ends.server, RPING_PORT) != RPING_PORT
    done = []
    syns = ends.syns(tmp_path, lambda: done.append(rping_client(ends.client, ends.server, "-C 10 -V").wait(60)))
    assert_complete(done[0])
    assert serving.wait(30).rc == 0
    assert {target for _source, target in syns}.isdisjoint({RPING_PORT}), syns


@pytest.mark.parametrize("where", ["server", "client"])
def test_a_daemon_on_one_side_only(ends, tmp_path, where):
    ends.start_daemon(getattr(ends, where))
    serving = rping_server(ends.server, "-C 10 -V")
    if where == "server":
        mapped_port(ends.server, RPING_PORT)
    done = []
    syns = ends.syns(
        tmp_path, lambda: done.append(rping_client(ends.client, ends.server, "-C 10 -V").wait(60 + UNANSWERED))
    )
    assert_complete(done[0])
    assert serving.wait(30).rc == 0
    assert {target for _source, target in syns} == {RPING_PORT}


def test_a_daemon_that_is_killed_in_the_middle(ends):
    """The client's daemon is stopped, so that the connect waits for it; then it is killed."""
    ends.start_daemon(ends.server)
    daemon = ends.start_daemon(ends.client)
    rping(ends.server, ends.client)
    wait_mapped(ends.client, "^daemon: .*registered")
    kill(ends.client, daemon, "STOP")
    serving = rping_server(ends.server, "-C 10 -V")
    client = rping_client(ends.client, ends.server, "-C 10 -V")
    wait_mapped(ends.client, "^requests: 1$")
    # A listener does not wait, nor do the commands of another process.
    listening = rping_server(ends.client, "", listen_port=PORT)
    kill(ends.client, daemon)
    assert_complete(client.wait(60))
    assert serving.wait(30).rc == 0
    assert "daemon: none" in mappings(ends.client)
    listening.kill()
    # The next connections are not mapped, and do not wait.
    rping(ends.server, ends.client)


def test_a_daemon_that_does_not_answer(ends):
    """It is stopped for the whole time: a connect waits until the time is over, and later ones do not wait."""
    daemon = ends.start_daemon(ends.client)
    kill(ends.client, daemon, "STOP")
    rping(ends.server, ends.client)
    assert "daemon: does not answer" in mappings(ends.client)
    rping(ends.server, ends.client)
    kill(ends.client, daemon, "CONT")
    wait_mapped(ends.client, "^daemon: [0-9]+")


def test_a_daemon_that_is_started_again_knows_the_listeners(ends, tmp_path):
    daemon = ends.start_daemon(ends.server)
    ends.start_daemon(ends.client)
    serving = rping_server(ends.server, "-C 10 -V")
    mapped = mapped_port(ends.server, RPING_PORT)
    kill(ends.server, daemon)
    wait_mapped(ends.server, "^daemon: none$")
    bind = f"python3 -c 'import socket; socket.create_server((\"\", {mapped}))'"
    ends.server.check(bind)
    ends.start_daemon(ends.server)
    # It holds the port again.
    ends.server.check(
        f"for try in $(seq 100); do {bind} 2>&1 | grep -q 'already in use' && exit 0; sleep 0.1; done; exit 1", 60
    )
    done = []
    syns = ends.syns(tmp_path, lambda: done.append(rping_client(ends.client, ends.server, "-C 10 -V").wait(60)))
    assert_complete(done[0])
    assert serving.wait(30).rc == 0
    assert {target for _source, target in syns} == {mapped}


def test_siw_asks_for_the_port_of_a_card(ends, tmp_path):
    """siw has sockets of the host, so its own port is not mapped. It connects to the mapped port of the card."""
    for guest in (ends.server, ends.siw):
        ends.start_daemon(guest)
    server_at = address(ends.server, CARD_AND_SIW)
    serving = ends.server.start(f"exec /tmp/cm.py listen {server_at} {PORT}")
    mapped = mapped_port(ends.server, PORT)
    done = []
    syns = ends.syns(tmp_path, lambda: done.append(ends.siw.run(f"/tmp/cm.py connect {server_at} {PORT}", 60)))
    assert '"event": "ESTABLISHED"' in done[0].stdout, done[0]
    assert {target for _source, target in syns} == {mapped}
    serving.wait(30)


def test_a_card_asks_for_the_port_of_siw(ends, tmp_path):
    """The port of the card is mapped, that of siw is not."""
    for guest in (ends.server, ends.siw):
        ends.start_daemon(guest)
    siw_at = address(ends.siw, CARD_AND_SIW)
    serving = ends.siw.start(f"exec /tmp/cm.py listen {siw_at} {PORT}")
    assert mapped_port(ends.siw, PORT) == PORT

    def connect():
        ends.server.start(f"exec /tmp/cm.py connect {siw_at} {PORT} --hold 600")
        wait_mapped(ends.server, f"^connection .* - .*:{PORT} mapped")
        ends.siw.check(
            "for try in $(seq 200); do rdma resource show cm_id | grep -q CONNECT && exit 0; sleep 0.1; done; exit 1",
            60,
        )

    syns = ends.syns(tmp_path, connect)
    shown = re.search(
        rf"^connection .*:(\d+) - .*:{PORT} mapped to ports (\d+) - {PORT}$", mappings(ends.server), re.MULTILINE
    )
    port, mapped = map(int, shown.groups())
    assert port != mapped and set(syns) == {(mapped, PORT)}
    # siw's end shows the port of the program, which its daemon has learned.
    assert connections(ends.siw) == [(str(PORT), str(port))]
    serving.kill()


def test_siw_at_both_ends(ends):
    for guest in (ends.client, ends.siw):
        ends.start_daemon(guest)
    rping(ends.siw, ends.client, card_port=SIW_AND_SIW)
    for guest in (ends.client, ends.siw):
        wait_mapped(guest, "^daemon: .*registered")


def test_siw_over_ipv6(ends, tmp_path):
    """A card has IPv4 only. The daemons exchange the ports of IPv6 addresses of siw."""
    for guest in (ends.client, ends.siw):
        guest.check(f"ip addr replace fd00::{guest.number + 1}/64 dev {guest.nic_interfaces[-1]} nodad")
        ends.start_daemon(guest)
    at = f"-a fd00::{ends.siw.number + 1} -p {RPING_PORT} -C 10 -V"

    def serving():
        server = ends.siw.start(f"exec rping -s {at}")
        wait_listening(ends.siw, RPING_PORT)
        assert re.search(
            r"^listener \[?fd00::", wait_mapped(ends.siw, f"^listener .*:{RPING_PORT} mapped to port {RPING_PORT}$")[0]
        )
        return server

    syns = ends.syns(tmp_path, lambda: run_both(serving, lambda: ends.client.start(f"exec rping -c {at}"), 60))
    assert {target for _source, target in syns} == {RPING_PORT}
    for guest in (ends.client, ends.siw):
        wait_mapped(guest, "^daemon: .*registered")


def test_a_wildcard_listener_is_reached(ends):
    """iwpmd refuses the wildcard address, so the listener has its own port only."""
    for guest in (ends.server, ends.client):
        ends.start_daemon(guest)
    serving = ends.server.start(f"exec /tmp/cm.py listen 0.0.0.0 {PORT}")
    wait_listening(ends.server, PORT)
    done = ends.client.run(f"/tmp/cm.py connect {address(ends.server)} {PORT}", 60)
    assert '"event": "ESTABLISHED"' in done.stdout, done
    assert not re.search("^listener", mappings(ends.server), re.MULTILINE)
    serving.wait(30)


def test_beside_iw_cm(ends):
    """iw_cm is loaded and unloaded while ours is in use; the kernel log has no warning."""
    for guest in (ends.server, ends.client):
        ends.start_daemon(guest)
    ends.server.check("modprobe iw_cm")
    assert "daemon: used by iw_cm" in mappings(ends.server)
    rping(ends.server, ends.client)
    ends.server.check("rmmod iw_cm")
    rping(ends.server, ends.client)
    serving = rping_server(ends.server)
    mapped_port(ends.server, RPING_PORT)
    serving.kill()
