# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Each folder of sim includes only what "May use:" of its README names, and README names nothing that it
does not use."""

import re

import pytest
from labkit import paths

SIM = paths.REPO / "sim"
FOLDERS = sorted({path.parent for path in SIM.rglob("*.hh")})


def name(path):
    return str(path.relative_to(paths.REPO))


def may_use(folder):
    paragraph = re.search(r"^May use: (.*?)(?:\n\n|\Z)", (folder / "README.md").read_text(), re.M | re.S)
    assert paragraph, f"{name(folder)}/README.md has no paragraph 'May use:'"
    return re.findall(r"`([^`]+)`", paragraph[1])


def includes(folder):
    """(file, included file) for all files of the folder."""
    for path in sorted(folder.iterdir()):
        if path.suffix in {".cc", ".hh", ".def"}:
            for target in re.findall(r'^ *#include "([^"]+)"', path.read_text(), re.M):
                yield path, target


def allowed(target, folder, uses):
    """A rule is a file, or a folder without its subfolders. A folder with subfolders, such as sim/card, sees all of
    them."""
    parent = target.rpartition("/")[0]
    return target in uses or parent in uses or (parent + "/").startswith(name(folder) + "/")


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_folder_includes_only_what_its_readme_names(folder):
    uses = may_use(folder)
    for path, target in includes(folder):
        assert allowed(
            target, folder, uses
        ), f"{name(path)} includes {target}, which {name(folder)}/README.md does not name"


@pytest.mark.parametrize("folder", FOLDERS, ids=name)
def test_a_readme_names_only_what_its_folder_includes(folder):
    used = {part for _, target in includes(folder) for part in (target, target.rpartition("/")[0])}
    assert set(may_use(folder)) <= used


def test_no_folder_uses_another_one_that_uses_it():
    """Without cycles there is an order in which the folders can be read."""
    graph = {
        name(folder): {target.rpartition("/")[0] for _, target in includes(folder)} - {name(folder)}
        for folder in FOLDERS
    }
    # engines.hh is the border of the engines. It includes nothing of the card.
    for folder in graph:
        if folder.startswith("sim/card/"):
            graph[folder].discard("sim/card")
    assert not [
        target for path, target in includes(SIM / "card") if path.name == "engines.hh" and target.startswith("sim/card")
    ]
    while graph:
        free = [folder for folder, uses in graph.items() if not uses & set(graph)]
        assert free, graph
        for folder in free:
            del graph[folder]
