# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Wires that lose, double, reorder, spoil and delay what they carry: programs must not notice anything but time.

What an impairment does to which frame is decided by its seed alone (tests/sim/net); here stands what programs see.
"""

import contextlib
import hashlib

import pytest
from programs import run_pair
from stock import address, rping_client, rping_server, wait_listening
from test_perftest import run_perftest

pytestmark = pytest.mark.allow_log(r"ib_\w+\[\d+\].*(general protection|segfault).*librdmacm", "perftest's retry after a rejection")

ENDS = ("c0.0", "c1.0")
ALL_AT_ONCE = "loss=0.01 reorder=0.01 reorder-delay=300us duplicate=0.005 corrupt=0.002 jitter=100us".split()
LOSSY = "loss=0.01 reorder=0.02 reorder-delay=300us".split()


@contextlib.contextmanager
def impaired(lab, *what, end="all", wire="p0", seed=7):
    """Yields a function that gives the ends' statistics: done("c0.0")["lost"]."""

    def done(name):
        state = next(each for each in lab.sim.control("wires") if each["name"] == wire)
        return state["impairments"].get(name, {}).get("done", {})

    lab.sim.control("impair", wire, end, *what, f"seed={seed}")
    try:
        yield done
    finally:
        lab.sim.control("impair", wire, "all", "none")


def run_rping(lab, rounds, size=65535, timeout=120):
    server, client = lab.guests
    options = f"-C {rounds} -S {size} -V"
    serving = rping_server(server, options)
    done = rping_client(client, server, options).wait(timeout)
    assert done.rc == 0, done
    assert serving.wait(60).rc == 0


@pytest.mark.parametrize("what, counted", [
    pytest.param(["loss=0.02"], "lost", id="loss"),
    pytest.param(["duplicate=0.05"], "duplicated", id="duplication"),
    pytest.param(["reorder=0.05", "reorder-delay=300us"], "reordered", id="reordering"),
    pytest.param(["corrupt=0.02"], "corrupted", id="corruption"),
    pytest.param(["delay=200us", "jitter=300us"], None, id="delay-and-jitter"),
    pytest.param(["rate=100M", "queue=32K"], "overflowed", id="rate-limit"),
])
@pytest.mark.parametrize("end", ENDS)
def test_one_direction(pair, end, what, counted):
    """64 KB a round go each way, so that the impaired end has data to send whichever it is."""
    other, = set(ENDS) - {end}
    with impaired(pair, *what, end=end) as done:
        run_rping(pair, 15)
        assert not any(done(other).values())
        if counted:
            assert done(end)[counted] > 0


def test_everything_at_once(pair):
    with impaired(pair, *ALL_AT_ONCE) as done:
        run_rping(pair, 100)
        for end in ENDS:
            assert all(done(end)[name] for name in ("lost", "reordered", "duplicated")), done(end)


@pytest.mark.wire
def test_loss_and_reordering_with_the_wire_looked_at(pair):
    """What is sent again must be the same FPDUs, cut where they were."""
    with impaired(pair, *LOSSY):
        run_rping(pair, 30)


@pytest.mark.wire
def test_writes_under_loss_and_reordering(pair):
    with impaired(pair, *LOSSY) as done:
        run_perftest(pair, "ib_write_bw", "-s 65536 -n 60")
        assert done("c1.0")["lost"] > 0


def test_a_file_under_loss_and_reordering_is_the_same_file(pair):
    server, client = pair.guests
    data = hashlib.shake_256(b"t3").digest(4_000_000)
    client.push(data, "/tmp/sent")
    with impaired(pair, *LOSSY):
        serving = server.start("cd /tmp && exec rcopy")
        wait_listening(server, 7427)
        assert client.start(f"exec rcopy /tmp/sent {address(server)}:/tmp/received").wait(120).rc == 0
        serving.kill()
        serving.wait(10)
    assert server.pull("/tmp/received") == data
    server.check("rm /tmp/received")
    client.check("rm /tmp/sent")


@pytest.mark.parametrize("how", ["error", "disconnect"])
def test_B3_buffers_that_came_back_are_left_alone(pair, how):
    """A QP is moved to ERR, at once or after a disconnect, while both directions of a slow wire are full."""
    with impaired(pair, "rate=50M", "queue=4M"):
        server, client = run_pair(*pair.guests, "poison", f"--how={how}", timeout=120)
    assert server["flushed"] > 20
    assert (server["changed_receives"], server["changed_sinks"], client["leaked"]) == (0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 1001])
def test_ten_thousand_rounds_under_loss_and_reordering(pair, seed):
    with impaired(pair, *LOSSY, seed=seed) as done:
        run_rping(pair, 10_000, timeout=3600)
        assert all(done(end)["lost"] > 1000 for end in ENDS)
        run_perftest(pair, "ib_write_bw", "-s 65536 -n 5000", timeout=1800)


@pytest.mark.long
def test_a_thousand_rounds_with_everything_at_once(pair):
    with impaired(pair, *ALL_AT_ONCE):
        run_rping(pair, 1000, timeout=1800)
