# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Connections: how they open, how they are refused, how they end, and what a peer that misbehaves can do."""

import contextlib
import json
import pathlib

import pytest
from stock import address, objects, rping_client, rping_server, wait_listening

HERE = pathlib.Path(__file__).parent / "guest"
PORT = 7500
KEY_REQUEST, KEY_REPLY = b"MPA ID Req Frame", b"MPA ID Rep Frame"


def request(data=b"", flags=0x40, rev=1, length=None):
    """An MPA request frame."""
    return KEY_REQUEST + bytes([flags, rev]) + (len(data) if length is None else length).to_bytes(2, "big") + data


@pytest.fixture
def ends(pair):
    """The guests, with our two programs in them."""
    for guest in pair.guests:
        for program in ("cm.py", "stream.py"):
            guest.push(HERE / program, f"/tmp/{program}", 0o755)
    return pair.guests


@contextlib.contextmanager
def parameters(guests, **values):
    """Sets parameters of iw_cxgb3 for a while."""
    folder = "/sys/module/iw_cxgb3/parameters"
    before = [{name: guest.check(f"cat {folder}/{name}").strip() for name in values} for guest in guests]
    try:
        for guest in guests:
            guest.check("\n".join(f"echo {value} > {folder}/{name}" for name, value in values.items()))
        yield
    finally:
        for guest, old in zip(guests, before):
            guest.check("\n".join(f"echo {value} > {folder}/{name}" for name, value in old.items()))


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
    return json.loads(guest.check(f"/tmp/stream.py {address(server)} {port} '{data.hex()}' {options}", 60))


# opening


# 76 and 77: what fits one work request, and one byte more; 172 and 173: the same for two
@pytest.mark.parametrize("length", [0, 1, 76, 77, 172, 173, 255 - 1, 255])
def test_private_data_arrives_whole_on_both_sides(ends, length):
    server, client = ends
    serving = listen(server, f"--data {length}")
    done = connect(client, server, f"--data {length}")
    assert done.rc == 0, done.stdout + done.stderr
    reply = event(done, "ESTABLISHED")
    asked = event(serving.wait(20), "CONNECT_REQUEST")
    assert (reply["length"], reply["intact"]) == (length, True)
    assert (asked["length"], asked["intact"]) == (length, True)


@pytest.mark.parametrize("length", [0, 148])
def test_a_reject_carries_private_data(ends, length):
    server, client = ends
    serving = listen(server, f"--reject --data {length}")
    done = connect(client, server)
    refused = event(done, "REJECTED")
    assert refused["status"] == -111
    assert (refused["length"], refused["intact"]) == (length, True)
    assert serving.wait(20).rc == 0


def test_nobody_listens(ends):
    server, client = ends
    assert event(connect(client, server, port=PORT + 1), "REJECTED")["status"] == -111


def test_a_listener_and_its_port_can_be_used_again(ends):
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


def test_any_address_listens_on_both_ports_of_the_card(ends):
    server, client = ends
    serving = server.start(f"exec /tmp/cm.py listen 0.0.0.0 {PORT} --count 2")
    wait_listening(server, PORT)
    for card_port in (0, 1):
        done = client.run(f"/tmp/cm.py connect {address(server, card_port)} {PORT}")
        assert done.rc == 0, done.stdout + done.stderr
    assert serving.wait(20).rc == 0


@pytest.mark.parametrize("rev", [1, 2])
@pytest.mark.parametrize("peer2peer", ["N", "Y"])
def test_each_revision_with_and_without_a_first_message(ends, rev, peer2peer):
    server, client = ends
    with parameters(ends, mpa_rev=rev, peer2peer=peer2peer):
        serving = rping_server(server, "-C 20 -V")
        done = rping_client(client, server, "-C 20 -V").wait(60)
        assert done.rc == 0, done.stderr
        assert serving.wait(20).rc == 0


def test_revision_2_tells_the_read_depths(ends):
    server, client = ends
    with parameters(ends, mpa_rev=2):
        serving = listen(server)
        assert connect(client, server).rc == 0
        asked = event(serving.wait(20), "CONNECT_REQUEST")
    assert (asked["responder_resources"], asked["initiator_depth"]) == (4, 4)


def test_without_crc(ends):
    server, client = ends
    with parameters(ends, crc_enabled="N"):
        serving = rping_server(server, "-C 20 -V")
        assert rping_client(client, server, "-C 20 -V").wait(60).rc == 0
        assert serving.wait(20).rc == 0


# a peer that is no iWARP peer


@pytest.mark.parametrize("data", [
    pytest.param(b"GET / HTTP/1.0\r\n\r\n", id="another-protocol"),
    pytest.param(KEY_REPLY + bytes([0, 1, 0, 0]), id="a-reply"),
    pytest.param(request(rev=3), id="revision-3"),
    pytest.param(request(length=256) + bytes(256), id="too-much-data"),
    pytest.param(request(rev=2, flags=0x10), id="enhanced-without-words"),
    pytest.param(request(b"hello") + b"x", id="a-byte-behind-the-frame"),
    pytest.param(request(b"x" * 255) + b"y" * 300, id="much-behind-the-frame"),
])
def test_a_wrong_frame_is_answered_with_a_reset(ends, data):
    server, client = ends
    serving = listen(server)
    seen = stream(client, server, data)
    assert (seen["end"], seen["received"]) == ("reset", "")
    assert connect(client, server).rc == 0, "the listener must not care"
    assert serving.wait(20).rc == 0


@pytest.mark.parametrize("data", [b"", request()[:1], request()[:19], request(b"hello")[:-1]],
                         ids=["nothing", "one-byte", "half-a-header", "a-byte-missing"])
def test_a_peer_that_stops_in_the_middle_is_thrown_out(ends, data):
    server, client = ends
    with parameters([server], ep_timeout_secs=2):
        serving = listen(server)
        seen = stream(client, server, data)
        assert seen["end"] == "reset"
        assert 1.5 < seen["after"] < 10
        assert connect(client, server).rc == 0
        assert serving.wait(20).rc == 0


def test_a_frame_in_pieces(ends):
    server, client = ends
    whole = request(b"hello")
    serving = listen(server, "--reject --data 3")
    seen = stream(client, server, whole[:7], f"--pause 0.5 --then {whole[7:].hex()}")
    assert bytes.fromhex(seen["received"]) == KEY_REPLY + bytes([0x20, 1, 0, 3]) + bytes([0, 7, 14])
    assert seen["end"] == "eof"
    asked = event(serving.wait(20), "CONNECT_REQUEST")
    assert asked["length"] == 5


def test_a_first_message_that_we_cannot_make_is_refused(ends):
    """Revision 2, peer-to-peer, and only a zero-length write offered."""
    server, client = ends
    serving = listen(server)
    seen = stream(client, server, request(bytes.fromhex("80048004"), flags=0x50, rev=2))
    reply = bytes.fromhex(seen["received"])
    assert reply[:16] == KEY_REPLY
    assert (reply[16], reply[17]) == (0x30, 2)
    assert int.from_bytes(reply[22:24], "big") & 0xc000 == 0x4000, "the reject names the read"
    assert connect(client, server).rc == 0
    assert serving.wait(20).rc == 0


def test_the_listener_goes_while_a_peer_is_in_the_middle(ends):
    server, client = ends
    serving = listen(server)
    peer = client.start(f"exec /tmp/stream.py {address(server)} {PORT} {request()[:8].hex()}")
    client.check("sleep 1")
    serving.kill()
    assert json.loads(peer.wait(20).stdout)["end"] == "reset"
    assert objects(server)["cm_id"] == 0


def test_the_peer_goes_while_the_consumer_thinks(ends):
    server, client = ends
    serving = listen(server, "--wait 2")
    assert stream(client, server, request(), "--patience 0.5")["end"] == "timeout"
    done = serving.wait(20)
    assert lines(done)[-1]["call"] == "rdma_accept"
    assert objects(server)["qp"] == 0


# endings


@pytest.mark.parametrize("victim", [0, 1], ids=["server", "client"])
def test_a_killed_process_leaves_nothing(ends, victim):
    server, client = ends
    running = [rping_server(server), rping_client(client, server)]
    for guest in ends:
        guest.check("for try in $(seq 100); do rdma resource show qp | grep -q 'state RTS' && exit; sleep 0.1; done; exit 1")
    running[victim].kill()
    assert running[1 - victim].wait(20).rc is not None
    for guest in ends:
        guest.check("for try in $(seq 100); do rdma resource show | grep -q 'qp 0 cm_id 0' && exit; sleep 0.1; done; exit 1")


def test_processes_can_be_killed_when_the_cable_is_out(pair, ends):
    server, client = ends
    running = [rping_server(server), rping_client(client, server)]
    client.check("for try in $(seq 100); do rdma resource show qp | grep -q 'state RTS' && exit; sleep 0.1; done; exit 1")
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
            guest.check("for try in $(seq 100); do [ $(cat /sys/class/net/eth0/carrier) = 1 ] && exit; sleep 0.1; done; exit 1")
    serving = rping_server(server, "-C 5 -V", listen_port=7175)
    assert rping_client(client, server, "-C 5 -V", listen_port=7175).wait(60).rc == 0
    assert serving.wait(20).rc == 0


def test_nothing_was_refused_by_the_table(ends):
    """The last test of the file: all that the others did was foreseen."""
    for guest in ends:
        assert guest.check("cat /sys/class/infiniband/cxgb3_0/hw_counters/cm_refused_events").strip() == "0"
