# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The points of kernel/include/t3_race_point.h are for one build only."""

import re
import subprocess

from labkit import paths

POINT = re.compile(r"\bT3_RACE_POINT\((\w+)\)")
HOOK = "t3_race_point"


def sources():
    return [path for path in (paths.REPO / "kernel").rglob("*.[ch]") if path.name != "t3_race_point.h"]


def test_each_point_has_a_name_of_its_own():
    names = [name for path in sources() for name in POINT.findall(path.read_text())]
    assert len(names) > 150
    assert sorted(names) == sorted(set(names))


def test_only_one_build_has_points():
    tracked = subprocess.run(["git", "grep", "-l", "DT3_RACE_POINTS"], cwd=paths.REPO, capture_output=True, text=True, check=True).stdout.split()
    code = {name for name in tracked if not name.endswith((".md", ".h", ".c"))}
    assert code - {"tests/lab/test_races.py"} == {"tools/lab/labkit/build.py"}


def test_no_module_that_was_built_for_use_has_the_hook():
    """Whatever the last builds for guests have left in modules/."""
    for module in paths.guest_build("bookworm").parent.rglob("modules/*.ko"):
        assert HOOK.encode() not in module.read_bytes(), module
