# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Figures of a benchmark that has two sides, ours and a reference: how they are printed, recorded and judged."""

import json
import math
import pathlib
import re
import sys
from typing import Iterable, NamedTuple

SLACK = 1.03  # a ratio may be that much worse than the recorded one


class Figure(NamedTuple):
    """A cost or a rate: ours, and the reference's. Of a rate more is better, of a cost less."""

    name: str
    ours: float
    ref: float

    @property
    def ratio(self) -> float:
        return self.ours / self.ref

    def __str__(self) -> str:
        return f"bench {self.name} ours={self.ours:.6g} ref={self.ref:.6g} ratio={self.ratio:.3f}"


class Aim(NamedTuple):
    """Bounds of the ratio of each figure with such a name; `mean`: maximum of their geometric mean; `ours`: maximum of
    our own cost."""

    names: str  # a regular expression for the whole name
    most: float | None = None
    least: float | None = None
    mean: float | None = None
    ours: float | None = None


def parse(lines: Iterable[str]) -> list[Figure]:
    """Figures as they were printed; other lines are skipped."""
    found = (re.fullmatch(r"bench (\S+) ours=(\S+) ref=(\S+) ratio=\S+", line.strip()) for line in lines)
    return [Figure(match[1], float(match[2]), float(match[3])) for match in found if match]


def mean(figures: Iterable[Figure]) -> float:
    """Geometric, of the ratios."""
    ratios = [figure.ratio for figure in figures]
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def missed(figures: list[Figure], aims: Iterable[Aim]) -> list[str]:
    """Aims that are not met. An aim without a figure is not met."""
    failures = []
    for aim in aims:
        concerned = [figure for figure in figures if re.fullmatch(aim.names, figure.name)]
        if not concerned:
            failures.append(f"{aim.names}: there is no such figure")
            continue
        for figure in concerned:
            if aim.most is not None and figure.ratio > aim.most:
                failures.append(f"{figure.name}: ratio {figure.ratio:.3f}, the aim is at most {aim.most:g}")
            if aim.least is not None and figure.ratio < aim.least:
                failures.append(f"{figure.name}: ratio {figure.ratio:.3f}, the aim is at least {aim.least:g}")
            if aim.ours is not None and figure.ours > aim.ours:
                failures.append(f"{figure.name}: {figure.ours:.6g}, the aim is at most {aim.ours:g}")
        if aim.mean is not None and mean(concerned) > aim.mean:
            failures.append(f"{aim.names}: geometric mean {mean(concerned):.3f}, the aim is at most {aim.mean:g}")
    return failures


def grown(figures: Iterable[Figure], file: pathlib.Path, machine: str) -> list[str]:
    """Costs whose ratio is worse than the recorded one for such a machine. Rates are not recorded: they depend on the
    host."""
    recorded = json.loads(file.read_text()) if file.exists() else {}
    if recorded.get("machine") != machine:
        return []
    before = recorded["ratios"]
    return [
        f"{figure.name}: ratio {figure.ratio:.3f}, {before[figure.name]:.3f} is recorded"
        for figure in figures
        if figure.name in before and figure.ratio > before[figure.name] * SLACK
    ]


def record(figures: Iterable[Figure], file: pathlib.Path, machine: str) -> None:
    file.write_text(
        json.dumps(
            {"machine": machine, "ratios": {figure.name: round(figure.ratio, 3) for figure in figures}}, indent=1
        )
        + "\n"
    )


def conclude(
    what: str,
    figures: list[Figure],
    aims: Iterable[Aim],
    file: pathlib.Path,
    machine: str,
    write: bool,
    costs: str = ".*",
) -> int:
    """Prints the figures and the missed aims, and rewrites the record if `write` is set; returns an exit status. costs:
    names of the figures that are recorded."""
    print(*figures, sep="\n")
    recorded = [figure for figure in figures if re.fullmatch(costs, figure.name)]
    failures = missed(figures, aims)
    if write:
        record(recorded, file, machine)
    else:
        failures += grown(recorded, file, machine)
    for line in failures:
        print(f"{what}: {line}", file=sys.stderr)
    return 1 if failures else 0
