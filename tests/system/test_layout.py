# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The module as it was built for the guests, against the kernel that it was built for."""

import subprocess

import pytest
from labkit import image, paths


# Our module, and whose structures it declares.
VIEWS = [("iw_cxgb3", "net/ethernet/chelsio/cxgb3/cxgb3"), ("t3_uverbs", "infiniband/core/ib_core"), ("t3_rdma_cm", "infiniband/core/ib_core")]


def compare(suite, ours, theirs):
    """No loader would notice a difference."""
    made = image.get(suite)
    module = paths.REPO / "build/guest" / suite / f"modules/{ours}.ko"
    (there,) = made.build_root.glob(f"lib/modules/*/kernel/drivers/{theirs}.ko*")
    done = subprocess.run([paths.REPO / "tests/layout/check-btf", module, "--theirs", there, "--base", made.vmlinux],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("ours, theirs", VIEWS)
def test_our_view_of_another_module_is_the_kernels(suite, ours, theirs):
    compare(suite, ours, theirs)
