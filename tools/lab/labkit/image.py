# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Guest images of a Debian release.

Two roots are made of Debian's packages. The build root has that release's compiler and kernel headers; what guests
run is built in it by chroot. The guest root is small and has no compiler; it is a squashfs that guests mount read-only
below a tmpfs. The kernel's modules are a squashfs of their own, so that a test kernel can replace them.
"""

import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
import threading
from dataclasses import dataclass, replace
from pathlib import Path

from . import arch, bzimage, cache, emulated, kernel, mirror, paths, progress
from .arch import NATIVE, Arch
from .cpio import Archive
from .errors import LabError, UsageError
from .kernel import Kernel
from .process import run, tail

# Incremented when the making of images changes in a way that the recipe does not show.
RECIPE = 1

# One with -backports is the release with a newer kernel.
SUITES = ("bookworm", "bookworm-backports", "trixie", "trixie-backports", "forky")
NAMES = arch.names(SUITES)

# MiB, with a reserve.
IMAGE_SPACE = 2000
TEMPORARY_SPACE = 2000  # mmdebstrap's two roots, until they are packed

BUILD_PACKAGES = (
    "linux-headers-amd64",
    "gcc",
    "g++",
    "ccache",
    "make",
    "cmake",
    "ninja-build",
    "pkg-config",
    "busybox-static",
    "xz-utils",
    "zstd",
    "kmod",
    "bc",
    "bison",
    "flex",
    "libelf-dev",
    "libibverbs-dev",
    "librdmacm-dev",
    "ca-certificates",
)
GUEST_PACKAGES = (
    "rdma-core",
    "rdmacm-utils",
    "ibverbs-utils",
    "ibverbs-providers",
    "perftest",
    "iproute2",
    "ethtool",
    "iputils-ping",
    "socat",
    "netcat-openbsd",
    "kmod",
    "mount",
    "procps",
    "strace",
    "tcpdump",
    "python3",
    "python3-pyverbs",
)
# For another architecture the build root has the cross compiler, and what kbuild's programs and headers need:
# `unpack-kernel` unpacks these, since Debian's headers depend on the architecture's own compiler.
CROSS_PACKAGES = (
    "gcc",
    "g++",
    "ccache",
    "make",
    "cmake",
    "ninja-build",
    "pkgconf",
    "xz-utils",
    "zstd",
    "kmod",
    "bc",
    "bison",
    "flex",
    "libelf1t64",
    "libssl3t64",
    "pahole",
    "libcli11-dev",
    "nlohmann-json3-dev",
    "ca-certificates",
)
# Its root is only unpacked, since no program of it runs on the host: without the scripts of packages, which the hook
# `finish-root` makes up for. So it lists essential packages.
ESSENTIAL = (
    "base-files",
    "base-passwd",
    "bash",
    "bsdutils",
    "coreutils",
    "dash",
    "debianutils",
    "diffutils",
    "findutils",
    "grep",
    "gzip",
    "hostname",
    "libc-bin",
    "login",
    "mawk",
    "ncurses-base",
    "ncurses-bin",
    "sed",
    "sysvinit-utils",
    "tar",
    "util-linux",
)
# Folders of the kernel's modules that guests may need, without wireless and the like.
MODULE_FOLDERS = (
    "arch",
    "block",
    "crypto",
    "lib",
    "net",
    "fs/9p",
    "fs/configfs",
    "fs/overlayfs",
    "fs/squashfs",
    "fs/netfs",
    "fs/fscache",
    "fs/nfs",
    "fs/nfsd",
    "fs/nfs_common",
    "fs/lockd",
    "fs/ksmbd",
    "fs/smb",
    "fs/cifs",
    "fs/nls/nls_ucs2_utils.ko",
    "fs/ext4",
    "fs/jbd2",
    "fs/mbcache.ko",
    "drivers/infiniband",
    "drivers/virtio",
    "drivers/block",
    "drivers/char",
    "drivers/nvme",
    "drivers/target",
    "drivers/scsi",
    "drivers/net/dummy.ko",
    "drivers/net/tun.ko",
    "drivers/net/veth.ko",
    "drivers/net/bonding",
    "drivers/net/macvlan.ko",
    "drivers/net/mdio.ko",
    "drivers/net/virtio_net.ko",
    "drivers/net/net_failover.ko",
    "drivers/net/ethernet/chelsio",
    "drivers/net/ethernet/intel/e1000",
    "drivers/net/vrf.ko",
)
# Modules below these folders must have all modules whose symbols they need, or making the image fails. Drivers may lack
# some: guests do not have their hardware.
COMPLETE = ("arch/x86/crypto", "arch/arm64/crypto", "block", "crypto", "fs", "lib")
# What the initramfs loads to find the roots and the host.
BOOT_MODULES = ("virtio_pci", "virtio_blk", "virtio_console", "9pnet_virtio", "9p", "squashfs", "overlay")


def build_packages(target: Arch = NATIVE) -> tuple[str, ...]:
    """BUILD_PACKAGES and the libraries of the project's own build, so that provider and programs build as on a host."""
    listed = paths.REPO / "packaging/build-deps.txt"
    names = [line.split("#")[0].strip() for line in listed.read_text().splitlines()] if listed.exists() else []
    wanted = [name for name in names if re.match(r"lib.*-dev$|nlohmann-json3-dev$", name)]
    if target.cross:
        compiler = (f"gcc-{target.triplet}", f"g++-{target.triplet}")
        theirs = (f"{name}:{target.debian}" for name in ("busybox-static", *wanted) if name not in CROSS_PACKAGES)
        return tuple(sorted({*CROSS_PACKAGES, *compiler, *theirs}))
    return tuple(sorted({*BUILD_PACKAGES, *wanted}))


@dataclass(frozen=True)
class Image:
    """A finished image."""

    suite: str  # its name: that of the release, for another architecture with it, see arch.py
    folder: Path
    release: str  # of its kernel, as uname -r
    boot_modules: tuple[str, ...]  # file names in boot/, in loading order
    other_root: Path | None = None  # instead of the image's
    other_modules: Path | None = None  # the same; it is mounted above the root and may have any files
    own_init: bool = False  # the root's init is process 1, and the agent is one of its services
    kernel: Kernel | None = None  # one of the project instead of Debian's

    @property
    def build_root(self) -> Path:
        return self.folder / "build"

    @property
    def arch(self) -> Arch:
        return arch.of_image(self.suite)[1]

    @property
    def vmlinux(self) -> Path:
        """Debian's kernel."""
        return self.folder / "vmlinux"

    @property
    def kernel_file(self) -> Path:
        """What guests boot."""
        return self.kernel.file if self.kernel else self.vmlinux

    @property
    def uml(self) -> bool:
        """Whether the kernel is a program of the host, User Mode Linux."""
        return self.kernel is not None and self.kernel.kind.uml

    @property
    def disks(self) -> tuple[Path, Path]:
        """Guest root and kernel modules, in this order vda and vdb."""
        own = self.kernel.modules if self.kernel else self.folder / "modules.squashfs"
        return self.other_root or self.folder / "root.squashfs", self.other_modules or own

    @property
    def pace(self) -> float:
        """The factor of deadlines."""
        return self.kernel.kind.slowness if self.kernel else self.arch.slowness

    @property
    def products(self) -> Path:
        """The products of the build for guests; modules are below it per kernel."""
        return paths.guest_build(self.suite)

    def initramfs(self, iommu: bool = False) -> bytes:
        """Made for each lab, so that the guest's init and agent are those of the tree. iommu: the machine has one."""
        modules = {name: (self.folder / "boot" / name).read_bytes() for name in self.boot_modules}
        if iommu and self.arch.iommu_module and not self.kernel:
            driver = self.build_root / "usr/lib/modules" / self.release / self.arch.iommu_module
            modules = {driver.stem: lzma.decompress(driver.read_bytes()), **modules}
        archive = Archive()
        archive.node("dev/console", 5, 1)
        archive.file("bin/busybox", (self.folder / "busybox").read_bytes(), 0o755)
        for name, content in modules.items():
            archive.file(f"boot/{name}", content)
        archive.file("boot/order", "".join(f"{name}\n" for name in modules).encode())
        archive.file("init", (paths.GUEST_FILES / "init").read_bytes(), 0o755)
        for name in ("agent.py", "join", "mount-when-there", "t3lab-agent.service"):
            archive.file(f"agent/{name}", (paths.GUEST_FILES / name).read_bytes())
        archive.file("agent/frames.py", (Path(__file__).parent / "frames.py").read_bytes())
        return archive.data()


def recipe(suite: str) -> dict:
    """The inputs that determine an image."""
    target = arch.of_image(suite)[1]
    return {
        "recipe": RECIPE,
        "suite": suite,
        "mirror": mirror.debian(),
        "build": build_packages(target),
        "guest": GUEST_PACKAGES,
        "modules": MODULE_FOLDERS,
        "boot": BOOT_MODULES,
        **_essential(target),
    }


def _essential(target: Arch) -> dict:
    return {"essential": ESSENTIAL, "finish": (paths.GUEST_FILES / "finish-root").read_text()} if target.cross else {}


def get(suite: str = "bookworm", kernel_name: str | None = None) -> Image:
    """The image of a release, made if it is not cached; with a kernel of the project (see kernel.py) if one is
    named."""
    release, target = arch.of_image(suite)
    if kernel_name:
        if target.cross:
            raise UsageError(f"no kernel of the project is built for {suite}")
        return _with_kernel(get(suite), kernel_name, suite)
    if target.own_kernel:
        return _with_kernel(get(arch.image_name(release, target.same_programs)), target.name, release)
    if suite not in NAMES:
        raise UsageError(f"no such Debian release: {suite} (known: {', '.join(NAMES)})")
    folder = cache.entry(f"image-{suite}", recipe(suite), lambda path: _make(suite, path))
    made = json.loads((folder / "image.json").read_text())
    return Image(suite, folder, made["release"], tuple(made["boot_modules"]))


def _with_kernel(made: Image, name: str, release: str) -> Image:
    own = kernel.get(name, release, made.build_root)
    return replace(made, kernel=own, release=own.release, boot_modules=())


def with_packages(image: Image, packages: tuple[str, ...]) -> Image:
    """The same with more packages in the guest's root."""
    wanted = tuple(sorted({*GUEST_PACKAGES, *packages}))

    def make(folder: Path) -> None:
        paths.need_space(paths.cache(), IMAGE_SPACE, "a guest root")
        with progress.step(f"making a {image.suite} guest root with {', '.join(packages)}"):
            _guest_root(image.suite, folder, wanted)
        if not (folder / "root.squashfs").exists():
            raise LabError(f"making the guest root failed:\n{tail(folder / 'guest.log', 30)}")

    folder = cache.entry(
        f"root-{image.suite}",
        {"recipe": RECIPE, "mirror": mirror.debian(), "guest": wanted, **_essential(image.arch)},
        make,
    )
    return replace(image, other_root=folder / "root.squashfs")


def _make(suite: str, folder: Path) -> None:
    for program in ("mmdebstrap", "sqfstar", "mksquashfs", "depmod"):
        if not shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            raise LabError(f"{program} is missing; packaging/build-deps.txt names the packages to install")
    paths.need_space(paths.cache(), IMAGE_SPACE, "a guest image")
    paths.need_space(Path(tempfile.gettempdir()), TEMPORARY_SPACE, "making a guest image")
    with progress.step(f"making the {suite} guest image (downloads about 250 MB)"):
        guest = threading.Thread(target=_guest_root, args=(suite, folder))
        guest.start()
        try:
            _build_root(suite, folder)
        finally:
            guest.join()
        if not (folder / "root.squashfs").exists():
            raise LabError(f"making the guest root failed:\n{tail(folder / 'guest.log', 30)}")
        release = _kernel(folder, arch.of_image(suite)[1])
        order = _modules(folder, release)
        shutil.copy2(folder / "build/bin/busybox", folder / "busybox")
    (folder / "image.json").write_text(json.dumps({"release": release, "boot_modules": order}, indent=2) + "\n")


def _sources(suite: str) -> list[str]:
    """Arguments of mmdebstrap: the release, standard output, and the mirrors; of backports only the kernel's
    packages."""
    suite = arch.of_image(suite)[0]
    release = suite.removesuffix("-backports")
    if release == suite:
        return [suite, "-", mirror.debian()]
    pin = f"Package: linux-*\\nPin: release n={suite}\\nPin-Priority: 600\\n"
    return [
        f"--setup-hook=printf '{pin}' > \"$1\"/etc/apt/preferences.d/backports",
        release,
        "-",
        mirror.debian(),
        f"deb {mirror.debian()} {suite} main",
    ]


def _mmdebstrap(suite: str, packages: tuple[str, ...], *more: str, variant: str = "essential") -> list[str]:
    return [
        "mmdebstrap",
        f"--variant={variant}",
        "--format=tar",
        f"--include={','.join(packages)}",
        '--aptopt=APT::Install-Recommends "false"',
        '--aptopt=Acquire::Languages "none"',
        # The mirror may be a snapshot whose index has expired.
        '--aptopt=Acquire::Check-Valid-Until "false"',
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        "--dpkgopt=path-exclude=/usr/share/man/*",
        "--dpkgopt=path-exclude=/usr/share/locale/*",
        *more,
        *_sources(suite),
    ]


def _pipe(producer: list[str], consumer: list[str], log: Path, programs: Arch = NATIVE) -> bool:
    with open(log, "wb") as output:
        first = emulated.popen(producer, programs, stdout=subprocess.PIPE, stderr=output)
        second = subprocess.run(consumer, stdin=first.stdout, stdout=output, stderr=output, check=False)
        first.stdout.close()
        return first.wait() == 0 and second.returncode == 0


def _guest_root(suite: str, folder: Path, packages: tuple[str, ...] = GUEST_PACKAGES) -> None:
    target = folder / "root.squashfs"
    plain = ["-noI", "-noD", "-noF", "-noX", "-no-progress", "-quiet"]
    target_arch = arch.of_image(suite)[1]
    # mmdebstrap runs no customize hook for a root that is only unpacked.
    command = _mmdebstrap(suite, packages)
    if target_arch.cross:
        command = _mmdebstrap(
            suite,
            (*ESSENTIAL, *packages),
            f"--architectures={target_arch.debian}",
            f"--extract-hook={paths.GUEST_FILES / 'finish-root'}",
            variant="extract",
        )
    if not _pipe(command, ["sqfstar", *plain, str(target)], folder / "guest.log"):
        target.unlink(missing_ok=True)


def unpack_root(
    root: Path, log: Path, suite: str, packages: tuple[str, ...], *more: str, programs: Arch = NATIVE
) -> None:
    """A Debian root in a new folder; more: options of mmdebstrap; programs: the architecture of those that it
    installs."""
    root.mkdir()
    owner = ["--same-owner"] if os.getuid() == 0 else ["--no-same-owner", "--exclude=./dev/*"]
    if not _pipe(_mmdebstrap(suite, packages, *more), ["tar", "-x", "-C", str(root), *owner], log, programs):
        raise LabError(f"making a root of {suite} failed:\n{tail(log, 30)}")


def _build_root(suite: str, folder: Path) -> None:
    target = arch.of_image(suite)[1]
    cross = (
        [f"--architectures={arch.HOST},{target.debian}", f'--setup-hook=echo {target.name} > "$1"/cross']
        if target.cross
        else []
    )
    unpack_root(
        folder / "build",
        folder / "build.log",
        suite,
        build_packages(target),
        *cross,
        f"--customize-hook={paths.GUEST_FILES / 'unpack-kernel'}",
    )


def _kernel(folder: Path, target: Arch) -> str:
    """Extracts the uncompressed ELF, which boots seconds faster under emulation than a kernel that unpacks itself. That
    of arm64 is not compressed."""
    found = sorted((folder / "build/boot").glob("vmlinuz-*"))
    if len(found) != 1:
        raise LabError(f"expected one kernel in the build root, found {[path.name for path in found]}")
    packed = found[0].read_bytes()
    (folder / "vmlinux").write_bytes(packed if target.cross else unpack_kernel(packed))
    return found[0].name.removeprefix("vmlinuz-")


def unpack_kernel(packed: bytes) -> bytes:
    """The uncompressed ELF of a bzImage."""
    try:
        return bzimage.unpack(packed)
    except ValueError as error:
        raise LabError(str(error)) from None


def _modules(folder: Path, release: str) -> list[str]:
    """Makes the squashfs of modules and the folder of those that the initramfs loads; returns their order."""
    source = folder / "build/usr/lib/modules" / release
    stage = folder / "stage"
    target = stage / "usr/lib/modules" / release
    for name in MODULE_FOLDERS:
        path = source / "kernel" / name
        if path.suffix == ".ko":
            path = next((p for p in (path, path.with_name(path.name + ".xz")) if p.exists()), path)
        goal = target / path.relative_to(source)
        if path.is_dir():
            shutil.copytree(path, goal, copy_function=os.link)
        elif path.exists():
            goal.parent.mkdir(parents=True, exist_ok=True)
            os.link(path, goal)
    for path in source.glob("modules.*"):
        if path.name.startswith(("modules.builtin", "modules.order")):
            shutil.copy2(path, target)
    (stage / "lib").symlink_to("usr/lib")
    symbols = folder / "build/usr/src" / f"linux-headers-{release}" / "Module.symvers"
    report = run(
        ["depmod", "-e", "-E", symbols, "-b", stage, release],
        env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"},
    )
    (stage / "lib").unlink()
    lacking = incomplete(report)
    if lacking:
        raise LabError(f"MODULE_FOLDERS lacks modules that these need: {', '.join(lacking)}")
    run(
        [
            "mksquashfs",
            stage,
            folder / "modules.squashfs",
            "-noI",
            "-noD",
            "-noF",
            "-noX",
            "-all-root",
            "-no-progress",
            "-quiet",
        ]
    )
    boot = folder / "boot"
    boot.mkdir()
    order = []
    for path in _boot_files(target):
        data = path.read_bytes()
        name = path.name.removesuffix(".xz")
        (boot / name).write_bytes(lzma.decompress(data) if path.suffix == ".xz" else data)
        order.append(name)
    shutil.rmtree(stage)
    return order


def incomplete(report: str) -> list[str]:
    """The modules below COMPLETE with symbols that no module of the image exports, of the report of depmod -e."""
    names = set(re.findall(r"/kernel/(\S+)\.ko\S* needs unknown symbol", report))
    return sorted(name for name in names if name.startswith(tuple(f"{folder}/" for folder in COMPLETE)))


def _boot_files(modules: Path) -> list[Path]:
    """The files of BOOT_MODULES and their dependencies, dependencies first; built-in modules have none."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[re.sub(r"\.ko.*", "", path.rpartition("/")[2]).replace("-", "_")] = (path, rest.split())
    order: list[str] = []
    for name in BOOT_MODULES:
        if name in needs:
            path, dependencies = needs[name]
            # modules.dep lists the nearest first
            order += [file for file in [*reversed(dependencies), path] if file not in order]
    return [modules / file for file in order]
