# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a kernel log may not hold."""

import re
from typing import Iterable, NamedTuple

TROUBLE = re.compile(
    r"Kernel panic|\bOops\b|\bBUG\b|WARNING: |general protection fault|unable to handle|stack-protector|"
    r"KASAN|KCSAN|UBSAN|kmemleak: \d+ new|DMA-API: \S+ \S+: |refcount_t: |list_(add|del) corruption|"
    r"INFO: task .* blocked|soft lockup|hard LOCKUP|rcu.*detected stall|possible (recursive|circular|irq)|"
    r"inconsistent lock state|suspicious RCU usage|bad unlock balance|sleeping function called|scheduling while atomic|"
    r"Bad page (state|map)|segfault at|trap (invalid opcode|divide error)|"
    r"waiting for .* to become free")

# A traceback follows its first line; this many lines are shown with it.
CONTEXT = 60


class Allowed(NamedTuple):
    """Trouble that is known and not ours."""

    pattern: str
    why: str


ALLOWED = (
    Allowed(r"WARNING: .*t3_sge_stop|WARNING: .*cxgb3/sge\.c", "cxgb3.ko warns when it is unloaded; the in-tree driver's own"),
    Allowed(r"iwpm_register_pid", "no port mapper daemon runs in guests; the RDMA core says so once per client"),
)


def trouble(log: str, allowed: Iterable[Allowed] = ()) -> str:
    """The part of a kernel log that a test must not leave behind; empty: all is well."""
    fine = [re.compile(item.pattern) for item in (*ALLOWED, *allowed)]
    lines = log.splitlines()
    shown: list[str] = []
    upto = 0
    for number, line in enumerate(lines):
        if number < upto or not TROUBLE.search(line) or any(pattern.search(line) for pattern in fine):
            continue
        upto = number + CONTEXT
        shown += lines[number:upto]
    return "\n".join(shown)
