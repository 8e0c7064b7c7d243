# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One process that allocates as much as it can: a user without capabilities, in a memory cgroup of 64 MB. Each
allocation is limited, and another user's connection between the same two guests works meanwhile."""

import contextlib
import json

import pytest
from conditions import unresponsive_host
from programs import BIN
from stock import address, rping, wait_no_objects

LIMIT = 64 << 20
GROUP = "/tmp/cg/greedy"
ORDINARY_USER = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all"
# The least memory of one of each kind: its ring, its page list, or the kernel's structures.
COSTS = {
    "large CQs": 512 << 10,
    "CQs": 4096,
    "large QPs": 64 << 10,
    "QPs": 4096,
    "page lists": 512 << 10,
    "MRs": 512,
    "connects": 2048,
}


@contextlib.contextmanager
def greedy(guest, server, options="", limit=LIMIT):
    """Runs the process in its cgroup; yields its allocations while it holds them: {kind: (count, error of the next one,
    bytes charged)}."""
    guest.check(
        f"""mkdir -p /tmp/cg && mount -t cgroup2 none /tmp/cg && echo +memory > /tmp/cg/cgroup.subtree_control
        mkdir {GROUP} && echo {limit} > {GROUP}/memory.max"""
    )
    try:
        process = guest.start(
            f"echo $$ > {GROUP}/cgroup.procs; ulimit -l unlimited; cd /; exec {ORDINARY_USER} {BIN}/t3-greedy client "
            f"{address(server)} --timeout=500 --cgroup={GROUP} {options}"
        )
        process.expect("^holding$", 450)
        yield {kind: tuple(seen) for kind, seen in json.loads(process.stdout.splitlines()[0]).items()}
        process.end_input()
        done = process.wait(300)
        assert done.rc == 0, done
        wait_no_objects(guest)
    finally:
        guest.end_commands()
        guest.check(f"rmdir {GROUP}; umount /tmp/cg")


def per_piece(got):
    return {kind: grown / had for kind, (had, _, grown) in got.items() if kind in COSTS}


def test_cqs_are_charged_to_the_processs_cgroup(pair):
    """Completion queues of the largest size: the cgroup refuses them long before the machine runs out of memory."""
    server, client = pair.guests
    with greedy(client, server, "--what='large CQs'") as got:
        had, why, grown = got["large CQs"]
        assert why == "Cannot allocate memory" and had > 10, got
        assert had * COSTS["large CQs"] <= grown <= LIMIT, got


@pytest.mark.long
@pytest.mark.allow_log(
    r"INFO: task t3-greedy:\d+ blocked for more", "the in-tree iw_cm waits until each open is given up"
)
def test_other_users_work_while_one_allocates_everything(pair):
    server, client = pair.guests
    with unresponsive_host(client, patience=150) as host, greedy(
        client, server, f"--share={3 << 20} --unresponsive={host}"
    ) as got:
        assert all(
            why != "no end" and (had or why == "Too many open files") for had, why, _ in got.values() if why
        ), got
        assert int(client.check(f"cat {GROUP}/memory.current")) <= LIMIT
        cheap = {kind: cost for kind, cost in per_piece(got).items() if cost < COSTS[kind]}
        assert not cheap, (cheap, got)
        assert got["doorbells"][0], got
        rping(server, client, timeout=90)


def test_an_eighth_of_the_card_is_left_for_other_users(pair):
    """A user without a memory limit allocates resources of the card."""
    server, client = pair.guests
    counter = "cat /sys/class/infiniband/cxgb3_0/hw_counters/over_quota"
    before = int(client.check(counter))
    with greedy(client, server, "--what='PDs,large QPs,page lists'", limit=400 << 20) as got:
        assert all(why == "Cannot allocate memory" for _, why, _ in got.values() if why), got
        assert got["PDs"][0] < 32767 - 32767 // 8, got
        assert int(client.check(counter)) >= before + 3, got
        rping(server, client, timeout=90)
