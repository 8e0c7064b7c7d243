# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs of another architecture. The emulator is /bin/echo here, which shows how it was started."""

import os
import re
import subprocess

import pytest
from labkit import arch, emulated
from labkit.errors import LabError

ARM64 = arch.ARCHITECTURES["arm64"]
LINUX = tuple(int(part) for part in re.match(r"(\d+)\.(\d+)", os.uname().release).groups())


def program(path, machine, kind=3):
    """An ELF header: 64 bits, little-endian; kind: 2 at a fixed address, 3 position-independent."""
    path.write_bytes(
        b"\x7fELF\x02\x01\x01" + bytes(9) + kind.to_bytes(2, "little") + machine.to_bytes(2, "little") + bytes(44)
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def emulator(tmp_path, monkeypatch):
    folder = tmp_path / "cached"
    folder.mkdir()
    (folder / "qemu-aarch64").symlink_to("/bin/echo")
    monkeypatch.setattr(emulated.cache, "entry", lambda *_: folder)
    monkeypatch.setattr(emulated.mirror, "debian", lambda: "")


def output(command, target=ARM64):
    process = emulated.popen(command, target, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return process.communicate(timeout=30)[0], process.returncode


@pytest.mark.skipif(os.getuid() != 0 or LINUX < (6, 7), reason="needs root and Linux 6.7")
def test_the_kernel_starts_the_emulator_also_below_another_program(tmp_path, emulator):
    for kind in (2, 3):
        other = program(tmp_path / "other", ARM64.elf_machine, kind)
        assert output([other, "a b"]) == (f"{other} {other} a b\n", 0)
        assert output(["sh", "-c", f"cat; id -u; stat -c %u:%g /; exec {other} c"]) == (
            f"0\n0:0\n{other} {other} c\n",
            0,
        )
    assert "Exec format error" in output(["sh", "-c", f"{program(tmp_path / 'third', 243)} 2>&1"])[0]
    assert output(["false"]) == ("", 1)
    # The host has no such emulator.
    assert not emulated._registered(ARM64)
    with pytest.raises(OSError, match="Exec format error"):
        subprocess.run([other], check=False)


def test_programs_of_the_host_need_no_emulator(monkeypatch):
    monkeypatch.setattr(emulated.cache, "entry", lambda *_: pytest.fail("fetched an emulator"))
    assert output(["sh", "-c", "cat; echo $0"], arch.NATIVE) == ("sh\n", 0)


def test_an_emulator_of_the_host_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(emulated, "LIST", tmp_path)
    monkeypatch.setattr(emulated.cache, "entry", lambda *_: pytest.fail("fetched an emulator"))
    entry = "enabled\ninterpreter /usr/bin/qemu-aarch64\nflags: {}\noffset 0\n"
    (tmp_path / "qemu-aarch64").write_text(entry.format("POCF"))
    assert output(["echo", "x"]) == ("x\n", 0)
    for text in (
        entry.format("PO"),
        entry.format("F").replace("enabled", "disabled"),
    ):  # it would be looked up in the other root, or is off
        (tmp_path / "qemu-aarch64").write_text(text)
        assert not emulated._registered(ARM64)


def test_a_namespace_that_cannot_be_made(tmp_path, emulator, monkeypatch):
    (tmp_path / "unshare").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "unshare").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(LabError, match="need root and a user namespace: unshare"):
        output(["true"])
