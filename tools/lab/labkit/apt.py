# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Downloads Debian packages of any release with a private state of apt: without root rights and without changing the
host."""

import shutil
from pathlib import Path
from typing import Sequence

from . import mirror
from .process import run

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


def download(
    folder: Path,
    suites: Sequence[str],
    *packages: str,
    dependencies: bool,
    installed: Path | None = None,
    architectures: Sequence[str] = ("amd64",),
) -> list[Path]:
    """The packages of the last of the suites, with or without their dependencies, in a new folder `debs`. installed:
    the dpkg status of a root that has some of them. architectures: of the root, its own first."""
    state, debs = folder / "apt", folder / "debs"
    for name in ("lists/partial", "cache/archives/partial"):
        (state / name).mkdir(parents=True)
    debs.mkdir()
    (state / "status").write_bytes(installed.read_bytes() if installed else b"")
    (state / "sources.list").write_text(
        "".join(f"deb [signed-by={KEYRING}] {mirror.debian()} {suite} main\n" for suite in suites)
    )
    apt = ["apt-get", "-q", "-y"]
    for setting in (
        f"Dir::Etc::sourcelist={state}/sources.list",
        "Dir::Etc::sourceparts=/dev/null",
        "Dir::Etc::preferencesparts=/dev/null",
        f"Dir::State={state}",
        f"Dir::State::lists={state}/lists",
        f"Dir::State::status={state}/status",
        f"Dir::Cache={state}/cache",
        f"Dir::Cache::archives={debs}",
        "APT::Install-Recommends=false",
        "Acquire::Languages=none",
        "Acquire::Check-Valid-Until=false",  # the mirror may be a snapshot whose index has expired
        "APT::Sandbox::User=",
        f"APT::Architecture={architectures[0]}",
        *(f"APT::Architectures::={name}" for name in architectures),
        "Debug::NoLocking=true",
    ):
        apt += ["-o", setting]
    (debs / "partial").mkdir()
    run([*apt, "update"])
    if dependencies:
        run([*apt, "-t", suites[-1], "--download-only", "install", *packages])
    else:
        run([*apt, "download", *(f"{package}/{suites[-1]}" for package in packages)], cwd=debs)
    shutil.rmtree(state)
    return sorted(debs.glob("*.deb"))
