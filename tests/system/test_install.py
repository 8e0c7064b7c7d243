# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Packages, from `make deb` to `apt purge`, on a machine of each Debian release.

The machine is a root of that release, in which apt installs the packages. DKMS builds the modules for the kernel that
is installed there, which is not the running one. Then two guests boot from this root with its own init. A table follows
at the end of the output. In the machine of arm64 apt and the compiler are emulated, too.
"""

import os
import pathlib
import shutil

import pytest
from labkit import arch, package, paths, siw, stack
from labkit.installed import APT, Installed
from machines import DEVICE, OURS, booted, loaded, ours, rping, settle

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.getuid() != 0, reason="packages are built and installed by root")]
CHOICE = "/etc/modprobe.d/t3rdma-choice.conf"

# Image of a Debian release: its kernel, its rdma-core, the private ABI of its libibverbs.
RELEASES = {
    "bookworm": ("6.1.", "44", "34"),
    "trixie": ("6.12.", "56", "34"),
    "forky": ("7.2.", "65", "65"),
    "trixie-arm64": ("6.12.", "56", "34"),
}


@pytest.fixture(scope="module", params=RELEASES)
def debs(request):
    """An image and its packages. For another architecture, that for DKMS is the release's."""
    release, target = arch.of_image(request.param)
    built = package.build(release, with_sim=False, i386=False)
    if target.cross:
        independent = [path for path in built if path.name.endswith("_all.deb")]
        built = package.build_cross(request.param)
        built += [pathlib.Path(shutil.copy2(path, built[0].parent)) for path in independent]
    return request.param, built


@pytest.fixture(scope="module")
def before(debs):
    """The files of a machine without our packages."""
    suite, _ = debs
    with Installed(suite, paths.REPO / "build/install/bare") as made:
        return made.files()


@pytest.fixture(scope="module")
def machine(debs):
    """A machine with our packages, which the last tests remove."""
    suite, built = debs
    with Installed(suite, paths.REPO / "build/install" / suite, ours(built)) as made:
        yield made


def processor(machine):
    """As uname -m and DKMS name it."""
    return machine.made.arch.triplet.split("-", maxsplit=1)[0]


def test_packages_are_built_and_installed(debs, before, machine, step):
    suite, built = debs
    kernel, rdma_core, abi = RELEASES[suite]
    row = step(suite, "make deb, lintian")
    assert machine.made.release.startswith(kernel)
    row.result = f"{len(built)} packages"
    row = step(suite, "apt install")
    assert f"libcxgb3-rdmav{abi}.so" in machine.run(f"ls /usr/lib/{machine.made.arch.triplet}/libibverbs")
    version = machine.run("dpkg-query -W -f '${Version}' libibverbs1")
    assert version.startswith(f"{rdma_core}.")
    row.result = f"{len(machine.files() - before)} files, libibverbs {version}"


def test_modules_are_built_for_the_installed_kernel(machine, step):
    release = machine.made.release
    row = step(machine.made.suite, "DKMS")
    assert release != os.uname().release
    status = machine.run("dkms status")
    assert f"{release}, {processor(machine)}: installed" in status, status
    built = machine.run(f"ls /lib/modules/{release}/updates/dkms").split()
    assert sorted(name.split(".")[0] for name in built) == ["iw_cxgb3", "t3_rdma_cm", "t3_uverbs"]
    assert machine.run(f"modinfo -k {release} -F vermagic iw_cxgb3").startswith(f"{release} ")
    row.result = f"built for {release}"


def test_installed_machines_boot_and_run_rping(machine, step):
    """All modules are loaded by udev rules for the card and by rdma-core's services for the device."""
    suite = machine.made.suite
    row = step(suite, "boot")
    with booted(machine) as lab:
        for guest in lab.guests:
            assert guest.check("uname -r").strip() == machine.made.release
            assert "/updates/dkms/" in guest.check("modinfo -n iw_cxgb3")
        row.result = guest.check("sed -n 's/^PRETTY_NAME=\"\\(.*\\)\"/\\1/p' /etc/os-release").strip()
        row = step(suite, "ofedctrl -q")
        for guest in lab.guests:
            assert guest.check("command -v ofedctrl").strip() == "/usr/sbin/ofedctrl"
            assert loaded(guest) == {"cxgb3", "iw_cxgb3", "ib_uverbs", "rdma_ucm"}
            shown = guest.check("ofedctrl -q")
            assert "iw_cxgb3" in shown and f"device {DEVICE}: card" in shown
        row.result = "loaded by udev"
        row = step(suite, "ibv_devinfo")
        for guest in lab.guests:
            shown = guest.check(f"ibv_devinfo -d {DEVICE}")
            assert shown.count("PORT_ACTIVE") == 2 and "iWARP" in shown
        row.result = "2 ports active"
        row = step(suite, "rping")
        row.result = rping(lab)
        row = step(suite, "ofedctrl -u, -l")
        for guest in lab.guests:
            guest.check("ofedctrl -u", 60)
            assert guest.run("ofedctrl -q").rc and not guest.check("ls /sys/class/infiniband")
            guest.check("ofedctrl -l", 60)
        row.result = "rping: " + rping(lab)


def test_a_choice_survives_a_reboot(machine, step):
    row = step(machine.made.suite, "--own all --permanent, reboot")
    with booted(machine) as lab:
        guest = lab.guests[0]
        guest.check("ofedctrl -l --own all --permanent", 60)
        assert loaded(guest) == {"cxgb3", "iw_cxgb3", "t3_uverbs", "t3_rdma_cm"}
        choice = guest.check(f"cat {CHOICE}")
    with booted(machine, later={CHOICE: choice.encode()}) as lab:
        for guest in lab.guests:
            assert loaded(guest) == {"cxgb3", "iw_cxgb3", "t3_uverbs", "t3_rdma_cm"}
            # NFS, which rdma-core loads, needs rdma_cm; without rdma_ucm user space does not use it.
            assert not guest.check("lsmod | grep -E '^(ib_uverbs|rdma_ucm) ' || true")
        row.result = "ours after the reboot, rping: " + rping(lab)


def test_an_unsupported_kernel_is_refused_with_the_reason(machine, step):
    row = step(machine.made.suite, "unsupported kernel")
    message = machine.run(
        "/usr/src/t3rdma-*/check-kernel 5.10.0 /lib/modules/$(ls /lib/modules | head -1)/build 2>&1 || true"
    )
    assert "not for kernel 5.10.0: it is older than 6.1" in message
    message = machine.run(
        "/usr/src/t3rdma-*/check-kernel 9.9.0-x /lib/modules/$(ls /lib/modules | head -1)/build 2>&1 || true"
    )
    assert "it is newer than 7.3" in message
    assert "its headers are not in /nowhere" in machine.run(
        "/usr/src/t3rdma-*/check-kernel 6.1.0 /nowhere 2>&1 || true"
    )
    # As the package of a kernel does.
    message = machine.run(
        "run-parts --exit-on-error --arg=9.9.0-x --arg=/boot/vmlinuz-9.9.0-x /etc/kernel/preinst.d 2>&1"
    )
    assert "it is newer than 7.3" in message and "no RDMA" in message
    row.result = "refused, with the reason"


def test_a_new_kernel_gets_its_modules(machine, step):
    """An upgrade as DKMS sees it: headers of another release, and the hook that their package calls."""
    row = step(machine.made.suite, "kernel upgrade")
    old, name = machine.made.release, machine.made.arch.name
    new = old.replace(f"-{name}", f"-next-{name}")
    machine.run(
        f"""
        cp -a /usr/src/linux-headers-{old} /usr/src/linux-headers-{new}
        cd /usr/src/linux-headers-{new}
        grep -rlF {old} . --include='*.release' --include=utsrelease.h --include=Makefile --include='.kernel*' | xargs -r sed -i s/{old}/{new}/
        mkdir -p /lib/modules/{new} && ln -s /usr/src/linux-headers-{new} /lib/modules/{new}/build
        run-parts --exit-on-error --arg={new} /etc/kernel/header_postinst.d"""  # noqa: E501
    )  # noqa: E501
    assert f"{new}, {processor(machine)}: installed" in machine.run("dkms status")
    # By its file, since this kernel has no modules.dep.
    built = machine.run(f"find /lib/modules/{new}/updates/dkms -name 'iw_cxgb3.ko*'").strip()
    assert machine.run(f"modinfo -F vermagic {built}").startswith(f"{new} ")
    machine.run(f"dkms remove t3rdma/{paths.version()} -k {new}; rm -r /usr/src/linux-headers-{new} /lib/modules/{new}")
    row.result = "built again"


def test_an_unsupported_kernel_does_not_fail_an_upgrade(machine, step):
    row = step(machine.made.suite, "real-time kernel")
    machine.run(f"{APT} update && {APT} install linux-headers-rt-{machine.made.arch.name}")
    status = machine.run("dkms status")
    assert "-rt-" not in status and machine.made.release in status
    machine.run(f"{APT} purge '^linux-(headers|image)-.*rt-.*' && {APT} autoremove --purge")
    machine.run("rm -f /initrd.img /initrd.img.old")  # links of the kernel's package, which it leaves
    row.result = "not built, apt succeeds"


def test_purge_restores_all_files(before, machine, step):
    row = step(machine.made.suite, "apt purge")
    machine.run(f"{APT} purge {' '.join(OURS)}")
    after = machine.files()
    assert not after - before, sorted(after - before)[:40]
    assert not before - after, sorted(before - after)[:40]
    assert not machine.run(
        "find / -xdev -name '*t3rdma*' -not -path '/var/l*' -not -path '/debs/*' -not -path '/tmp/*'"
    ).strip()
    row.result = "nothing left"


def test_the_kernels_own_modules_work_afterwards(machine, step):
    """Software devices on the card's two ports; Debian has rxe, and siw is built from its source."""
    row = step(machine.made.suite, "in-tree modules afterwards")
    siw.module(machine.made.suite)
    with booted(machine, "purged") as lab:
        for guest in lab.guests:
            assert guest.run("modinfo iw_cxgb3").rc and not guest.run("ls /sys/class/infiniband").stdout
            guest.check("modprobe -a ib_uverbs rdma_ucm", 60)
        stack.add_links(lab.guests, "siw", lambda guest: guest.interfaces[:1])
        stack.add_links(lab.guests, "rxe", lambda guest: guest.interfaces[1:])
        for guest in lab.guests:  # iwpmd, too: a listener from before its start cannot be reached by a later connect
            settle(guest)
        row.result = f"siw {rping(lab)}, rxe {rping(lab, card_port=1)}"
