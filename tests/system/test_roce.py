# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Our connection manager over RoCE: two guests with rxe, the kernel's RoCE in software, on one wire. Stock programs run
with our manager at both ends, and with the in-tree manager at either end.

One of the guests has a card, since the card model has the wire.
"""

import json
import socket

import ib_cm
import pytest
from conftest import Keeper, lend
from labkit.sim import Wire
from programs import storm, ucm_differences
from roce import BOTH_WAYS, MODULES, OF_IB_CORE, Ends, add_device, interface, nothing_is_left
from stock import address, cmtime, objects, rcopy, rdma_client, rping, ucmatose, wait_listening

GROUP = "225.1.1.1"
ATTACHED = "33:33:e1:01:01:01"  # Ethernet address that rxe receives once a QP is attached to the group
PACED = (  # 0.1 s after each write(), by which a program posts
    "strace -f -qq -o /dev/null -e trace=write -e inject=write:delay_exit=100000"
)
PORT = 7500
HAS_GID = "grep -qs 0000:ffff:0a00 /sys/class/infiniband/rxe0/ports/1/gids/*"  # of an IPv4 address of the lab
INVALID_SERVICE_ID, CONSUMER_DEFINED = 8, 28
QP1, QP1_QKEY = 1, 0x80010000  # of management datagrams
UDP_QKEY = 0x01234567  # RDMA_UDP_QKEY of <rdma/rdma_cma.h>
PS_TCP, PS_UDP, PS_IB = 0x0106, 0x0111, 0x013F
UDADDY_PORT = 7174
IN_REQUEST, IN_REPLY, IN_REJECT = 56, 196, 148  # bytes of the consumer in the private data of REQ, REP and REJ


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


@pytest.fixture(params=BOTH_WAYS, ids="->".join)
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


def udaddy(server, client, connections):
    serving = server.start(f"exec udaddy -c {connections} -C 10")
    wait_listening(server, UDADDY_PORT)
    done = client.run(f"udaddy -s {address(server)} -c {connections} -C 10", 60)
    assert "return status 0" in done.stdout, done
    assert "return status 0" in serving.wait(30).stdout


def test_datagrams(ends):
    udaddy(*ends, 3)


def test_multicast(ends):
    """mckey destroys its QP right after it has posted its datagrams, and does not wait for their completion
    (docs/upstream). rxe sends in the call on 6.1, and in a work item on 6.12 and later; what is not sent when the QP is
    destroyed is dropped. PACED gives the work item time.
    """
    server, client = ends
    receiving = server.start(f"exec mckey -m {GROUP} -b {address(server)} -C 10")
    server.check(
        f"for try in $(seq 300); do ip maddr show | grep -q {ATTACHED} && exit; sleep 0.1; done; ip maddr show; exit 1",
        60,
    )
    done = client.run(f"{PACED} mckey -m {GROUP} -b {address(client)} -s -C 10", 60)
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
    assert [event["event"] for event in events(done)][:4] == [
        "ADDR_RESOLVED",
        "ROUTE_RESOLVED",
        "ESTABLISHED",
        "DISCONNECTED",
    ]
    served = serving.wait(20)
    assert [event["event"] for event in events(served)][:3] == ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"]


def test_the_events_after_a_connection(ends):
    server, client = ends
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --timewait")
    wait_listening(server, PORT)
    done = client.run(f"/tmp/cm.py connect {address(server)} {PORT} --timewait", 30)
    assert done.rc == 0, done
    for side in (done, serving.wait(30)):
        assert [event["event"] for event in events(side)][-3:] == ["ESTABLISHED", "DISCONNECTED", "TIMEWAIT_EXIT"], side


@pytest.mark.parametrize("then", ["wait", "disconnect", "destroy"])
def test_data_before_the_rtu(both, then):
    """The RTU does not come, the server reports data, and ends the connection at once. After ib_cm_notify() ib_cm would
    repeat its REP for a minute or more, and keep the id (docs/upstream)."""
    server, client = both.use("ours", "ours")
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --notify {then}")
    wait_listening(server, PORT)
    connecting = client.start(f"exec /tmp/cm.py connect {address(server)} {PORT} --own-qp --hold 600")
    served = serving.wait(120)
    assert served.rc == 0, served
    (destroyed_in,) = (
        line["destroyed_in"] for line in map(json.loads, served.stdout.splitlines()) if "destroyed_in" in line
    )
    assert destroyed_in < 5, served
    assert ("ESTABLISHED" in [event["event"] for event in events(served)]) == (then == "wait")
    connecting.kill()
    connecting.wait(20)


def test_rejects(ends):
    server, client = ends
    refused = events(client.run(f"/tmp/cm.py connect {address(server)} {PORT + 1}", 30))[-1]
    assert (refused["event"], refused["status"]) == ("REJECTED", INVALID_SERVICE_ID)
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --reject --data 100")
    wait_listening(server, PORT)
    refused = events(client.run(f"/tmp/cm.py connect {address(server)} {PORT}", 30))[-1]
    assert (refused["event"], refused["status"], refused["length"]) == ("REJECTED", CONSUMER_DEFINED, 148)
    assert serving.wait(20).rc == 0


# the messages on the wire


def captured(lab, folder, act):
    """The messages of the IB connection protocol that are sent meanwhile."""
    with lab.sim.capturing(folder) as (wire,):
        act()
    return ib_cm.messages(wire)


def connect_and_disconnect(server, client, length=IN_REQUEST, space="tcp"):
    """Returns the source port of the client."""
    serving = server.start(
        f"exec /tmp/cm.py listen {address(server)} {PORT} --space {space} --data {length} --depths 3,2"
    )
    wait_listening(server, PORT)
    done = client.run(f"/tmp/cm.py connect {address(server)} {PORT} --space {space} --data {length} --ports", 30)
    assert done.rc == 0 and serving.wait(20).rc == 0, done
    return next(json.loads(line)["source_port"] for line in done.stdout.splitlines() if "source_port" in line)


def pattern(length, of):
    """Private data of guest/cm.py, and the bytes after it in a message."""
    return bytes(7 * i % 251 for i in range(length)) + bytes(of - length)


@pytest.mark.parametrize("space, length", [("tcp", 0), ("tcp", IN_REQUEST), ("ib", IN_REQUEST)])
def test_the_messages_of_a_connection(ends, both, tmp_path, space, length):
    server, client = ends
    ports = []
    seen = captured(both.lab, tmp_path, lambda: ports.append(connect_and_disconnect(server, client, length, space)))
    here, there = address(client), address(server)
    assert [(message.name, message.sender, message.receiver) for message in seen] == [
        ("REQ", here, there),
        ("REP", there, here),
        ("RTU", here, there),
        ("DREQ", here, there),
        ("DREP", there, here),
    ]
    for message in seen:
        assert (message.number("bth.destqp"), message.number("deth.q_key")) == (QP1, QP1_QKEY)
    request, reply, ready, end, ended = seen

    assert request.number("cm.req.serviceid") == {"tcp": PS_TCP, "ib": PS_IB}[space] << 16 | PORT
    assert [request.number(f"cm.req.ip_cm.{field}") for field in ("majv", "minv", "ipv", "sport")] == [0, 0, 4, *ports]
    source, destination = (request.fields[f"cm.req.ip_cm.{field}"] for field in ("sip4", "dip4"))
    assert (bytes.fromhex(source), bytes.fromhex(destination)) == tuple(map(socket.inet_aton, (here, there)))
    assert request.bytes("cm.req.ip_cm.private") == pattern(length, IN_REQUEST)
    assert (request.number("cm.req.responderres"), request.number("cm.req.initdepth")) == (4, 4)
    assert reply.bytes("cm.rep.private") == pattern(length, IN_REPLY)
    assert (reply.number("cm.rep.respres"), reply.number("cm.rep.initdepth")) == (3, 2)

    # Both ends of the connection in each message.
    mine, its = request.fields["cm.req"], reply.fields["cm.rep"]
    assert mine != its and reply.fields["cm.rep.remotecommid"] == mine
    assert (ready.fields["cm.rtu.localcommid"], ready.fields["cm.rtu.remotecommid"]) == (mine, its)
    assert (end.fields["cm.dreq.localcommid"], end.fields["cm.dreq.remotecommid"]) == (mine, its)
    assert end.fields["cm.req.remoteqpneecn"] == reply.fields["cm.rep.localqpn"]
    assert (ended.fields["cm.drsp.localcommid"], ended.fields["cm.drsp.remotecommid"]) == (its, mine)


def test_the_messages_of_a_reject(ends, both, tmp_path):
    server, client = ends

    def refused():
        client.run(f"/tmp/cm.py connect {address(server)} {PORT + 1}", 30)
        serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT} --reject --data 100")
        wait_listening(server, PORT)
        client.run(f"/tmp/cm.py connect {address(server)} {PORT}", 30)
        serving.wait(20)

    seen = captured(both.lab, tmp_path, refused)
    assert [(message.name, message.sender) for message in seen] == [
        ("REQ", address(client)),
        ("REJ", address(server)),
    ] * 2
    for request, reject, port, reason in zip(
        seen[::2], seen[1::2], (PORT + 1, PORT), (INVALID_SERVICE_ID, CONSUMER_DEFINED)
    ):
        assert request.number("cm.req.serviceid") == PS_TCP << 16 | port
        assert reject.number("cm.rej.reason") == reason and reject.number("cm.rej.msgrej") == 0  # the REQ
        assert reject.fields["cm.rej.remotecommid"] == request.fields["cm.req"]
    assert seen[3].bytes("cm.rej.private") == pattern(100, IN_REJECT)


def test_the_messages_of_datagrams(ends, both, tmp_path):
    """Each id of the client asks for the QP of the service, and the server has one QP for each of its ids."""
    server, client = ends
    seen = captured(both.lab, tmp_path, lambda: udaddy(server, client, 3))
    here, there = address(client), address(server)
    requests = [ib_cm.SidrRequest.parse(message.data) for message in seen if message.name == "SIDR_REQ"]
    replies = [ib_cm.SidrReply.parse(message.data) for message in seen if message.name == "SIDR_REP"]
    assert len(seen) == 6 and [message.sender for message in seen if message.name == "SIDR_REQ"] == 3 * [here], seen
    for request in requests:
        header = ib_cm.IpHeader.parse(request.private)
        assert header == (0, 4, header.source_port, here, there) and header.source_port
        assert request.service == PS_UDP << 16 | UDADDY_PORT
        (reply,) = (reply for reply in replies if reply.request == request.request)
        assert (reply.status, reply.service, reply.qkey) == (0, request.service, UDP_QKEY) and reply.qpn > QP1
    names = [(message.name, message.data[:4]) for message in seen]
    assert all(
        names.index(("SIDR_REQ", request)) < names.index(("SIDR_REP", request))
        for name, request in names
        if name == "SIDR_REP"
    )
    for distinct in (
        [ib_cm.IpHeader.parse(request.private).source_port for request in requests],
        [reply.qpn for reply in replies],
    ):
        assert len(set(distinct)) == 3


# Of every connection.
OWN_NUMBERS = set(
    "cm.req cm.req.startpsn cm.req.localqpn cm.req.ip_cm cm.req.ip_cm.sport cm.rep cm.rep.remotecommid"
    " cm.rep.localqpn cm.rep.startpsn cm.rtu.localcommid cm.rtu.remotecommid cm.dreq.localcommid cm.dreq.remotecommid"
    " cm.req.remoteqpneecn cm.drsp.localcommid cm.drsp.remotecommid".split()
)
# Both managers make it of the ports. tshark 4.0 shows bits of the flow label as two further fields.
FLOW_LABEL = {"cm.req.prim_flowlabel", "cm.req.prim_reserved0", "cm.req.prim_pktrate"}
# The life time of a packet is 4.096 us * 2^16, as in-tree in Linux 6.12; in-tree in 6.1 it is 2^18.
LIFE_TIME = {"cm.req.prim_localacktout"}


def test_the_messages_are_those_of_the_in_tree_manager(both, tmp_path):
    """Field by field, but those that each connection has of its own."""
    sent = {}
    for manager in MODULES:
        server, client = both.use(manager, manager)
        sent[manager] = captured(both.lab, tmp_path / manager, lambda: connect_and_disconnect(server, client))
    different = set()
    for ours, in_tree in zip(sent["ours"], sent["in-tree"], strict=True):
        assert ours.name == in_tree.name and ours.protocol_fields.keys() == in_tree.protocol_fields.keys()
        different |= {field for field, value in ours.protocol_fields.items() if in_tree.protocol_fields[field] != value}
    assert FLOW_LABEL & different
    assert not different - OWN_NUMBERS - FLOW_LABEL - LIFE_TIME


# the end


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


@pytest.mark.long
def test_a_storm_leaves_no_objects(ends):
    """On the kernel of the release; test_roce_storms.py has longer ones on a kernel that checks memory and locks."""
    storm(*ends, 150, seed=150)
    nothing_is_left(ends)


def connected(server, client, hold):
    """Server and client that are connected for some seconds."""
    serving = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT}")
    wait_listening(server, PORT)
    connecting = client.start(f"exec /tmp/cm.py connect {address(server)} {PORT} --hold {hold}")
    for side in (serving, connecting):
        side.expect("ESTABLISHED", 20)
    return serving, connecting


def test_the_link_address_changes(both):
    """The GID of the connection has gone, and ib_core adds the address as another one. So the connection ends without a
    DREQ: one from the old GID would end QP 1 of rxe 6.1 for ever ("qp#1 Failed allocating skb"). The later connection
    needs that QP."""
    server, client = both.use("ours", "ours")
    name = interface(client)
    before = client.check(f"cat /sys/class/net/{name}/address").strip()
    serving, connecting = connected(server, client, 3)
    client.check(f"ip link set {name} address 02:00:00:00:00:77")
    ended = connecting.wait(30)
    assert ended.rc == 0 and [event["event"] for event in events(ended)][2:] == [
        "ESTABLISHED",
        "ADDR_CHANGE",
        "DISCONNECTED",
    ], ended
    serving.kill()
    serving.wait(20)
    client.check(f"ip link set {name} address {before}")
    for guest in both.lab.guests:
        guest.check(
            (
                f"ip neigh flush dev {interface(guest)}; for try in $(seq 300); do {HAS_GID} && exit; sleep 0.1; done;"
                " exit 1"
            ),
            60,
        )
    rping(server, client)


def test_the_device_is_removed(both):
    """The id gets the event, and the device of that name that comes later is served. ib_uverbs lets rxe go when the
    process has closed it."""
    server, client = both.use("ours", "ours")
    serving, connecting = connected(server, client, 600)
    removal = server.start("exec rdma link delete rxe0")
    served = serving.wait(20)
    assert served.rc == 0 and "DEVICE_REMOVAL" in [event["event"] for event in events(served)], served
    assert removal.wait(30).rc == 0
    connecting.kill()
    connecting.wait(20)
    add_device(server)
    rping(server, client)


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
        answers[manager.replace("in-tree", "in_tree")] = client.check(
            f"/tmp/ucm.py {address(client)} {address(server)}", 60
        )
    assert ucm_differences(**answers) == DIFFERENT
