#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Instructions of the card model per operation between two cards, counted by callgrind, beside those of commit 12822f9.

The counts include both cards, the wire and a minimal driver on each side, from the doorbells to the end of all work
(card_cost.cc). They are compared with bench/card.json: a count more than 3% above the recorded one for the same
compiler is a failure. --record rewrites the file, but not the figures of 12822f9, which were counted once, with the
same program and the same driver.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import ratios

RECORDED = pathlib.Path(__file__).resolve().parent / "card.json"
ROUNDS = 50


def run(*command) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


def compiler() -> str:
    return run(os.environ.get("CXX", "c++"), "--version").stdout.splitlines()[0]


def cost(program: pathlib.Path, name: str) -> float:
    """Making the cards and connecting them is the same in both runs, so the difference does not include it."""
    few, many = (
        int(
            re.search(
                r"Collected : (\d+)",
                run("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", program, name, rounds).stderr,
            )[1]
        )
        for rounds in (ROUNDS, 3 * ROUNDS)
    )
    return (many - few) / (2 * ROUNDS)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", type=pathlib.Path, help="the CMake build folder (default: build)")
    parser.add_argument("--record", action="store_true", help="write bench/card.json")
    options = parser.parse_args()
    program = options.build / "bench/card_cost"
    recorded = json.loads(RECORDED.read_text())
    figures = [
        ratios.Figure(f"card.{name}.instructions", cost(program, name), recorded["at 12822f9"][name])
        for name in run(program, "--list").stdout.split()
    ]
    print(*figures, sep="\n")
    counts = {figure.name.split(".")[1]: round(figure.ours) for figure in figures}
    if options.record:
        RECORDED.write_text(json.dumps({**recorded, "compiler": compiler(), "instructions": counts}, indent=1) + "\n")
        return 0
    failures = []
    if recorded["compiler"] == compiler():
        failures = [
            f"{name}: {count} instructions, {recorded['instructions'][name]} are recorded"
            for name, count in counts.items()
            if count > recorded["instructions"][name] * ratios.SLACK
        ]
    for line in failures:
        print(f"card: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
