# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every option of every tool in --help is in a test that runs the tool."""

import ast
import functools
import re

import pytest
from command_lines import TOOLS, options_of
from labkit import paths

# Calls in test functions that run a tool, beside its name.
RUNS = {"t3accept": ("accept(",), "t3doctor": ("doctor(", "expect("), "t3lab": ("t3lab(", "T3LAB")}
# C++ tests of command lines.
CPP = {"t3sim": ("tests/sim/rig/options_test.cc", "tests/sim/rig/program_test.cc", "tests/sim/trace/views_test.cc")}
OPTION = re.compile(r"(?<![\w-])--?[a-z][\w-]*")


@functools.cache
def functions(path):
    """The functions of a file of Python, decorators and all: source text, and the strings in it."""
    return list(_functions(path.read_text()))


def _functions(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            strings = [
                part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
            yield "\n".join(
                [ast.get_source_segment(source, node), *(ast.unparse(word) for word in node.decorator_list)]
            ), strings


def exercised(tool):
    found = set()
    for path in [*paths.REPO.glob("tests/system/test_*.py"), *paths.REPO.glob("tests/lab/test_*.py")]:
        if path.name in ("test_manuals.py", "test_options_are_tested.py"):
            continue
        for source, strings in functions(path):
            if re.search(rf"(?<![\w-]){tool}(?![\w-])", source) or any(run in source for run in RUNS.get(tool, ())):
                for text in strings:
                    found.update(OPTION.findall(text))
    for name in CPP.get(tool, ()):
        for text in re.findall(r'"((?:[^"\\]|\\.)*)"', (paths.REPO / name).read_text()):
            found.update(OPTION.findall(text))
    if tool == "t3lab":  # the test of the tutorial runs its commands
        found.update(
            option
            for line in re.findall(r"^tools/lab/t3lab.*", (paths.REPO / "docs/tutorial.md").read_text(), re.M)
            for option in OPTION.findall(line)
        )
    return found


@pytest.mark.parametrize("tool", TOOLS)
def test_every_option_is_in_a_test_that_runs_the_tool(tool):
    missing = options_of(tool) - exercised(tool)
    assert not missing, f"no test runs {tool} with {', '.join(sorted(missing))}"


def test_the_check_finds_missing_options():
    assert "--no-such-option" not in exercised("t3lab")
    assert "--json" not in exercised("t3lab") and "--json" in exercised("t3info")
