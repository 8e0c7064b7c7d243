# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/known-bugs.md tells the truth: every row is there, and the tests that it names exist and bear its id."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [f"{part}{n}" for part, last in (("A", 22), ("X", 20), ("B", 20), ("E", 16)) for n in range(1, last + 1)]
WHY_NOT = re.compile(r"not here|nothing to test")


def rows():
    """{id: last cell}"""
    text = (ROOT / "docs/known-bugs.md").read_text()
    return {cells[1].strip(): cells[3] for cells in (line.split("|") for line in text.splitlines())
            if len(cells) == 5 and re.fullmatch(r"\s*[A-Z]\d+\s*", cells[1])}


def named_tests(cell):
    """Files and tests that a cell names, as (path below tests/, name or None)."""
    return [(path, name or None) for path, name in re.findall(r"`([\w/]+\.(?:py|cc|c))(?:::([\w.]+))?`", cell) if "/" in path]


def bears(text, bug):
    """Test names are words of a piece each: A4_A17_objects."""
    return re.search(rf"(?<![A-Za-z0-9]){bug}(?![0-9])", text) is not None


def source_of(path, name):
    """The named test with the comments and decorators directly above it; empty if there is none."""
    lines = path.read_text().splitlines()
    if path.suffix == ".py":
        head = re.compile(rf"def {name}\(")
        part = re.compile(r"\s*(#|@|pytest\.param|\]\))")  # decorators may have several lines
    else:
        suite, case = name.split(".")
        head = re.compile(rf"TEST(_F|_P)?\({suite}, {case}\)")
        part = re.compile(r"//")
    for first, line in enumerate(lines):
        if head.match(line):
            break
    else:
        return ""
    start = first
    while start and part.match(lines[start - 1]):
        start -= 1
    end = next((n for n in range(first + 1, len(lines)) if re.match(r"(def|class|@|#|TEST|//|\}$)", lines[n])), len(lines))
    return "\n".join(lines[start:end])


def test_every_row_is_there_once():
    assert list(rows()) == ROWS


@pytest.mark.parametrize("bug", ROWS)
def test_row_names_tests_that_bear_its_id_or_says_why_not(bug):
    cell = rows()[bug]
    tests = named_tests(cell)
    assert tests or WHY_NOT.search(cell), f"{bug} has neither a test nor a reason"
    for path, name in tests:
        file = ROOT / "tests" / path
        assert file.is_file(), f"{bug}: there is no tests/{path}"
        text = source_of(file, name) if name else file.read_text()
        assert text, f"{bug}: there is no {name} in tests/{path}"
        if not WHY_NOT.search(cell):
            assert bears(text, bug), f"{bug}: {path}::{name} does not bear the id"
