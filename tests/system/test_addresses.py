# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Addresses of both families and network namespaces, with both connection managers, which must behave alike.

One guest without a card: two siw devices on the ends of a veth pair, one end in a namespace of its own.
"""

import pathlib
import re

import pytest
from conftest import Keeper, lend
from labkit import siw, stack
from stock import RPING_PORT, objects, run_both, wait_listening

MANAGERS = {"in-tree": ("ib_uverbs", "rdma_ucm"), "ours": ("ib_uverbs", "t3_rdma_cm")}
NAMESPACE = "there"
INSIDE = f"ip netns exec {NAMESPACE}"
PORT = 7700
PROGRAM = pathlib.Path(__file__).parent / "guest/cm.py"

PAIR = f"""set -e
    modprobe veth
    ip netns add {NAMESPACE}
    ip link add here type veth peer name far
    ip link set far netns {NAMESPACE}
    ip addr add 10.9.0.1/24 dev here
    ip addr add fd09::1/64 dev here nodad
    ip link set here up
    {INSIDE} ip addr add 10.9.0.2/24 dev far
    {INSIDE} ip addr add fd09::2/64 dev far nodad
    {INSIDE} ip link set far up
    modprobe 8021q
    ip link add link here name here.5 type vlan id 5
    {INSIDE} ip link add link far name far.5 type vlan id 5
    ip addr add 10.9.5.1/24 dev here.5
    {INSIDE} ip addr add 10.9.5.2/24 dev far.5
    ip link set here.5 up
    {INSIDE} ip link set far.5 up
    for try in $(seq 100); do
        ip -6 addr show dev here scope link | grep -q tentative || ! {INSIDE} ip -6 addr show dev far scope link | grep -q inet6 ||
            {INSIDE} ip -6 addr show dev far scope link | grep -q tentative || exit 0
        sleep 0.1
    done
    echo 'no link-local addresses'; exit 1"""  # noqa: E501


@pytest.fixture(scope="module")
def _keeper(suite, pytestconfig):
    if not pytestconfig.getoption("--no-build"):
        siw.module(suite)
    keeper = Keeper(guests=1, cards=0, wires=[], suite=suite, name="addresses")
    yield keeper
    keeper.drop()


@pytest.fixture
def plain(request, _keeper):
    """The guest with both ends of the veth pair; the modules may be any."""
    lending = lend(_keeper, request)
    (made,) = next(lending).guests
    if made.run("ip link show dev here").rc:
        made.check(PAIR, 60)
    yield made
    yield from lending


@pytest.fixture(scope="module", params=[pytest.param("in-tree", marks=pytest.mark.long), "ours"])
def manager(request):
    return request.param


@pytest.fixture
def guest(plain, manager):
    if plain.run(f"grep -q '^{MANAGERS[manager][-1]} ' /proc/modules").rc:
        load(plain, manager)
    return plain


def load(guest, manager):
    stack.unload_access([guest])
    stack.load_access([guest], MANAGERS[manager])
    stack.add_links([guest], "siw", lambda _guest: ["here"])
    guest.check(f"{INSIDE} rdma link add siw_far type siw netdev far")


def link_local(guest, device, prefix=""):
    return re.search(r"inet6 (fe80::[0-9a-f:]+)", guest.check(f"{prefix} ip -6 addr show dev {device} scope link"))[1]


def serve(guest, at, prefix=INSIDE, options="-C 10 -V"):
    server = guest.start(f"exec {prefix} rping -s -a {at} {options}")
    wait_listening(guest, RPING_PORT)
    return server


def rping(guest, at, server_at=None):
    """A server in the namespace, and a client outside."""
    run_both(lambda: serve(guest, server_at or at), lambda: guest.start(f"exec rping -c -a {at} -C 10 -V"), 20)
    left = objects(guest)
    assert left and not any(left.values()), left


def test_C20_a_vlan_has_the_device_of_the_interface_below(guest):
    rping(guest, "10.9.5.2")
    shown = guest.check("rdma link")
    assert "netdev here" in shown and ".5" not in shown, shown


@pytest.mark.parametrize("address", ["10.9.0.2", "fd09::2"])
def test_a_connection_into_a_namespace(guest, address):
    rping(guest, address)


def test_link_local_addresses_with_a_scope(guest):
    far = link_local(guest, "far", INSIDE)
    rping(guest, f"{far}%here", f"{far}%far")


def test_a_link_local_address_without_its_scope_is_refused(guest, manager):
    if manager == "in-tree":
        pytest.skip("refused by rdma_connect() only, and rping then hangs")
    done = guest.run(f"rping -c -a {link_local(guest, 'far', INSIDE)} -C 1", 30)
    assert done.rc != 0 and "ADDR" in (done.stdout + done.stderr).upper(), done


def test_each_namespace_has_its_own_ports(guest):
    far, near = serve(guest, "10.9.0.2"), serve(guest, "10.9.0.1", prefix="")
    assert guest.check("rdma resource show cm_id").count(f":{RPING_PORT} ") == 2
    for prefix, at in ((INSIDE, "10.9.0.2"), ("", "10.9.0.1")):
        second = guest.run(f"{prefix} rping -s -a {at} -C 1", 20)
        assert second.rc != 0 and "in use" in second.stdout + second.stderr, second
    for server in (far, near):
        server.kill()
        server.wait(10)


def test_binding_an_address_of_another_namespace_fails(guest):
    for prefix, at in (("", "10.9.0.2"), (INSIDE, "10.9.0.1")):
        done = guest.run(f"{prefix} rping -s -a {at} -C 1", 20)
        assert done.rc != 0 and "rdma_bind_addr" in done.stdout + done.stderr, done


def described(guest):
    """The ids in `rdma resource`, without numbers that differ each time."""
    return sorted(
        re.sub(r"(cm-idn|lqpn|pid) \d+|(10\.9\.0\.1:)\d+", r"\1\2*", line).strip()
        for line in guest.check("rdma resource show cm_id").splitlines()
    )


def test_C12_rdma_resource_describes_ids(guest, manager):
    """A listener on one device, a wildcard listener, and both ends of a connection, while ids without a device are
    created and destroyed. Ours does not listen on the device of another namespace."""
    guest.push(PROGRAM, "/tmp/cm.py", 0o755)
    reader = guest.start("while rdma resource show cm_id > /dev/null; do sleep 0.2; done")
    one = guest.start(f"exec {INSIDE} /tmp/cm.py listen 10.9.0.2 {PORT} --count 2")
    everywhere = guest.start(f"exec /tmp/cm.py listen 0.0.0.0 {PORT + 1}")
    wait_listening(guest, PORT)
    wait_listening(guest, PORT + 1)
    assert guest.run(f"/tmp/cm.py connect 10.9.0.2 {PORT}", 30).rc == 0
    held = guest.start(f"exec /tmp/cm.py connect 10.9.0.2 {PORT} --hold 60")
    held.expect("ESTABLISHED", 20)
    assert described(guest) == [
        line for line in DESCRIBED if manager == "in-tree" or not line.startswith("link siw_far/- ")
    ]
    for process in (held, one, everywhere, reader):
        process.kill()
        process.wait(10)


DESCRIBED = [
    "link siw0/- cm-idn* state LISTEN ps TCP pid* comm cm.py src-addr 0.0.0.0:7701",
    (
        "link siw0/1 cm-idn* lqpn* qp-type RC state CONNECT ps TCP pid* comm cm.py src-addr 10.9.0.1:* dst-addr"
        " 10.9.0.2:7700"
    ),
    "link siw_far/- cm-idn* state LISTEN ps TCP pid* comm cm.py src-addr 0.0.0.0:7701",
    (
        "link siw_far/1 cm-idn* lqpn* qp-type RC state CONNECT ps TCP pid* comm cm.py src-addr 10.9.0.2:7700 dst-addr"
        " 10.9.0.1:*"
    ),
    "link siw_far/1 cm-idn* state LISTEN ps TCP pid* comm cm.py src-addr 10.9.0.2:7700 dst-addr 0.0.0.0:0",
]
