# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The exit status of packaging/dkms/check-layout for DKMS, with a fake comparison."""

import shutil
import subprocess

import pytest
from labkit import paths


@pytest.fixture
def check(tmp_path):
    shutil.copy(paths.REPO / "packaging/dkms/check-layout", tmp_path)
    for name in ("a", "b"):
        (tmp_path / "kernel" / name).mkdir(parents=True)
        (tmp_path / "kernel" / name / f"{name}.ko").touch()

    def run(status_of_b):
        compare = tmp_path / "check-btf"
        compare.write_text(f'#!/bin/sh\ncase $1 in */b.ko) exit {status_of_b};; esac\n')
        compare.chmod(0o755)
        return subprocess.run([tmp_path / "check-layout", "kernel"], cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize("status", [0, 4], ids=["agrees", "nothing to compare with"])
def test_matching_modules_are_accepted(check, status):
    assert check(status).returncode == 0


@pytest.mark.parametrize("status", [1, 2, 127])
def test_a_module_with_a_different_layout_fails_the_build(check, status):
    done = check(status)
    assert done.returncode == 1
    assert done.stderr == "t3rdma: b.ko is refused: it would misread the memory of another module of this kernel\n"
