# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Snapshots of guests that have booted, from which guests continue instead of booting.

A snapshot is what QEMU writes when it migrates a guest, in the cache. Its machine has neither folders of the host nor
NICs nor cards, since QEMU migrates none of these. A guest that continues has them in addition, and finds them when the
agent gets its name (Kind.NAME of frames.py).
"""

import hashlib
import json
import socket
import tempfile
import time
from pathlib import Path
from typing import Sequence

from . import cache, machine, paths, progress
from .arch import NATIVE
from .errors import LabError
from .guest import Guest
from .image import Image

SAVE_DEADLINE = 60.0
SPACE = 300  # MiB, with a reserve


def exists_for(image: Image, wanted: machine.Machine) -> bool:
    """Whether guests continue from a snapshot. Others boot: what differs is what their test or user wants to see.

    A kernel of the project reports errors of its boot.
    """
    special = wanted.boot or wanted.kvm or wanted.counted or wanted.firmware or wanted.iommu or wanted.arguments
    return not (special or image.kernel or image.own_init) and image.arch == NATIVE


def _version(file: Path) -> list:
    """Another program or disk can be at the same path."""
    state = file.stat()
    return [str(file), state.st_size, state.st_mtime_ns]


def recipe(image: Image, wanted: machine.Machine, emulator: Sequence[str]) -> dict:
    files = machine.Files(Path("initramfs"), Path("console"), Path("agent"))
    programs = [Path(word) for word in emulator if Path(word).is_file()]
    return {
        "qemu": [*emulator, *machine.of_qemu(image, wanted, None, files)],
        "files": [_version(file) for file in (*programs, image.kernel_file, *image.disks)],
        "initramfs": hashlib.sha256(image.initramfs()).hexdigest(),
    }


def of(image: Image, wanted: machine.Machine, emulator: Sequence[str]) -> Path:
    """The file of the snapshot, which is made if it is not cached."""

    def make(folder: Path) -> None:
        paths.need_space(paths.cache(), SPACE, "the snapshot of a guest")
        with progress.step(f"making the snapshot of a {image.suite} guest"):
            # Paths of sockets are short.
            with tempfile.TemporaryDirectory(prefix="t3lab-", dir="/tmp") as work:
                _Source(image, wanted, Path(work)).save(emulator, folder / "state")

    return cache.entry(f"snapshot-{image.suite}", recipe(image, wanted, emulator), make) / "state"


class _Source(Guest):
    """The guest of which a snapshot is made."""

    def __init__(self, image: Image, wanted: machine.Machine, folder: Path):
        super().__init__(0, image, wanted, folder, folder, folder, [])
        self._monitor = folder / "monitor"
        self._kernel_name = None  # the guests that continue get theirs later

    def _devices(self) -> list[str]:
        return ["-qmp", f"unix:{self._monitor},server=on,wait=off"]

    def save(self, emulator: Sequence[str], file: Path) -> None:
        try:
            self.boot(emulator)
            self.wait_ready()
            # Guests that continue do not have the log of the boot.
            if trouble := self.new_trouble():
                raise LabError(f"the kernel of the snapshot's guest reports while it boots:\n{trouble}")
            with socket.socket(socket.AF_UNIX) as monitor:
                monitor.settimeout(SAVE_DEADLINE)
                monitor.connect(str(self._monitor))
                _migrate(monitor.makefile("rw"), file)
        except (OSError, ValueError) as error:
            raise LabError(f"the snapshot of a guest was not saved: {error}\n{self._qemu.tail()}") from error
        finally:
            self.end()


def _migrate(monitor, file: Path) -> None:
    def execute(command: str, **arguments) -> dict:
        monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        monitor.flush()
        while "event" in (reply := json.loads(monitor.readline())):
            pass
        if "error" in reply:
            raise LabError(f"QEMU's monitor: {command}: {reply['error']['desc']}")
        return reply["return"]

    monitor.readline()  # the greeting
    execute("qmp_capabilities")
    execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
    execute("migrate", uri=f"file:{file}")
    end = time.monotonic() + SAVE_DEADLINE
    while (state := execute("query-migrate")).get("status") != "completed":
        if state.get("status") in ("failed", "cancelled") or time.monotonic() > end:
            raise LabError(f"the snapshot of a guest was not saved: {state.get('error-desc', state.get('status'))}")
        time.sleep(0.05)
