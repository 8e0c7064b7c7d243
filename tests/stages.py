# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Stages of a test run: a command each, and how its results are counted."""

import concurrent.futures
import os
import pathlib
import subprocess
import tempfile
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Tally:
    """The results and times so far, and the names of failed tests."""

    SLOWEST = 10

    def __init__(self):
        self.passed = self.skipped = 0
        self.failures = []  # each test once, also if its teardown fails too
        self.stages = []  # (name, verdict, seconds)
        self.seconds = {}  # by test, where the JUnit file has a time

    def add_junit(self, stage, path):
        """Adds a JUnit file; false if it does not exist or has no test."""
        try:
            cases = list(ElementTree.parse(path).getroot().iter("testcase"))
        except (OSError, ElementTree.ParseError):
            return False
        for case in cases:
            if case.get("time"):
                self.seconds[f"{stage}: {case.get('classname', '')}::{case.get('name')}"] = float(case.get("time"))
            if case.find("failure") is not None or case.find("error") is not None:
                name = f"{stage}: {case.get('classname', '')}::{case.get('name')}"
                if name not in self.failures:
                    self.failures.append(name)
            elif case.find("skipped") is not None or case.get("status") in ("disabled", "notrun"):
                self.skipped += 1
            else:
                self.passed += 1
        return bool(cases)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failures += other.failures
        self.stages += other.stages
        self.seconds.update(other.seconds)

    def times(self):
        """Lines with the time of each stage, and of the slowest tests."""
        yield f"{'stage':<24} {'result':<8} {'seconds':>7}"
        for name, verdict, seconds in self.stages:
            yield f"{name:<24} {verdict:<8} {seconds:>7.0f}"
        yield f"{'all':<24} {'':<8} {sum(stage[2] for stage in self.stages):>7.0f}"
        yield "the slowest tests:"
        for name in sorted(self.seconds, key=self.seconds.get, reverse=True)[: self.SLOWEST]:
            yield f"{self.seconds[name]:>7.1f} s  {name}"


class Stage:
    """A command with a name, and how its result is counted."""

    def __init__(self, name, command, junit=None, timeout=1800, environment=None):
        self.name, self.command, self.junit, self.timeout = name, command, junit, timeout
        self.environment = {**os.environ, **(environment or {})}

    def run(self, tally):
        print(f"== {self.name}", flush=True)
        start, known = time.monotonic(), len(tally.failures)
        self._run(tally)
        verdict = "ok" if len(tally.failures) == known else "FAILED"
        tally.stages.append((self.name, verdict, time.monotonic() - start))
        print(f"== {self.name}: {verdict}, {tally.stages[-1][2]:.0f} s", flush=True)
        return verdict == "ok"

    def _run(self, tally):
        self._count(tally, self._execute(self.command))

    def _execute(self, command, output=None):
        """The exit status, or a text."""
        if self.junit:
            self.junit.unlink(missing_ok=True)
            self.junit.parent.mkdir(parents=True, exist_ok=True)
        try:
            return subprocess.run(
                command,
                cwd=ROOT,
                env=self.environment,
                timeout=self.timeout,
                check=False,
                stdout=output,
                stderr=output and subprocess.STDOUT,
            ).returncode
        except subprocess.TimeoutExpired:
            return f"no end after {self.timeout} s"

    def _count(self, tally, status):
        known = len(tally.failures)
        if self.junit:
            if not tally.add_junit(self.name, self.junit) or (status != 0 and len(tally.failures) == known):
                tally.failures.append(f"{self.name}: {' '.join(map(str, self.command))} ended with {status}")
        elif status == 0:
            tally.passed += 1
        else:
            tally.failures.append(f"{self.name}: {' '.join(map(str, self.command))} ended with {status}")


class FilesOfTests(Stage):
    """A pytest of its own for each file of a folder; several at a time. No file shares a lab with another one."""

    AT_A_TIME = 2
    NO_TESTS = 5  # pytest's status if all tests of the file are left out

    def __init__(self, name, folder, results, *options, timeout=1800):
        files = sorted(
            (ROOT / folder).glob("test_*.py"), key=lambda file: -file.stat().st_size
        )  # long ones do not start last
        super().__init__(name, ["pytest", folder, *options], timeout=timeout)
        self.files = [
            pytest(name, str(file.relative_to(ROOT)), results, *options, timeout=timeout, part=f"{name}/{file.stem}")
            for file in files
        ]

    def _run(self, tally):
        with concurrent.futures.ThreadPoolExecutor(self.AT_A_TIME) as pool:
            ended = [pool.submit(self._run_file, file) for file in self.files]
            for file, status in [future.result() for future in concurrent.futures.as_completed(ended)]:
                if status != self.NO_TESTS:
                    file._count(tally, status)

    @staticmethod
    def _run_file(file):
        with tempfile.TemporaryFile("w+") as output:
            status = file._execute(file.command, output)
            output.seek(0)
            print(f"== {file.command[-1]}\n{output.read()}", end="", flush=True)
        return file, status


def pytest(name, tests, results, *options, timeout=1800, part=None):
    """part: one of several that run at the same time; the path of its results and the area of its labs"""
    results = results / (part or name)
    junit = results.with_suffix(".xml")
    tests = [tests] if isinstance(tests, str) else tests
    command = [
        "/usr/bin/python3",
        "-m",
        "pytest",
        "-q",
        "-o",
        f"cache_dir={results}.cache",
        f"--junitxml={junit}",
        *options,
        *tests,
    ]
    return Stage(name, command, junit, timeout, {"T3LAB_AREA": part} if part else None)


def races(name, results, *options, timeout):
    junit = results / f"{name}.xml"
    command = ["tests/races/run", "--junit", junit, "--jobs", str(min(2, os.cpu_count() or 1)), *options]
    return Stage(name, command, junit, timeout)


def kunit(kind, results, option=""):
    """All KUnit suites; the time includes building the kernel."""
    junit = results / f"kunit-{kind}.xml"
    return Stage(f"kunit-{kind}", ["tests/kunit/run", option or f"--kernel={kind}", "--junit", junit], junit, 5400)
