# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One process that takes all it can get: a user without capabilities, in a memory cgroup of 64 MB."""

import contextlib
import json

from programs import BIN
from stock import address, wait_no_objects

LIMIT = 64 << 20
GROUP = "/tmp/cg/greedy"
NOBODY = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all"
RING = 512 << 10  # of a completion queue of the largest size


@contextlib.contextmanager
def greedy(guest, server, options="", limit=LIMIT):
    """The process, in its cgroup, while it holds all that it got; yields what that is: {kind: (how many, why no more, bytes charged)}."""
    guest.check(f"""mkdir -p /tmp/cg && mount -t cgroup2 none /tmp/cg && echo +memory > /tmp/cg/cgroup.subtree_control
        mkdir {GROUP} && echo {limit} > {GROUP}/memory.max""")
    try:
        process = guest.start(f"echo $$ > {GROUP}/cgroup.procs; ulimit -l unlimited; cd /; exec {NOBODY} {BIN}/t3-greedy client "
                              f"{address(server)} --timeout=500 --cgroup={GROUP} {options}")
        process.expect("holding", 450)
        yield {kind: tuple(seen) for kind, seen in json.loads(process.stdout).items()}
        process.end_input()
        done = process.wait(120)
        assert done.rc == 0, done
        wait_no_objects(guest)
    finally:
        guest.end_commands()
        guest.check(f"rmdir {GROUP}; umount /tmp/cg")


def test_what_a_process_asks_for_is_charged_to_it(pair):
    """Completion queues of the largest size: the cgroup refuses long before the machine has no memory."""
    server, client = pair.guests
    with greedy(client, server, "--what='large CQs'") as got:
        had, why, grown = got["large CQs"]
        assert why == "Cannot allocate memory" and had > 10, got
        assert had * RING <= grown <= LIMIT, got
