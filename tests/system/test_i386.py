# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""32-bit programs on the 64-bit kernel of Debian 12: Debian's own libraries and programs for i386, with our provider
for them."""

import os
import re

import pytest
from labkit import package, paths
from labkit.installed import APT, Installed
from machines import DEVICE, booted, loaded, ours, rping

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.getuid() != 0, reason="packages are built and installed by root")]
SUITE = "bookworm"
# rdmacm-utils can be installed for one architecture only; its libraries are dependencies.
PROGRAMS = "rdmacm-utils:i386 ibverbs-utils:i386"


@pytest.fixture(scope="module")
def machine():
    debs = package.build(SUITE, with_sim=False, i386=True)
    [provider] = [path for path in debs if path.name.endswith("_i386.deb")]
    with Installed(SUITE, paths.REPO / "build/install/i386", ours(debs)) as made:
        made.run(
            f"dpkg --add-architecture i386 && {APT} update && {APT} install /debs/{provider.name} {PROGRAMS}",
            [(provider.parent, "/debs")],
        )
        yield made


def test_the_i386_package_depends_on_one_rdma_core_release(machine, step):
    row = step(SUITE, "i386: package")
    depends = machine.run("dpkg-query -W -f '${Depends}' libibverbs-cxgb3:i386")
    assert re.search(r"libibverbs1 \(>= 44\), libibverbs1 \(<< 45~\)", depends), depends
    assert machine.run("ls /usr/lib/i386-linux-gnu/libibverbs/libcxgb3-rdmav34.so")
    row.result = "libibverbs1 " + machine.run("dpkg-query -W -f '${Version}' libibverbs1:i386")


def test_32_bit_rping(machine, step):
    """Over the kernel's modules, and over ours."""
    row = step(SUITE, "i386: rping")
    with booted(machine) as lab:
        for guest in lab.guests:
            for program in ("rping", "ibv_devinfo"):
                elf = guest.check(f"od -An -tx1 -N5 $(command -v {program})").split()
                assert elf == ["7f", "45", "4c", "46", "01"], "not a 32-bit program"
            assert guest.check(f"ibv_devinfo -d {DEVICE}").count("PORT_ACTIVE") == 2
        row.result = rping(lab)
        row = step(SUITE, "i386: rping over --own all")
        for guest in lab.guests:
            guest.check("ofedctrl -l --own all", 60)
            assert loaded(guest) >= {"t3_uverbs", "t3_rdma_cm"}
        row.result = rping(lab)
