# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The folders of a module are layers: a file calls its own folder and those below it, and includes their headers. The
only calls upward are those of objects that are named here."""

import pathlib
import re
from dataclasses import dataclass

import pytest
from labkit import paths


@dataclass(frozen=True)
class Drawing:
    """The layers of a module."""

    module: str
    below: dict[str, set[str]]  # of each folder those that it calls, beside itself; "": files in none
    upward: set[str]  # objects that any file uses
    circles: list[set[str]]  # files that call each other


DRAWINGS = (
    Drawing(
        "iw_cxgb3",
        {"device": {"conn", "verbs", "card"}, "conn": {"verbs", "card"}, "verbs": {"card"}, "card": set()},
        {"t3_conn_ops", "t3_client"},  # iw_cxgb3.h
        [{"cm", "cpl", "debugfs", "ep", "listen"}],  # of conn: one engine for connections
    ),
    Drawing(
        "rdma_cm",
        {"": {"ucm", "iwarp", "roce", "core"}, "ucm": {"core"}, "iwarp": {"core"}, "roce": {"core"}, "core": set()},
        {"cm_iw_transport", "cm_roce_transport"},  # transport.h
        [
            {"ucm_context", "ucm_event", "ucm_group"},  # a context has events, which hold the contexts of requests
            {"iwpm", "iwpm_send"},  # a message takes as many mappings as it has space for
        ],
    ),
)


def code(path):
    """Without comments, strings, and the tags of types, which may be those of functions."""
    text = re.sub(r'/\*.*?\*/|"(?:\\.|[^"\\\n])*"', "", path.read_text(), flags=re.S)
    return re.sub(r"\b(?:struct|union|enum)\s+\w+", "struct", text)


def definitions(text):
    """Functions and objects that other files can name."""
    yield from re.findall(r"^(?!static\b)\w[\w\s*]*?\b(\w+)\([^;{]*?\)\s*\n\{", text, re.M)
    yield from re.findall(r"^(?!static\b|extern\b|typedef\b)(?:const )?\w[\w\s*]*\b(\w+)(?:\[\w*\])? = ", text, re.M)


class Module:
    """What the files of a module use of each other."""

    def __init__(self, drawing):
        self.drawing = drawing
        self.root = paths.REPO / "kernel" / drawing.module
        text = {path: code(path) for folder in drawing.below for path in sorted((self.root / folder).glob("*.c"))}
        self.owners = {name: path for path in text for name in definitions(text[path])}
        names = set(self.owners) - drawing.upward
        self.uses = {
            path: {
                name: self.owners[name]
                for name in set(re.findall(r"\b\w+\b", text[path])) & names
                if self.owners[name] != path
            }
            for path in text
        }

    def folder(self, path):
        return "" if path.parent == self.root else path.parent.name

    def circle_of(self, path):
        """The files that a file reaches and that reach it."""

        def reached(start):
            seen, left = set(), [start]
            while left:
                for used in set(self.uses[left.pop()].values()) - seen:
                    seen.add(used)
                    left.append(used)
            return seen

        return {other for other in reached(path) if path in reached(other)}


MODULES = {drawing.module: Module(drawing) for drawing in DRAWINGS}
FILES = [(module, path) for module in MODULES.values() for path in module.uses]


def name_of(value):
    return str(value.relative_to(paths.REPO / "kernel")) if isinstance(value, pathlib.Path) else ""


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_the_drawing_has_each_folder_and_object(module):
    assert {module.folder(path) for path in module.root.rglob("*.c")} - {""} == set(module.drawing.below) - {""}
    assert module.drawing.upward <= set(module.owners)
    assert len(module.owners) > 100


@pytest.mark.parametrize("module, path", FILES, ids=name_of)
def test_a_file_calls_its_own_layer_and_those_below(module, path):
    folder = module.folder(path)
    allowed = {folder} | module.drawing.below.get(folder, set())
    assert {name for name, owner in module.uses[path].items() if module.folder(owner) not in allowed} == set()


@pytest.mark.parametrize("module", MODULES.values(), ids=MODULES)
def test_a_file_includes_headers_of_its_own_layer_and_of_those_below(module):
    headers = {path.name: module.folder(path) for path in module.root.rglob("*.h")}
    upward = {
        f"{module.folder(path)}/{path.name}: {name}"
        for folder, below in module.drawing.below.items()
        if folder  # files without a folder have what all need
        for path in (module.root / folder).glob("*.[ch]")
        for name in re.findall(r'^#include "(.*)"', path.read_text(), re.M)
        if headers.get(name, "") not in {"", folder} | below
    }
    assert upward == set()


@pytest.mark.parametrize("module, path", FILES, ids=name_of)
def test_only_files_of_a_drawn_circle_call_each_other(module, path):
    circle = next((circle for circle in module.drawing.circles if path.stem in circle), set())
    assert {other.stem for other in module.circle_of(path)} == circle
