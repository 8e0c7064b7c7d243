# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The kernel's own tests of network drivers (tools/testing/selftests/drivers/net), built of Debian's source for guests
of its release, and installed as the kernel's `make install` does."""

import shutil
from pathlib import Path

from . import arch, buildroot, cache, image, kernel, mirror, paths, progress
from .errors import LabError

SUITES = ("forky",)  # that they have been tried with
TARGETS = ("drivers/net", "drivers/net/hw")
# What these targets are built from.
PARTS = (
    "Documentation/netlink",
    "MAINTAINERS",
    "arch/x86/include/uapi",
    "include/uapi",
    "scripts",
    "tools/arch/x86/include",
    "tools/bpf",
    "tools/build",
    "tools/include",
    "tools/lib",
    "tools/net",
    "tools/scripts",
    "tools/testing/selftests/*.*",
    "tools/testing/selftests/Makefile",
    "tools/testing/selftests/drivers/net",
    "tools/testing/selftests/kselftest",
    "tools/testing/selftests/net",
)
BUILD_PACKAGES = (
    "ccache",
    "clang",
    "gcc",
    "libc6-dev",
    "libelf-dev",
    "liburing-dev",
    "linux-libc-dev",
    "make",
    "pkgconf",
    "python3",
    "python3-jsonschema",
    "python3-yaml",
    "rsync",
    "zlib1g-dev",
)
# What the tests run, beside the packages of the image.
GUEST_PACKAGES = (
    "bpftool",
    "bpftrace",
    "iperf3",
    "iputils-arping",
    "jq",
    "libelf1t64",
    "liburing2",
    "linux-libc-dev",
    "netsniff-ng",
    "openssh-client",
    "openssh-server",
    "python3-yaml",
)
# Modules of Debian's kernel that the tests load, and the image does not have.
MODULES = ("geneve.ko", "ipvlan", "macsec.ko", "netconsole.ko", "ppp", "slip", "vxlan")

# The kernel's own check for liburing names the library before the program that needs it, and so never finds it.
BUILD = f"""cd /work/source
make -C tools/testing/selftests install KSFT_INSTALL_PATH=/work/installed FORCE_TARGETS=1 HAS_IOURING_ZCRX=y \\
    TARGETS='{' '.join(TARGETS)}'"""

SPACE = 2500  # MiB for the root, until it is removed


def recipe(suite: str) -> dict:
    """The inputs that determine the tests."""
    return {
        "mirror": mirror.debian(),
        "source": kernel.SOURCES[suite],
        "build": BUILD,
        "parts": PARTS,
        "packages": BUILD_PACKAGES,
    }


def key(suite: str) -> str:
    return cache.key(f"selftests-{suite}", recipe(suite))


def get(suite: str) -> Path:
    """The folder of the installed tests, built if they are not cached."""
    return cache.entry(f"selftests-{suite}", recipe(suite), lambda folder: _make(suite, folder)) / "installed"


def _make(suite: str, folder: Path) -> None:
    paths.need_space(paths.cache(), SPACE, "building the kernel's tests")
    source, root = folder / "source", folder / "root"
    source.mkdir()
    name = kernel.SOURCES[suite]
    kernel.extract(suite, source, " ".join(f"'{name}/{part}'" for part in PARTS))
    with progress.step(f"making a {suite} root with clang, for the kernel's tests"):
        image.unpack_root(root, folder / "root.log", suite, BUILD_PACKAGES)
    with progress.step(f"building the driver tests of {name}"):
        buildroot.run_script(
            root,
            BUILD,
            folder / "build.log",
            folder,
        )
    if not (folder / "installed/kselftest-list.txt").exists():
        raise LabError(f"{name}: the tests were not installed; see {folder / 'build.log'}")
    shutil.rmtree(source)
    cache.remove_tree(root)


def listed(installed: Path) -> list[tuple[str, str]]:
    """The tests, as (target, program)."""
    lines = (installed / "kselftest-list.txt").read_text().split()
    return [tuple(line.split(":", 1)) for line in lines]


def modules(made: image.Image, folder: Path) -> None:
    """Copies MODULES into a folder."""
    source = made.build_root / "usr/lib/modules" / made.release / "kernel/drivers/net"
    for name in MODULES:
        path = source / name
        if path.suffix == ".ko" and not path.exists():
            path = path.with_name(f"{name}.xz")
        if path.is_dir():
            shutil.copytree(path, folder / name, dirs_exist_ok=True)
        elif path.exists():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, folder)
        else:
            raise LabError(f"{arch.of_image(made.suite)[0]}'s kernel {made.release} has no drivers/net/{name}")
