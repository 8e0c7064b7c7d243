# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The folders of iw_cxgb3 are layers: a file calls its own folder and those below it. The only calls upward are those
of two objects, which iw_cxgb3.h names."""

import re

import pytest
from labkit import paths

DRIVER = paths.REPO / "kernel/iw_cxgb3"
LAYERS = ("device", "conn", "verbs", "card")  # from top to bottom
UPWARD = {"t3_conn_ops", "t3_client"}
CIRCLE = {"cm", "cpl", "debugfs", "ep", "listen"}  # of conn: one engine for connections


def code(path):
    """Without comments and strings."""
    return re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(), flags=re.S)


CODE = {path: code(path) for layer in LAYERS for path in sorted((DRIVER / layer).glob("*.c"))}


def definitions(text):
    """Functions and objects that other files can name."""
    yield from re.findall(r"^(?!static\b)\w[\w\s*]*?\b(\w+)\([^;{]*?\)\s*\n\{", text, re.M)
    yield from re.findall(r"^(?!static\b|extern\b|typedef\b)(?:const )?\w[\w\s*]*\b(\w+)(?:\[\w*\])? = ", text, re.M)


OWNERS = {name: path for path, text in CODE.items() for name in definitions(text)}
USES = {
    path: {
        name: OWNERS[name] for name in set(re.findall(r"\b\w+\b", text)) & set(OWNERS) - UPWARD if OWNERS[name] != path
    }
    for path, text in CODE.items()
}


def circle_of(path):
    """The files that a file reaches and that reach it."""

    def reached(start):
        seen, left = set(), [start]
        while left:
            for used in set(USES[left.pop()].values()) - seen:
                seen.add(used)
                left.append(used)
        return seen

    return {other for other in reached(path) if path in reached(other)}


def test_each_object_of_the_border_exists():
    assert UPWARD <= set(OWNERS)
    assert len(OWNERS) > 200


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(DRIVER)))
def test_a_file_calls_its_own_layer_and_those_below(path):
    below = LAYERS[LAYERS.index(path.parent.name) :]
    assert {name for name, owner in USES[path].items() if owner.parent.name not in below} == set()


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(DRIVER)))
def test_only_connections_call_each_other_in_a_circle(path):
    names = {other.stem for other in circle_of(path)}
    assert names == (CIRCLE if path.stem in CIRCLE else set())
