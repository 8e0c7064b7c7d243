# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Bugs that others had and that no other test of this folder would meet; the ids are those of docs/known-bugs.md."""

import pytest
from labkit import stack
from programs import run_alone
from stock import objects, rping_client, rping_server

COUNTERS = "/sys/class/infiniband/cxgb3_0/hw_counters"


def counters(guest, *names):
    """hw_counters, read afresh: the core keeps what it has for 10 ms."""
    guest.check(f"cat {COUNTERS}/{names[0]}; sleep 0.05")
    return [int(value) for value in guest.check(f"cd {COUNTERS}; cat {' '.join(names)}").split()]


# A16, A20: and two smaller questions, see the program.
def test_A4_A17_A18_X5_X9_objects_that_end_at_an_awkward_moment(pair):
    server, client = pair.guests
    seen = run_alone(client, server, "lifetimes")
    assert seen["mappings"] >= 4, "A20: two CQ rings, a QP ring and a doorbell page"
    assert seen["events"] > 50 and seen["completions"] > 0, "the race took place"
    assert not any(objects(client).values()), "A17: the process ended with everything still there"


def test_A15_X18_verbs_that_are_not_there_say_so(pair):
    server, client = pair.guests
    assert run_alone(client, server, "unsupported")["verbs"] >= 36


def test_X14_counters_bear_the_names_of_what_they_count(pair):
    server, client = pair.guests
    names = "tcpActiveOpens", "tcpPassiveOpens", "tcpCurrEstab", "tcpInSegs", "tcpOutSegs", "tcpRtoMin", "tcpRtoMax"
    before = [counters(guest, *names) for guest in pair.guests]
    serving = rping_server(server, "-V")
    asking = rping_client(client, server, "-v -V")
    asking.expect("rdma-ping-20:", 60)
    during = [counters(guest, *names) for guest in pair.guests]
    asking.kill()
    asking.wait(20)
    serving.wait(20)
    after = [counters(guest, *names) for guest in pair.guests]

    (of_server, of_client) = ([new - old for new, old in zip(*both)] for both in zip(during, before))
    assert of_client[:3] == [1, 0, 1]
    assert of_server[:3] == [0, 1, 1]
    for start, end in zip(before, after):
        assert end[2] == start[2] == 0, "nothing is established any more"
        assert 0 < end[5] < end[6]
    sent, received = after[1][4] - before[1][4], after[0][3] - before[0][3]
    assert sent == received > 40, "each segment of the client is one that the server saw"


def rounds(command):
    return command.stdout.count("rdma-ping-")


def test_A6_doorbells_that_the_card_has_no_room_for(pair):
    """Full: nobody rings until it is empty. Dropped: everybody rings again by himself."""
    server, client = pair.guests
    drops, = counters(client, "doorbell_drops")
    serving = rping_server(server, "-V")
    asking = rping_client(client, server, "-v -V")
    asking.expect("rdma-ping-20:", 60)

    pair.sim.cause(1, "db-full")
    client.check("sleep 0.3")
    still = rounds(asking)
    client.check("sleep 0.5")
    assert rounds(asking) == still, "the client rings all the same"
    pair.sim.cause(1, "db-empty")
    asking.expect(f"rdma-ping-{still + 50}:", 30)

    for _ in range(20):
        pair.sim.cause(1, "db-drop")
    asking.expect(f"rdma-ping-{rounds(asking) + 50}:", 30)
    assert counters(client, "doorbell_drops")[0] > drops
    asking.kill()
    asking.wait(20)
    serving.wait(20)


@pytest.mark.allow_log(r"WARNING: .*__flush_work", "cxgb3.ko stops work that it never started; its own")
def test_X16_the_card_comes_back_after_a_fatal_error(pair):
    """cxgb3 resets the card under its users: offload goes down and comes up again, and so does RDMA."""
    server, client = pair.guests
    serving = rping_server(server, "-V")
    asking = rping_client(client, server, "-v -V")
    asking.expect("rdma-ping-20:", 60)
    pair.sim.cause(1, "framing-error")
    client.check("for try in $(seq 200); do dmesg | grep -q 'adapter reset succeeded' && exit; sleep 0.1; done; exit 1", 60)
    # The connection's end and the device's reach rping in either order, and it stops at the first.
    ended = asking.wait(60).stderr
    assert "device removal" in ended or "DISCONNECT EVENT" in ended
    serving.kill()  # a card that is reset says good-bye to nobody
    serving.wait(20)
    for name in client.interfaces:
        client.check(stack.wait_carrier(name), 60)
    client.check("for try in $(seq 100); do rdma link | grep -q 'cxgb3_.*ACTIVE' && exit; sleep 0.1; done; exit 1", 30)
    again = rping_server(server, "-C 5 -V")
    assert rping_client(client, server, "-C 5 -V").wait(60).rc == 0
    assert again.wait(30).rc == 0
