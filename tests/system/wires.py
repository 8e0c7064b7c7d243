# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a test has put on the wires, in the eyes of tshark.

With --captures DIR every test is captured, from its first line to its last: all labs that live then, and those that it makes. Its
captures stay in DIR/TEST/LAB. The same is done without that option for tests marked `wire`, in build/captures, where only the
captures of failed tests stay. What wirecheck finds in them fails the test, unless it is marked allow_wire(pattern, why).
"""

import contextlib
import re
import shutil
from pathlib import Path

import pytest
from labkit import Lab, LabError, paths, wirecheck

EMPTY = 1024  # a capture with fewer bytes holds no frame that matters


class Witness:
    """Captures during one test."""

    def __init__(self, folder: Path, keep: bool):
        self._folder = folder
        self._keep = keep
        self._running = contextlib.ExitStack()
        shutil.rmtree(folder, ignore_errors=True)

    def begin(self) -> None:
        for lab in list(Lab.living):
            if lab.sim and lab.healthy and not lab.capture:
                self._running.enter_context(lab.sim.capturing(self._folder / lab.name))
        Lab.capture_all = self._folder

    def end(self, allowed) -> str:
        """What is wrong; empty: nothing."""
        Lab.capture_all = None
        with contextlib.suppress(LabError):  # the test has ended a lab, or made a capture of its own
            self._running.close()
        wrong = []
        for path in sorted(self._folder.glob("**/*.pcapng")):
            if path.stat().st_size >= EMPTY:
                try:
                    wirecheck.check(path, connections=0, allowed=allowed)
                except wirecheck.WireError as error:
                    wrong.append(str(error))
        if not wrong and not self._keep:
            shutil.rmtree(self._folder, ignore_errors=True)
        return "\n".join(wrong)


def add_options(group):
    group.addoption("--captures", type=Path, metavar="DIR", help="capture the wires of every test there, and check them")


def pytest_configure(config):
    config.addinivalue_line("markers", "wire: the wires are captured and checked whether --captures is given or not")
    config.addinivalue_line("markers", "allow_wire(pattern, why): something wrong on a wire that this test provokes")


@pytest.fixture(autouse=True)
def _wires(request):
    """First of all fixtures, so that its end comes when all labs of the test's own have ended."""
    kept = request.config.getoption("--captures")
    if not kept and not request.node.get_closest_marker("wire"):
        yield
        return
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.nodeid.rpartition("/")[2]).strip("-")
    request.node.witness = witness = Witness((kept or paths.REPO / "build/captures") / name, keep=bool(kept))
    yield
    wrong = witness.end([mark.args[0] for mark in request.node.iter_markers("allow_wire")])
    if wrong:
        pytest.fail(f"on the wires:\n{wrong}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """When all fixtures are there: their traffic is none of the test's."""
    if witness := getattr(item, "witness", None):
        witness.begin()
