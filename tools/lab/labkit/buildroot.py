# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs scripts in a release's build root, so that modules and programs for guests are built with its compiler."""

import os
import subprocess
from pathlib import Path

from . import paths
from .errors import LabError


def run_script(root: Path, script: str, log: Path, work: Path | None = None) -> None:
    """Runs a shell script in the root; the tree is /src there, and the folder `work` is /work. ccache's results are
    shared by all trees, which have the same name /src there. As an ordinary user this needs user namespaces."""
    if not any(line.split()[4] == "/" for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        # Otherwise mounts made here could be visible to, and stay in, the host system.
        raise LabError(
            "building for guests needs a root that is a mount point, and that of a plain chroot is not; "
            "before the chroot: mount --bind ROOT ROOT"
        )
    compiled = paths.cache() / "ccache"
    compiled.mkdir(parents=True, exist_ok=True)
    mounts = {
        "dev": Path("/dev"),
        "proc": Path("/proc"),
        "src": paths.REPO,
        "ccache": compiled,
        **({"work": work} if work else {}),
    }
    for name in mounts:
        (root / name).mkdir(exist_ok=True)
    setup = (
        "".join(f"mount --rbind {source} {root / name} && " for name, source in mounts.items())
        + f'exec chroot {root} /bin/sh -euc "$1"'
    )
    identity = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        done = subprocess.run(
            ["unshare", *identity, "--mount", "sh", "-euc", setup, "sh", script],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            env={
                "PATH": "/usr/lib/ccache:/usr/sbin:/usr/bin:/sbin:/bin",
                "LC_ALL": "C.UTF-8",
                "HOME": "/tmp",
                "CCACHE_DIR": "/ccache",
                "CCACHE_MAXSIZE": "2G",
            },
        )
    if done.returncode:
        text = log.read_text(errors="replace").splitlines()
        wrong = [line for line in text if "error: " in line or "No rule to make" in line][:20] or text[-20:]
        raise LabError(f"building in {root} failed (all of it: {log}):\n" + "\n".join(wrong))
