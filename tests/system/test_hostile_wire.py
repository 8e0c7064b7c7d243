# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Wires that lose, duplicate, reorder, corrupt and delay frames: programs may only become slower.

The seed alone decides which frames an impairment affects (tests/sim/net); these tests check the programs.
"""

import contextlib
import hashlib

import pytest
from programs import run_pair
from stock import address, rping, wait_listening
from test_perftest import run_perftest

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
    rping(server, client, options, timeout=timeout)


@pytest.mark.parametrize(
    "what, counted",
    [
        pytest.param(["loss=0.02"], "lost", id="loss"),
        pytest.param(["duplicate=0.05"], "duplicated", id="duplication"),
        pytest.param(["reorder=0.05", "reorder-delay=300us"], "reordered", id="reordering"),
        pytest.param(["corrupt=0.02"], "corrupted", id="corruption"),
        pytest.param(["delay=200us", "jitter=300us"], None, id="delay-and-jitter"),
        pytest.param(["rate=100M", "queue=32K"], "overflowed", id="rate-limit"),
    ],
)
@pytest.mark.parametrize("end", ENDS)
def test_each_impairment_in_one_direction(pair, end, what, counted):
    """Each round transfers 64 KB in both directions, so that either end has data to send."""
    (other,) = set(ENDS) - {end}
    with impaired(pair, *what, end=end) as done:
        run_rping(pair, 15)
        assert not any(done(other).values())
        if counted:
            assert done(end)[counted] > 0


def test_all_impairments_at_once(pair):
    with impaired(pair, *ALL_AT_ONCE) as done:
        run_rping(pair, 100)
        for end in ENDS:
            assert all(done(end)[name] for name in ("lost", "reordered", "duplicated")), done(end)


@pytest.mark.wire
def test_retransmitted_frames_are_valid(pair):
    """Retransmissions must be the same FPDUs in the same segments."""
    with impaired(pair, *LOSSY):
        run_rping(pair, 30)


@pytest.mark.wire
def test_writes_under_loss_and_reordering(pair):
    with impaired(pair, *LOSSY) as done:
        run_perftest(pair, "ib_write_bw", "-s 65536 -n 60")
        assert done("c1.0")["lost"] > 0


def test_rcopy_under_loss_and_reordering(pair):
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
def test_B3_flushed_buffers_are_not_accessed(pair, how):
    """A QP is moved to ERR, at once or after a disconnect, while both directions of a slow wire are full."""
    with impaired(pair, "rate=50M", "queue=4M"):
        server, client = run_pair(*pair.guests, "poison", f"--how={how}", timeout=120)
    assert server["flushed"] > 20
    assert (server["changed_receives"], server["changed_sinks"], client["leaked"]) == (0, 0, 0)


@pytest.mark.long
@pytest.mark.parametrize("seed", [7, 1001])
def test_ten_thousand_rping_rounds_under_loss_and_reordering(pair, seed):
    with impaired(pair, *LOSSY, seed=seed) as done:
        run_rping(pair, 10_000, timeout=3600)
        assert all(done(end)["lost"] > 1000 for end in ENDS)
        run_perftest(pair, "ib_write_bw", "-s 65536 -n 5000", timeout=1800)


@pytest.mark.long
def test_a_thousand_rping_rounds_with_all_impairments(pair):
    with impaired(pair, *ALL_AT_ONCE):
        run_rping(pair, 1000, timeout=1800)
