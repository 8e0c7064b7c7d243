# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The kernel API of t3_rdma_cm, used by tests/modules/cm_user, which takes commands in debugfs. Its peer is
the same module in the other guest, or a program."""

import json
import pathlib

import pytest
from labkit import build, stack
from stock import address, objects, wait_listening, wait_no_objects

HERE = pathlib.Path(__file__).parent / "guest"
PORT = 7650
FOLDER = "/sys/kernel/debug/t3_cm_user"
MODULE = "t3_cm_user"
CONNECTING = ["active ADDR_RESOLVED", "active ROUTE_RESOLVED"]


@pytest.fixture(scope="module")
def _module(suite, kernel, pytestconfig):
    if not pytestconfig.getoption("--no-build"):
        build.test_modules(suite, kernel)


@pytest.fixture
def ends(t3cm, _module):
    for guest in t3cm.guests:
        if guest.run(f"[ -e {FOLDER} ]").rc:
            guest.check(stack.load_module(MODULE), 60)
            guest.push(HERE / "cm.py", "/tmp/cm.py", 0o755)
    yield t3cm.guests
    for guest in t3cm.guests:
        run(guest, "quit")
        logged(guest)
        wait_no_objects(guest)


def run(guest, command):
    """The error that a command of the module ends with, as Python shows it, or ""."""
    done = guest.run(
        f"python3 -c 'import sys; open(\"{FOLDER}/run\", \"wb\", 0).write(sys.argv[1].encode())' '{command}'", 60
    )
    return done.stderr.splitlines()[-1] if done.rc else ""


def logged(guest):
    """The events since the last call."""
    return guest.check(f"cat {FOLDER}/log").splitlines()


def names(lines):
    return [" ".join(line.split()[:2]) for line in lines]


def listen(guest, length=0, how="accept"):
    assert run(guest, f"listen {address(guest)} {PORT} {length} {how}") == ""


def connect(guest, server, length=0, what="connect", port=PORT):
    return run(guest, f"{what} {address(server)} {port} {length}")


@pytest.mark.parametrize("length", [0, 1, 255])
def test_two_modules_connect_with_private_data_and_disconnect(ends, length):
    server, client = ends
    listen(server, length)
    assert connect(client, server, length) == ""
    for guest in ends:
        shown = guest.check("rdma resource show cm_id")
        assert f"comm [{MODULE}]" in shown and "state CONNECT" in shown, shown
    assert run(client, "disconnect") == ""
    # Both offer 3 outstanding reads and accept 2.
    assert logged(client) == [
        *(f"{name} status=0 length=0 intact=1 depths=0,0" for name in CONNECTING),
        f"active ESTABLISHED status=0 length={length} intact=1 depths=3,2",
        "active DISCONNECTED status=0 length=0 intact=1 depths=0,0",
    ]
    served = logged(server)
    assert names(served) == ["listener CONNECT_REQUEST", "passive ESTABLISHED", "passive DISCONNECTED"]
    assert f"length={length} intact=1" in served[0]


def test_a_module_serves_a_program(ends):
    server, client = ends
    listen(server, 100)
    done = client.run(f"/tmp/cm.py connect {address(server)} {PORT} --data 100", 30)
    assert done.rc == 0, done
    established = json.loads(done.stdout.splitlines()[2])
    assert (established["event"], established["length"], established["intact"]) == ("ESTABLISHED", 100, True)
    assert names(logged(server)) == ["listener CONNECT_REQUEST", "passive ESTABLISHED", "passive DISCONNECTED"]


def test_a_module_is_the_client_of_a_program(ends):
    server, client = ends
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --data 100")
    wait_listening(server, PORT)
    assert connect(client, server, 100) == ""
    assert run(client, "disconnect") == ""
    assert "active ESTABLISHED status=0 length=100 intact=1" in logged(client)[2]
    assert serving.wait(20).rc == 0


@pytest.mark.parametrize("how, length", [("reject", 148), ("drop", 0)])
def test_a_request_is_refused(ends, how, length):
    """By t3_rdma_reject(), with private data; or by a handler that returns an error."""
    server, client = ends
    listen(server, length, how)
    assert "ConnectionRefusedError" in connect(client, server)
    assert logged(client)[-1].startswith(f"active REJECTED status=-111 length={length} intact=1")
    assert names(logged(server)) == ["listener CONNECT_REQUEST"]


def test_failed_connects_return_their_errors(ends):
    _, client = ends
    assert "ConnectionRefusedError" in connect(client, ends[0], port=PORT + 1)
    assert names(logged(client)) == [*CONNECTING, "active REJECTED"]
    assert "No route to host" in run(client, "connect 10.99.0.1 7000 0") or "unreachable" in run(
        client, "connect 10.99.0.1 7000 0"
    )
    assert (
        "Address already in use"
        in (run(client, f"listen {address(client)} {PORT} 0"), run(client, f"listen {address(client)} {PORT} 0"))[1]
    )


def test_C15_ids_are_destroyed_on_a_workqueue_with_a_rescuer(ends):
    """Connected, listening, and connecting ids. The kernel warns if a destroy waits for a workqueue without a
    rescuer."""
    server, client = ends
    listen(server)
    for _ in range(5):
        assert connect(client, server, what="abandon") == ""
    assert connect(client, server) == ""
    for guest in ends:
        assert run(guest, "quit") == ""
        guest.check(
            "for try in $(seq 100); do rdma resource show | grep -q ' cm_id 0' && exit; sleep 0.1; done; rdma resource"
            " show; exit 1"
        )


def test_a_kernel_receive_does_not_reach_a_region_that_was_deregistered(ends):
    """test_isolation.py has the cases of users."""
    server, client = ends
    listen(server)
    assert connect(client, server) == ""
    assert run(server, "deregister") == ""
    assert run(client, "send") == ""
    assert run(server, "check") == ""


def test_unloading_a_module_destroys_its_ids(ends):
    server, client = ends
    listen(server)
    assert connect(client, server) == ""
    for guest in (client, server):
        guest.check(f"rmmod {MODULE}", 60)
        guest.check(
            "for try in $(seq 100); do rdma resource show | grep -q 'qp 0 cm_id 0' && exit; sleep 0.1; done; exit 1"
        )
        assert not any(objects(guest).values())
        guest.check(stack.load_module(MODULE), 60)
