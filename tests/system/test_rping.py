# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rping of rdmacm-utils: connect, SEND, READ, WRITE, disconnect, with data that both sides compare."""

import pytest
from stock import assert_complete, objects, rping, rping_client, rping_server

pytestmark = pytest.mark.wire

# (server, client)
DIRECTIONS = pytest.mark.parametrize("ends", [(0, 1), (1, 0)], ids=["g1-to-g0", "g0-to-g1"])


@DIRECTIONS
@pytest.mark.parametrize("size, rounds", [(64, 1000), (1000, 1000), (4096, 1000), (65535, 1000)])
def test_rounds_with_verified_data(pair, ends, size, rounds):
    server, client = (pair.guests[number] for number in ends)
    options = f"-C {rounds} -S {size} -V"
    rping(server, client, options, timeout=240)


def test_ping_data_is_shown_on_both_sides(pair):
    server, client = pair.guests
    serving = rping_server(server, "-C 5 -v -V")
    shown = rping_client(client, server, "-C 5 -v -V").wait(60)
    served = serving.wait(20)
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    for number in range(5):  # rping starts one letter later each round
        data = f"ping data: rdma-ping-{number}: {alphabet[number:]}"
        assert data in shown.stdout and f"server {data}" in served.stdout


@pytest.mark.parametrize("size", [16, 65536])
def test_rping_refuses_sizes_out_of_range(pair, size):
    done = pair.guests[0].run(f"rping -s -S {size}")
    assert done.rc != 0
    assert f"Invalid size {size} (valid range is " in done.stdout + done.stderr


def test_a_server_serves_twenty_sequential_clients(pair):
    server, client = pair.guests
    serving = rping_server(server, "-P")
    for _ in range(20):
        assert_complete(rping_client(client, server, "-C 20 -V").wait(60))
    assert serving.running
    serving.kill()
    serving.wait(10)


def test_rping_over_both_ports(pair):
    server, client = pair.guests
    for port in (0, 1):
        rping(server, client, "-C 50 -V", card_port=port)


def test_several_pairs_at_a_time(pair):
    server, client = pair.guests
    serving = [rping_server(server, "-C 100 -V", listen_port=7300 + number) for number in range(4)]
    clients = [rping_client(client, server, "-C 100 -V", listen_port=7300 + number) for number in range(4)]
    for done in clients:
        assert_complete(done.wait(120))
    assert [done.wait(20).rc for done in serving] == [0] * 4


# X20: `rdma resource` shows it.
def test_no_object_is_left_after_rping(pair):
    server, client = pair.guests
    rping(server, client, "-C 10 -V")
    for guest in pair.guests:
        left = objects(guest)
        assert left and not any(left.values()), f"{guest.name} has {left}"
