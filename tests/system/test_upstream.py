# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Our patches for the kernel's cxgb3 (docs/upstream).

With one a driver can send offload data of any length in one message: a connection carries private data that do not fit
one work request, and iw_cxgb3 is built so that it sends them as one piece. With the other one the namespaces of a card
share no entry of its L2 table.
"""

import json
import pathlib

import pytest
import same_index
from labkit import stack, upstream
from stock import address, wait_listening

HERE = pathlib.Path(__file__).parent / "guest"
PORT = 7500
LENGTHS = (
    72,
    73,
    148,
    255,
)  # only the first fits one work request (in MPA revision 1, whose frames are 4 bytes shorter, 76 do)

# The error depends on the addresses of the guest's memory.
RUINED = r"cxgb3|iw_cxgb3|DMAR|WARNING: |t3_"


@pytest.fixture(scope="module")
def modules(suite):
    return upstream.modules(suite)


def bring_up(lab, cxgb3: str) -> None:
    """Brings the stack up as Lab does, but with these modules."""
    for guest in lab.guests:
        guest.check(cxgb3)
    stack.bring_up(lab, stack.level("nic"))
    stack.load_access(lab.guests, stack.level("rdma").access)
    for guest in lab.guests:
        guest.check(
            """for needed in $(modinfo -F depends /t3/upstream/long/iw_cxgb3.ko | tr , ' '); do modprobe $needed || exit; done
                       insmod /t3/upstream/long/iw_cxgb3.ko"""  # noqa: E501
        )  # noqa: E501
        guest.check(stack.INSTALL_PROVIDER)
        guest.push(HERE / "cm.py", "/tmp/cm.py", 0o755)


def private_data_arrive(lab, length: int) -> bool:
    """Whether private data of this length arrive in the request and in the reply."""
    server, client = lab.guests
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --data {length}")
    wait_listening(server, PORT)
    done = client.run(f"timeout 40 /tmp/cm.py connect {address(server)} {PORT} --data {length}", 60)
    if done.rc:
        serving.kill()
    served = serving.wait(30)
    events = [json.loads(line) for result in (done, served) for line in result.stdout.splitlines()]
    complete = [
        line
        for line in events
        if line.get("event") in ("ESTABLISHED", "CONNECT_REQUEST") and line.get("length") == length
    ]
    return sum(bool(line["intact"]) for line in complete) >= 2


@pytest.mark.long
def test_long_private_data_arrive_with_the_patch(make_lab, modules):
    lab = make_lab(guests=2, load="none")
    bring_up(lab, "modprobe mdio && insmod /t3/upstream/patched/cxgb3.ko")
    assert [length for length in LENGTHS if not private_data_arrive(lab, length)] == []


@pytest.mark.long
@pytest.mark.allow_log(RUINED, "errors of the unpatched driver")
def test_long_private_data_do_not_arrive_without_the_patch(make_lab, modules):
    lab = make_lab(guests=2, load="none")
    bring_up(lab, "modprobe cxgb3")
    assert private_data_arrive(lab, 72)
    assert not private_data_arrive(lab, 73)


@pytest.mark.long
def test_namespaces_share_no_l2_entry(make_lab, modules):
    """Without the patch: test_netdevs.py::test_a_namespace_holds_an_l2_entry_of_the_host."""
    lab = make_lab(guests=2, load="none")
    bring_up(lab, "modprobe mdio && insmod /t3/upstream/patched/cxgb3.ko")
    server, client = lab.guests
    with same_index.vlans(client, server):
        serving = server.start(f"exec /tmp/cm.py listen {same_index.SERVER} {PORT}")
        wait_listening(server, PORT)
        with same_index.connecting(client, PORT):
            done = client.run(f"/tmp/cm.py connect {same_index.SERVER} {PORT}", 60)
            assert done.rc == 0, done
        serving.kill()
        serving.wait(30)


@pytest.mark.parametrize("release", ["bookworm", "forky"])
@pytest.mark.long
def test_the_patches_apply_to(tmp_path, release):
    upstream.patched(release, tmp_path / "linux")
