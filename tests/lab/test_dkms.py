# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What DKMS does with a kernel: which ones it tries, and the comparison of structures (packaging/dkms)."""

import gzip
import re
import shutil
import struct
import subprocess
import sys

import loading
import pytest
from labkit import paths

check_btf = loading.program("tests/layout/check-btf")


@pytest.fixture
def check(tmp_path):
    shutil.copy(paths.REPO / "packaging/dkms/check-layout", tmp_path)
    for name in ("a", "b"):
        (tmp_path / "kernel" / name).mkdir(parents=True)
        (tmp_path / "kernel" / name / f"{name}.ko").touch()

    def run(status_of_b):
        compare = tmp_path / "check-btf"
        compare.write_text(f"#!/bin/sh\ncase $1 in */b.ko) exit {status_of_b};; esac\n")
        compare.chmod(0o755)
        return subprocess.run(
            [tmp_path / "check-layout", "kernel"], cwd=tmp_path, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.parametrize("status", [0, 4], ids=["agrees", "nothing to compare with"])
def test_matching_modules_are_accepted(check, status):
    assert check(status).returncode == 0


@pytest.mark.parametrize("status", [1, 2, 127])
def test_a_module_with_a_different_layout_fails_the_build(check, status):
    done = check(status)
    assert done.returncode == 1
    assert done.stderr == "t3rdma: b.ko is refused: it would misread the memory of another module of this kernel\n"


def acceptable(release, folder):
    """Whether check-kernel accepts a kernel with these headers."""
    (folder / "include/generated").mkdir(parents=True, exist_ok=True)
    (folder / "Makefile").touch()
    options = ("CHELSIO_T3", "INFINIBAND", "INFINIBAND_ADDR_TRANS")
    (folder / "include/generated/autoconf.h").write_text("".join(f"#define CONFIG_{option} 1\n" for option in options))
    return not subprocess.run(
        [paths.REPO / "packaging/dkms/check-kernel", release, folder], capture_output=True, check=False
    ).returncode


def test_dkms_tries_the_kernels_that_check_kernel_accepts(tmp_path):
    """DKMS skips the others without a message."""
    subprocess.run([paths.REPO / "packaging/dkms/install-source", tmp_path / "to"], check=True)
    [config] = tmp_path.glob("to/usr/src/*/dkms.conf")
    pattern = re.search(r'^BUILD_EXCLUSIVE_KERNEL="(.*)"$', config.read_text(), re.MULTILINE)[1]
    accepted = []
    for version in ("5.19", "6.0", "6.1", "6.9", "6.12", "6.19", "7.0", "7.2", "7.3", "7.4", "7.30", "8.0", "10.1"):
        release = f"{version}.4+deb13-amd64"
        by_pattern = not subprocess.run(["grep", "-qE", pattern], input=release, text=True, check=False).returncode
        assert by_pattern == acceptable(release, tmp_path / "headers"), release
        if by_pattern:
            accepted.append(version)
    assert accepted == ["6.1", "6.9", "6.12", "6.19", "7.0", "7.2", "7.3"]


@pytest.mark.parametrize(
    "release, reason",
    [
        ("6.12.48+deb13-amd64", None),
        ("7.4.1-amd64", "it is newer than 7.3"),
        ("6.12.48+deb13-rt-amd64", "it is a real-time kernel"),
    ],
)
def test_a_kernel_that_is_about_to_be_installed(release, reason, tmp_path):
    """Its headers are not there yet. A failure would stop its installation."""
    subprocess.run([paths.REPO / "packaging/dkms/install-source", tmp_path], check=True)
    hook = (paths.REPO / "packaging/dkms/preinst.d/t3rdma").read_text().replace("/usr/src", f"{tmp_path}/usr/src")
    done = subprocess.run(
        ["sh", "-c", hook, "t3rdma", release, "/boot/vmlinuz"], capture_output=True, text=True, check=True
    )
    if reason:
        first, second = done.stderr.splitlines()
        assert first.startswith(f"t3rdma: not for kernel {release}: {reason}")
        assert second.endswith("no RDMA")
    else:
        assert not done.stderr


def test_the_news_of_the_package_have_the_same_kernels():
    limits = re.findall(r"-[gl]e (\d)0+(\d+) ", (paths.REPO / "packaging/dkms/check-kernel").read_text())
    least, most = (".".join(limit) for limit in limits)
    assert f"for kernels {least} to {most} " in (paths.REPO / "packaging/debian/t3rdma-dkms.NEWS").read_text()


BTF = b"\x9f\xeb\x01\x00\x18\0\0\0" + struct.pack("<IIII", 0, 8, 8, 4) + b"types..." + b"\0ab\0"


def arm64_kernel(content):
    return b"MZ".ljust(0x38, b"\0") + b"ARM\x64" + content


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_btf_of_an_arm64_kernel(pack):
    """Its bootable file is no ELF file, and pahole cannot read it."""
    damaged = BTF[:20] + struct.pack("<I", 1 << 30) + BTF[24:]
    image = arm64_kernel(b"code" + damaged + b"more" + BTF + b"rest")
    assert check_btf.arm64_btf(pack(image)) == BTF


UNREADABLE = {
    "without BTF": arm64_kernel(b"code" * 9),
    "another format": b"MZ\0\0zimg" + bytes(99),
    "a header at its end": arm64_kernel(BTF[:14]),
    "without strings": arm64_kernel(BTF[:20] + bytes(4) + BTF[24:]),
    "cut off": gzip.compress(arm64_kernel(BTF))[:40],
}


@pytest.mark.parametrize("image", UNREADABLE.values(), ids=UNREADABLE)
def test_a_kernel_that_cannot_be_unpacked_is_not_compared(image, tmp_path, monkeypatch):
    """Status 4, with which DKMS installs the modules."""
    (tmp_path / "vmlinuz").write_bytes(image)
    (tmp_path / "iw_cxgb3.ko").touch()
    real = subprocess.run
    monkeypatch.setattr(
        subprocess,
        "run",
        lambda command, **more: real(["echo", "6.12.0-arm64"] if command[0] == "modinfo" else ["true"], **more),
    )
    monkeypatch.setattr(
        sys,
        "argv",
        ["check-btf", str(tmp_path / "iw_cxgb3.ko"), "--theirs", "/dev/null", "--base", str(tmp_path / "vmlinuz")],
    )
    with pytest.raises(SystemExit) as ended:
        check_btf.main()
    assert ended.value.code == check_btf.SKIP


@pytest.mark.parametrize(
    "known, status", [("", 4), ("sk_buff\t232\t1", 1)], ids=["no type information", "unknown names"]
)
def test_structures_that_are_gone_differ(known, status, tmp_path, monkeypatch):
    """A kernel that has renamed all of them is another one, and not one that cannot be read."""
    (tmp_path / "iw_cxgb3.ko").touch()
    ours = "struct l2t_data {\n\tint a; /* 0 4 */\n\t/* size: 4 */\n};"

    def fake(command, **_more):
        printed = (
            known
            if "--sizes" in command
            else ours
            if "dwarf" in command
            else "6.12.0-arm64"
            if command[0] == "modinfo"
            else ""
        )
        return subprocess.CompletedProcess(command, 0, printed, "")

    monkeypatch.setattr(check_btf.subprocess, "run", fake)
    monkeypatch.setattr(check_btf, "unpacked", lambda path, _folder: path)
    monkeypatch.setattr(
        sys, "argv", ["check-btf", str(tmp_path / "iw_cxgb3.ko"), "--theirs", "/dev/null", "--base", "/dev/null"]
    )
    with pytest.raises(SystemExit) as ended:
        check_btf.main()
    assert ended.value.code == status
