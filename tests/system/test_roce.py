# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Our connection manager over RoCE: two guests with rxe, the kernel's RoCE in software, on one wire. Stock programs run with our manager
at both ends, and with the in-tree manager at either end.

One of the guests has a card, since the card model has the wire.
"""

import json
import pathlib

import pytest
from conftest import Keeper, lend
from labkit import stack
from labkit.sim import Wire
from programs import ucm_differences
from stock import address, cmtime, objects, rcopy, rdma_client, rping, ucmatose, wait_listening

HERE = pathlib.Path(__file__).parent / "guest"
MODULES = {"ours": "t3_rdma_cm", "in-tree": "rdma_ucm"}
GROUP = "225.1.1.1"
PORT = 7500
OF_IB_CORE = {"pd": 1, "cq": 1, "qp": 1}  # management datagrams of rxe
INVALID_SERVICE_ID, CONSUMER_DEFINED = 8, 28


class Ends:
    """Two guests, with one connection manager each."""

    def __init__(self, lab):
        self.lab = lab
        self._managers = [None, None]

    def use(self, *managers):
        for number, manager in enumerate(managers):
            guest = self.lab.guests[number]
            if manager == self._managers[number]:
                continue
            stack.unload_access([guest])
            stack.load_access([guest], ("ib_uverbs", MODULES[manager]))
            stack.add_links([guest], "rxe")
            guest.check(f"ip route replace 224.0.0.0/4 dev {guest.nic_interfaces[0]}")
            for program in ("cm.py", "ucm.py"):
                guest.push(HERE / program, f"/tmp/{program}", 0o755)
            self._managers[number] = manager
        return self.lab.guests


@pytest.fixture(scope="module")
def _keeper(suite):
    keeper = Keeper(guests=2, cards=(1, 0), wires=[Wire("rxe", ("n0", "n1"))], suite=suite, name="roce", load="nic")
    yield keeper
    keeper.drop()


@pytest.fixture
def both(request, _keeper):
    """Two guests, which are without objects afterwards."""
    lending = lend(_keeper, request)
    lab = next(lending)
    yield _keeper.made(Ends)
    for guest in lab.guests:
        guest.end_commands()
        left = {kind: number for kind, number in objects(guest, "rxe0").items() if number > OF_IB_CORE.get(kind, 0)}
        assert not left, f"{guest.name}: {left}"
    yield from lending


@pytest.fixture(params=[("ours", "ours"), ("ours", "in-tree"), ("in-tree", "ours")], ids="->".join)
def ends(request, both):
    """The server and the client."""
    return both.use(*reversed(request.param))


def events(result):
    return [line for line in map(json.loads, result.stdout.splitlines()) if "event" in line]


@pytest.mark.parametrize("options", ["-C 50 -V -S 4096", "-C 10 -V -q"], ids=["rounds", "own-qp"])
def test_rping(ends, options):
    rping(*ends, options)


def test_ucmatose(ends):
    ucmatose(*ends, "-c 5 -C 10")


def test_rdma_client_and_rdma_server(ends):
    rdma_client(*ends)


def test_rcopy(ends):
    rcopy(*ends)


def test_cmtime(ends):
    cmtime(*ends, 50)


def test_datagrams(ends):
    server, client = ends
    serving = server.start("exec udaddy -c 3 -C 10")
    wait_listening(server, 7174)
    done = client.run(f"udaddy -s {address(server)} -c 3 -C 10", 60)
    assert "return status 0" in done.stdout, done
    assert "return status 0" in serving.wait(30).stdout


def test_multicast(ends):
    server, client = ends
    receiving = server.start(f"exec mckey -m {GROUP} -b {address(server)} -C 10")
    server.check(f"for try in $(seq 100); do ip maddr show | grep -q {GROUP} && sleep 1 && exit; sleep 0.1; done; exit 1", 60)
    done = client.run(f"mckey -m {GROUP} -b {address(client)} -s -C 10", 60)
    assert "test complete" in done.stdout and "return status 0" in done.stdout, done
    received = receiving.wait(30)
    assert "return status 0" in received.stdout, received
    for guest in ends:
        assert GROUP not in guest.check("ip maddr show")


@pytest.mark.parametrize("length", [0, 56])
def test_the_events_of_a_connection(ends, length):
    server, client = ends
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --data {length} --depths 3,2")
    wait_listening(server, PORT)
    done = client.run(f"/tmp/cm.py connect {address(server)} {PORT} --data {length}", 30)
    assert done.rc == 0, done
    assert [event["event"] for event in events(done)][:4] == ["ADDR_RESOLVED", "ROUTE_RESOLVED", "ESTABLISHED", "DISCONNECTED"]
    served = serving.wait(20)
    assert [event["event"] for event in events(served)][:3] == ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"]


def test_rejects(ends):
    server, client = ends
    refused = events(client.run(f"/tmp/cm.py connect {address(server)} {PORT + 1}", 30))[-1]
    assert (refused["event"], refused["status"]) == ("REJECTED", INVALID_SERVICE_ID)
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --reject --data 100")
    wait_listening(server, PORT)
    refused = events(client.run(f"/tmp/cm.py connect {address(server)} {PORT}", 30))[-1]
    assert (refused["event"], refused["status"], refused["length"]) == ("REJECTED", CONSUMER_DEFINED, 148)
    assert serving.wait(20).rc == 0


@pytest.mark.parametrize("victim", [0, 1], ids=["server", "client"])
def test_a_killed_process_leaves_no_objects(ends, victim):
    server, client = ends
    running = [server.start(f"exec /tmp/cm.py listen {address(server)} {PORT}")]
    wait_listening(server, PORT)
    running.append(client.start(f"exec /tmp/cm.py connect {address(server)} {PORT} --hold 30"))
    running[0].expect("ESTABLISHED", 20)
    running[victim].kill()
    running[victim].wait(10)
    running[1 - victim].kill()
    running[1 - victim].wait(10)


DIFFERENT = {
    # Of a listener. In-tree ignores what ib_cm returns, and returns EINVAL over iWARP.
    "disconnect": ({"what": "disconnect", "result": "EINVAL"}, {"what": "disconnect", "result": "ok"}),
}


@pytest.mark.long
def test_every_command_returns_what_the_in_tree_manager_returns(both):
    """As over iWARP in test_rdma_cm.py. DIFFERENT lists what ours does differently, with the reason."""
    answers = {}
    for manager in ("ours", "in-tree"):
        server, client = both.use(manager, manager)
        answers[manager.replace("in-tree", "in_tree")] = client.check(f"/tmp/ucm.py {address(client)} {address(server)}", 60)
    assert ucm_differences(**answers) == DIFFERENT
