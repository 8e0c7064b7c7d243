# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Leaks and failing allocations, which only the debug kernel can test. Runs with `--kernel debug` only; tests/run lists
further tests that run on that kernel."""
import pytest
from programs import run_alone
from stock import rping

pytestmark = pytest.mark.debug

# A fault is armed per thread (fail-nth), so it affects only the test program. By default allocations that may sleep do
# not fail.
INJECT = """cd /sys/kernel/debug
    for kind in failslab fail_page_alloc; do echo N > $kind/ignore-gfp-wait; echo 0 > $kind/verbose; done
    echo 0 > fail_page_alloc/min-order"""


def fail_each_allocation(lab):
    """Each allocation of each call that creates an object fails once."""
    server, client = lab.guests
    before = client.check("rdma resource show")
    client.check(INJECT)
    report = run_alone(client, server, "starved --timeout=300", timeout=120)
    assert report["failed"] == []
    # The faults hit the creation of objects: each step has allocations of the core and of our modules.
    assert all(report[step] >= 2 for step in ("open", "pd", "mr-4k", "cq", "qp", "resolve", "listen")), report
    assert client.check("rdma resource show") == before
    rping(server, client)
    assert client.leaks() == ""


def test_failed_allocations_leak_nothing(pair):
    fail_each_allocation(pair)


# D3: failed allocations that are not noticed.
def test_failed_allocations_leak_nothing_in_t3_uverbs_and_t3_rdma_cm(make_lab):
    fail_each_allocation(make_lab(guests=2, load="rdma-t3"))
