# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/known-bugs.md tells the truth: every row is there, and the tests that it names exist and bear its id."""

import pathlib
import re

import pytest
from named_tests import existing

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [f"{part}{n}" for part, last in (("A", 22), ("X", 20), ("B", 20), ("C", 24), ("D", 19), ("E", 16)) for n in range(1, last + 1)]
WHY_NOT = re.compile(r"not here|nothing to test")


def rows():
    """{id: last cell}"""
    text = (ROOT / "docs/known-bugs.md").read_text()
    return {cells[1].strip(): cells[3] for cells in (line.split("|") for line in text.splitlines())
            if len(cells) == 5 and re.fullmatch(r"\s*[A-Z]\d+\s*", cells[1])}


def bears(text, bug):
    """Test names are words of a piece each: A4_A17_objects."""
    return re.search(rf"(?<![A-Za-z0-9]){bug}(?![0-9])", text) is not None


def test_every_row_is_there_once():
    assert list(rows()) == ROWS


@pytest.mark.parametrize("bug", ROWS)
def test_row_names_tests_that_bear_its_id_or_says_why_not(bug):
    cell = rows()[bug]
    tests = existing(cell)
    assert tests or WHY_NOT.search(cell), f"{bug} has neither a test nor a reason"
    for name, text in tests.items():
        if not WHY_NOT.search(cell):
            assert bears(text, bug), f"{bug}: {name} does not bear the id"
