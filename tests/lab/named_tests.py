# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Tests that a page of docs/ names, as `system/test_rping.py::test_rounds` or `sim/tcp/traps_test.cc::TcpTrap.Name`."""

import pathlib
import re

TESTS = pathlib.Path(__file__).resolve().parents[1]


def named_tests(cell):
    """Files and tests that a cell of a table names, as (path below tests/, name or None)."""
    return [
        (path, name or None)
        for path, name in re.findall(r"`([\w/]+\.(?:py|cc|c))(?:::([\w.]+))?`", cell)
        if "/" in path
    ]


def source_of(path, name):
    """The named test with the comments and decorators directly above it; empty if there is none."""
    lines = path.read_text().splitlines()
    if path.suffix == ".py":
        head = re.compile(rf"def {name}\(")
        part = re.compile(r".*\S")  # up to an empty line: decorators may have several lines
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
    end = next(
        (n for n in range(first + 1, len(lines)) if re.match(r"(def|class|@|#|TEST|//|\}$)", lines[n])), len(lines)
    )
    return "\n".join(lines[start:end])


def existing(cell):
    """Sources of all tests that a cell names, by path::name; fails if one does not exist."""
    found = {}
    for path, name in named_tests(cell):
        file = TESTS / path
        assert file.is_file(), f"there is no tests/{path}"
        found[f"{path}::{name}" if name else path] = text = source_of(file, name) if name else file.read_text()
        assert text, f"there is no {name} in tests/{path}"
    return found
