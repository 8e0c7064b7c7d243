# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Fixtures for tests with cards: `pytest -p t3sim.pytest_plugin`; the package python3-t3sim registers it.

t3sim_process(cards, options...) starts a t3sim, which ends with the test. t3sim_script is one with two cards whose
ports a wire each joins.
"""

import contextlib
import subprocess

import pytest

from .process import Process, program


def pytest_addoption(parser):
    parser.getgroup("t3sim").addoption(
        "--t3sim", metavar="PROGRAM", help="the program t3sim (default: the variable T3SIM, or the installed one)"
    )


def pytest_report_header(config):
    path = config.getoption("--t3sim", default=None)
    if path:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
        return f"t3sim: {path}, {done.stdout.strip()}"
    return None


@pytest.fixture(scope="session")
def t3sim_program(request):
    """The path of the program."""
    return request.config.getoption("--t3sim", default=None) or program()


@pytest.fixture
def t3sim_process(t3sim_program):
    """Starts processes that end with the test."""
    with contextlib.ExitStack() as running:

        def start(cards, *options):
            return running.enter_context(Process(cards, *options, path=t3sim_program))

        yield start


@pytest.fixture
def t3sim_script(t3sim_process):
    """Cards a and b, joined."""
    return t3sim_process(["a", "b"], "--wire", "a.0,b.0", "--wire", "a.1,b.1")
