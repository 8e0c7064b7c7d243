# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Errors in a kernel log."""

import re
from typing import Iterable, Iterator, NamedTuple

TROUBLE = re.compile(
    r"Kernel panic|\bOops\b|\bBUG\b|WARNING: |general protection fault|unable to handle|stack-protector|"
    r"KASAN|KCSAN|UBSAN|kmemleak: \d+ new|DMA-API: \S+ \S+: |refcount_t: |list_(add|del) corruption|"
    r"INFO: task .* blocked|soft lockup|hard LOCKUP|rcu.*detected stall|possible (recursive|circular|irq)|"
    r"inconsistent lock state|suspicious RCU usage|bad unlock balance|sleeping function called|scheduling while atomic|"
    r"Bad page (state|map)|segfault at|trap (invalid opcode|divide error)|"
    r"waiting for .* to become free"
)

# The number of lines that are shown from an error on, with its traceback.
CONTEXT = 60


class Allowed(NamedTuple):
    """An error that is known and not ours."""

    pattern: str
    why: str


ALLOWED = (
    Allowed(
        r"WARNING: .*t3_sge_stop|WARNING: .*cxgb3/sge\.c",
        "cxgb3.ko warns when it is unloaded; the in-tree driver's own",
    ),
    Allowed(r"iwpm_register_pid", "no port mapper daemon runs in guests; the RDMA core logs this once per client"),
)


# A data race is ours if one of our modules makes one of the two accesses, or calls the function that makes it.
_OURS = re.compile(r"\[(iw_cxgb3|t3_uverbs|t3_rdma_cm|\w+_kunit)\]")
_RACE = re.compile(r"BUG: KCSAN: ")
_RACE_ENDS = re.compile(r"={40,}\s*$")
_ACCESS = re.compile(
    r"(read|write|race).* (to|at) 0x[0-9a-f]+ (\(\S+\) )?of \d+ bytes|(read|write).* by (task|interrupt)"
)
_FRAMES = 3


def _races_of_others(lines: list[str]) -> Iterator[int]:
    """Line numbers of reports of data races between accesses that are not ours: the kernel has some."""
    at = 0
    while at < len(lines):
        end = at + 1
        if _RACE.search(lines[at]):
            while end < len(lines) and not _RACE_ENDS.search(lines[end]) and not _RACE.search(lines[end]):
                end += 1
            report = lines[at:end]
            near = [
                line
                for number, line in enumerate(report)
                if _ACCESS.search(line)
                for line in report[number : number + 1 + _FRAMES]
            ]
            if not any(_OURS.search(line) for line in (lines[at], *near)):
                yield from range(at, end)
        at = end


def only_in(console: str, log: str) -> str:
    """The lines of a console that the kernel log does not have."""
    logged = {line.strip() for line in log.splitlines()}
    return "\n".join(line for line in console.splitlines() if line.strip() not in logged)


def trouble(log: str, allowed: Iterable[Allowed] = ()) -> str:
    """The errors in a kernel log, with the lines after them; empty: none."""
    accepted = [re.compile(item.pattern) for item in (*ALLOWED, *allowed)]
    lines = log.splitlines()
    shown: list[str] = []
    upto = 0
    foreign = set(_races_of_others(lines))
    for number, line in enumerate(lines):
        if (
            number < upto
            or number in foreign
            or not TROUBLE.search(line)
            or any(pattern.search(line) for pattern in accepted)
        ):
            continue
        upto = number + CONTEXT
        shown += lines[number:upto]
    return "\n".join(shown)
