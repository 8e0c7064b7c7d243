# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table of test_matrix.py, at the end of pytest's output: the user property `cell` of a test is a cell of it.

    matrix                                     cxgb3          siw            rxe
    bookworm: Linux 6.1.0-47-amd64
      uverbs in-tree, manager ours             ok 8/8 6 s     rping 5/6 9 s  -
"""

from typing import NamedTuple

import recorded

HEADINGS = 44
WIDTH = 24


class Cell(NamedTuple):
    """A combination, and the result of its test."""

    release: str
    combination: str
    device: str
    tried: int
    failed: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        good = self.tried - len(self.failed)

        result = "ok" if not self.failed else ",".join(self.failed)
        return f"{result} {good}/{self.tried} {self.seconds:.0f} s"


def lines(cells: list[Cell]) -> list[str]:
    """The table; a dash is a cell that was not tested."""
    devices = list(dict.fromkeys(cell.device for cell in cells))
    found = {(cell.release, cell.combination, cell.device): cell for cell in cells}
    shown = ["matrix".ljust(HEADINGS) + "".join(f" {device}".ljust(WIDTH) for device in devices)]
    for release in dict.fromkeys(cell.release for cell in cells):
        shown.append(release)
        for combination in dict.fromkeys(cell.combination for cell in cells if cell.release == release):
            row = (str(found.get((release, combination, device), "-")) for device in devices)
            shown.append(f"  {combination}".ljust(HEADINGS) + "".join(f" {cell}".ljust(WIDTH) for cell in row))
    return [line.rstrip() for line in shown]


def pytest_terminal_summary(terminalreporter):
    recorded.show(
        terminalreporter, "dispatchers and connection managers", "cell", lambda cells: lines([Cell(**c) for c in cells])
    )
