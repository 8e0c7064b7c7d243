# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Results of the kernel's driver tests: tests/netdev/results.py, and the list of what a T3 lacks."""

import argparse
import json
import sys

import loading
import pytest
from labkit import LabError, image, paths, selftests

sys.path.insert(0, str(paths.REPO / "tests/netdev"))

import results  # noqa: E402
from results import FAIL, PASS, SKIP, Expected, Outcome, Result  # noqa: E402

KTAP = """\
TAP version 13
1..5
ok 1 some.works
# Check| At /opt/selftests/some.py, line 7, in fails:
# Check|     ksft_eq(a, b)
# Check failed 1 != 2 of the queue
not ok 2 some.fails
# Exception| Traceback (most recent call last):
# Exception|   File "some.py", line 3, in raises
# Exception| net.lib.py.utils.CmdExitFailure: Command failed
# Exception| CMD: ethtool -L eth0
# Exception|   EXIT: 1
# Exception|   STDERR: netlink error: Operation not supported
not ok 3 some.raises.v4_one
ok 4 some.cannot # SKIP no such queue
ok 5 some.only_there # XFAIL Test only works on netdevsim
# Totals: pass:1 fail:2 xfail:1 xpass:0 skip:1 error:0
"""

SHELL = """\
TEST: force of same speed autoneg off                               [ OK ]
TEST: autoneg                                                       [FAIL]
\tExpected "Autoneg", got ""
TEST: No cable                                                      [SKIP]
"""


def parsed(text, status=1, program="some.py"):
    lines = [(10.0 + at, line) for at, line in enumerate(text.splitlines(), 1)]
    return results.parse(program, lines, status, 10.0)


def rows(found):
    return [(result.name, result.outcome, result.reason) for result in found]


def test_each_subtest_of_ktap_is_a_result():
    assert rows(parsed(KTAP)) == [
        ("some.py:works", PASS, ""),
        ("some.py:fails", FAIL, "Check failed 1 != 2 of the queue"),
        (
            "some.py:raises.v4_one",
            FAIL,
            "net.lib.py.utils.CmdExitFailure: Command failed; CMD: ethtool -L eth0;"
            " STDERR: netlink error: Operation not supported",
        ),
        ("some.py:cannot", SKIP, "no such queue"),
        ("some.py:only_there", SKIP, "Test only works on netdevsim"),
    ]


def test_the_time_of_a_subtest_is_that_between_results():
    assert [result.seconds for result in parsed(KTAP)] == [3.0, 4.0, 7.0, 1.0, 1.0]


def test_subtests_of_shell_scripts_are_results():
    assert rows(parsed(SHELL, program="ethtool.sh")) == [
        ("ethtool.sh:force of same speed autoneg off", PASS, ""),
        ("ethtool.sh:autoneg", FAIL, 'Expected "Autoneg", got ""'),
        ("ethtool.sh:No cable", SKIP, "SKIP"),
    ]


def test_a_shell_script_may_skip_itself_with_a_result():
    text = "TEST: SKIP: dev eth0 does not support loopback feature              [ OK ]\n"
    assert rows(parsed(text, 4, "loopback.sh")) == [("loopback.sh", SKIP, "dev eth0 does not support loopback feature")]


def test_missing_results_are_a_failure():
    cut = "\n".join(KTAP.splitlines()[:3]) + "\n"
    assert rows(parsed(cut, 0))[1:] == [("some.py:end", FAIL, "5 subtests were announced, 1 reported")]


@pytest.mark.parametrize("status", results.TIMED_OUT)
def test_a_test_that_does_not_end_fails(status):
    cut = "\n".join(KTAP.splitlines()[:3]) + "\n"
    assert rows(parsed(cut, status))[1:] == [("some.py:end", FAIL, "it did not end in time")]


def test_a_test_without_subtests_skips_itself_or_fails():
    assert rows(parsed("SKIP: jq not installed\n", 4)) == [("some.py", SKIP, "SKIP: jq not installed")]
    nothing = "1..0\n# eth0 does not support rx histogram counters\n# Totals: pass:0\n"
    assert rows(parsed(nothing, 0)) == [("some.py", SKIP, "1..0; eth0 does not support rx histogram counters")]
    assert rows(parsed("", 0)) == [("some.py:end", FAIL, "it printed no result")]
    assert rows(parsed("Traceback\n", 1)) == [("some.py:end", FAIL, "status 1: Traceback")]


def test_a_status_without_a_failed_subtest_is_a_failure():
    assert rows(parsed("TAP version 13\n1..1\nok 1 some.works\n", 1))[1][:2] == ("some.py:end", FAIL)


LIST = """
[cxgb3]
"some.py:fails" = "cxgb3 has no such queue"
"some.py:raises.*" = "no channels"
"""


def judged(text, found):
    expected = Expected(text)
    expected.judge(found)
    return rows([*found, *expected.unmet({"some.py"})])


def test_what_is_listed_and_fails_is_a_skip_with_the_reason():
    assert judged(LIST, parsed(KTAP))[1:3] == [
        ("some.py:fails", SKIP, "cxgb3 has no such queue"),
        ("some.py:raises.v4_one", SKIP, "no channels"),
    ]


@pytest.mark.parametrize(
    "outcome, reason", [(PASS, "listed, but passes"), (SKIP, "listed, but skips itself: not here")]
)
def test_what_is_listed_and_does_not_fail_is_a_failure_of_the_list(outcome, reason):
    found = [Result("some.py:fails", outcome, "not here"), Result("some.py:raises.v4", FAIL)]
    assert judged(LIST, found) == [("some.py:fails", FAIL, reason), ("some.py:raises.v4", SKIP, "no channels")]


SKIPS = '[skips]\n"some.py:fails" = "no statistics"\n'


@pytest.mark.parametrize(
    "outcome, judgement",
    [(SKIP, (SKIP, "no statistics")), (PASS, (FAIL, "listed, but passes")), (FAIL, (FAIL, "a check failed"))],
)
def test_the_list_has_the_reasons_of_those_that_skip_themselves_without_one(outcome, judgement):
    found = [Result("some.py:fails", outcome, "" if outcome == PASS else "a check failed")]
    assert judged(SKIPS, found) == [("some.py:fails", *judgement)]


def test_an_entry_without_a_subtest_is_a_failure_of_the_list():
    assert judged(LIST, [Result("some.py:fails", FAIL)])[1:] == [
        ("some.py:raises.*", FAIL, "listed, but there is no such subtest")
    ]
    assert not Expected(LIST).unmet({"other.py"})


@pytest.mark.parametrize("text", ['[a]\n"x:y" = "r"\n[b]\n"x:y" = "r"\n', '[a]\n"x:y" = " "\n', '[a]\n"x:y" = 1\n'])
def test_a_list_with_two_entries_or_without_a_reason_is_refused(text):
    with pytest.raises(ValueError):
        Expected(text)


def test_the_list_of_the_tree_is_well_formed():
    expected = Expected((paths.REPO / "tests/netdev/expected.toml").read_text())
    assert all(":" in name and len(reason) < 400 for name, reason in expected.reasons.items())


def test_the_json_has_the_form_of_the_ci():
    outcome = Outcome("drivers/net/hw", "some.py", parsed(KTAP), 16.04, ["WARNING: x"])
    run = json.loads(results.as_json("runner", "linux-source-7.2", "then", "now", [outcome], "file:///out"))
    assert {name: run[name] for name in ("executor", "branch", "start", "end", "link")} == {
        "executor": "runner",
        "branch": "linux-source-7.2",
        "start": "then",
        "end": "now",
        "link": "file:///out",
    }
    [case] = run["results"]
    assert (case["test"], case["group"], case["result"], case["time"]) == (
        "some-py",
        "selftests-drivers-net-hw",
        "fail",
        16.0,
    )
    assert case["link"] == "file:///out/0-some-py" and case["crashes"] == ["WARNING: x"]
    assert case["results"][0] == {"test": "works", "result": "pass", "time": 3.0}
    assert case["results"][3] == {"test": "cannot", "result": "skip", "time": 1.0, "reason": "no such queue"}


@pytest.mark.parametrize(
    "outcomes, whole", [((PASS, SKIP), PASS), ((SKIP, SKIP), SKIP), ((PASS, FAIL), FAIL), ((), SKIP)]
)
def test_the_result_of_a_test_is_that_of_its_subtests(outcomes, whole):
    assert Outcome("t", "p", [Result("p:s", outcome) for outcome in outcomes], 0.0).outcome == whole


@pytest.fixture
def installed(tmp_path):
    (tmp_path / "kselftest-list.txt").write_text("drivers/net:ping.py\ndrivers/net/hw:csum.py\n")
    return tmp_path


def test_the_tests_are_those_of_the_installed_list(installed):
    assert selftests.listed(installed) == [("drivers/net", "ping.py"), ("drivers/net/hw", "csum.py")]


def test_named_tests_are_chosen_and_unknown_ones_refused(installed, capsys):
    program = loading.program("tests/netdev/run")
    parser = argparse.ArgumentParser()
    assert [test.program for test in program.chosen(installed, [], parser)] == ["ping.py", "csum.py"]
    assert program.chosen(installed, ["csum.py"], parser) == [("drivers/net/hw", "csum.py")]
    with pytest.raises(SystemExit):
        program.chosen(installed, ["ping"], parser)
    assert "no such test: ping" in capsys.readouterr().err


def test_modules_of_debian_are_copied(tmp_path):
    made = image.Image("forky", tmp_path, "7.2", ())
    source = made.build_root / "usr/lib/modules/7.2/kernel/drivers/net"
    for name in selftests.MODULES:
        file = source / (f"{name}.xz" if name.endswith(".ko") else f"{name}/{name}.ko.xz")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"")
    selftests.modules(made, tmp_path / "goal")
    assert (tmp_path / "goal/macsec.ko.xz").exists() and (tmp_path / "goal/vxlan/vxlan.ko.xz").exists()
    (source / "macsec.ko.xz").unlink()
    with pytest.raises(LabError, match="has no drivers/net/macsec.ko"):
        selftests.modules(made, tmp_path / "again")
