# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What is checked after each test of a lab that is kept (tests/system/conftest.py), with labs that are not there."""

import importlib.util
import pathlib
import sys
import types

import pytest
from labkit import klog

SYSTEM = pathlib.Path(__file__).resolve().parent.parent / "system"
LINE = "[ 1.0] WARNING: CPU: 0 PID: 1 at net/core.c:7 expected+0x1\n"


@pytest.fixture(scope="module")
def system():
    """tests/system/conftest.py."""
    sys.path.insert(0, str(SYSTEM))
    try:
        spec = importlib.util.spec_from_file_location("system_conftest", SYSTEM / "conftest.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    finally:
        sys.path.remove(str(SYSTEM))


class Fake:
    """A keeper of a lab of one guest, which has this kernel log and this output of `rdma resource show`."""

    name, log, healthy = "g0", "", True
    shown = "0: cxgb3_0: pd 0 cq 0 qp 0 cm_id 0 mr 0 ctx 0"

    def __init__(self):
        self.guests, self.kept = [self], True

    def get(self):
        return self

    def drop(self):
        self.kept = False

    def end_commands(self):
        return []

    def check(self, _command):
        return self.shown

    run = property(lambda self: lambda _command: types.SimpleNamespace(stdout=self.shown))

    def new_trouble(self, allowed=()):
        return klog.trouble(self.log, allowed)


def after_test(system, lab, *marks, failed=False, last=False, **options):
    """What a fixture that lends the lab does around a test with these marks allow_log. last: with last_of_lab."""
    node = types.SimpleNamespace(
        iter_markers=lambda name: [types.SimpleNamespace(args=args) for args in marks if name == "allow_log"],
        get_closest_marker=lambda name: last if name == "last_of_lab" else None,
        failed=failed,
    )
    lending = system.lend(lab, types.SimpleNamespace(node=node), **options)
    next(lending)
    assert node.labs == [lab]
    for _ in lending:
        pytest.fail("a second lab")


@pytest.mark.parametrize("last", [False, True])
def test_a_lab_is_kept_unless_the_test_is_its_last(system, last):
    lab = Fake()
    after_test(system, lab, last=last)
    assert lab.kept is not last


@pytest.mark.parametrize("options", [{}, {"empty": True}])
def test_only_lines_that_the_test_allows_may_be_in_a_kernel_log(system, options):
    lab = Fake()
    lab.log = LINE
    after_test(system, lab, ("WARNING: .*expected", "the test causes it"), **options)
    assert lab.kept
    for marks in ((), (("WARNING: .*other", "another line"),)):
        with pytest.raises(pytest.fail.Exception, match="WARNING"):
            after_test(system, lab, *marks, **options)
        assert not lab.kept
        lab.kept = True


def test_no_object_may_be_left_if_the_fixture_requests_it(system):
    lab = Fake()
    lab.shown = "0: cxgb3_0: pd 1 cq 0 qp 0 cm_id 0 mr 0 ctx 0"
    after_test(system, lab)
    assert lab.kept
    with pytest.raises(pytest.fail.Exception, match="'pd': 1"):
        after_test(system, lab, empty=True)
    assert not lab.kept


def test_a_lab_in_which_a_failed_test_left_a_qp_is_not_used_again(system):
    lab = Fake()
    after_test(system, lab, failed=True)
    assert lab.kept
    lab.shown = "0: cxgb3_0: pd 1 cq 1 qp 1 cm_id 0 mr 0 ctx 1"
    after_test(system, lab, failed=True)
    assert not lab.kept
