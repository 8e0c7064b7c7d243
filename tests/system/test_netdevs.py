# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The host's side of connections: interfaces, addresses and network namespaces that go away under them, and TCP ports
of the host. With both managers.

Each guest has a VLAN device on the second port of its card.
"""

import json
import pathlib

import pytest
import same_index
from labkit import stack
from stock import RPING_PORT, address, rping, wait_listening, wait_no_objects

CM = pathlib.Path(__file__).parent / "guest/cm.py"
PORT = 7600
VLAN = "v5"
UNRESPONSIVE = "10.5.0.78"  # has a neighbour entry, and does not exist
REMOVED = 5  # seconds in which an interface goes away
CONNECTIONS = 100

TCP_SERVER = """exec python3 -c '
import socket, sys
server = socket.socket({family})
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind(("{at}", {port}))
server.listen()
print("serves", flush=True)
while True:
    server.accept()[0].sendall(b"hello")
'"""
TCP_CLIENT = """python3 -c 'import socket; print(socket.create_connection(("{at}", {port}), 10).recv(5).decode())'"""


@pytest.fixture(params=["pair", "t3cm"])
def lab(request):
    lab = request.getfixturevalue(request.param)
    for guest in lab.guests:
        guest.push(CM, "/tmp/cm.py", 0o755)
    return lab


def vlan_address(guest):
    return f"10.5.0.{guest.number + 1}"


def add_vlan(guest, inside=""):
    guest.check(
        f"""modprobe 8021q
        {inside} ip link add link {guest.interfaces[1]} name {VLAN} type vlan id 5
        {inside} ip addr add {vlan_address(guest)}/24 dev {VLAN}
        {inside} ip link set {VLAN} up"""
    )


@pytest.fixture
def vlans(lab):
    for guest in lab.guests:
        add_vlan(guest)
    yield lab.guests
    for guest in lab.guests:
        guest.check(f"[ ! -e /sys/class/net/{VLAN} ] || ip link del {VLAN}")


def listen(guest, options="", at=None):
    serving = guest.start(f"exec /tmp/cm.py listen {at or vlan_address(guest)} {PORT} --backlog 200 {options}")
    wait_listening(guest, PORT)
    return serving


def names(command):
    return [line["event"] for line in map(json.loads, command.stdout.splitlines()) if "event" in line]


def end(*commands):
    for command in commands:
        command.kill()
        command.wait(30)


def connected(server, client, times=1, at=None):
    """Processes of connections that stay until something ends them, and then end."""
    serving = listen(server, f"--count {times}", at)
    connecting = client.start(f"exec /tmp/cm.py connect {at or vlan_address(server)} {PORT} --times {times}")
    connecting.expect(f'"connected": {times}', 240)
    return serving, connecting


def all_end(commands):
    for command in commands:
        assert command.wait(60).rc == 0


def removed(guest, command):
    """Runs a command that removes interfaces; returns when there is no VLAN device any more."""
    guest.check(
        f"""exec timeout {REMOVED} sh -c '{command}; while [ -e /sys/class/net/{VLAN} ]; do sleep 0.1; done'""",
        2 * REMOVED,
    )


@pytest.mark.parametrize("command", [f"ip link del {VLAN}", "rmmod 8021q"])
def test_a_vlan_device_is_removed_under_connections(vlans, command):
    server, client = vlans
    connections = connected(server, client, CONNECTIONS)
    removed(client, command)
    all_end(connections)
    for guest in vlans:
        wait_no_objects(guest)
    # The next device has the same name, VLAN and addresses.
    add_vlan(client)
    end(*connected(server, client))


def test_an_address_is_removed_under_a_connection(vlans):
    server, client = vlans
    client.check(f"ip addr add 10.5.0.21/24 dev {VLAN}")
    connections = connected(server, client)
    client.check(f"ip addr del 10.5.0.21/24 dev {VLAN}; ip link set {VLAN} down; ip link set {VLAN} up")
    rping(server, client)
    assert all(command.running for command in connections)
    client.check(f"ip addr del {vlan_address(client)}/24 dev {VLAN}")
    all_end(connections)


def connects_without_a_reply(client, inside=""):
    """The card has its open, and repeats the SYN for minutes."""
    client.check(f"{inside} ip neigh replace {UNRESPONSIVE} lladdr 02:00:00:00:00:78 dev {VLAN} nud permanent")
    connecting = client.start(f"exec {inside} /tmp/cm.py connect {UNRESPONSIVE} {PORT}")
    connecting.expect("ROUTE_RESOLVED", 20)
    client.check(
        (
            "for try in $(seq 100); do grep -q connecting /sys/kernel/debug/iw_cxgb3/*/cm/endpoints && exit; sleep 0.1;"
            " done; exit 1"
        ),
        30,
    )
    return connecting


def test_a_vlan_device_is_removed_under_an_open(vlans):
    client = vlans[1]
    connecting = connects_without_a_reply(client)
    removed(client, f"ip link del {VLAN}")
    assert connecting.wait(30).rc == 2
    assert names(connecting)[-1] in ("CONNECT_ERROR", "UNREACHABLE", "REJECTED")


def test_a_namespace_ends_with_an_open(lab):
    """The process is dead, but the card has its open."""
    client = lab.guests[1]
    port, inside = client.interfaces[1], "ip netns exec there"
    client.check(f"ip netns add there && ip link set {port} netns there && {inside} ip link set {port} up")
    try:
        add_vlan(client, inside)
        end(connects_without_a_reply(client, inside))
    finally:
        client.check(
            f"""ip netns del there
            timeout {REMOVED} sh -c 'while ! ip link show {port}; do sleep 0.1; done' > /dev/null""",
            2 * REMOVED,
        )
        client.check(
            f"ip addr add {address(client, 1)}/24 dev {port} && ip link set {port} up && {stack.wait_carrier(port)}", 60
        )


def test_a_namespace_holds_an_l2_entry_of_the_host(lab):
    """The limit of docs/limits.md: the host's connect fails at once, and is not sent to the other's VLAN."""
    server, client = lab.guests
    with same_index.vlans(client, server):
        serving = listen(server, at=same_index.SERVER)
        with same_index.connecting(client, PORT):
            refused = client.run(f"/tmp/cm.py connect {same_index.SERVER} {PORT}", 30)
            assert refused.rc and "No route to host" in refused.stdout, refused
        end(serving)


@pytest.mark.parametrize("at", ["address", "0.0.0.0"])
def test_a_port_of_a_tcp_server_is_not_taken(lab, at):
    server, client = lab.guests
    own = address(server)
    at = own if at == "address" else at
    serving = server.start(TCP_SERVER.format(family="", at=at, port=PORT))
    serving.expect("serves", 20)
    for where in (own, "0.0.0.0"):
        refused = server.run(f"/tmp/cm.py listen {where} {PORT}", 30)
        assert refused.rc == 1 and "Address already in use" in refused.stdout, refused
    assert client.check(TCP_CLIENT.format(at=own, port=PORT), 30) == "hello\n"
    end(serving)
    end(listen(server, at=own))


@pytest.mark.parametrize("at", ["address", "0.0.0.0", "::"])
def test_a_port_of_an_rdma_listener_is_not_taken(lab, at):
    server, client = lab.guests
    own = address(server)
    if at == "::":
        listening = server.start(f"exec rping -s -a :: -p {RPING_PORT} -C 3")
        wait_listening(server, RPING_PORT)
        port = RPING_PORT
    else:
        listening, port = listen(server, at=own if at == "address" else at), PORT
    for where, family in ((own, ""), ("0.0.0.0", ""), ("::", "socket.AF_INET6")):
        refused = server.run(TCP_SERVER.format(family=family, at=where, port=port), 30)
        assert refused.rc == 1 and "Address already in use" in refused.stderr, refused
    if at == "::":
        assert client.run(f"rping -c -a {own} -p {port} -C 3 -V", 60).rc == 0
        listening.wait(30)
    else:
        end(listening)
    serving = server.start(TCP_SERVER.format(family="", at=own, port=port))
    serving.expect("serves", 20)
    end(serving)


# No frame comes by itself. cxgb3 does not stop its queues when it loses bus mastering, and a failed transfer ends a
# queue.
QUIET = "sysctl -q net.ipv6.conf.eth0.disable_ipv6=1; ip neigh replace {peer} lladdr {mac} nud permanent dev eth0"
NORMAL = "sysctl -q net.ipv6.conf.eth0.disable_ipv6=0; ip neigh flush all nud permanent dev eth0"


# The guests' programs are on 9p. Linux stops its virtio device for a suspend and does not start it again: programs that
# the guest has not in its cache would wait without end.
@pytest.mark.last_of_lab
def test_rdma_comes_back_after_the_phase_of_devices_of_a_suspend(lab):
    """The card keeps its power, and so do its interfaces."""
    server, client = lab.guests
    if client.run("grep -q devices /sys/power/pm_test").rc:
        pytest.skip("this kernel has no test of suspend")
    for guest, peer in ((server, client), (client, server)):
        guest.check(QUIET.format(peer=address(peer), mac=peer.check("cat /sys/class/net/eth0/address").strip()))
    serving, connecting = connected(server, client, at=address(server))
    client.check(
        (
            "echo devices > /sys/power/pm_test && echo mem > /sys/power/state; rc=$?; echo none > /sys/power/pm_test;"
            " exit $rc"
        ),
        120,
    )
    # The abort and the removal are reported by two work items of the in-tree manager, and the first one ends the id.
    connecting.expect("DISCONNECTED|DEVICE_REMOVAL", 30)
    assert serving.wait(30).rc == 0
    end(connecting)
    client.check(f"ping -c 1 -w 30 {address(server)}", 40)
    client.check("for try in $(seq 100); do ibv_devinfo -d cxgb3_0 && exit; sleep 0.1; done; exit 1", 60)
    rping(server, client)
    for guest in lab.guests:
        guest.check(NORMAL)
