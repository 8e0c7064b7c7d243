#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Whether time grows with the number of connections and no faster: instructions counted by valgrind, so that the result
is the same on every machine. instructions.py PROGRAM (PROGRAM N: a run with N connections)"""

import re
import subprocess
import sys

STEPS = 250, 500, 1000
TOLERANCE = 0.15


def instructions(program: str, connections: int) -> int:
    done = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, str(connections)],
        stderr=subprocess.PIPE,
        text=True,
        check=True,
    )
    return int(re.search(r"Collected : (\d+)", done.stderr).group(1))


def main(program: str) -> int:
    few, more, many = (instructions(program, n) for n in STEPS)
    first, second = (more - few) / (STEPS[1] - STEPS[0]), (many - more) / (STEPS[2] - STEPS[1])
    print(
        f"instructions per connection: {first:.0f} between {STEPS[0]} and {STEPS[1]}, {second:.0f} between"
        f" {STEPS[1]} and {STEPS[2]}"
    )
    return 0 if abs(second / first - 1) < TOLERANCE else 1


sys.exit(main(sys.argv[1]))
