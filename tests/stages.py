# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Stages of a test run: a command each, and how its results are counted."""

import os
import pathlib
import subprocess
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

    def __init__(self, name, command, junit=None, timeout=1800):
        self.name, self.command, self.junit, self.timeout = name, command, junit, timeout

    def run(self, tally):
        print(f"== {self.name}", flush=True)
        start, known = time.monotonic(), len(tally.failures)
        self._run(tally)
        verdict = "ok" if len(tally.failures) == known else "FAILED"
        tally.stages.append((self.name, verdict, time.monotonic() - start))
        print(f"== {self.name}: {verdict}, {tally.stages[-1][2]:.0f} s", flush=True)
        return verdict == "ok"

    def _run(self, tally):
        if self.junit:
            self.junit.unlink(missing_ok=True)
            self.junit.parent.mkdir(parents=True, exist_ok=True)
        try:
            status = subprocess.run(self.command, cwd=ROOT, timeout=self.timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            status = f"no end after {self.timeout} s"
        self._count(tally, status)

    def _count(self, tally, status):
        known = len(tally.failures)
        if self.junit:
            if not tally.add_junit(self.name, self.junit) or (status != 0 and len(tally.failures) == known):
                tally.failures.append(f"{self.name}: {' '.join(map(str, self.command))} ended with {status}")
        elif status == 0:
            tally.passed += 1
        else:
            tally.failures.append(f"{self.name}: {' '.join(map(str, self.command))} ended with {status}")


def pytest(name, tests, results, *options, timeout=1800):
    junit = results / f"{name}.xml"
    tests = [tests] if isinstance(tests, str) else tests
    command = [
        "/usr/bin/python3",
        "-m",
        "pytest",
        "-q",
        "-o",
        f"cache_dir={results / name}.cache",
        f"--junitxml={junit}",
        *options,
        *tests,
    ]
    return Stage(name, command, junit, timeout)


def system(results, *options):
    """All system tests, two files at a time, since two guests leave a host of two processors idle for most of the
    time. The files that a process runs share its `pair`."""
    return pytest("system", "tests/system", results, "-n", "2", "--dist", "loadfile", *options, timeout=4500)


def races(name, results, *options, timeout):
    junit = results / f"{name}.xml"
    command = ["tests/races/run", "--junit", junit, "--jobs", str(min(2, os.cpu_count() or 1)), *options]
    return Stage(name, command, junit, timeout)


def kunit(kind, results, option=""):
    """All KUnit suites; the time includes building the kernel."""
    junit = results / f"kunit-{kind}.xml"
    return Stage(f"kunit-{kind}", ["tests/kunit/run", option or f"--kernel={kind}", "--junit", junit], junit, 5400)
