# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian packages of this tree, built in a root of their release.

Roots are layers over the image's build root (overlayfs), so that neither build dependencies nor installed packages
affect other builds. Making them needs root: dpkg gives files to many owners.
"""

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Iterator, Sequence

from . import apt, arch, cache, emulated, image, mirror, paths, progress
from .arch import NATIVE, Arch
from .errors import LabError
from .process import run, tail

# Packages for building packages, beside the build root's compiler.
PACKAGING = ("apt", "debhelper", "dh-dkms", "dpkg-dev", "fakeroot", "lintian", "scdoc", "ccache")
# For another architecture also the packages of a build root, and the dependencies of the provider.
I386_PACKAGES = ("gcc", "g++", "make", "cmake", "ninja-build", "pkgconf", "libibverbs-dev")
I386_SPACE = 1500  # MiB
# The project has no public mail address.
NO_ADDRESS = "bogus-mail-host,bogus-mail-host-in-debian-changelog"


def need_root() -> None:
    if os.getuid() != 0:
        raise LabError("building and installing packages needs root (dpkg gives files to many owners); try sudo")


@contextlib.contextmanager
def layered(lower: Sequence[Path], upper: Path) -> Iterator[Path]:
    """Mounts an overlay in a temporary folder and unmounts it at the end."""
    with tempfile.TemporaryDirectory(prefix="t3root-", dir=upper.parent) as name:
        base = Path(name)
        merged, work = base / "merged", base / "work"
        for path in (merged, work, upper):
            path.mkdir(exist_ok=True)
        run(
            [
                "mount",
                "-t",
                "overlay",
                "overlay",
                "-o",
                f"lowerdir={':'.join(map(str, lower))},upperdir={upper},workdir={work}",
                merged,
            ]
        )
        try:
            yield merged
        finally:
            run(["umount", merged])
            cache.remove_tree(work)


def in_root(
    root: Path, script: str, log: Path, binds: Sequence[tuple[Path, str]] = (), programs: Arch = NATIVE
) -> None:
    """Runs a shell script as root in a root; its output is in the log, and in the error if it fails. programs: their
    architecture."""
    setup = ["set -e", f"mount --rbind /dev {root}/dev", f"mount --rbind /proc {root}/proc"]
    for source, target in binds:
        (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        setup.append(f"mount --rbind {shlex.quote(str(source))} {root}{target}")
    # Prevents packages from starting daemons.
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    setup.append(f'exec chroot {root} /bin/sh -euc "$1"')
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        status = emulated.popen(
            ["unshare", "--mount", "sh", "-c", "\n".join(setup), "sh", script],
            programs,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "LC_ALL": "C.UTF-8",
                "HOME": "/root",
                "DEBIAN_FRONTEND": "noninteractive",
            },
        ).wait()
    policy.unlink()
    if status:
        raise LabError(f"a script failed in a root (log: {log}):\n{tail(log, 40)}")


def layer(name: str, made: image.Image, packages: Sequence[str]) -> Path:
    """The build root with more packages, as a layer that is made once."""

    def fill(folder: Path) -> None:
        architectures = (arch.HOST, made.arch.debian) if made.arch.cross else (arch.HOST,)
        with progress.step(f"installing {', '.join(packages)} for {made.suite}"):
            # The build root has no apt. The host's apt downloads; dpkg of the release installs.
            apt.download(
                folder,
                [arch.of_image(made.suite)[0]],
                *packages,
                dependencies=True,
                installed=made.build_root / "var/lib/dpkg/status",
                architectures=architectures,
            )
            with layered([made.build_root], folder / "upper") as root:
                in_root(
                    root,
                    "dpkg --unpack --force-depends /debs/*.deb && dpkg --configure -a",
                    folder / "log",
                    [(folder / "debs", "/debs")],
                )
            shutil.rmtree(folder / "debs")

    recipe = {"image": made.folder.name, "packages": list(packages)}
    return cache.entry(f"{name}-{made.suite}", recipe, fill) / "upper"


RELEASE_NUMBERS = {"bookworm": 12, "trixie": 13, "forky": 14}
# Releases with 32-bit programs, which also get the provider for those.
WITH_I386 = ("bookworm",)


def _i386_root(suite: str) -> Path:
    """A root of i386, whose programs the host's processor and kernel can run."""

    def fill(folder: Path) -> None:
        paths.need_space(paths.cache(), I386_SPACE, "a root for i386")
        with progress.step(f"making a root for building i386 packages of {suite} (downloads about 150 MB)"):
            image.unpack_root(
                folder / "root",
                folder / "log",
                suite,
                tuple(recipe["packages"]),
                "--architectures=i386",
                "--skip=check/qemu",
            )

    recipe = {"mirror": mirror.debian(), "packages": sorted({*PACKAGING, *I386_PACKAGES})}
    return cache.entry(f"packaging-i386-{suite}", recipe, fill) / "root"


def _sources(tree: Path, suite: str) -> None:
    """A Debian source tree of this tree's files."""
    files = run(["git", "-C", paths.REPO, "ls-files", "--cached", "--others", "--exclude-standard"]).split("\n")
    for name in filter(None, files):
        source = paths.REPO / name
        if (
            source.is_file()
            and not name.startswith(("tests/", "bench/", "docs/"))
            or name.startswith(("docs/man", "tests/layout/check-btf"))
        ):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name)
    shutil.copytree(tree / "packaging/debian", tree / "debian")
    changelog = tree / "debian/changelog"
    changelog.write_text(
        changelog.read_text().replace(f"({paths.version()})", f"({paths.version()}+deb{RELEASE_NUMBERS[suite]})", 1)
    )


def _build(suite: str, lower: Sequence[Path], options: str, goal: Path, log: Path) -> None:
    """Builds and checks the packages of the root's architecture, and copies them to the folder goal."""
    results = paths.cache() / "ccache-packaging"
    results.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="deb-", dir=goal) as scratch, layered(
        lower, Path(scratch) / "upper"
    ) as root:
        _sources(root / "work/t3rdma", suite)
        in_root(
            root,
            f"""
            export CCACHE_DIR=/ccache CCACHE_BASEDIR=/work/t3rdma CCACHE_NOHASHDIR=1 DEB_BUILD_OPTIONS="parallel={os.cpu_count()} noautodbgsym"
            cd /work/t3rdma
            dpkg-buildpackage -us -uc -d {options}
            lintian --allow-root --fail-on error,warning --suppress-tags {NO_ADDRESS} --tag-display-limit 0 ../*.changes
            """,  # noqa: E501
            log,
            [(results, "/ccache")],
        )  # noqa: E501
        for path in (root / "work").glob("*.deb"):
            shutil.copy2(path, goal)


def build_cross(name: str) -> list[Path]:
    """Builds the packages of another architecture that depend on it, with the cross compiler: for the provider, the
    tools and the library. The sources for DKMS are in a package of the release."""
    need_root()
    made = image.get(name)
    suite = arch.of_image(name)[0]
    goal = paths.REPO / "build/deb" / name
    shutil.rmtree(goal, ignore_errors=True)
    goal.mkdir(parents=True)
    tools = layer("packaging", made, (*PACKAGING, f"pkgconf:{made.arch.debian}"))
    with progress.step(f"building packages for {suite}, {made.arch.debian}"):
        _build(suite, [tools, made.build_root], f"-B -a {made.arch.debian}", goal, goal / "log")
    return sorted(goal.glob("*.deb"))


def build(suite: str, with_sim: bool = True, i386: bool | None = None) -> list[Path]:
    """Builds the packages of a release, and checks them with lintian, whose errors and warnings fail the build. They
    are in build/deb/SUITE. i386: also those for 32-bit programs (None: if the release has such)."""
    need_root()
    made = image.get(suite)
    goal = paths.REPO / "build/deb" / suite
    shutil.rmtree(goal, ignore_errors=True)
    goal.mkdir(parents=True)
    tools = layer("packaging", made, PACKAGING)
    with progress.step(f"building packages for {suite}"):
        _build(suite, [tools, made.build_root], "-b" if with_sim else "-b -Ppkg.t3rdma.nosim", goal, goal / "log")
    if suite in WITH_I386 if i386 is None else i386:
        root = _i386_root(suite)
        with progress.step(f"building packages for {suite}, i386"):
            _build(suite, [root], "-B", goal, goal / "log-i386")
    return sorted(goal.glob("*.deb"))
