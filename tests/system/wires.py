# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Captures of the wires during a test, checked with tshark.

With --captures DIR every test is captured from start to end, unless it is marked `uncaptured`, in all running labs and
in those that it creates. The captures are kept in DIR/TEST/LAB. Tests marked `wire` are captured also without that
option, in build/captures, where only the captures of failed tests are kept. An error that wirecheck finds fails the
test, unless it is marked allow_wire(pattern, why).
"""

import contextlib
import re
import shutil
from pathlib import Path

import pytest
from labkit import Lab, LabError, paths, wirecheck

EMPTY = 1024  # a capture with fewer bytes has no relevant frame


class WireCapture:
    """Captures during one test."""

    def __init__(self, folder: Path, keep: bool):
        self._folder = folder
        self._keep = keep
        self._running = contextlib.ExitStack()
        shutil.rmtree(folder, ignore_errors=True)

    def begin(self) -> None:
        for lab in list(Lab.running):
            if lab.sim and lab.healthy and not lab.capture:
                self._running.enter_context(lab.sim.capturing(self._folder / lab.name))
        Lab.capture_all = self._folder

    def end(self, allowed) -> str:
        """Stops and checks the captures; returns the errors, or an empty string."""
        Lab.capture_all = None
        with contextlib.suppress(LabError):  # the test has ended a lab, or captured by itself
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
    group.addoption(
        "--captures", type=Path, metavar="DIR", help="capture the wires of every test there, and check them"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "wire: the wires are captured and checked also without --captures")
    config.addinivalue_line("markers", "allow_wire(pattern, why): an error on a wire that this test provokes")
    config.addinivalue_line(
        "markers",
        "uncaptured: never captured, because the traffic is too much, or the capture's cost changes the result",
    )


@pytest.fixture(autouse=True)
def _wires(request):
    """The first of all fixtures, so that it ends after the test's own labs."""
    kept = request.config.getoption("--captures")
    if request.node.get_closest_marker("uncaptured") or (not kept and not request.node.get_closest_marker("wire")):
        yield
        return
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", request.node.nodeid.rpartition("/")[2]).strip("-")
    request.node.capture = capture = WireCapture((kept or paths.REPO / "build/captures") / name, keep=bool(kept))
    yield
    wrong = capture.end([mark.args[0] for mark in request.node.iter_markers("allow_wire")])
    if wrong:
        pytest.fail(f"on the wires:\n{wrong}", pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """After all fixtures, whose traffic is not captured."""
    if capture := getattr(item, "capture", None):
        capture.begin()
