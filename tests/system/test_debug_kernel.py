# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What only the debug kernel can show: memory that is lost, and what happens when there is none. Runs with `--kernel debug` only; what
else is worth its time on that kernel is listed in tests/run."""
import pytest
from programs import run_alone
from stock import rping_client, rping_server

pytestmark = pytest.mark.debug

# A fault is armed per thread (fail-nth), so only the program that asks for it is hit. Allocations that may sleep are spared by default.
INJECT = """cd /sys/kernel/debug
    for kind in failslab fail_page_alloc; do echo N > $kind/ignore-gfp-wait; echo 0 > $kind/verbose; done
    echo 0 > fail_page_alloc/min-order"""


def starve(lab):
    """Each allocation of each call that makes something fails once."""
    server, client = lab.guests
    before = client.check("rdma resource show")
    client.check(INJECT)
    seen = run_alone(client, server, "starved --timeout=300", timeout=120)
    assert seen["failed"] == []
    # The faults were really where objects are made: each step has allocations of the core and of ours.
    assert all(seen[step] >= 2 for step in ("open", "pd", "mr-4k", "cq", "qp", "resolve", "listen")), seen
    assert client.check("rdma resource show") == before
    serving = rping_server(server, "-C 5 -V")
    assert rping_client(client, server, "-C 5 -V").wait(60).rc == 0
    assert serving.wait(60).rc == 0
    assert client.leaks() == ""


def test_no_memory_leaves_nothing_behind(pair):
    starve(pair)


# D3: memory that was not there.
def test_no_memory_leaves_nothing_behind_in_our_dispatcher_and_manager(make_lab):
    starve(make_lab(guests=2, load="rdma-t3"))
