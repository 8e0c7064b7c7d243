# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The structures of other modules that our modules declare, against the BTF of the guests' kernel."""

import subprocess

import pytest
from labkit import image, paths


# A module of ours, and the module whose structures it declares.
VIEWS = [
    ("iw_cxgb3", "net/ethernet/chelsio/cxgb3/cxgb3"),
    ("t3_uverbs", "infiniband/core/ib_core"),
    ("t3_rdma_cm", "infiniband/core/ib_core"),
]


def compare(suite, ours, theirs):
    """Fails if a structure differs, which the module loader does not check."""
    made = image.get(suite)
    module = paths.REPO / "build/guest" / suite / f"modules/{ours}.ko"
    (there,) = made.build_root.glob(f"lib/modules/*/kernel/drivers/{theirs}.ko*")
    done = subprocess.run(
        [paths.REPO / "tests/layout/check-btf", module, "--theirs", there, "--base", made.vmlinux],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("ours, theirs", VIEWS)
def test_layouts_of_other_modules_structures_match_btf(suite, ours, theirs):
    compare(suite, ours, theirs)


# DKMS compares with the bootable kernel if it builds for one that does not run. That of arm64 is not ELF.
@pytest.mark.long
@pytest.mark.parametrize("ours, theirs", VIEWS)
def test_layouts_on_arm64(ours, theirs):
    compare("trixie-arm64", ours, theirs)
