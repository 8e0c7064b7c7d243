# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How tests/run counts the results of JUnit files; the jobs of the long run and their evidence."""

import subprocess
import sys

import loading
import pytest
from labkit import paths


@pytest.fixture
def program():
    return loading.program("tests/run")


@pytest.fixture
def stages(program):
    return sys.modules["stages"]


@pytest.fixture
def tally(program):
    return program.Tally


def junit(path, *cases):
    rows = "".join(
        f'<testcase classname="c" name="{name}">{f"<{what}/>" if what else ""}</testcase>' for name, what in cases
    )
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
    (tmp_path / "x").write_text(
        '<testsuite><testcase classname="c" name="a" time="1.5"/><testcase classname="c" name="b"/></testsuite>'
    )
    assert counted.add_junit("s", tmp_path / "x") and counted.seconds == {"s: c::a": 1.5}


@pytest.mark.parametrize("text", ["", "<testsuites/>", "no XML"])
def test_a_file_without_tests_is_a_failure(tally, tmp_path, text):
    (tmp_path / "x").write_text(text)
    assert not tally().add_junit("s", tmp_path / "x")
    assert not tally().add_junit("s", tmp_path / "absent")


def test_files_that_run_at_the_same_time_are_counted_together(stages, tally, tmp_path, monkeypatch):
    monkeypatch.setattr(stages, "ROOT", tmp_path)
    (tmp_path / "tests/system").mkdir(parents=True)
    for name, text in (("passes", "pass"), ("fails", "assert 0")):
        tests = "".join(f"def test_{name}{i}(): {text}\n" for i in range(4))
        (tmp_path / f"tests/system/test_{name}.py").write_text(tests)
    (tmp_path / "tests/system/conftest.py").write_text(
        "import os, pytest\n@pytest.fixture(autouse=True)\ndef worker(request):\n"
        f"    open('{tmp_path}/' + os.environ['PYTEST_XDIST_WORKER'], 'a').write(request.node.name[:-1] + ' ')\n"
    )
    counted = tally()
    assert not stages.system(tmp_path / "results").run(counted)
    assert counted.passed == 4 and {failure.split("::")[-1][:-1] for failure in counted.failures} == {"test_fails"}
    assert [stage[:2] for stage in counted.stages] == [("system", "FAILED")]
    ran = [set((tmp_path / worker).read_text().split()) for worker in ("gw0", "gw1")]
    assert sorted(ran, key=str) == [{"test_fails"}, {"test_passes"}]


@pytest.fixture
def jobs(program, tmp_path):
    """Of the long run, by name."""
    listed = list(program.long.jobs(tmp_path, None))
    named = {job.name: job for job in listed}
    assert len(named) == len(listed)
    return named


def test_an_unknown_job_is_refused_and_jobs_may_follow_options():
    done = subprocess.run(
        ["tests/run", "long", "--build", "build", "absent"], cwd=paths.REPO, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and "there is no job absent" in done.stderr
    done = subprocess.run(["tests/run", "check", "races"], cwd=paths.REPO, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "only `long` has jobs" in done.stderr


def test_each_job_depends_on_files_of_the_tree(jobs):
    for job in jobs.values():
        for path in (*job.inputs, *job.own):
            assert path.startswith(":!") or (paths.REPO / path).exists(), f"{job.name}: {path}"


def test_each_file_of_system_tests_is_a_job_and_each_named_test_exists(jobs):
    for file in (paths.REPO / "tests/system").glob("test_*.py"):
        assert jobs[file.stem].own == (f"tests/system/{file.name}",)
    for job in jobs.values():
        for word in job.stage.command:
            file, _, name = str(word).partition("::")
            if name:
                assert f"def {name}(" in (paths.REPO / file).read_text()


@pytest.fixture
def tree(program, stages, tmp_path, monkeypatch):
    """A repository with one input, and a job for it."""
    for module in (stages, program.long, program):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    (tmp_path / "input").write_text("1")
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    return tmp_path


def git(tree, *command):
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", *command],
        cwd=tree,
        check=True,
        capture_output=True,
    )


def commit(tree):
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "x")


def job(program, status="true"):
    return program.long.Job(program.Stage("j", [status]), ("input",), seed="7")


def evidence(program, tree):
    return program.long.Evidence(tree / "evidence.md")


def run(program, tree, what, names=()):
    """Runs one job; whether it ran."""
    tally = program.Tally()
    program.long.run([what], evidence(program, tree), names, tally)
    return len(tally.stages) == 1


def test_a_job_runs_again_when_an_input_has_changed_or_it_is_named(program, tree):
    assert run(program, tree, job(program)) and not run(program, tree, job(program))
    assert run(program, tree, job(program), ["j"])
    (line,) = evidence(program, tree).lines.values()
    assert (line["Passed"], line["Failed"], line["Skipped"], line["Seed"]) == ("1", "0", "0", "7")
    (tree / "other").write_text("no input")
    commit(tree)
    assert not run(program, tree, job(program))
    (tree / "input").write_text("2")
    commit(tree)
    assert (
        list(program.long.listed([job(program)], evidence(program, tree)))[0]
        .split(None, 1)[1]
        .startswith("inputs changed since")
    )
    assert run(program, tree, job(program)) and not run(program, tree, job(program))


def test_a_failed_job_has_a_line_and_runs_again(program, tree):
    assert run(program, tree, job(program, "false"))
    assert evidence(program, tree).lines["j"]["Failed"] == "1"
    assert run(program, tree, job(program))


def test_a_job_whose_inputs_are_in_no_commit_leaves_no_line(program, tree, capsys):
    (tree / "input").write_text("2")
    assert run(program, tree, job(program))
    assert (
        not evidence(program, tree).lines and "input" in capsys.readouterr().out.split("no line in docs/evidence.md")[1]
    )


def test_runs_beside_each_other_keep_the_lines_of_both(program, tree):
    first, second = evidence(program, tree), evidence(program, tree)
    for which, name in ((first, "a"), (second, "b")):
        tally = program.Tally()
        assert which.add(program.long.Job(program.Stage(name, ["true"]), ("input",)), tally, 1)
    assert set(evidence(program, tree).lines) == {"a", "b"}
