# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The folders of the lab."""

import hashlib
import os
import shutil
from pathlib import Path

from .errors import LabError

REPO = Path(__file__).resolve().parents[3]
GUEST_FILES = REPO / "tools/lab/guest"


def version() -> str:
    """The version of the project, which the C++ tools define."""
    return next(
        line.split('"')[1] for line in (REPO / "tools/common/cli.hh").read_text().splitlines() if "version = " in line
    )


def cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "t3rdma"


def need_space(folder: Path, mebibytes: int, what: str) -> None:
    """Fails before a long step if the disk does not have the space that it needs."""
    free = shutil.disk_usage(folder).free >> 20
    if free < mebibytes:
        raise LabError(f"{what} needs {mebibytes} MiB in {folder}, where {free} MiB are free")


def _area() -> str:
    """Labs of one name can run in different areas of this tree."""
    return os.environ.get("T3LAB_AREA", "")


def runtime() -> Path:
    """Sockets and locks of this tree's running labs. Short, because a socket's path may have 107 characters only."""
    path = Path(f"/tmp/t3lab-{os.getuid()}") / hashlib.sha256(bytes(REPO) + _area().encode()).hexdigest()[:8]
    path.parent.mkdir(mode=0o700, exist_ok=True)
    if path.parent.stat().st_uid != os.getuid():
        raise LabError(f"{path.parent} belongs to another user")
    path.mkdir(exist_ok=True)
    return path


def artifacts(lab: str) -> Path:
    """Logs and captures of a lab; kept after it ended, replaced by the next lab of that name."""
    return REPO / "build/lab" / _area() / lab


def guest_build(suite: str) -> Path:
    """What was built for guests of a Debian release; guests see it as /t3."""
    return REPO / "build/guest" / suite
