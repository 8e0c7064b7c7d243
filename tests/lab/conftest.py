# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unit tests of the lab itself: no guest, no network, seconds in all."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools/lab"))


@pytest.fixture
def cache_home(tmp_path, monkeypatch):
    """A cache of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/t3rdma"
