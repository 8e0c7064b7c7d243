# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections: how they open, are refused and end, and what a misbehaving peer can cause."""

import json
import pathlib
import re

import pytest
from conditions import parameters, unresponsive_host
from stock import address, objects, rping, rping_client, rping_server, wait_listening

HERE = pathlib.Path(__file__).parent / "guest"
PORT = 7500
KEY_REQUEST, KEY_REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"


def request(data=b"", flags=0x40, rev=1, length=None, key=KEY_REQUEST):
    """An MPA frame; by default a request."""
    return key + bytes([flags, rev]) + (len(data) if length is None else length).to_bytes(2, "big") + data


@pytest.fixture
def ends(pair):
    """The guests, with our two programs in them."""
    for guest in pair.guests:
        for program in ("cm.py", "stream.py"):
            guest.push(HERE / program, f"/tmp/{program}", 0o755)
    return pair.guests


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def event(result, name):
    found = [line for line in lines(result) if line.get("event") == name]
    assert found, f"no {name} in\n{result.stdout}{result.stderr}"
    return found[0]


def listen(guest, options="", port=PORT):
    server = guest.start(f"exec /tmp/cm.py listen {address(guest)} {port} {options}")
    wait_listening(guest, port)
    return server


def connect(guest, server, options="", port=PORT, timeout=30):
    return guest.run(f"/tmp/cm.py connect {address(server)} {port} {options}", timeout)


def stream(guest, server, data, options="", port=PORT):
    return json.loads(guest.check(f"/tmp/stream.py connect {address(server)} {port} '{data.hex()}' {options}", 60))


def stream_listen(guest, data, options="", port=PORT):
    """A TCP listener that answers an MPA request with any bytes."""
    peer = guest.start(f"exec /tmp/stream.py listen {address(guest)} {port} '{data.hex()}' {options}")
    peer.expect("listening", 10)
    return peer


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def fpdu(ulpdu, damage=0):
    frame = len(ulpdu).to_bytes(2, "big") + ulpdu
    frame += bytes(-len(frame) % 4)
    return frame + (crc32c(frame) ^ damage).to_bytes(4, "little")


def untagged(opcode, queue, payload, number=1):
    return (
        bytes([0x41, 0x40 | opcode])
        + bytes(4)
        + b"".join(word.to_bytes(4, "big") for word in (queue, number, 0))
        + payload
    )


def tagged_write(stag, payload):
    return bytes([0xC1, 0x40]) + stag.to_bytes(4, "big") + bytes(8) + payload


# opening


# 76 bytes fit one work request, 172 bytes fit two.
@pytest.mark.parametrize("length", [0, 1, 76, 77, 172, 173, 255 - 1, 255])
def test_private_data_is_delivered_to_both_sides(ends, length):
    server, client = ends
    serving = listen(server, f"--data {length}")
    done = connect(client, server, f"--data {length}")
    assert done.rc == 0, done.stdout + done.stderr
    reply = event(done, "ESTABLISHED")
    request_event = event(serving.wait(20), "CONNECT_REQUEST")
    assert (reply["length"], reply["intact"]) == (length, True)
    assert (request_event["length"], request_event["intact"]) == (length, True)


@pytest.mark.parametrize("length", [0, 148])
def test_a_reject_carries_private_data(ends, length):
    server, client = ends
    serving = listen(server, f"--reject --data {length}")
    done = connect(client, server)
    refused = event(done, "REJECTED")
    assert refused["status"] == -111
    assert (refused["length"], refused["intact"]) == (length, True)
    assert serving.wait(20).rc == 0


def test_connect_without_a_listener_is_rejected(ends):
    server, client = ends
    assert event(connect(client, server, port=PORT + 1), "REJECTED")["status"] == -111


def test_a_port_can_be_bound_again_after_its_listener(ends):
    server, client = ends
    for _ in range(3):
        serving = listen(server)
        assert connect(client, server).rc == 0
        assert serving.wait(20).rc == 0


def test_a_port_has_one_listener(ends):
    server, _ = ends
    listen(server)
    second = server.run(f"/tmp/cm.py listen {address(server)} {PORT}")
    assert lines(second)[-1]["error"] == "Address already in use"


def test_a_wildcard_listener_accepts_on_both_ports(ends):
    server, client = ends
    serving = server.start(f"exec /tmp/cm.py listen 0.0.0.0 {PORT} --count 2")
    wait_listening(server, PORT)
    for card_port in (0, 1):
        done = client.run(f"/tmp/cm.py connect {address(server, card_port)} {PORT}")
        assert done.rc == 0, done.stdout + done.stderr
    assert serving.wait(20).rc == 0


# X17
@pytest.mark.parametrize("rev", [1, 2])
@pytest.mark.parametrize("peer2peer", [0, 1, 2])
def test_each_mpa_revision_with_and_without_rtr(ends, rev, peer2peer):
    server, client = ends
    with parameters(ends, mpa_rev=rev, peer2peer=peer2peer):
        rping(server, client, "-C 20 -V")


# RFC 6581, 9.1: each side's event has the reads that it may have outstanding, and those that the peer may have.
def test_revision_2_negotiates_ird_and_ord(ends):
    server, client = ends
    with parameters(ends, mpa_rev=2):
        serving = listen(server, "--depths 5,2")
        done = connect(client, server, "--depths 3,6")
        assert done.rc == 0, done.stdout
    request_event, established = event(serving.wait(20), "CONNECT_REQUEST"), event(done, "ESTABLISHED")
    assert (request_event["responder_resources"], request_event["initiator_depth"]) == (6, 3)
    assert (established["responder_resources"], established["initiator_depth"]) == (3, 5)


def test_ird_and_ord_not_negotiated_are_returned_as_such(ends):
    server, client = ends
    serving = listen(server)
    seen = stream(client, server, request(bytes.fromhex("3fff3fff"), flags=0x50, rev=2))
    assert bytes.fromhex(seen["received"])[16:24].hex() == "500200043fff3fff"
    request_event = event(serving.wait(20), "CONNECT_REQUEST")
    assert (request_event["responder_resources"], request_event["initiator_depth"]) == (8, 8), "the card's limits"


def test_negotiated_parameters_are_in_the_trace_and_in_rdma_resource(ends):
    server, client = ends
    events = "/sys/kernel/tracing/events/iw_cxgb3_cm/t3_mpa_negotiated/enable"
    with parameters(ends, mpa_rev=2, peer2peer=1):
        client.check(f"echo > /sys/kernel/tracing/trace; echo 1 > {events}")
        serving = listen(server)
        connected = client.start(f"exec /tmp/cm.py connect {address(server)} {PORT} --depths 3,6 --hold 5")
        connected.expect("ESTABLISHED", 20)
        shown = client.check("rdma resource show qp -dd")
        traced = client.check(f"echo 0 > {events}; cat /sys/kernel/tracing/trace")
        connected.wait(20)
        serving.wait(20)
    # Newer versions of iproute2 wrap the lines.
    assert re.search(r"drv_mpa_rev 2 drv_mpa_crc 1 .* drv_rtr read drv_ird 3 drv_ord 4", " ".join(shown.split())), shown
    assert re.search(r"active rev=2 enhanced crc=1 markers=0/0 rtr=read ird=3 ord=4", traced), traced


def test_without_crc(ends):
    server, client = ends
    with parameters(ends, crc_enabled="N"):
        rping(server, client, "-C 20 -V")


# malformed requests


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"GET / HTTP/1.0\r\n\r\n", id="another-protocol"),
        pytest.param(KEY_REPLY + bytes([0, 1, 0, 0]), id="a-reply"),
        pytest.param(request(rev=3), id="revision-3"),
        pytest.param(request(length=256) + bytes(256), id="too-much-data"),
        pytest.param(request(rev=2, flags=0x10), id="enhanced-without-words"),
        pytest.param(request(b"hello") + b"x", id="a-byte-behind-the-frame"),
        pytest.param(request(b"x" * 255) + b"y" * 300, id="much-behind-the-frame"),
    ],
)
def test_a_malformed_mpa_request_is_reset(ends, data):
    server, client = ends
    serving = listen(server)
    seen = stream(client, server, data)
    assert (seen["end"], seen["received"]) == ("reset", "")
    assert connect(client, server).rc == 0, "the listener still accepts"
    assert serving.wait(20).rc == 0


@pytest.mark.parametrize(
    "data",
    [b"", request()[:1], request()[:19], request(b"hello")[:-1]],
    ids=["nothing", "one-byte", "half-a-header", "a-byte-missing"],
)
def test_an_incomplete_mpa_request_times_out(ends, data):
    server, client = ends
    with parameters([server], ep_timeout_secs=2):
        serving = listen(server)
        seen = stream(client, server, data)
        assert seen["end"] == "reset"
        assert 1.5 < seen["after"] < 10
        assert connect(client, server).rc == 0
        assert serving.wait(20).rc == 0


def test_an_mpa_request_in_two_segments_is_accepted(ends):
    server, client = ends
    whole = request(b"hello")
    serving = listen(server, "--reject --data 3")
    seen = stream(client, server, whole[:7], f"--pause 0.5 --then {whole[7:].hex()}")
    assert bytes.fromhex(seen["received"]) == KEY_REPLY + bytes([0x20, 1, 0, 3]) + bytes([0, 7, 14])
    assert seen["end"] == "eof"
    request_event = event(serving.wait(20), "CONNECT_REQUEST")
    assert request_event["length"] == 5


def test_an_rtr_type_that_the_card_lacks_is_rejected(ends):
    """Revision 2, peer-to-peer, and only the zero-length write offered."""
    server, client = ends
    serving = listen(server)
    seen = stream(client, server, request(bytes.fromhex("80048004"), flags=0x50, rev=2))
    reply = bytes.fromhex(seen["received"])
    assert reply[:16] == KEY_REPLY
    assert (reply[16], reply[17]) == (0x30, 2)
    assert int.from_bytes(reply[22:24], "big") & 0xC000 == 0x4000, "the reject names the read"
    assert connect(client, server).rc == 0
    assert serving.wait(20).rc == 0


# malformed replies


# B11: each has its own event. E10: the reply and the FIN arrive together.
@pytest.mark.allow_wire("are not MPA", "half a reply")
@pytest.mark.parametrize(
    "reply, expected, status",
    [
        pytest.param(b"HTTP/1.1 400 Bad Request\r\n\r\n", "CONNECT_ERROR", -71, id="another-protocol"),
        pytest.param(request(), "CONNECT_ERROR", -71, id="a-request"),
        pytest.param(request(key=KEY_REPLY, rev=2), "CONNECT_ERROR", -71, id="a-later-revision"),
        pytest.param(request(key=KEY_REPLY) + b"x", "CONNECT_ERROR", -71, id="a-byte-behind-the-frame"),
        pytest.param(request(key=KEY_REPLY, length=256) + bytes(256), "CONNECT_ERROR", -71, id="too-much-data"),
        pytest.param(request(b"no", key=KEY_REPLY, flags=0x20), "REJECTED", -111, id="a-reject"),
        pytest.param(request(key=KEY_REPLY)[:10], "REJECTED", -104, id="half-a-reply-and-a-close"),
        pytest.param(b"", "REJECTED", -104, id="nothing-and-a-close"),
    ],
)
def test_an_mpa_reply_that_does_not_accept_ends_the_connect(ends, reply, expected, status):
    client, server = ends
    stream_listen(server, reply)
    with parameters([client], mpa_rev=1):
        assert event(connect(client, server), expected)["status"] == status


# RFC 6581, 9.1 and 9.2. IRD 4 and ORD 9, more than a card has; peer-to-peer with the zero-length write alone.
@pytest.mark.parametrize("words, code", [("00040009", 6), ("80048004", 7)], ids=["reads", "first-message"])
def test_an_unusable_enhanced_reply_is_terminated(ends, words, code):
    client, server = ends
    peer = stream_listen(server, request(bytes.fromhex(words), key=KEY_REPLY, flags=0x50, rev=2), "--hold")
    with parameters([client], mpa_rev=2, peer2peer=1):
        assert event(connect(client, server), "CONNECT_ERROR")["status"] == -71
    seen = json.loads(peer.wait(20).stdout.splitlines()[-1])
    assert seen["end"] == "eof"
    assert bytes.fromhex(seen["received"])[24:] == fpdu(untagged(7, 2, bytes([0x20, code, 0, 0])))


def test_a_connect_without_an_mpa_reply_times_out(ends):
    client, server = ends
    with parameters([client], ep_timeout_secs=2):
        peer = stream_listen(server, b"", "--hold")
        assert event(connect(client, server), "UNREACHABLE")["status"] == -110
    assert json.loads(peer.wait(20).stdout.splitlines()[-1])["end"] == "reset"


def test_a_destroy_of_a_qp_does_not_wait_for_a_peer_that_keeps_its_side_open(ends):
    """The last messages may still be in flight, so it waits for some time, and then aborts."""
    client, server = ends
    peer = stream_listen(server, request(key=KEY_REPLY), "--hold --keep-open --patience 40")
    with parameters([client], mpa_rev=1):
        done = connect(client, server, "--destroy-at-once")
    waited = next(line["qp_destroyed_in"] for line in lines(done) if "qp_destroyed_in" in line)
    assert 5 < waited < 20  # T3_CLOSE_TIMEOUT is 10 s
    assert json.loads(peer.wait(45).stdout.splitlines()[-1])["end"] == "eof, reset"


def test_a_connect_without_a_syn_ack_is_unreachable(ends):
    """The neighbour entry is valid, so the card sends SYNs, and no host replies."""
    client, _ = ends
    with unresponsive_host(client, patience=3) as host:
        done = client.run(f"/tmp/cm.py connect {host} {PORT}", 30)
        assert event(done, "UNREACHABLE")["status"] == -110


# X17
@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_refused_revision_2_request_is_repeated_in_revision_1(ends, how):
    client, server = ends
    peer = stream_listen(server, request(b"no", key=KEY_REPLY, flags=0x20), f"--connections 2 --refuse-first {how}")
    with parameters([client], mpa_rev=2):
        done = connect(client, server, "--data 9")
    first, second = [bytes.fromhex(line["received"]) for line in lines(peer.wait(20))[1:]]
    assert (first[17], second[17]) == (2, 1)
    assert first[24:] == second[20:] == bytes(7 * i for i in range(9)), "the private data of both is the consumer's"
    refused = event(done, "REJECTED")
    assert (refused["status"], refused["length"]) == (-111, 2)


# errors in RDMA mode


@pytest.mark.allow_wire(r"CRC check|SEND in queue 7", "the peer's message is wrong")
@pytest.mark.parametrize(
    "wrong, code",
    [
        pytest.param(fpdu(untagged(3, 0, b"hello"), damage=1), "2002", id="crc"),
        pytest.param(fpdu(tagged_write(0x123400, b"hello")), "1100", id="write-to-an-unused-stag"),
        pytest.param(fpdu(untagged(3, 7, b"hello")), "1201", id="unknown-queue"),
        pytest.param(fpdu(untagged(3, 0, b"hello")), "1202", id="send-without-a-receive"),
    ],
)
def test_a_malformed_message_is_terminated(ends, wrong, code):
    server, client = ends
    serving = listen(server)
    seen = stream(client, server, request(), f"--pause 1 --then {wrong.hex()}")
    reply, terminate = bytes.fromhex(seen["received"])[:20], bytes.fromhex(seen["received"])[20:]
    assert reply == request(key=KEY_REPLY)
    assert terminate == fpdu(untagged(7, 2, bytes.fromhex(code) + bytes(2)))
    assert event(serving.wait(20), "DISCONNECTED")
    assert objects(server)["qp"] == 0


def test_A5_a_message_right_behind_the_mpa_reply_is_an_rdma_message(ends):
    """The card must parse it as an FPDU and send a TERMINATE; the driver must not take it for stream data, which resets
    the connection."""
    server, client = ends
    connections = 10
    serving = listen(server, f"--count {connections}")
    early = fpdu(untagged(3, 0, b"hello"))
    for _ in range(connections):
        seen = stream(client, server, request(), f"--reply 20 --then {early.hex()}")
        assert seen["received"] == (request(key=KEY_REPLY) + fpdu(untagged(7, 2, bytes.fromhex("12020000")))).hex()
    serving.wait(20)
    assert objects(server)["qp"] == 0


def test_a_received_terminate_ends_the_connection(ends):
    server, client = ends
    serving = listen(server)
    words = fpdu(untagged(7, 2, bytes.fromhex("01000000")))
    seen = stream(client, server, request(), f"--pause 1 --then {words.hex()}")
    assert seen["received"] == request(key=KEY_REPLY).hex(), "no TERMINATE in reply"
    assert seen["end"] == "eof"
    assert event(serving.wait(20), "DISCONNECTED")
    assert objects(server)["qp"] == 0


# endings


def test_destroying_a_listener_resets_half_open_connections(ends):
    server, client = ends
    serving = listen(server)
    peer = client.start(f"exec /tmp/stream.py connect {address(server)} {PORT} {request()[:8].hex()}")
    client.check(f"until ss -tnH state established dst {address(server)} | grep -q :{PORT}; do sleep 0.1; done", 30)
    serving.kill()
    assert json.loads(peer.wait(20).stdout)["end"] == "reset"
    assert objects(server)["cm_id"] == 0


# E5
def test_accept_fails_after_the_peer_closed(ends):
    server, client = ends
    serving = listen(server, "--wait 2")
    assert stream(client, server, request(), "--patience 0.5")["end"] == "timeout"
    done = serving.wait(20)
    assert lines(done)[-1]["call"] == "rdma_accept"
    assert objects(server)["qp"] == 0


# A17: while all memory is mapped and in use.
@pytest.mark.parametrize("victim", [0, 1], ids=["server", "client"])
def test_a_killed_process_leaves_no_objects(ends, victim):
    server, client = ends
    running = [rping_server(server), rping_client(client, server)]
    for guest in ends:
        guest.check(
            "for try in $(seq 100); do rdma resource show qp | grep -q 'state RTS' && exit; sleep 0.1; done; exit 1"
        )
    running[victim].kill()
    assert running[1 - victim].wait(20).rc is not None
    for guest in ends:
        guest.check(
            "for try in $(seq 100); do rdma resource show | grep -q 'qp 0 cm_id 0' && exit; sleep 0.1; done; exit 1"
        )


def test_processes_can_be_killed_without_a_carrier(pair, ends):
    server, client = ends
    running = [rping_server(server), rping_client(client, server)]
    client.check(
        "for try in $(seq 100); do rdma resource show qp | grep -q 'state RTS' && exit; sleep 0.1; done; exit 1"
    )
    pair.sim.cable("p0", False)
    try:
        for process in running:
            process.kill()
        for process in running:
            process.wait(15)
        for guest in ends:
            assert objects(guest)["qp"] == 0
    finally:
        pair.sim.cable("p0", True)
        for guest in ends:
            guest.check(
                "for try in $(seq 100); do [ $(cat /sys/class/net/eth0/carrier) = 1 ] && exit; sleep 0.1; done; exit 1"
            )
    rping(server, client, "-C 5 -V", listen_port=7175)


# E13
def test_listen_fails_with_enomem_without_free_stids(ends):
    server, client = ends
    seen = server.run(
        f"""exec python3 - <<'END'
import ctypes, socket, struct
rdma = ctypes.CDLL("librdmacm.so.1", use_errno=True)
rdma.rdma_create_event_channel.restype = ctypes.c_void_p
channel = ctypes.c_void_p(rdma.rdma_create_event_channel())
made = []
for port in range(10000, 11000):
    cm_id = ctypes.c_void_p()
    assert rdma.rdma_create_id(channel, ctypes.byref(cm_id), None, 0x106) == 0
    name = struct.pack("=H", 2) + struct.pack("!H", port) + socket.inet_aton("{address(server)}") + bytes(8)
    assert rdma.rdma_bind_addr(cm_id, name) == 0
    if rdma.rdma_listen(cm_id, 1):
        print(ctypes.get_errno(), len(made))
        break
    made.append(cm_id)
for cm_id in made:
    assert rdma.rdma_destroy_id(cm_id) == 0
END""",
        120,
    )
    errno, listeners = map(int, seen.stdout.split())
    assert errno == 12 and listeners >= 500
    serving = listen(server)
    assert connect(client, server).rc == 0, "all of them are free again"
    assert serving.wait(20).rc == 0


def test_connections_survive_a_neighbour_flush(ends):
    server, client = ends
    serving = rping_server(server, "-V", listen_port=7176)
    running = rping_client(client, server, "-V", listen_port=7176)
    for guest in ends:
        guest.check("sleep 0.5; ip neigh flush dev eth0")
    client.check("sleep 1")
    assert serving.running and running.running


# X19
def test_ports_in_network_namespaces(make_lab):
    lab = make_lab()
    server, client = lab.guests
    for guest in lab.guests:
        guest.check(
            f"""ip netns add n; ip link set eth1 netns n
            ip netns exec n ip addr add {address(guest, 1)}/24 dev eth1; ip netns exec n ip link set eth1 up"""
        )
    for guest in lab.guests:
        guest.check(
            "for try in $(seq 100); do [ $(ip netns exec n cat /sys/class/net/eth1/carrier) = 1 ] && exit; sleep 0.1;"
            " done"
        )
    serving = server.start(f"ip netns exec n rping -s -a {address(server, 1)} -C 20 -V")
    wait_listening(server, 7174)
    assert client.run(f"ip netns exec n rping -c -a {address(server, 1)} -C 20 -V", 60).rc == 0
    assert serving.wait(20).rc == 0


# X16, X20: the device registers again without help.
@pytest.mark.allow_log(
    r"WARNING: .*__flush_work", "cxgb3.ko stops work that it never started when it is unbound; its own"
)
def test_the_card_is_unbound_in_use_and_bound_again(make_lab):
    lab = make_lab()
    server, client = lab.guests
    serving, running = rping_server(server), rping_client(client, server)
    client.check(
        "for try in $(seq 100); do rdma resource show qp | grep -q 'state RTS' && exit; sleep 0.1; done; exit 1"
    )
    card = server.check("basename $(readlink -f /sys/class/net/eth0/device)").strip()
    server.check(f"echo {card} > /sys/bus/pci/drivers/cxgb3/unbind")
    assert serving.wait(20).rc is not None
    server.check('for try in $(seq 100); do [ -z "$(rdma link)" ] && exit; sleep 0.1; done; exit 1')
    running.kill()
    running.wait(20)

    server.check(
        f"""echo {card} > /sys/bus/pci/drivers/cxgb3/bind; ip addr add {address(server)}/24 dev eth0; ip link set eth0 up
        for try in $(seq 100); do [ "$(cat /sys/class/net/eth0/carrier)" = 1 ] && exit; sleep 0.1; done; exit 1""",  # noqa: E501
        60,
    )  # noqa: E501
    rping(server, client, "-C 5 -V", listen_port=7175)


# E7
def test_the_state_table_refused_no_event(ends):
    """The last test of the file: the state table had a row for every event of the other tests."""
    for guest in ends:
        assert guest.check("cat /sys/class/infiniband/cxgb3_0/hw_counters/cm_refused_events").strip() == "0"
