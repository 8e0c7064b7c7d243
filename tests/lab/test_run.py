# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How tests/run counts the results of JUnit files, and those of a second run of failed tests."""

import loading
import pytest
from labkit import paths


@pytest.fixture
def program():
    return loading.program("tests/run")


@pytest.fixture
def tally(program):
    return program.Tally


def junit(path, *cases):
    rows = "".join(f'<testcase classname="c" name="{name}">{f"<{what}/>" if what else ""}</testcase>' for name, what in cases)
    path.write_text(f"<testsuites><testsuite>{rows}</testsuite></testsuites>")
    return path


def test_each_kind_of_result_is_counted(tally, tmp_path):
    counted = tally()
    assert counted.add_junit("s", junit(tmp_path / "x", ("a", ""), ("b", "failure"), ("c", "error"), ("d", "skipped")))
    assert (counted.passed, counted.failures, counted.skipped) == (1, ["s: c::b", "s: c::c"], 1)


def test_a_test_that_fails_also_in_its_teardown_is_one_failure(tally, tmp_path):
    counted = tally()
    counted.add_junit("s", junit(tmp_path / "x", ("a", "failure"), ("a", "error")))
    assert counted.failures == ["s: c::a"]


def test_the_table_has_each_stage_and_the_slowest_tests_first(program, tally):
    counted = tally()
    for status, name in enumerate(("true", "false")):
        assert program.Stage(name, [name]).run(counted) == (not status)
    counted.seconds = {f"s: c::t{n}": float(n) for n in range(12)}
    lines = list(counted.times())
    assert [line.split()[:2] for line in lines[1:3]] == [["true", "ok"], ["false", "FAILED"]]
    assert [line.split()[0] for line in lines[-10:]] == [f"{n}.0" for n in range(11, 1, -1)]


def test_times_come_from_the_junit_file(tally, tmp_path):
    counted = tally()
    (tmp_path / "x").write_text('<testsuite><testcase classname="c" name="a" time="1.5"/><testcase classname="c" name="b"/></testsuite>')
    assert counted.add_junit("s", tmp_path / "x") and counted.seconds == {"s: c::a": 1.5}


@pytest.mark.parametrize("text", ["", "<testsuites/>", "no XML"])
def test_a_file_without_tests_is_a_failure(tally, tmp_path, text):
    (tmp_path / "x").write_text(text)
    assert not tally().add_junit("s", tmp_path / "x")
    assert not tally().add_junit("s", tmp_path / "absent")


def test_only_tests_that_pass_in_the_second_run_are_forgiven(tally, tmp_path):
    first, second = tally(), tally()
    first.failures = ["earlier: c::z"]
    first.add_junit("s", junit(tmp_path / "x", ("a", "failure"), ("b", "failure")))
    second.add_junit("s", junit(tmp_path / "y", ("a", ""), ("b", "error")))
    first.forgive(1, second)
    assert (first.failures, first.unstable, first.passed) == (["earlier: c::z", "s: c::b"], ["s: c::a"], 1)


def test_files_run_by_themselves_and_are_counted_together(program, tally, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "t").mkdir()
    for name, text in (("passes", "def test_a(): pass"), ("fails", "def test_b(): assert 0"), ("empty", ""), ("broken", "import absent")):
        (tmp_path / f"t/test_{name}.py").write_text(text)
    counted = tally()
    assert not program.FilesOfTests("s", "t", tmp_path / "results").run(counted)
    assert counted.passed == 1 and [failure.split("::")[-1] for failure in sorted(counted.failures)] == ["t.test_broken", "test_b"]
    assert [stage[:2] for stage in counted.stages] == [("s", "FAILED")]
    output = capsys.readouterr().out
    assert all(f"== t/test_{name}.py\n" in output for name in ("passes", "fails", "empty", "broken"))


def races(program, what, tmp_path):
    return {stage.name: stage.command for stage in program.stages(what, tmp_path, None) if "tests/races/run" in stage.command}


def test_the_long_run_has_all_races_and_samples_on_the_debug_kernels_of_two_releases(program, tmp_path):
    commands = races(program, "long", tmp_path)
    everything = commands.pop("races")
    assert everything[everything.index("--kernel") + 1] == "uml" and "--sample" not in everything
    for device in ("card", "rxe"):
        command = commands.pop(f"races-{device}")
        assert command[command.index("--kernel") + 1] == "uml" and f"--{device}" in command and int(command[command.index("--sample") + 1]) >= 1000
    for command in commands.values():
        assert command[command.index("--kernel") + 1] == "debug" and int(command[command.index("--sample") + 1]) >= 1000
    assert [command[command.index("--suite") + 1] for command in commands.values() if "--suite" in command] == ["forky"]


def test_the_short_run_has_a_sample_of_races(program, tmp_path):
    command, = races(program, "test", tmp_path).values()
    assert command[command.index("--kernel") + 1] == "uml" and "--sample" in command


@pytest.mark.parametrize(("what", "kernels"), [
    ("check", []), ("test", ["--kernel=uml"]),
    ("long", ["--kernel=uml", "--kernel=base", "--kernel=debug", "--kernel=kcsan", "--suite=trixie-arm64-64k"])])
def test_kunit_suites_run_on_each_kernel(program, tmp_path, what, kernels):
    stages = [stage for stage in program.stages(what, tmp_path, None) if "tests/kunit/run" in stage.command]
    assert [stage.command[1] for stage in stages] == kernels
    assert all(stage.junit for stage in stages)


def test_the_long_run_has_the_programs_of_others_over_all_modules(program, tmp_path):
    stages = {stage.name: stage.command for stage in program.stages("long", tmp_path, None)}
    assert "tests/system" in stages["system"] and "--long" in stages["system"]  # over the in-tree modules
    for level in program.OUR_MODULES:
        command = stages[f"programs-{level}"]
        assert "tests/system/test_programs.py" in command and "--long" in command and f"--load={level}" in command


def test_the_long_run_has_faults_removal_and_siw_on_arm64(program, tmp_path):
    command = {stage.name: stage.command for stage in program.stages("long", tmp_path, None)}["once-trixie-arm64"]
    assert "--suite=trixie-arm64" in command and "--long" in command
    assert {"tests/system/test_faults.py", "tests/system/test_siw.py"} <= set(command) and sum("removal" in str(word) for word in command) >= 3
    for word in command:
        file, _, name = str(word).partition("::")
        if name:
            assert f"def {name}(" in (paths.REPO / file).read_text()


def test_the_long_run_has_cards_behind_an_iommu_on_each_release(program, tmp_path):
    commands = [stage.command for stage in program.stages("long", tmp_path, None) if "tests/system/test_iommu.py" in stage.command]
    for suite in ("bookworm", "trixie", "forky", "trixie-arm64"):
        assert any(f"--suite={suite}" in command and "--load=rdma-t3" in command for command in commands)


def test_the_long_run_has_roce_on_each_release(program, tmp_path):
    stages = {stage.name: stage.command for stage in program.stages("long", tmp_path, None)}
    for suite in ("trixie", "forky"):
        command = stages[f"roce-{suite}"]
        assert "tests/system/test_roce.py" in command and "--long" in command and f"--suite={suite}" in command
