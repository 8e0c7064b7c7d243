# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian's perftest: it posts lists, runs of unsignaled requests and deep queues, and polls as fast as it can.

The figures do not matter (the guests' CPUs and the card are emulated); the tests check that every message arrives.
"""

import pytest
from stock import perftest

TOOLS = ["ib_send_lat", "ib_send_bw", "ib_write_lat", "ib_write_bw", "ib_read_lat", "ib_read_bw"]

pytestmark = pytest.mark.wire


def run_perftest(pair, tool: str, options: str, timeout: float = 120) -> list[str]:
    return perftest(*pair.guests, tool, options, timeout=timeout)


@pytest.mark.parametrize("size, rounds", [(2, 100), (64, 100), (4096, 100), (65536, 50), (1048576, 10)])
@pytest.mark.parametrize("tool", TOOLS)
def test_sizes(pair, tool, size, rounds):
    figures = run_perftest(pair, tool, f"-s {size} -n {rounds}")
    assert figures[:2] == [str(size), str(rounds)]
    assert all(float(figure) > 0 for figure in figures[2:4])


@pytest.mark.parametrize("size", [1, 16, 64])
def test_inline(pair, size):
    assert run_perftest(pair, "ib_write_lat", f"-s {size} -I 64 -n 100")[0] == str(size)
    assert run_perftest(pair, "ib_send_lat", f"-s {size} -I 64 -n 100")[0] == str(size)


@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_write_bw"])
def test_lists_and_unsignaled_requests(pair, tool):
    run_perftest(pair, tool, "-s 1024 -n 1024 -l 16 -Q 16 -t 64")


# By default it posts with ibv_wr_*().
@pytest.mark.parametrize("tool", ["ib_send_bw", "ib_write_lat", "ib_read_bw"])
def test_ibv_post_send(pair, tool):
    assert run_perftest(pair, tool, "-s 4096 -n 100 --use_old_post_send")[:2] == ["4096", "100"]


@pytest.mark.parametrize("outstanding", [1, 8])
def test_64_reads_posted_at_once(pair, outstanding):
    """The card keeps all but the first ones back."""
    assert run_perftest(pair, "ib_read_bw", f"-s 4096 -n 512 -t 64 -o {outstanding}")[:2] == ["4096", "512"]


def test_both_directions_at_once(pair):
    run_perftest(pair, "ib_send_bw", "-s 4096 -n 200 -b")


# As many receives as possible: the client of ib_send_bw sleeps for a completion event even while it waits for its
# server's credits, which are RDMA writes and cause none, so with few receives it waits forever if the server is slow.
# perftest makes -r at most -n, so its last message waits for a credit all the same; by then the first one has come,
# unless the server is very slow (test_iommu.py).
RECEIVES = "-r 1023"


# test_matrix.py has the same with siw and rxe loaded. ib_send_lat sends without waiting after an event that finds no
# message, so with two events for a message it overruns the receives of its peer.
@pytest.mark.parametrize(
    "tool, options",
    [
        ("ib_send_lat", "-n 1000"),
        ("ib_read_lat", "-n 1000"),
        ("ib_send_bw", f"-n 1000 -Q 1 {RECEIVES}"),  # writes have no -e
        *(
            pytest.param("ib_send_bw", f"{options} {RECEIVES}", marks=pytest.mark.long)
            for options in ("-n 1000", "-n 1000 -Q 1 -t 16", "-n 992 -Q 1 -l 16", "-n 1000 -b", "-n 1000 -b -Q 1")
        ),
        *(
            pytest.param("ib_read_bw", options, marks=pytest.mark.long)
            for options in (
                "-n 1000",
                "-n 1000 -Q 1",
                "-n 1000 -Q 1 -t 16",
                "-n 992 -Q 1 -l 16",
                "-n 1000 -b",
                "-n 1000 -b -Q 1",
            )
        ),
    ],
)
def test_sleeping_on_completion_events(pair, tool, options):
    run_perftest(pair, tool, f"-s 64 -e {options}")
