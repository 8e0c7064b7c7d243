# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The parser of KUnit's results, with logs that are inconsistent in all possible ways."""
import pytest
from labkit import ktap

GOOD = """\
[    3.100000] ep_kunit: loading out-of-tree module taints kernel.
[    3.200000]     KTAP version 1
[    3.200001]     # Subtest: suite
[    3.200002]     1..3
[    3.200003]     ok 1 first
[    3.200004]         KTAP version 1
[    3.200005]         # Subtest: second
[    3.200006]         ok 1 idle
[    3.200007]         ok 2 fpdu: with a colon
[    3.200008]     # second: pass:2 fail:0 skip:0 total:2
[    3.200009]     ok 2 second
[    3.200010] random: crng init done
[    3.200011]     ok 3 third # SKIP no card
[    3.200012] # suite: pass:2 fail:0 skip:1 total:3
[    3.200013] ok 1 suite
"""


def outcomes(log):
    found = {}
    for suite in ktap.parse(log):
        for name, test in suite.leaves():
            found[name] = "; ".join(test.faults()) or test.outcome
    return found


def test_a_good_log_is_counted():
    assert outcomes(GOOD) == {
        "suite.first": "passed",
        "suite.second.idle": "passed",
        "suite.second.fpdu: with a colon": "passed",
        "suite.third": "skipped",
    }


def test_two_suites_after_each_other():
    assert len(ktap.parse(GOOD + GOOD.replace("suite", "other"))) == 2


def test_a_failure_has_the_lines_that_explain_it():
    log = GOOD.replace(
        "    ok 1 first", "    # first: EXPECTATION FAILED at x.c:7\\x0a    Expected a == b\n    not ok 1 first"
    ).replace("] ok 1 suite", "] not ok 1 suite")
    (suite,) = ktap.parse(log)
    (first,) = [test for name, test in suite.leaves() if name == "suite.first"]
    assert first.outcome == "failed" and first.lines == ["# first: EXPECTATION FAILED at x.c:7", "    Expected a == b"]
    assert suite.outcome == "failed"


@pytest.mark.parametrize("line, name", [("    ok 1 first", "suite.first"), ("ok 1 idle", "suite.second.idle")])
def test_not_ok_is_a_failure(line, name):
    assert outcomes(GOOD.replace(line, line.replace("ok", "not ok")))[name] == "not ok"


def test_an_ok_above_a_failure_is_a_failure():
    log = GOOD.replace("ok 2 fpdu", "not ok 2 fpdu")
    assert outcomes(log)["suite.second"] == "ok, but a test in it failed"


def test_fewer_tests_than_planned_are_a_failure():
    log = GOOD.replace("[    3.200003]     ok 1 first\n", "")
    assert "3 tests were announced, 2 reported" in outcomes(log)["suite"]


@pytest.mark.parametrize("last", ["1..3", "ok 1 first", "ok 1 idle", "ok 2 second", "SKIP no card"])
def test_a_truncated_log_is_a_failure(last):
    log = GOOD[: GOOD.index(last) + len(last)] + "\n"
    assert "it did not end" in outcomes(log)["suite"]


def test_a_case_that_is_reported_twice_is_a_failure():
    log = GOOD.replace("    ok 3 third # SKIP no card", "    ok 3 first")
    assert "same name" in outcomes(log)["suite"]


def test_a_log_without_a_suite_has_none():
    assert ktap.parse("[ 1.0] random: crng init done\n") == []
