# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/known-bugs.md is correct: every row exists, and its tests exist and have its id."""

import pathlib
import re

import pytest
from named_tests import existing

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROWS = [
    f"{part}{n}"
    for part, last in (("A", 22), ("X", 20), ("B", 20), ("C", 24), ("D", 19), ("E", 16))
    for n in range(1, last + 1)
]
WHY_NOT = re.compile(r"not here|nothing to test")


def rows():
    """{id: last cell}"""
    text = (ROOT / "docs/known-bugs.md").read_text()
    return {
        cells[1].strip(): cells[3]
        for cells in (line.split("|") for line in text.splitlines())
        if len(cells) == 5 and re.fullmatch(r"\s*[A-Z]\d+\s*", cells[1])
    }


def has_id(text, bug):
    """Whether a test has an id in its name or comments, such as A4_A17_objects."""
    return re.search(rf"(?<![A-Za-z0-9]){bug}(?![0-9])", text) is not None


def test_every_row_exists_once():
    assert list(rows()) == ROWS


@pytest.mark.parametrize("bug", ROWS)
def test_each_row_has_tests_with_its_id_or_a_reason(bug):
    cell = rows()[bug]
    tests = existing(cell)
    assert tests or WHY_NOT.search(cell), f"{bug} has neither a test nor a reason"
    for name, text in tests.items():
        if not WHY_NOT.search(cell):
            assert has_id(text, bug), f"{bug}: {name} does not have the id"
