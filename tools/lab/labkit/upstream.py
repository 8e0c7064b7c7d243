# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The kernel's cxgb3 for guests, with and without our patches (docs/upstream), and iw_cxgb3 for the patched cxgb3."""

import os
import shutil
import subprocess
from pathlib import Path

from . import build, cache, image, kernel, mirror, paths, progress
from .errors import LabError

PATCHES = paths.REPO / "docs/upstream"
PART = "drivers/net/ethernet/chelsio/cxgb3"


def patches(suite: str) -> list[Path]:
    """Our patches for the cxgb3 of a release's kernel."""
    return [
        PATCHES / f"cxgb3-offload-sgl-{kernel.SOURCES[suite].rpartition('-')[2]}.patch",
        PATCHES / "cxgb3-l2t-namespace.patch",
    ]


def _fetch(suite: str, folder: Path) -> None:
    name = kernel.SOURCES[suite]
    script = (
        f"dpkg-deb --fsys-tarfile {kernel.source(suite)} | tar -xO ./usr/src/{name}.tar.xz | "
        f"tar -xJ -C {folder} --strip-components=1 {name}/{PART}"
    )
    with progress.step(f"unpacking cxgb3 of {name}"):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode or not (folder / PART / "sge.c").exists():
        raise LabError(f"{name} has no cxgb3: {done.stderr.strip()}")


def source(suite: str) -> Path:
    """A tree with Debian's cxgb3, unchanged."""
    recipe = {"mirror": mirror.debian(), "package": kernel.SOURCES[suite]}
    return cache.entry(f"cxgb3-{suite}", recipe, lambda folder: _fetch(suite, folder))


def apply(by: Path, tree: Path, strip: int = 1) -> None:
    """Applies a patch. Fails if it does not apply without fuzz."""
    done = subprocess.run(
        ["patch", "--fuzz=0", "--no-backup-if-mismatch", f"-p{strip}", "-d", tree, "-i", by],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise LabError(f"{by.name} does not apply: {done.stderr or done.stdout}")


def patched(suite: str, tree: Path) -> None:
    """Debian's cxgb3 with our patches, in a new tree. Fails if a patch does not apply without fuzz."""
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source(suite) / "drivers", tree / "drivers")
    for by in patches(suite):
        apply(by, tree)


def modules(suite: str) -> Path:
    """A folder with patched/cxgb3.ko and long/iw_cxgb3.ko, which sends all offload data in one message."""
    made = image.get(suite)
    goal = paths.guest_build(suite) / "upstream"
    goal.mkdir(parents=True, exist_ok=True)
    patched(suite, goal / "linux")
    for part in ("include", "kernel"):
        build.sync(paths.REPO / part, goal / "ours" / part, build.built)
    with progress.step(f"building cxgb3 with our patches for {suite}"):
        build.in_build_root(
            made,
            f"""
            cd /src/build/guest/{suite}/upstream
            headers=/lib/modules/{made.release}/build
            make -C $headers M=$PWD/linux/{PART} CONFIG_CHELSIO_T3=m -j{os.cpu_count()} modules
            make -C $headers M=$PWD/ours/kernel/iw_cxgb3 \\
                KCFLAGS="-I$PWD/ours/include -I$PWD/ours/kernel/include -DT3_STREAM_PIECE_MAX=1024" -j{os.cpu_count()} modules
            mkdir -p patched long
            cp -p linux/{PART}/cxgb3.ko patched/
            cp -p ours/kernel/iw_cxgb3/iw_cxgb3.ko long/""",  # noqa: E501
            paths.guest_build(suite) / "log/upstream.log",
        )  # noqa: E501
    return goal
