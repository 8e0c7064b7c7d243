# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""An installed machine of a Debian release: a root in which packages are installed, and that guests boot.

Its modules and programs are those of its packages, and its own init starts them; it uses no files of the tree.
"""

import contextlib
import hashlib
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Sequence

from . import cache, image, package, paths, progress
from .process import run

# A small Debian: the dependencies and recommendations of our packages, and an init.
PACKAGES = (
    "apt",
    "dkms",
    "systemd-sysv",
    "udev",
    "dbus",
    "kmod",
    "rdma-core",
    "rdmacm-utils",
    "ibverbs-utils",
    "ibverbs-providers",
    "perftest",
    "iproute2",
    "iputils-ping",
    "pciutils",
    "ethtool",
    "procps",
    "python3",
    "mokutil",
)
SPACE = 4000  # MiB for the installed root and the image that guests boot
# For another architecture the machine is a root of its own, not a layer over one for building; its compiler and dpkg
# are emulated.
OTHER_PACKAGES = (*PACKAGES, "gcc", "make", "openssl", "pahole", "zstd")
# The lab has its own initramfs; making one under emulation takes many minutes.
NO_INITRAMFS = "--dpkgopt=path-exclude=/etc/kernel/*/initramfs-tools"
# Not needed in a guest; the folders stay.
NOT_BOOTED = ("debs/*", "src/*", "work/*", "tmp/*", "dev/*", "proc/*", "var/cache/apt/*")


# Newer than /usr, so that the first boot does not rebuild the indexes of hardware and libraries, which takes minutes
# under emulation.
UP_TO_DATE = {"/etc/.updated": b"", "/var/.updated": b""}
APT = "apt-get -qy -o Dpkg::Use-Pty=0 -o APT::Install-Recommends=false -o Acquire::Check-Valid-Until=false"


def _other_root(made: image.Image) -> Path:
    def fill(folder: Path) -> None:
        paths.need_space(paths.cache(), SPACE, "a machine of another architecture")
        with progress.step(f"installing a machine of {made.suite}, whose programs are emulated (about ten minutes)"):
            image.unpack_root(
                folder / "root",
                folder / "log",
                made.suite,
                tuple(recipe["packages"]),
                f"--architectures={made.arch.debian}",
                "--mode=root",
                "--skip=check/qemu",
                "--dpkgopt=force-unsafe-io",
                NO_INITRAMFS,
                programs=made.arch,
            )

    recipe = {
        "image": made.folder.name,
        "packages": [*OTHER_PACKAGES, f"linux-image-{made.release}", f"linux-headers-{made.release}"],
    }
    return cache.entry(f"machine-{made.suite}", recipe, fill) / "root"


def _with_packages(made: image.Image, debs: Sequence[Path], lower: Sequence[Path]) -> Path:
    """A layer in which apt installed these files. DKMS takes minutes, so the layer is cached."""

    def fill(folder: Path) -> None:
        with progress.step(f"installing {', '.join(path.name for path in debs)}"), package.layered(
            lower, folder / "upper"
        ) as root:
            package.in_root(
                root,
                f"depmod {made.release} && {APT} install {' '.join(f'/debs/{path.name}' for path in debs)}",
                folder / "log",
                [(debs[0].parent, "/debs")],
                made.arch,
            )

    recipe = {
        "root": [path.parent.name for path in lower],
        "debs": [hashlib.sha256(path.read_bytes()).hexdigest() for path in debs],
    }
    return cache.entry(f"installed-{made.suite}", recipe, fill) / "upper"


class Installed:
    """A machine as a root in which commands run; with packages of ours, if their files are given."""

    def __init__(self, suite: str, folder: Path, debs: Sequence[Path] = ()):
        package.need_root()
        self.made = image.get(suite)
        self.folder = folder
        if self.made.arch.cross:
            self._lower = [_other_root(self.made)]
        else:
            self._lower = [package.layer("machine", self.made, PACKAGES), self.made.build_root]
        if debs:
            self._lower.insert(0, _with_packages(self.made, debs, self._lower))
        self._stack = contextlib.ExitStack()
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        paths.need_space(folder, SPACE, "an installed machine")

    def __enter__(self) -> "Installed":
        self.root = self._stack.enter_context(package.layered(self._lower, self.folder / "upper"))
        self._logs = 0
        return self

    def __exit__(self, *error) -> None:
        self._stack.close()
        cache.remove_tree(self.folder / "upper")
        for path in self.folder.glob("*.squashfs"):
            path.unlink()

    def run(self, script: str, binds: Sequence[tuple[Path, str]] = ()) -> str:
        """Runs a shell script as root in the machine; returns its output."""
        self._logs += 1
        log = self.folder / f"{self._logs:02}.log"
        package.in_root(self.root, script, log, binds, self.made.arch)
        return log.read_text(errors="replace")

    def files(self) -> set[str]:
        """All files and links, without those that each run of apt changes, and without DKMS's own key."""
        out = run(["find", self.root, "-xdev", "-not", "-type", "d", "-printf", "%P\n"])
        volatile = (
            "var/lib/dpkg/",
            "var/lib/apt/",
            "var/cache/",
            "var/log/",
            "tmp/",
            "root/",
            "dev/",
            "proc/",
            "var/lib/systemd/",
            "debs/",
            "var/lib/dkms/mok.",
            f"usr/lib/modules/{self.made.release}/modules.",
        )
        return {name for name in out.splitlines() if name and not name.startswith(volatile)}

    def image(self, name: str = "machine", later: dict[str, bytes] | None = None) -> image.Image:
        """The image that guests boot: the machine in its current state. later: files (by path) that are written to its
        disk after it was packed under that name; guests do not keep their changes."""
        root, more = self.folder / f"{name}.squashfs", self.folder / f"{name}-later.squashfs"
        if not root.exists():
            with progress.step(f"packing an installed machine of {self.made.suite}"):
                self._pack(self.root, root, "-wildcards", "-e", *NOT_BOOTED)
        with tempfile.TemporaryDirectory(prefix="later-", dir=self.folder) as scratch:
            for path, data in {**UP_TO_DATE, **(later or {})}.items():
                target = Path(scratch, path.lstrip("/"))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            Path(scratch).chmod(0o755)
            self._pack(Path(scratch), more)
        return replace(self.made, other_root=root, other_modules=more, own_init=True)

    @staticmethod
    def _pack(source: Path, target: Path, *more: str) -> None:
        run(
            ["mksquashfs", source, target, "-noappend", "-noI", "-noD", "-noF", "-noX", "-no-progress", "-quiet", *more]
        )
