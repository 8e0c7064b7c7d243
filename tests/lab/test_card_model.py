# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/card-model.md: each row names a known party that confirms it and existing tests. The guesses of docs/hw are
those of the code."""

import pathlib
import re

import pytest
from named_tests import existing, named_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/card-model.md").read_text()
RULES = re.search(r"^## 1 .*?^## 2 ", (ROOT / "docs/hw/open-questions.md").read_text(), re.M | re.S)[0]
PARTIES = {"cxgb3.ko", "siw", "Linux TCP", "tshark", "RFC text", "none"}
LINUX_PEER = {"sim/tcp/linux_test.cc", "sim/toe/linux_peer_test.cc", "sim/toe/linux_wire_test.cc"}
TABLE_HEAD = "| Behaviour | Source of the fact | Confirmed by | Tests |"


def rows():
    """The rows of all such tables: (behaviour, source, parties, tests)."""
    found = []
    inside = False
    for line in PAGE.splitlines():
        inside = line == TABLE_HEAD or (inside and line.startswith("|"))
        if inside and line != TABLE_HEAD and not line.startswith("|---"):
            found.append(tuple(cell.strip() for cell in line.strip("|").split("|")))
    return found


def test_there_is_a_table_for_each_part():
    assert PAGE.count(TABLE_HEAD) >= 3
    assert len(rows()) > 30


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_row_names_its_source_a_known_party_and_tests_that_exist(row):
    assert len(row) == 4 and all(row)
    _, _, parties, tests = row
    assert set(parties.split(", ")) <= PARTIES
    assert parties == "none" or "none" not in parties
    assert existing(tests)


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_a_driver_or_a_peer_confirms_in_a_test_that_runs_it(row):
    """A NIC driver or siw runs in guests only, tshark reads captures of guests or of the TAP, a Linux socket is in
    either."""
    _, _, parties, tests = row
    paths = {path for path, _ in named_tests(tests)}
    if {"cxgb3.ko", "siw"} & set(parties.split(", ")):
        assert any(path.startswith("system/") for path in paths)
    if {"tshark", "Linux TCP"} & set(parties.split(", ")):
        assert any(path.startswith("system/") or path in LINUX_PEER for path in paths)


def guesses(text):
    return {int(number) for number in re.findall(r"\bG(\d+)\b", text)}


def test_guesses_are_marked_in_the_code_and_have_a_row_in_the_manual():
    marked = set()
    for path in [*ROOT.glob("sim/**/*.cc"), *ROOT.glob("sim/**/*.hh")]:
        for mark in re.findall(r"\[guess ([^\]]*)\]", path.read_text()):
            marked |= guesses(mark)
    listed = [int(number) for number in re.findall(r"^\| (\d+) \|", RULES, re.M)]
    assert len(listed) == len(set(listed))
    assert marked - set(listed) == set(), "marked in sim/, not listed in docs/hw/open-questions.md"
    assert set(listed) - marked == set(), "listed in docs/hw/open-questions.md, not marked in sim/"
    assert guesses(PAGE) <= set(listed)
