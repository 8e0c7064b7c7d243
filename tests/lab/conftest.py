# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unit tests of the lab: without guests and network."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/lab"))

from labkit import sim  # noqa: E402
from t3sim import pytest_plugin  # noqa: E402


def pytest_configure(config):
    config.pluginmanager.register(pytest_plugin, "t3sim")


@pytest.fixture(scope="session")
def t3sim_program():
    """The model of this tree."""
    if not sim.program().exists():
        pytest.skip(f"{sim.program()} is not built")
    return sim.program()


@pytest.fixture
def cache_home(tmp_path, monkeypatch):
    """A private cache of the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/t3rdma"
