# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian packages of this tree, built and installed in a root of their release.

Roots are layers over the image's build root (overlayfs), so that neither a package's build dependencies nor what it installs
ever touches what other builds use. Making them needs root: dpkg gives files to many owners.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

from . import apt, cache, image, paths, progress
from .errors import LabError
from .process import run, tail

# What packages are built with, beside the build root's compiler.
PACKAGING = ("apt", "debhelper", "dh-dkms", "dpkg-dev", "fakeroot", "lintian", "scdoc", "ccache")
# A small Debian that is somebody's machine: what our packages depend on or recommend, and an init that boots.
MACHINE = ("apt", "dkms", "systemd-sysv", "udev", "dbus", "kmod", "rdma-core", "rdmacm-utils", "ibverbs-utils", "ibverbs-providers", "perftest",
           "iproute2", "ethtool", "procps", "python3", "mokutil")
# The project has no public mail address.
NO_ADDRESS = "bogus-mail-host,bogus-mail-host-in-debian-changelog"


def need_root() -> None:
    if os.getuid() != 0:
        raise LabError("building and installing packages needs root (dpkg gives files to many owners); try sudo")


@contextlib.contextmanager
def layered(lower: Sequence[Path], upper: Path) -> Iterator[Path]:
    """A mount namespace of its own is not needed: the mount is below a folder of ours, and goes."""
    with tempfile.TemporaryDirectory(prefix="t3root-", dir=upper.parent) as name:
        base = Path(name)
        merged, work = base / "merged", base / "work"
        for path in (merged, work, upper):
            path.mkdir(exist_ok=True)
        run(["mount", "-t", "overlay", "overlay", "-o",
             f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}", merged])
        try:
            yield merged
        finally:
            run(["umount", merged])
            cache.remove_tree(work)


def in_root(root: Path, script: str, log: Path, binds: Sequence[tuple[Path, str]] = ()) -> None:
    """Runs a shell script as root in a root; its output goes to the log, and is shown if it fails."""
    setup = ["set -e", f"mount --rbind /dev {root}/dev", f"mount --rbind /proc {root}/proc"]
    for source, target in binds:
        (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        setup.append(f"mount --rbind {shlex.quote(str(source))} {root}{target}")
    # No daemon is to start because a package was installed.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    setup.append(f'exec chroot {root} /bin/sh -euc "$1"')
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        done = subprocess.run(["unshare", "--mount", "sh", "-c", "\n".join(setup), "sh", script], stdin=subprocess.DEVNULL,
                              stdout=output, stderr=subprocess.STDOUT, check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/root",
                                   "DEBIAN_FRONTEND": "noninteractive"})
    policy.unlink()
    if done.returncode:
        raise LabError(f"this failed in a root (all of it: {log}):\n{tail(log, 40)}")


def _layer(name: str, made: image.Image, packages: Sequence[str]) -> Path:
    """The build root with more packages, as a layer that is made once."""
    def fill(folder: Path) -> None:
        with progress.step(f"installing {', '.join(packages)} for {made.suite}"):
            # The build root has no apt. The host's downloads; dpkg of the release installs.
            apt.download(folder, [made.suite], *packages, dependencies=True, installed=made.build_root / "var/lib/dpkg/status")
            with layered([made.build_root], folder / "upper") as root:
                in_root(root, "dpkg --unpack --force-depends /debs/*.deb && dpkg --configure -a", folder / "log",
                        [(folder / "debs", "/debs")])
            shutil.rmtree(folder / "debs")

    recipe = {"image": made.folder.name, "packages": list(packages)}
    return cache.entry(f"{name}-{made.suite}", recipe, fill) / "upper"


RELEASE_NUMBERS = {"bookworm": 12, "trixie": 13, "forky": 14}


def build(suite: str, with_sim: bool = True) -> list[Path]:
    """Builds the packages of a release, and has lintian look at them; an error of lintian's is one of the build. They are left in
    build/deb/SUITE."""
    need_root()
    made = image.get(suite)
    goal = paths.REPO / "build/deb" / suite
    shutil.rmtree(goal, ignore_errors=True)
    goal.mkdir(parents=True)
    tools = _layer("packaging", made, PACKAGING)
    results = paths.cache() / "ccache-packaging"
    results.mkdir(parents=True, exist_ok=True)
    with progress.step(f"building packages for {suite}"), tempfile.TemporaryDirectory(prefix="deb-", dir=goal) as scratch, \
            layered([tools, made.build_root], Path(scratch) / "upper") as root:
        tree = root / "work/t3rdma"
        tree.mkdir(parents=True)
        files = run(["git", "-C", paths.REPO, "ls-files", "--cached", "--others", "--exclude-standard"]).split("\n")
        for name in filter(None, files):
            source = paths.REPO / name
            if source.is_file() and not name.startswith(("tests/", "bench/", "docs/")) or name.startswith("docs/man"):
                (tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, tree / name)
        shutil.copytree(tree / "packaging/debian", tree / "debian")
        changelog = tree / "debian/changelog"
        changelog.write_text(changelog.read_text().replace(f"({paths.version()})", f"({paths.version()}+deb{RELEASE_NUMBERS[suite]})", 1))
        profiles = "" if with_sim else "export DEB_BUILD_PROFILES=pkg.t3rdma.nosim"
        in_root(root, f"""
            export CCACHE_DIR=/ccache CCACHE_BASEDIR=/work/t3rdma CCACHE_NOHASHDIR=1 DEB_BUILD_OPTIONS=parallel={os.cpu_count()}
            {profiles}
            cd /work/t3rdma
            dpkg-buildpackage -b -us -uc -d
            lintian --allow-root --fail-on error --suppress-tags {NO_ADDRESS} --tag-display-limit 0 ../*.changes
            """, goal / "log", [(results, "/ccache")])
        for path in (root / "work").glob("*.deb"):
            if "-dbgsym" not in path.name:
                shutil.copy2(path, goal)
    return sorted(goal.glob("*.deb"))


class Installed:
    """A machine of a release, as a root that commands run in."""

    def __init__(self, suite: str, folder: Path):
        need_root()
        self.made = image.get(suite)
        self.folder = folder
        self._lower = [_layer("machine", self.made, MACHINE), self.made.build_root]
        self._stack = contextlib.ExitStack()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def __enter__(self) -> "Installed":
        self.root = self._stack.enter_context(layered(self._lower, self.folder / "upper"))
        self._logs = 0
        return self

    def __exit__(self, *error) -> None:
        self._stack.close()
        cache.remove_tree(self.folder / "upper")

    def run(self, script: str, binds: Sequence[tuple[Path, str]] = ()) -> str:
        """A shell script in the machine, as if somebody was root there; returns what it wrote."""
        self._logs += 1
        log = self.folder / f"{self._logs:02}.log"
        in_root(self.root, script, log, binds)
        return log.read_text(errors="replace")

    def files(self) -> set[str]:
        """All files and links, without what changes with each run of apt, and without DKMS's own key."""
        out = run(["find", self.root, "-xdev", "-not", "-type", "d", "-printf", "%P\n"])
        volatile = ("var/lib/dpkg/", "var/lib/apt/", "var/cache/", "var/log/", "tmp/", "root/", "dev/", "proc/", "var/lib/systemd/", "debs/",
                    "var/lib/dkms/mok.")
        return {name for name in out.splitlines() if name and not name.startswith(volatile)}
