# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Packages, from `make deb` to `apt purge`, on a machine of each Debian release.

The machine is a root of that release. What is installed in it is installed by apt, natively: modules are built by DKMS for the kernel that is
there, which is not the one that runs. Nobody boots it yet.
"""

import os

import pytest
from labkit import image, package, paths

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.getuid() != 0, reason="packages are built and installed by root")]
OURS = "t3rdma-dkms libibverbs-cxgb3 t3rdma-tools"
APT = "apt-get -qy -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=false -o Acquire::Check-Valid-Until=false"


class Record:
    """What was done to a machine, in words, and what came of it."""

    def __init__(self, suite):
        self.suite = suite
        self.rows = []

    def add(self, what, result):
        self.rows.append((what, result))


@pytest.fixture(scope="module", params=image.SUITES)
def machine(request):
    """A machine with our packages, and the record of it, which is shown at the end."""
    suite = request.param
    record = Record(suite)
    debs = package.build(suite, with_sim=False)
    record.add("build, lintian", f"{len(debs)} packages")
    with package.Installed(suite, paths.REPO / "build/install" / suite) as made:
        made.run(f"depmod {made.made.release}")
        before = made.files()
        made.run(f"{APT} install $(for name in {OURS}; do ls /debs/${{name}}_*.deb; done)", [(debs[0].parent, "/debs")])
        record.add("apt install", f"{len(made.files() - before)} files")
        yield made, before, record
    reporter = request.config.pluginmanager.get_plugin("terminalreporter")
    reporter.write_line("")
    for what, result in record.rows:
        reporter.write_line(f"  {suite:<10}{what:<26}{result}")


def test_modules_are_built_for_the_installed_kernel(machine):
    made, _, record = machine
    release = made.made.release
    assert release != os.uname().release
    status = made.run("dkms status")
    assert f"{release}, x86_64: installed" in status, status
    for module in made.run("ls /usr/src/t3rdma-*/kernel").split():
        found = made.run(f"ls /lib/modules/{release}/updates/dkms/ | grep -c . || true")
        assert module and int(found)
    assert made.run(f"modinfo -k {release} -F vermagic iw_cxgb3").startswith(f"{release} ")
    record.add("DKMS", f"built for {release}")


def test_a_kernel_that_does_not_fit_is_refused_in_words(machine):
    made, _, record = machine
    said = made.run("/usr/src/t3rdma-*/check-kernel 5.10.0 /lib/modules/$(ls /lib/modules | head -1)/build 2>&1 || true")
    assert "not for kernel 5.10.0: it is older than 6.1" in said
    said = made.run("/usr/src/t3rdma-*/check-kernel 9.9.0-x /lib/modules/$(ls /lib/modules | head -1)/build 2>&1 || true")
    assert "it is newer than 7.2" in said
    assert "its headers are not in /nowhere" in made.run("/usr/src/t3rdma-*/check-kernel 6.1.0 /nowhere 2>&1 || true")
    record.add("kernel that does not fit", "refused, with the reason")


def test_a_new_kernel_gets_its_modules(machine):
    """An upgrade, as far as DKMS sees it: headers of another release, and the hook that their package calls."""
    made, _, record = machine
    old, new = made.made.release, made.made.release.replace("-amd64", "-next-amd64")
    made.run(f"""
        cp -a /usr/src/linux-headers-{old} /usr/src/linux-headers-{new}
        cd /usr/src/linux-headers-{new}
        grep -rlF {old} . --include='*.release' --include=utsrelease.h --include=Makefile --include='.kernel*' | xargs -r sed -i s/{old}/{new}/
        mkdir -p /lib/modules/{new} && ln -s /usr/src/linux-headers-{new} /lib/modules/{new}/build
        run-parts --exit-on-error --arg={new} /etc/kernel/header_postinst.d""")
    assert f"{new}, x86_64: installed" in made.run("dkms status")
    assert made.run(f"find /lib/modules/{new}/updates/dkms -name 'iw_cxgb3.ko*'").strip()
    made.run(f"dkms remove t3rdma/{paths.version()} -k {new}; rm -r /usr/src/linux-headers-{new} /lib/modules/{new}")
    record.add("kernel upgrade", "built again")


def test_a_kernel_that_does_not_fit_spoils_no_upgrade(machine):
    made, _, record = machine
    made.run(f"{APT} update && {APT} install linux-headers-rt-amd64")
    assert "rt-amd64" not in made.run("dkms status")
    made.run(f"{APT} purge 'linux-headers-*rt*' && {APT} autoremove --purge")
    record.add("real-time kernel", "left out, apt goes on")


def test_purge_leaves_nothing(machine):
    made, before, record = machine
    made.run(f"{APT} purge {OURS}")
    left = {name for name in made.files() - before if not name.startswith("usr/lib/modules/") or "modules." not in name}
    assert not left, sorted(left)[:40]
    assert not made.run("find / -xdev -name '*t3rdma*' -not -path '/var/l*' -not -path '/debs/*' -not -path '/tmp/*'").strip()
    record.add("apt purge", "nothing left")
