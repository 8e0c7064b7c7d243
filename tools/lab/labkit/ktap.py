# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Parses the results of KUnit in the kernel log (KTAP).

A test passes if its result is ok, if as many subtests ran as its plan announced, and if none of them failed. Other
lines of the kernel log are skipped; see klog.py for them.
"""

import re
from dataclasses import dataclass, field
from typing import Iterator

_STAMP = re.compile(r"^\[ *\d+\.\d+\] ?")
_RESULT = re.compile(r"^(?P<indent> *)(?P<not>not )?ok (?P<number>\d+)(?: -)? ?(?P<name>.*?)(?: # (?P<note>.*))?$")
_SUBTEST = re.compile(r"^(?P<indent> *)# Subtest: (?P<name>.+)$")
_PLAN = re.compile(r"^(?P<indent> *)1\.\.(?P<count>\d+)$")
_DIAGNOSTIC = re.compile(r"^ *# ")


@dataclass
class Test:
    """A suite, a case of it, or one parameter of a case."""

    name: str
    outcome: str = "unfinished"  # then passed, failed or skipped
    note: str = ""
    plan: int | None = None
    children: list["Test"] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)  # diagnostics

    def faults(self) -> Iterator[str]:
        """Why it failed, beside its children's own faults."""
        if self.outcome == "unfinished":
            yield "it did not end"
        elif self.outcome == "failed":
            yield "not ok"
        elif any(child.outcome in ("failed", "unfinished") for child in self.children):
            yield "ok, but a test in it failed"
        if self.plan is not None and self.plan != len(self.children):
            yield f"{self.plan} tests were announced, {len(self.children)} reported"
        names = [child.name for child in self.children]
        if len(set(names)) != len(names):
            yield "two tests in it have the same name"

    def leaves(self, *path: str) -> Iterator[tuple[str, "Test"]]:
        """All tests without children, by their names from the suite on; and those with children that have faults of
        their own."""
        path = (*path, self.name)
        for child in self.children:
            yield from child.leaves(*path)
        if not self.children or (self.outcome != "failed" and list(self.faults())):
            yield ".".join(path), self


def parse(log: str) -> list[Test]:
    """The suites in a kernel log, in their order."""
    root = Test("")
    open_tests: list[tuple[int, Test]] = [(-1, root)]  # with the indent of their results' lines
    for line in log.splitlines():
        line = _STAMP.sub("", line.rstrip())
        if found := _SUBTEST.match(line):
            indent = len(found["indent"]) - 4
            _close(open_tests, indent)
            test = Test(found["name"])
            open_tests[-1][1].children.append(test)
            open_tests.append((indent, test))
        elif found := _PLAN.match(line):
            if len(found["indent"]) - 4 == open_tests[-1][0]:
                open_tests[-1][1].plan = int(found["count"])
        elif found := _RESULT.match(line):
            _result(open_tests, len(found["indent"]), found)
        elif _DIAGNOSTIC.match(line):
            # A KUnit message of several lines is one line of the log.
            open_tests[-1][1].lines += line.strip().split(r"\x0a")
    return root.children


def _close(open_tests: list[tuple[int, Test]], indent: int) -> None:
    """Closes tests that cannot contain a line of this indent."""
    while open_tests[-1][0] >= indent and len(open_tests) > 1:
        open_tests.pop()


def _result(open_tests: list[tuple[int, Test]], indent: int, found: re.Match) -> None:
    if open_tests[-1][0] == indent and open_tests[-1][1].name == found["name"]:
        test = open_tests.pop()[1]
    else:
        _close(open_tests, indent)
        test = Test(found["name"])
        parent = open_tests[-1][1]
        test.lines, parent.lines = parent.lines, []
        parent.children.append(test)
    test.note = found["note"] or ""
    if found["not"]:
        test.outcome = "failed"
    else:
        test.outcome = "skipped" if test.note.upper().startswith("SKIP") else "passed"
