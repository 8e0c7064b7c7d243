# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The table of the tests of installed machines by release, at the end of pytest's output: a test that uses the fixture
`step` is a row of it.

    installed machines     bookworm                   trixie
    apt install            7 files                    7 files
"""

from dataclasses import asdict, dataclass

import pytest
import recorded

HEADINGS = 34
WIDTH = 36


@dataclass
class Step:
    """result: the outcome, which the test sets at its end; a test that fails before keeps the default."""

    release: str
    name: str
    result: str = "FAILED"


def lines(steps: list[Step]) -> list[str]:
    """The table; a dash is a step that was not tested."""
    releases = list(dict.fromkeys(step.release for step in steps))
    found = {(step.release, step.name): step.result for step in steps}
    shown = ["".ljust(HEADINGS) + "".join(release.ljust(WIDTH) for release in releases)]
    for name in dict.fromkeys(step.name for step in steps):
        shown.append(
            name.ljust(HEADINGS) + "".join(found.get((release, name), "-").ljust(WIDTH) for release in releases)
        )
    return [line.rstrip() for line in shown]


@pytest.fixture
def step(record_property):
    """step(release, name) begins a row; the test stores its outcome in its result."""
    made = []

    def begin(release: str, name: str) -> Step:
        made.append(Step(release, name))
        return made[-1]

    yield begin
    for one in made:
        record_property("step", asdict(one))


def pytest_terminal_summary(terminalreporter):
    recorded.show(terminalreporter, "installed machines", "step", lambda found: lines([Step(**one) for one in found]))
