# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Secure Boot, on an installed Debian 12: UEFI starts a kernel that is signed with a trusted key, and the kernel then
accepts only modules that are signed with a trusted key.

The firmware is Debian's OVMF with its example keys, one of which signs the kernel. A key is usually enrolled in a
dialogue of shim's at boot; here the test writes the variable MokListRT, which is its result.
"""

import os
import shutil
import struct
import uuid

import pytest
from labkit import Lab, package, paths
from labkit.machine import Firmware, Machine
from labkit.installed import APT, Installed
from machines import DEVICE, MEMORY, loaded, ours, settle

pytestmark = [pytest.mark.long, pytest.mark.skipif(os.getuid() != 0, reason="packages are built and installed by root")]
SUITE = "bookworm"
EXAMPLE = "/usr/share/ovmf/PkKek-1-snakeoil"  # in the firmware's db; its key is there too, with the passphrase snakeoil

VARIABLE = "/sys/firmware/efi/efivars/MokListRT-605dab50-e046-4300-abb6-3dd810dd8b23"
KEPT = 7  # NON_VOLATILE | BOOTSERVICE_ACCESS | RUNTIME_ACCESS
X509 = uuid.UUID("a5c059a1-94e4-4aa7-87b5-ab155c2bf072")
OWNER = uuid.UUID("605dab50-e046-4300-abb6-3dd810dd8b23")


def key_list(certificate):
    """A variable with a list of keys, as UEFI defines it: EFI_SIGNATURE_LIST with one EFI_SIGNATURE_DATA."""
    size = 16 + len(certificate)
    return (
        struct.pack("<I", KEPT) + X509.bytes_le + struct.pack("<III", 28 + size, 0, size) + OWNER.bytes_le + certificate
    )


@pytest.fixture(scope="module")
def machine():
    """DKMS signs its modules with a key that it creates, if openssl is installed."""
    debs = package.build(SUITE, with_sim=False, i386=False)
    with Installed(SUITE, paths.REPO / "build/install/signed", ours(debs)) as made:
        made.run(f"{APT} update && {APT} install openssl ovmf sbsigntool")
        yield made


@pytest.fixture(scope="module")
def firmware(machine):
    machine.run(
        f"""
        openssl rsa -in {EXAMPLE}.key -passin pass:snakeoil -out /example.key
        sbsign --key /example.key --cert {EXAMPLE}.pem --output /vmlinuz.signed /boot/vmlinuz-{machine.made.release}"""
    )
    files = [
        shutil.copy(machine.root / name, machine.folder)
        for name in (
            "usr/share/OVMF/OVMF_CODE_4M.secboot.fd",
            "usr/share/OVMF/OVMF_VARS_4M.snakeoil.fd",
            "vmlinuz.signed",
        )
    ]
    return Firmware(*files)


def boot(machine, firmware):
    lab = Lab(
        guests=1,
        installed=machine.image(),
        load="nic",
        name="signed",
        machine=Machine(memory=MEMORY, firmware=firmware),
    )
    lab.__enter__()
    guest = lab.guests[0]
    settle(guest)
    return lab, guest


def test_dkms_signs_the_modules(machine, step):
    row = step(SUITE, "Secure Boot: DKMS")
    signer = machine.run(f"modinfo -k {machine.made.release} -F signer iw_cxgb3").strip()
    assert signer == "DKMS module signing key"
    row.result = f"signer: {signer}"


def test_modules_load_after_their_key_is_enrolled(machine, firmware, step):
    row = step(SUITE, "Secure Boot: key not enrolled")
    lab, guest = boot(machine, firmware)
    try:
        assert "[integrity]" in guest.check("cat /sys/kernel/security/lockdown")
        assert "iw_cxgb3" not in guest.check("lsmod")
        done = guest.run("ofedctrl -l", 60)
        assert done.rc == 1 and "not signed with a trusted key (Secure Boot)" in done.stderr, done
        report = guest.run("t3doctor", 60).stdout
        assert (
            "signed by 'DKMS module signing key', which is not a trusted key" in report and "mokutil --import" in report
        ), report
        row.result = "refused, t3doctor reports the reason"

        row = step(SUITE, "Secure Boot: no signature")
        guest.check(
            """file=$(modinfo -n iw_cxgb3); case $file in *.xz) unxz $file; file=${file%.xz};; esac
            strip --strip-debug $file && depmod""",
            60,
        )
        assert not guest.check("modinfo -F signer iw_cxgb3")
        assert guest.run("ofedctrl -l", 60).rc == 1
        assert "iw_cxgb3 is not signed" in guest.run("t3doctor", 60).stdout
        row.result = "refused, t3doctor reports the reason"

        # The variable that shim's dialogue would write.
        guest.push(key_list((machine.root / "var/lib/dkms/mok.pub").read_bytes()), "/tmp/mok")
        guest.check(f"cat /tmp/mok > {VARIABLE}")
    finally:
        lab.end()

    row = step(SUITE, "Secure Boot: key enrolled")
    lab, guest = boot(machine, firmware)
    try:
        assert "[integrity]" in guest.check("cat /sys/kernel/security/lockdown")
        assert loaded(guest) == {"cxgb3", "iw_cxgb3", "ib_uverbs", "rdma_ucm"}
        assert "accepts ours" in guest.run("t3doctor", 60).stdout
        assert "iWARP" in guest.check(f"ibv_devinfo -d {DEVICE}")
        guest.check("ofedctrl -l --own all", 60)
        assert loaded(guest) == {"cxgb3", "iw_cxgb3", "t3_uverbs", "t3_rdma_cm"}
        assert not lab.new_trouble()
        row.result = "loaded by udev"
    finally:
        lab.end()
