# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The module as it was built for the guests, against the kernel that it was built for."""

import subprocess

from labkit import image, paths


def test_our_view_of_the_nic_driver_is_the_kernels(suite):
    """iw_cxgb3 declares cxgb3.ko's structures by itself; no loader would notice a difference."""
    made = image.get(suite)
    ours = paths.REPO / "build/guest" / suite / "modules/iw_cxgb3.ko"
    (theirs,) = made.build_root.glob("lib/modules/*/kernel/drivers/net/ethernet/chelsio/cxgb3/cxgb3.ko*")
    done = subprocess.run([paths.REPO / "tests/layout/check-btf", ours, "--cxgb3", theirs, "--base", made.vmlinux],
                          capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
