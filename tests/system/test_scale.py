# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""How many connections one process of cards can have; tests/sim/scale has the short version, and measures the costs."""

import subprocess

import pytest
from labkit import paths

PROGRAM = paths.REPO / "build/tests/sim/scale/scale_load"


@pytest.mark.long
def test_eight_cards_with_four_thousand_connections_each():
    done = subprocess.run([PROGRAM, "4000", "4"], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "8 of 8 cards had 4000 connections" in done.stdout
