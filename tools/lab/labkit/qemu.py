# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A QEMU with vfio-user-pci (10.1 or newer).

Debian 12 and 13 ship an older one. There the program of trixie-backports and all its libraries are unpacked
into the cache, without root rights and without changing the host, and run by their own loader, because the host's libc
is older.
"""

import re
import shutil
import subprocess
from pathlib import Path

from . import apt, cache, mirror, paths, progress
from .arch import NATIVE, Arch
from .errors import LabError
from .process import run

MINIMUM = (10, 1)
SUITES = ("trixie", "trixie-backports")
SPACE = 600  # MiB, with a reserve


def recipe(arch: Arch = NATIVE) -> dict:
    """The inputs that determine the private copy."""
    return {"mirror": mirror.debian(), "suites": SUITES, "package": arch.qemu_package}


def parse_version(text: str) -> tuple[int, int]:
    found = re.search(r"version (\d+)\.(\d+)", text)
    if not found:
        raise LabError(f"cannot read a version from: {text.strip()[:80]!r}")
    return int(found[1]), int(found[2])


def _host_command(arch: Arch) -> list[str] | None:
    """The host's own QEMU, if it is new enough and has the device."""
    program = shutil.which(arch.qemu_program)
    if not program:
        return None
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    if version.returncode or parse_version(version.stdout) < MINIMUM:
        return None
    devices = subprocess.run([program, *arch.machine, "-device", "help"], capture_output=True, text=True, check=False)
    return [program] if "vfio-user-pci" in devices.stdout else None


def _private_command(entry: Path, arch: Arch) -> list[str]:
    root = entry / "root"
    return [
        str(root / "usr/lib64/ld-linux-x86-64.so.2"),
        "--library-path",
        str(root / "usr/lib/x86_64-linux-gnu"),
        "--argv0",
        arch.qemu_program,
        str(root / "usr/bin" / arch.qemu_program),
        "-L",
        str(root / "usr/share/qemu"),
        "-L",
        str(root / "usr/share/seabios"),
    ]


def _fetch(folder: Path, arch: Arch) -> None:
    paths.need_space(paths.cache(), SPACE, "fetching QEMU")
    with progress.step(f"downloading {arch.qemu_package} of {SUITES[-1]} (about 40 MB)"):
        packages = apt.download(folder, SUITES, arch.qemu_package, dependencies=True)
    with progress.step(f"unpacking QEMU ({len(packages)} packages)"):
        for package in packages:
            run(["dpkg-deb", "-x", package, folder / "root"])
    shutil.rmtree(folder / "debs")
    have = parse_version(run([*_private_command(folder, arch), "--version"]))
    if have < MINIMUM:
        raise LabError(f"{SUITES[-1]} has QEMU {have[0]}.{have[1]}, needed is {MINIMUM[0]}.{MINIMUM[1]}")


def is_present(arch: Arch = NATIVE) -> bool:
    """Whether command() has to make nothing."""
    return bool(_host_command(arch)) or (paths.cache() / cache.key("qemu", recipe(arch))).is_dir()


def command(arch: Arch = NATIVE) -> list[str]:
    """How to start QEMU."""
    return _host_command(arch) or _private_command(
        cache.entry("qemu", recipe(arch), lambda folder: _fetch(folder, arch)), arch
    )
