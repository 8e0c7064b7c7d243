# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Bugs of other drivers that no other test of this folder covers; the ids are those of docs/known-bugs.md."""

import pytest
from labkit import stack
from programs import run_alone
from stock import objects, rping, rping_client, rping_server

COUNTERS = "/sys/class/infiniband/cxgb3_0/hw_counters"


def counters(guest, *names):
    """hw_counters, read twice: the core caches values for 10 ms."""
    guest.check(f"cat {COUNTERS}/{names[0]}; sleep 0.05")
    return [int(value) for value in guest.check(f"cd {COUNTERS}; cat {' '.join(names)}").split()]


# A16, A20: see the program.
def test_A4_A17_A18_X5_X9_objects_destroyed_during_their_events(pair):
    server, client = pair.guests
    report = run_alone(client, server, "lifetimes")
    assert report["mappings"] >= 4, "A20: two CQ rings, a QP ring and a doorbell page"
    assert report["events"] > 50 and report["completions"] > 0, "the race occurred"
    assert not any(objects(client).values()), "A17: the process exited with all objects in use"


def test_A15_X18_unsupported_verbs_return_errors(pair):
    server, client = pair.guests
    assert run_alone(client, server, "unsupported")["verbs"] >= 36


def test_X14_counters_have_the_right_names(pair):
    server, client = pair.guests
    names = "tcpActiveOpens", "tcpPassiveOpens", "tcpCurrEstab", "tcpInSegs", "tcpOutSegs", "tcpRtoMin", "tcpRtoMax"
    before = [counters(guest, *names) for guest in pair.guests]
    serving = rping_server(server, "-V")
    pinging = rping_client(client, server, "-v -V")
    pinging.expect("rdma-ping-20:", 60)
    during = [counters(guest, *names) for guest in pair.guests]
    pinging.kill()
    pinging.wait(20)
    serving.wait(20)
    after = [counters(guest, *names) for guest in pair.guests]

    (of_server, of_client) = ([new - old for new, old in zip(*both)] for both in zip(during, before))
    assert of_client[:3] == [1, 0, 1]
    assert of_server[:3] == [0, 1, 1]
    for start, end in zip(before, after):
        assert end[2] == start[2] == 0, "no connection is established"
        assert 0 < end[5] < end[6]
    sent, received = after[1][4] - before[1][4], after[0][3] - before[0][3]
    assert sent == received > 40, "the server received each segment of the client"


def rounds(command):
    return command.stdout.count("rdma-ping-")


def test_A6_doorbell_fifo_full_and_doorbells_dropped(pair):
    """FIFO full: no doorbell is rung until it is empty. Doorbell dropped: all queues are rung again."""
    server, client = pair.guests
    (drops,) = counters(client, "doorbell_drops")
    serving = rping_server(server, "-V")
    pinging = rping_client(client, server, "-v -V")
    pinging.expect("rdma-ping-20:", 60)

    pair.sim.cause(1, "db-full")
    client.check("sleep 0.3")
    stopped = rounds(pinging)
    client.check("sleep 0.5")
    assert rounds(pinging) == stopped, "the client rang doorbells while the FIFO was full"
    pair.sim.cause(1, "db-empty")
    pinging.expect(f"rdma-ping-{stopped + 50}:", 30)

    for _ in range(20):
        pair.sim.cause(1, "db-drop")
    pinging.expect(f"rdma-ping-{rounds(pinging) + 50}:", 30)
    assert counters(client, "doorbell_drops")[0] > drops
    pinging.kill()
    pinging.wait(20)
    serving.wait(20)


@pytest.mark.allow_log(r"WARNING: .*__flush_work", "cxgb3.ko stops work that it never started; its own")
def test_X16_the_device_returns_after_a_fatal_error(pair):
    """cxgb3 resets the card in use: the RDMA device is removed and registered again."""
    server, client = pair.guests
    serving = rping_server(server, "-V")
    pinging = rping_client(client, server, "-v -V")
    pinging.expect("rdma-ping-20:", 60)
    pair.sim.cause(1, "framing-error")
    client.check(
        "for try in $(seq 200); do dmesg | grep -q 'adapter reset succeeded' && exit; sleep 0.1; done; exit 1", 60
    )
    # rping gets DISCONNECTED and DEVICE_REMOVAL in either order and stops at the first.
    ended = pinging.wait(60).stderr
    assert "device removal" in ended or "DISCONNECT EVENT" in ended
    serving.kill()  # a card that is reset sends nothing to its peers
    serving.wait(20)
    for name in client.interfaces:
        client.check(stack.wait_carrier(name), 60)
    client.check("for try in $(seq 100); do rdma link | grep -q 'cxgb3_.*ACTIVE' && exit; sleep 0.1; done; exit 1", 30)
    rping(server, client)
