# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Points that no source settles (docs/hw/open-questions.md), as the model and t3-probe have them; read from their
sources, since a test needs the names before anything is built."""

import re

from . import paths

TABLE = paths.REPO / "sim/card/base/guesses.def"
PROBES = paths.REPO / "tools/programs/probe/probe.cc"


def names() -> list[tuple[str, str]]:
    """Those for which the model has another answer: ("G12", the name in the code)."""
    rows = re.findall(r"^T3_GUESS\((\d+), (\w+),", TABLE.read_text(), re.MULTILINE)
    return [(f"G{number}", name) for number, name in rows]


def with_knob() -> list[str]:
    return [number for number, _ in names()]


def with_probe() -> list[str]:
    return [f"G{number}" for number in re.findall(r"^    \{(\d+), \w+\},(?: //.*)?$", PROBES.read_text(), re.MULTILINE)]
