# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Who may have which address, and on which device, by our connection manager and by the in-tree one: loopback,
link-local addresses with scope, VLANs that share the MAC address of their interface, and another namespace. Over siw
(iWARP) and rxe (RoCE), each manager alone and both loaded.

One guest without a card: its interface is one end of a pair, and the other end replies to ARP in a namespace of its
own.
"""

import pathlib

import pytest
from conftest import Keeper, lend
from labkit import siw, stack
from programs import ucm_differences

HERE, PEER, INTERFACE = "10.60.0.1", "10.60.0.2", "rdma0"
PROGRAM = pathlib.Path(__file__).parent / "guest/ucm.py"


@pytest.fixture(scope="module")
def _keeper(suite, kernel, pytestconfig):
    if not kernel and not pytestconfig.getoption("--no-build"):
        siw.module(suite)
    keeper = Keeper(guests=1, cards=0, wires=[], suite=suite, kernel=kernel, name="identities", load="none")
    yield keeper
    keeper.drop()


def prepare(lab):
    guest = lab.guests[0]
    guest.push(PROGRAM, "/tmp/ucm.py", 0o755)
    guest.check(
        f"""modprobe veth; ip link set lo up; ip netns add peer; ip link add {INTERFACE} type veth peer name {INTERFACE} netns peer
        ip -n peer addr add {PEER}/24 dev {INTERFACE}; ip -n peer link set {INTERFACE} up
        echo 0 > /proc/sys/net/ipv6/conf/{INTERFACE}/accept_dad; ip addr add {HERE}/24 dev {INTERFACE}; ip link set {INTERFACE} up"""  # noqa: E501
    )  # noqa: E501
    return guest


@pytest.fixture
def guest(request, _keeper):
    lending = lend(_keeper, request)
    next(lending)
    yield _keeper.made(prepare)
    yield from lending


def answers(guest, kind, *managers, device="rdma_cm"):
    stack.unload_access([guest])
    stack.load_access([guest], ("ib_uverbs", *managers))
    stack.add_links([guest], kind, lambda _guest: [INTERFACE])
    return guest.check(f"/tmp/ucm.py --places {HERE} {PEER} {INTERFACE} {device}", 120)


def row(result, device=None, **more):
    return {"result": result, "device": device, **more}


def resolved(result, address=None, route=None):
    return row(result, address=address, route=route)


NOT_OVER_LOOPBACK = [
    f"to {what}"
    for what in ("loopback", "another address of loopback", "loopback of IPv6", "the wildcard", "the wildcard of IPv6")
]
# As for sockets: without its scope a link-local address names no link. In-tree takes a route to any.
WITHOUT_SCOPE = {"to a link-local address without scope": resolved("EINVAL")}
# No interface with the address is the device's. In-tree finds the device by the MAC address, or the address of loopback
# and then no route.
NO_DEVICE = dict.fromkeys(NOT_OVER_LOOPBACK, resolved("ok", "ADDR_ERROR -19"))
ON_A_DUMMY = {
    "at an address of the port, on a dummy elsewhere": row("ENODEV", listen=None),
    "to a neighbour of the dummy": resolved("ENODEV"),
}
OURS = {"siw": NO_DEVICE | WITHOUT_SCOPE | ON_A_DUMMY, "rxe": NO_DEVICE | WITHOUT_SCOPE}


@pytest.mark.long
@pytest.mark.parametrize("kind", OURS)
def test_who_may_have_which_address(guest, kind):
    """OURS lists what ours answers differently, with the reason."""
    if not guest.check("uname -r").startswith("6.1."):
        pytest.skip("OURS is about the in-tree manager of 6.1")
    ours = answers(guest, kind, "t3_rdma_cm")
    in_tree = answers(guest, kind, "rdma_ucm")
    both = "rdma_ucm", "t3_rdma_cm device_name=t3_rdma_cm"
    assert ucm_differences(answers(guest, kind, *both, device="t3_rdma_cm"), ours) == {}
    assert ucm_differences(answers(guest, kind, *both), in_tree) == {}
    different = {
        what: {key: value for key, value in mine.items() if key != "what"}
        for what, (mine, _) in ucm_differences(ours, in_tree).items()
    }
    assert different == OURS[kind]
