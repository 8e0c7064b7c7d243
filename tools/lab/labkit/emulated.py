# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs programs of another architecture on the host, by qemu-user, so that apt and DKMS work in a root of that
architecture.

The kernel starts the emulator for each such program, whichever program executes it (binfmt_misc). Since Linux 6.7 a
user namespace has its own list of emulators, so the host's list does not change. On an older kernel the host must have
the emulator in its list (package qemu-user-binfmt, or qemu-user-static).
"""

import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Sequence

from . import apt, cache, mirror, paths, progress
from .arch import Arch
from .errors import LabError
from .process import run

SUITE = "trixie"  # the first release whose emulators need no libraries, so that they start in any root
SPACE = 400  # MiB
LIST = Path("/proc/sys/fs/binfmt_misc")

# Runs with all privileges in its user namespace, once its ids exist. $1: what is registered.
SETUP = f"""
set -e
read -r _
mount -t binfmt_misc binfmt_misc {LIST} || {{
	echo "programs of another architecture need Linux 6.7, or the package qemu-user-binfmt on the host" >&2
	exit 1
}}
printf %s "$1" >{LIST}/register
shift
exec "$@" </dev/null
"""


def _name(target: Arch) -> str:
    return f"qemu-{target.triplet.split('-')[0]}"


def _fetch(folder: Path, target: Arch) -> None:
    paths.need_space(paths.cache(), SPACE, "fetching an emulator")
    with progress.step(f"downloading {_name(target)} of {SUITE}"):
        (package,) = apt.download(folder, [SUITE], "qemu-user", dependencies=False)
        run(["dpkg-deb", "-x", package, folder / "root"])
    shutil.copy2(folder / "root/usr/bin" / _name(target), folder)
    shutil.rmtree(folder / "debs")
    shutil.rmtree(folder / "root")


def _registered(target: Arch) -> bool:
    """Whether the host has an emulator that works in another root (flag F)."""
    try:
        lines = (LIST / _name(target)).read_text().splitlines()
    except OSError:
        return False
    return "enabled" in lines and any(line.startswith("flags:") and "F" in line for line in lines)


def _entry(target: Arch, emulator: Path) -> str:
    """A 64-bit little-endian program of the architecture, for any system; flags: keep argv[0], and open the emulator
    now."""
    machine = f"\\x{target.elf_machine & 0xff:02x}\\x{target.elf_machine >> 8:02x}"
    magic = r"\x7fELF\x02\x01\x01" + r"\x00" * 9 + r"\x02\x00" + machine
    mask = r"\xff" * 7 + r"\x00" + r"\xff" * 8 + r"\xfe\xff" + r"\xff\xff"
    return f":{_name(target)}:M::{magic}:{mask}:{emulator}:PF"


def popen(command: Sequence[str | os.PathLike], target: Arch, **options) -> subprocess.Popen:
    """Starts a program whose processes can execute those of the target, if the host's cannot. Its standard input is
    empty."""
    if not target.cross or _registered(target):
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, **options)
    folder = cache.entry(
        "qemu-user",
        {"mirror": mirror.debian(), "suite": SUITE, "program": _name(target)},
        lambda path: _fetch(path, target),
    )
    process = subprocess.Popen(
        ["unshare", "--user", "--mount", "sh", "-c", SETUP, "sh", _entry(target, folder / _name(target)), *command],
        stdin=subprocess.PIPE,
        **options,
    )
    try:
        _give_ids(process)
    except OSError as error:
        process.kill()
        process.wait()
        raise LabError(f"programs of another architecture need root and a user namespace: {error}") from None
    with process.stdin:
        os.write(process.stdin.fileno(), b"\n")
    process.stdin = None  # as for any program without input
    return process


def _give_ids(process: subprocess.Popen) -> None:
    """All ids of the host in the process's user namespace, so that files keep their owners."""
    own = os.readlink("/proc/self/ns/user")
    until = time.monotonic() + 30
    while os.readlink(f"/proc/{process.pid}/ns/user") == own:
        if process.poll() is not None or time.monotonic() > until:
            raise OSError("unshare did not make one")
        time.sleep(0.01)
    for ids in ("uid_map", "gid_map"):
        Path(f"/proc/{process.pid}/{ids}").write_text("0 0 4294967295")
