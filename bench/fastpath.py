#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Cost of the provider's data path: instructions per request and per completion, counted by callgrind, against the old
library's.

Counts do not depend on the load of the machine. So a change in them is a change of the code or of the compiler. They
are compared with bench/fastpath.json: a count more than 3% above the recorded one for the same compiler is a failure,
and so is a missed aim. --record rewrites the file, --svg draws instructions against the length of the lists.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import platform
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
RECORDED = HERE / "fastpath.json"
ROUNDS = 256
SLACK = 1.03
QUICK = [
    ("send", 1),
    ("write", 16),
    ("recv", 1),
    ("poll_send", 1),
    ("poll_recv", 16),
    ("poll_empty", 1),
    ("wr_send", 1),
    ("next_recv", 16),
]
# Aims, as shares of the instructions of the old library's single call: for one request, and for one in a list of 16.
AIMS = {("post", 1): 0.55, ("post", 16): 0.42, ("poll", 1): 0.33, ("poll", 16): 0.25}
EMPTY_POLL = 15
INSIDE = {
    "post": ("cxgb3_post_send", "cxgb3_post_recv"),
    "poll": ("cxgb3_poll_cq",),
    # Of the extended interfaces: the functions whose addresses are in the objects. They do not call one another in the
    # counted cases.
    "wr": ("(anonymous namespace)::wr_*",),
    "next": tuple(f"(anonymous namespace)::{name}*" for name in ("start_poll", "next_poll", "end_poll", "read<"))
    + ("auto (anonymous namespace)::read<*",),
}


def run(*command) -> subprocess.CompletedProcess:
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)


def instructions(program: pathlib.Path, name: str, batch: int, kind: str, rounds: int, *options: str) -> int:
    """Instructions inside the calls of that kind."""
    toggles = [f"--toggle-collect={function}" for function in INSIDE[kind]]
    done = run(
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file=/dev/null",
        "--collect-atstart=no",
        *toggles,
        program,
        "--count",
        name,
        batch,
        rounds,
        *options,
    )
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


def cost(program: pathlib.Path, name: str, batch: int, kind: str, *options: str) -> float:
    """Set-up and first use are the same in both runs, so the difference does not include them."""
    few, many = (instructions(program, name, batch, kind, rounds, *options) for rounds in (ROUNDS, 3 * ROUNDS))
    return (many - few) / (2 * ROUNDS) / batch


def compiler() -> str:
    return run(os.environ.get("CXX", "c++"), "--version").stdout.splitlines()[0]


def machine() -> str:
    model = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return (
        f"{model[1] if model else platform.machine()}, {os.cpu_count()} CPUs, Linux {platform.release()}, {compiler()}"
    )


def measure(program: pathlib.Path, quick: bool) -> dict[tuple[str, int], tuple[float, int, str]]:
    """(call, batch): instructions, the old library's, kind."""
    rows = {("poll_empty", 1): (0, "poll")}
    for line in run(program, "--list").stdout.splitlines():
        name, batch, ref, kind = line.split()
        rows[name, int(batch)] = (int(ref), kind)
    if quick:
        rows = {key: rows[key] for key in QUICK}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        costs = pool.map(lambda key: cost(program, *key, rows[key][1]), rows)
        return {key: (ours, *rows[key]) for key, ours in zip(rows, costs)}


def table(found: dict) -> None:
    batches = sorted({batch for _, batch in found})
    print(
        "| call | old library | " + " | ".join(f"1 in {batch}" if batch > 1 else "single" for batch in batches) + " |"
    )
    print("|---|---|" + "---|" * len(batches))
    for name in dict.fromkeys(name for name, _ in found):
        cells, ref = [], next(value[1] for key, value in found.items() if key[0] == name)
        for batch in batches:
            ours = found.get((name, batch), (None,))[0]
            cells.append("" if ours is None else f"{ours:.1f}" + (f" ({ours / ref:.0%})" if ref else ""))
        print(f"| {name} | {ref or ''} | " + " | ".join(cells) + " |")
    print()
    for (name, batch), (ours, ref, _) in found.items():
        if ref and "unsignaled" not in name:
            print(f"bench fastpath.{name}.{batch} ours={ours:.1f} ref={ref} ratio={ours / ref:.3f}")
        else:
            print(f"bench fastpath.{name}.{batch} ours={ours:.1f}")


def barriers(counts: list) -> str:
    """The counts of fastpath_counted, which is compiled with counters."""
    passed, rung = (sorted({row[column] for row in counts}) for column in (2, 3))
    return (
        f"barriers per call: {', '.join(f'{n:g}' for n in passed)}; doorbells per call:"
        f" {', '.join(f'{n:g}' for n in rung)} (counted in {len(counts)} cases, lists of"
        f" {', '.join(str(n) for n in sorted({row[1] for row in counts}))})"
    )


def complaints(found: dict) -> list[str]:
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {"compiler": None, "instructions": {}}
    failures = []
    for (name, batch), (ours, ref, kind) in found.items():
        before = recorded["instructions"].get(f"{name}.{batch}")
        if recorded["compiler"] == compiler() and before and ours > before * SLACK:
            failures.append(f"{name}.{batch}: {ours:.1f} instructions, {before:.1f} are recorded")
        if name == "poll_empty" and ours > EMPTY_POLL:
            failures.append(f"{name}: {ours:.1f} instructions, the aim is {EMPTY_POLL}")
        aim = AIMS.get((kind, batch))
        if ref and aim and "unsignaled" not in name and ours > aim * ref:
            failures.append(f"{name}.{batch}: {ours:.1f} instructions, the aim is {aim:.0%} of {ref}")
    return failures


def chart(found: dict, file: pathlib.Path) -> None:
    """Instructions per message, posting and polling together, against the length of the lists."""
    width, height, left, top, bottom = 640, 360, 56, 28, 44
    lines = {
        "SEND": ("send", "poll_send"),
        "WRITE": ("write", "poll_send"),
        "READ": ("read", "poll_read"),
        "receive": ("recv", "poll_recv"),
    }
    colours = ("#1b6ca8", "#b3432b", "#3a7d44", "#7a4fa3")
    batches = sorted({batch for _, batch in found})
    highest = 450
    x = {batch: left + i * (width - left - 110) / (len(batches) - 1) for i, batch in enumerate(batches)}

    def y(value: float) -> float:
        return height - bottom - value * (height - top - bottom) / highest

    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"'
            ' font-size="12">'
        ),
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{left}" y="16">Instructions per message, posted and polled in lists</text>',
    ]
    for value in range(0, highest + 1, 50):
        out.append(
            f'<path d="M{left} {y(value):.1f}H{width - 100}" stroke="#ddd"/>'
            f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>'
        )
    for batch in batches:
        out.append(f'<text x="{x[batch]:.1f}" y="{height - bottom + 18}" text-anchor="middle">{batch}</text>')
    out.append(f'<text x="{(left + width - 110) / 2}" y="{height - 8}" text-anchor="middle">requests per call</text>')
    for colour, (label, (post, poll)) in zip(colours, lines.items()):
        points = [(x[batch], y(found[post, batch][0] + found[poll, batch][0])) for batch in batches]
        out.append(
            f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in points)}" fill="none" stroke="{colour}"'
            ' stroke-width="2"/>'
        )
        old = found[post, 1][1] + found[poll, 1][1]
        out.append(f'<circle cx="{x[1]:.1f}" cy="{y(old):.1f}" r="4" fill="none" stroke="{colour}" stroke-width="2"/>')
        row = list(lines).index(label)
        out.append(f'<text x="{width - 94}" y="{top + 30 + 18 * row}" fill="{colour}">{label}</text>')
    out.append(f'<text x="{width - 94}" y="{top + 12}">o old library</text></svg>')
    file.write_text("\n".join(out) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default="build", type=pathlib.Path, help="the CMake build folder (default: build)")
    parser.add_argument("--quick", action="store_true", help="only some cases, and nothing but complaints")
    parser.add_argument("--record", action="store_true", help="write bench/fastpath.json")
    parser.add_argument("--svg", type=pathlib.Path, help="draw a chart")
    options = parser.parse_args()
    program = options.build / "bench/fastpath"
    found = measure(program, options.quick)
    counts = [
        (name, batch, float(passed), float(rung))
        for name, batch, passed, rung in (
            line.split() for line in run(options.build / "bench/fastpath_counted", "--barriers").stdout.splitlines()
        )
    ]
    if options.record:
        RECORDED.write_text(
            json.dumps(
                {
                    "compiler": compiler(),
                    "instructions": {
                        f"{name}.{batch}": round(ours, 1) for (name, batch), (ours, _, _) in found.items()
                    },
                },
                indent=1,
            )
            + "\n"
        )
    if options.svg:
        chart(found, options.svg)
    if not options.quick:
        print(f"machine: {machine()}\n\ninstructions per request and per completion\n")
        table(found)
        single = {
            name: cost(program, name, 1, kind, "--single")
            for name, kind in (
                ("send", "post"),
                ("recv", "post"),
                ("poll_send", "poll"),
                ("wr_send", "wr"),
                ("next_send", "next"),
            )
        }
        print("\na QP and a CQ of one thread: " + ", ".join(f"{name} {value:.1f}" for name, value in single.items()))
        print(f"\n{barriers(counts)}; what a request writes into the ring, of a slot's 128 bytes:\n")
        print(run(program, "--traffic").stdout)
    failures = complaints(found)
    failures += [
        f"{name}.{batch}: {passed:g} barriers and {rung:g} doorbells per call"
        for name, batch, passed, rung in counts
        if (passed, rung) != (1, 1)
    ]
    for line in failures:
        print(f"fastpath: {line}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
