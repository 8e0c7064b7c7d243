# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""System tests in guests with cards. See tests/README.md.

A test that takes `pair` gets a lab of two guests with a card each and both ports wired; it is started once and shared,
and replaced after a test that left it unusable. A test that needs another lab creates it with `make_lab`. After each
test the kernel logs are checked.
"""

import dataclasses
import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/lab"))

import matrix  # noqa: E402
import steps  # noqa: E402
import wires  # noqa: E402
from stock import objects  # noqa: E402
from labkit import Lab, LabError, build, klog  # noqa: E402
from labkit.machine import Machine  # noqa: E402


def pytest_addoption(parser):
    group = parser.getgroup("t3rdma")
    group.addoption("--suite", default="bookworm", help="Debian release of the guests (default: bookworm)")
    group.addoption(
        "--load",
        default="rdma",
        help="stack of the guests of `pair` and `make_lab`, see labkit/stack.py (default: rdma)",
    )
    group.addoption(
        "--kernel", help="run the guests with a kernel of the project, see `t3lab image --help` (default: Debian's)"
    )
    group.addoption(
        "--append", default="", metavar="ARGUMENTS", help="arguments of the guests' kernels, for example swiotlb=force"
    )
    group.addoption("--long", action="store_true", help="also the long runs")
    wires.add_options(group)
    group.addoption("--no-build", action="store_true", help="use build/guest without building")


def pytest_configure(config):
    if worker := os.environ.get("PYTEST_XDIST_WORKER"):  # whose labs are none of the other workers
        os.environ["T3LAB_AREA"] = f"{os.environ.get('T3LAB_AREA', 'system')}/{worker}"
    config.pluginmanager.register(matrix, "matrix")
    config.pluginmanager.register(steps, "steps")
    config.pluginmanager.register(wires, "wires")
    config.addinivalue_line("markers", "long: takes minutes; runs with --long only")
    config.addinivalue_line("markers", "debug: needs the debug kernel (--kernel debug)")
    config.addinivalue_line("markers", "last_of_lab: no other test uses this lab afterwards")
    config.addinivalue_line("markers", "allow_log(pattern, why): a line in a kernel log that this test provokes")


def pytest_collection_modifyitems(config, items):
    items.sort(key=lambda item: -item.path.stat().st_size)  # the workers of a run get long files first
    if not config.getoption("--long"):
        for item in items:
            if item.get_closest_marker("long"):
                item.add_marker(pytest.mark.skip(reason="a long run: needs --long"))
    if config.getoption("--kernel") != "debug":
        items[:] = [item for item in items if not item.get_closest_marker("debug")]


class Keeper:
    """Keeps one lab for many tests."""

    ATTEMPTS = 2  # failed boots in a row, after which no further one is tried

    def __init__(self, **options):
        self._options = options
        self._lab = None
        self._failures = []
        self._made = None

    def get(self):
        if self._lab and not self._lab.healthy:
            self.drop()
        if not self._lab:
            if len(self._failures) == self.ATTEMPTS:
                pytest.fail(
                    f"the lab did not start {self.ATTEMPTS} times; the last time: {self._failures[-1]}", pytrace=False
                )
            try:
                self._lab = Lab(**self._options).__enter__()
            except LabError as error:
                self._failures.append(error)
                raise
            self._failures = []
        return self._lab

    def made(self, make):
        """What make(lab) returned for the lab that runs: what a module stores about it."""
        lab = self.get()
        if not self._made or self._made[0] is not lab:
            self._made = lab, make(lab)
        return self._made[1]

    def leaks(self):
        """Memory that the kernels of the running lab leaked, by kmemleak."""
        return self._lab.leaks() if self._lab and self._lab.healthy else ""

    def drop(self):
        if self._lab:
            self._lab.end()
        self._lab = None


def _keep(keeper):
    """A keeper for the time of a fixture; at its end no memory may be leaked."""
    yield keeper
    leaks = keeper.leaks()
    keeper.drop()
    if leaks:
        pytest.fail(f"leaked memory after all tests:\n{leaks}", pytrace=False)


@pytest.fixture(scope="session")
def suite(pytestconfig):
    """The guests' Debian release, after everything is built for it."""
    name = pytestconfig.getoption("--suite")
    if not pytestconfig.getoption("--no-build"):
        build.everything(name, pytestconfig.getoption("--kernel"))
    return name


@pytest.fixture(scope="session")
def kernel(pytestconfig):
    """The project's kernel that guests run, None: Debian's."""
    return pytestconfig.getoption("--kernel")


@pytest.fixture(scope="session")
def _appended(pytestconfig):
    """A function that adds the kernel arguments of the command line to a machine."""
    append = pytestconfig.getoption("--append")
    return lambda machine: dataclasses.replace(machine, arguments=f"{machine.arguments} {append}".strip())


@pytest.fixture(scope="session")
def _pair_keeper(suite, kernel, pytestconfig, _appended):
    yield from _keep(
        Keeper(
            guests=2,
            suite=suite,
            kernel=kernel,
            name="pair",
            load=pytestconfig.getoption("--load"),
            machine=_appended(Machine()),
        )
    )


def allowed_log(request):
    return [klog.Allowed(*mark.args) for mark in request.node.iter_markers("allow_log")]


def _check(lab, request):
    """Fails unless all guests run, their kernel logs have no errors, and all commands could be killed."""
    allowed = allowed_log(request)
    trouble = []
    for guest in lab.guests:
        try:
            guest.end_commands()
        except LabError as error:
            trouble.append(str(error))
    trouble.append(lab.new_trouble(allowed))
    if any(trouble):
        pytest.fail("after the test:\n" + "\n".join(filter(None, trouble)), pytrace=False)


def lend(keeper, request, *, empty=False):
    """A kept lab for one test; for fixtures: `yield from lend(keeper, request)`. empty: the test may leave no RDMA
    object in the guests."""
    lab = keeper.get()
    request.node.labs = [lab]
    yield lab
    failed = getattr(request.node, "failed", False)
    try:
        _check(lab, request)
        left = {guest.name: objects(guest) for guest in lab.guests} if empty else {}
        if any(count for counts in left.values() for count in counts.values()):
            pytest.fail(f"objects after the test: {left}", pytrace=False)
    except BaseException:
        keeper.drop()
        raise
    if request.node.get_closest_marker("last_of_lab") or (failed and not _idle(lab)):
        keeper.drop()


def lend_made(keeper, request, make):
    """The same with what make(lab) returned, see Keeper.made(), instead of the lab."""
    lending = lend(keeper, request)
    next(lending)
    yield keeper.made(make)
    yield from lending


@pytest.fixture
def pair(request, _pair_keeper):
    """The shared lab: two guests, one card each, port 0 to port 0 and port 1 to port 1."""
    yield from lend(_pair_keeper, request)


@pytest.fixture(scope="module")
def _t3cm_keeper(suite, kernel, _appended):
    yield from _keep(
        Keeper(guests=2, suite=suite, kernel=kernel, name="t3cm", load="rdma-t3cm", machine=_appended(Machine()))
    )


@pytest.fixture
def t3cm(request, _t3cm_keeper):
    """The same with our connection manager."""
    yield from lend(_t3cm_keeper, request)


@pytest.fixture(scope="session")
def _t3uverbs_keeper(suite, _appended):
    keeper = Keeper(guests=2, suite=suite, name="uverbs", load="rdma-t3uverbs", machine=_appended(Machine()))
    yield keeper
    keeper.drop()


@pytest.fixture
def t3uverbs(request, _t3uverbs_keeper):
    """The same with both dispatchers, ours first; no object may be left."""
    yield from lend(_t3uverbs_keeper, request, empty=True)


def _idle(lab):
    """Whether a failed test left no QP in the guests."""
    try:
        return all("qp 0" in guest.run("rdma resource show").stdout for guest in lab.guests)
    except LabError:
        return False


@pytest.fixture
def make_lab(request, suite, kernel, pytestconfig, _appended):
    """Creates labs for one test: make_lab(guests=1, cards=2)."""
    request.node.labs = labs = []

    def make(**options):
        machine = _appended(options.pop("machine", Machine()))
        lab = Lab(
            **{"suite": suite, "kernel": kernel, "name": "own", "load": pytestconfig.getoption("--load"), **options},
            machine=machine,
        )
        labs.append(lab.__enter__())
        return lab

    yield make
    try:
        for lab in labs:
            _check(lab, request)
    finally:
        for lab in labs:
            lab.end()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the logs of its labs to the report of a failed test."""
    report = (yield).get_result()
    if report.failed:
        item.failed = True
        for lab in getattr(item, "labs", []):
            report.sections.append((f"logs of lab {lab.name}", lab.report()))
