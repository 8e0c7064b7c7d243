# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Kernels that the project builds from Debian's source, because Debian's kernels have no KUnit, no KASAN, and no pages
of 64 KB.

They are small: only what guests and the RDMA stack need, and the modules that Debian's guests load to boot are built
in. A kernel is configured by the fragments tools/lab/kernels/*.config on top of tinyconfig. Options with another name
in a release's source are in a fragment NAME-SUITE.config, which follows NAME.config.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import apt, arch, buildroot, cache, mirror, paths, progress
from .errors import LabError, UsageError
from .process import run

# Incremented when the making of kernels changes in a way that the recipe does not show.
RECIPE = 1

FRAGMENTS = paths.REPO / "tools/lab/kernels"
SOURCES = {"bookworm": "linux-source-6.1", "trixie": "linux-source-6.12", "forky": "linux-source-7.2"}

SUITES = (
    "bookworm",
    "forky",
)  # that kernels for the host's architecture are built for; their fragments have not been tried with trixie's source

SOURCE_SPACE = 300  # MiB
SPACE = 3000  # MiB for the source and all objects, until they are removed

# Sources that are not built; Kconfig files stay, since others include them.
CHECKPATCH = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")  # of scripts/
LEFT_OUT = (
    "Documentation/*/*",
    "drivers/gpu/*.[ch]",
    "drivers/media/*.[ch]",
    "sound/*.[ch]",
    "drivers/staging/*.[ch]",
    "tools/testing/*.[ch]",
    "arch/[a-tv-w]*/*.[chS]",
    "arch/*/*.dts*",
)
# Needed to build modules, beside all headers and makefiles.
KEPT = ("include", "scripts", "arch/x86/include", "tools/objtool")
KEPT_UML = ("arch/um/include", "arch/um/scripts", "arch/x86/um")
# The same for arm64.
LEFT_OUT_ARM64 = (
    *(pattern for pattern in LEFT_OUT if not pattern.startswith("arch/[")),
    "arch/[!a]*/*.[chS]",
    "arch/a[!r]*/*.[chS]",
    "arch/ar[!m]*/*.[chS]",
    "arch/arm/*.[chS]",
)
KEPT_ARM64 = ("include", "scripts", "arch/arm64/include")

# KCSAN samples one access in some hundreds of all instrumented ones. So that it samples ours often, only modules built
# out of the tree, the RDMA core and the NIC driver are instrumented; other code reports only its barriers, which KCSAN
# needs to judge the order of accesses around locks.
WATCHED = r"""sed -i \
    -e 's/^\t\$(CFLAGS_KCSAN))$/\t$(if $(t3-watched),$(CFLAGS_KCSAN),-D__KCSAN_INSTRUMENT_BARRIERS__))/' \
    -e '1a t3-watched = $(or $(KBUILD_EXTMOD),$(filter drivers/infiniband/core/% drivers/net/ethernet/chelsio/%,$(obj)/))' \
    scripts/Makefile.lib
grep -q 't3-watched),' scripts/Makefile.lib"""  # noqa: E501

# 6.1 does not allow the filter on x86-64, although it has the unwinder that the filter needs.
FILTERED = (
    "sed -i '/^config FAULT_INJECTION_STACKTRACE_FILTER/,/select STACKTRACE/{/depends on !X86_64/d}' lib/Kconfig.debug"
)

# The floating-point registers of a host may be larger than the 2696 bytes of 6.1, and ptrace() writes them only with
# their exact length.
REGISTERS = r"""registers=arch/x86/um/os-Linux/registers.c
if grep -q 'HOST_FP_SIZE, 2696' arch/x86/um/user-offsets.c; then
    sed -i 's/HOST_FP_SIZE, 2696/HOST_FP_SIZE, 16384/' arch/x86/um/user-offsets.c
    sed -i -e 's/^int have_xstate_support;/&\nstatic size_t host_fp_len;/' \
        -e '/^int restore_fp_registers/,/^}/s/FP_SIZE \* sizeof(unsigned long)/host_fp_len/' \
        -e 's/^\t\thave_xstate_support = 1;/\t\thost_fp_len = iov.iov_len, have_xstate_support = 1;/' $registers
    [ $(grep -c host_fp_len $registers) = 3 ]
fi"""
# 6.1 walks the regions of a new process without its lock, which lockdep reports, and before it may sleep.
FLUSHED = r"""if ! grep -A9 '^void force_flush_all' arch/um/kernel/tlb.c | grep -q mmap_read_lock; then
    sed -i '/^void force_flush_all/,/^}/{s/^\tfor_each_vma/\tmmap_read_lock(mm);\n&/;s/^}/\tmmap_read_unlock(mm);\n}/}' arch/um/kernel/tlb.c
    sed -i '/^void fork_handler/,/^}/{/^\tforce_flush_all();/d;s/^\tschedule_tail(.*/&\n\tforce_flush_all();/}' arch/um/kernel/process.c
    [ $(grep -c force_flush_all arch/um/kernel/process.c) = 1 ]
fi"""  # noqa: E501

# Not offered on User Mode Linux, which does not preempt the kernel. It also makes the kernel count locks, so that
# in_atomic() is right.
COUNTED = "sed -i '/^config DEBUG_ATOMIC_SLEEP/,/help/{/depends on !ARCH_NO_PREEMPT/d}' lib/Kconfig.debug"

# 6.1's bus of virtual PCI devices (virt-pci): its one buffer and its queue are used by interrupts in the middle of a
# request; a posted write is lost when the queue is full; an answer that takes 40 ms on a busy host is an error, and the
# guest does not yield the host's CPU to the process that it waits for; memset_io() writes config space; and data on the
# stack of interrupts are not in memory that the device shares. All requests wait for their answer here, with interrupts
# off. So the queue needs no interrupt of its own.
PCI = r"""pci=arch/um/drivers/virt-pci.c
if grep -q 'get_cpu_var(um_pci_msg_bufs)' $pci; then
    sed -i -e 's/get_cpu_var(um_pci_msg_bufs)/um_pci_lock()/' -e 's/put_cpu_var(um_pci_msg_bufs)/um_pci_unlock()/' \
        -e '/^\t\tposted = !out;/,/WARN_ON/c\\t\tposted = false;' -e 's/UM_VIRT_PCI_MAXDELAY 40000/UM_VIRT_PCI_MAXDELAY 20000000/' \
        -e 's/^\t\tudelay(1);/\t\tsched_yield();/' -e '/^static void um_pci_bar_set/,/^}/s/OP_CFG_WRITE/OP_MMIO_MEMSET/' -e 's/^\tvirtio_device_ready(dev->vdev);/\tvirtqueue_disable_cb(dev->cmd_vq);\n&/' \
        -e '/^\t\tcmd = (void \*)buf;/a\
\t\tif (extra && extra_size <= sizeof(buf->data)) {\
\t\t\tmemcpy(buf->data, extra, extra_size);\
\t\t\tcmd_size += extra_size;\
\t\t\textra = NULL;\
\t\t}' -e '/^static struct um_pci_message_buffer __percpu/a\
static unsigned long um_pci_flags;\
static int um_pci_depth;\
extern int sched_yield(void);\
\
static struct um_pci_message_buffer *um_pci_lock(void)\
{\
\tunsigned long flags;\
\
\tlocal_irq_save(flags);\
\tif (!um_pci_depth++)\
\t\tum_pci_flags = flags;\
\treturn this_cpu_ptr(um_pci_msg_bufs);\
}\
\
static void um_pci_unlock(void)\
{\
\tif (!--um_pci_depth)\
\t\tlocal_irq_restore(um_pci_flags);\
}' $pci
    [ $(grep -c 'um_pci_lock()' $pci) = 3 ] && [ $(grep -c 'posted = false;' $pci) = 3 ] && [ $(grep -c 'extra = NULL;' $pci) = 2 ]
fi"""  # noqa: E501

# Two defects of cxgb3 that lockdep and the workqueue report, after which lockdep checks nothing more:
# docs/upstream/README.md.
CXGB3 = r"""sge=drivers/net/ethernet/chelsio/cxgb3/sge.c
sed -i -e '/^static void restart_\(ctrl\|offload\)q(/,/^}/s/spin_\(un\)\?lock(&q->lock)/spin_\1lock_bh(\&q->lock)/' \
    -e '/^void t3_sge_stop(/,/^}/s/^\t\tcancel_work_sync(&qs->txq.TXQ_OFLD/\t\tif (!qs->adap)\n\t\t\tcontinue;\n&/' $sge
[ $(grep -c 'spin_lock_bh(&q->lock)' $sge) = 3 ]"""


class Kind(NamedTuple):
    """A kernel that is selected by name."""

    name: str
    text: str
    fragments: tuple[str, ...]
    slowness: float  # how many times slower than Debian's it is; deadlines grow with it
    memory: int  # MiB that a guest needs at least
    arguments: str = ""
    make: str = ""  # further arguments for building modules
    cpus: int = 1  # that a guest needs at least
    edit: str = ""  # shell commands in the source, before it is configured
    uml: bool = False  # a process of the host (User Mode Linux) instead of a machine of QEMU: without NICs
    arm64: bool = False  # cross-compiled

    @property
    def kbuild(self) -> str:
        """Arguments of each make in its tree."""
        return "ARCH=um" if self.uml else ARM64_KBUILD if self.arm64 else ""

    @property
    def target(self) -> str:
        """The file to boot, in the tree after its build."""
        return "linux" if self.uml else "arch/arm64/boot/Image" if self.arm64 else "arch/x86/boot/bzImage"

    @property
    def left_out(self) -> tuple[str, ...]:
        return LEFT_OUT_ARM64 if self.arm64 else LEFT_OUT

    @property
    def kept(self) -> tuple[str, ...]:
        return KEPT_ARM64 if self.arm64 else (*KEPT, *KEPT_UML) if self.uml else KEPT


ARM64_KBUILD = "ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-"

KINDS = {
    kind.name: kind
    for kind in (
        Kind("base", "small, with KUnit", ("base",), 1.0, 512),
        Kind(
            "debug",
            "with KUnit, KASAN, lockdep, kmemleak, debug objects, fault injection, KCOV",
            ("base", "debug"),
            4.0,
            1024,
            "kmemleak=on",
            "KCOV_INSTRUMENT=y",
            edit=f"{FILTERED}\n{CXGB3}",
        ),
        # An access is watched for up to 150 us, since the other CPU of the guest may not be running on the host.
        # Sampling more than one access in 2000 makes the longest KUnit suites take minutes.
        Kind(
            "kcsan",
            "with KUnit and KCSAN, which reports data races",
            ("base", "kcsan"),
            4.0,
            768,
            "kcsan.skip_watch=2000 kcsan.udelay_task=150 kcsan.udelay_interrupt=50",
            cpus=2,
            edit=f"{WATCHED}\n{CXGB3}",
        ),
        Kind(
            "uml",
            "User Mode Linux, with the checks of debug: boots in a second, has one CPU",
            ("base", "debug", "uml"),
            1.0,
            1024,
            "kmemleak=on",
            "ARCH=um KCOV_INSTRUMENT=y",
            edit="\n".join((FILTERED, COUNTED, REGISTERS, FLUSHED, PCI, CXGB3)),
            uml=True,
        ),
    )
}

# Of an architecture that Debian has no kernel for, by its name (see arch.py).
OF_ARCHITECTURES = {
    kind.name: kind
    for kind in (
        Kind(
            "arm64-64k",
            "arm64 with pages of 64 KB",
            ("base", "arm64", "arm64-64k"),
            2.0,
            768,
            make=ARM64_KBUILD,
            arm64=True,
        ),
    )
}


@dataclass(frozen=True)
class Kernel:
    """A kernel that is built."""

    kind: Kind
    folder: Path
    release: str  # as uname -r

    @property
    def file(self) -> Path:
        """What QEMU boots, or a program of the host. An uncompressed vmlinux would be faster, but fails under KASAN:
        QEMU enters it before the shadow memory is set up."""
        return self.folder / Path(self.kind.target).name

    @property
    def modules(self) -> Path:
        """A squashfs."""
        return self.folder / "modules.squashfs"

    @property
    def build(self) -> Path:
        """What modules are built against."""
        return self.folder / "build"


def kind(name: str) -> Kind:
    if name in OF_ARCHITECTURES:
        return OF_ARCHITECTURES[name]
    if name not in KINDS:
        raise UsageError(f"no such kernel: {name} (known: {', '.join(KINDS)})")
    return KINDS[name]


def suites(wanted: Kind) -> tuple[str, ...]:
    """The releases that a kernel is built for."""
    return (arch.ARCHITECTURES[wanted.name].suite,) if wanted.arm64 else SUITES


def every() -> list[tuple[str, Kind]]:
    """All kernels of all releases."""
    return [(suite, wanted) for wanted in (*KINDS.values(), *OF_ARCHITECTURES.values()) for suite in suites(wanted)]


def fragments(suite: str, wanted: Kind) -> list[Path]:
    """The fragments of a kernel, in their order."""
    paths_of = [FRAGMENTS / f"{name}{of}.config" for name in wanted.fragments for of in ("", f"-{suite}")]
    return [path for path in paths_of if path.exists()]


def recipe(suite: str, wanted: Kind) -> dict:
    """The inputs that determine a kernel."""
    return {
        "recipe": RECIPE,
        "source": SOURCES[suite],
        "mirror": mirror.debian(),
        "left out": wanted.left_out,
        "kept": KEPT_ARM64 if wanted.arm64 else KEPT,
        "fragments": [path.read_text() for path in fragments(suite, wanted)],
        **({"edit": wanted.edit} if wanted.edit else {}),
        **({"kept for uml": KEPT_UML} if wanted.uml else {}),
    }


def source_recipe(suite: str) -> dict:
    return {"source": SOURCES[suite], "mirror": mirror.debian()}


def keys() -> set[str]:
    """The names of all cache entries that the current tree uses."""
    return {cache.key(f"kernel-{suite}-{wanted.name}", recipe(suite, wanted)) for suite, wanted in every()} | {
        cache.key(name, source_recipe(suite)) for suite in SOURCES for name in (SOURCES[suite], f"checkpatch-{suite}")
    }


def get(name: str, suite: str, build_root: Path) -> Kernel:
    """A kernel, built with the compiler of a release's build root if it is not cached."""
    wanted = kind(name)
    if suite not in suites(wanted):
        raise UsageError(f"no kernel of the project is built for {suite} (only for {', '.join(suites(wanted))})")
    folder = cache.entry(
        f"kernel-{suite}-{name}", recipe(suite, wanted), lambda path: _make(suite, wanted, build_root, path)
    )
    return Kernel(wanted, folder, json.loads((folder / "kernel.json").read_text())["release"])


def _make(suite: str, wanted: Kind, build_root: Path, folder: Path) -> None:
    paths.need_space(paths.cache(), SPACE, "building a kernel")
    tree = folder / "build"
    _unpack(suite, tree, wanted.left_out)
    with progress.step(f"building the {wanted.name} kernel of {SOURCES[suite]} (minutes)"):
        make = f"make {wanted.kbuild}"
        buildroot.run_script(
            build_root, f"cd /work/build\n{wanted.edit}\n{make} -s tinyconfig", folder / "config.log", folder
        )
        configure(tree, fragments(suite, wanted), f'CONFIG_LOCALVERSION="-t3-{wanted.name}"')
        buildroot.run_script(build_root, f"cd /work/build && {make} -s olddefconfig", folder / "config.log", folder)
        missing = lost(tree)
        if missing:
            raise LabError(f"the kernel's configuration lacks requested options: {', '.join(missing)}")
        buildroot.run_script(
            build_root,
            f"""
            cd /work/build
            nice -n 10 {make} -j{os.cpu_count()} {Path(wanted.target).name} modules
            cp {wanted.target} ..
            {make} -s modules_install INSTALL_MOD_PATH=/work/stage/usr
            """,
            folder / "build.log",
            folder,
        )
    _pack_modules(folder)
    _prune(tree, wanted.kept)
    made = (tree / "include/config/kernel.release").read_text().strip()
    (folder / "kernel.json").write_text(json.dumps({"release": made}) + "\n")


def source(suite: str) -> Path:
    """The Debian package with the kernel's source, cached because several steps use it."""

    def fetch(folder: Path) -> None:
        paths.need_space(paths.cache(), SOURCE_SPACE, "the kernel's source")
        with progress.step(f"downloading {SOURCES[suite]} of {suite} (about 140 MB)"):
            apt.download(folder, [suite], SOURCES[suite], dependencies=False)

    folder = cache.entry(SOURCES[suite], source_recipe(suite), fetch)
    [package] = (folder / "debs").glob("*.deb")
    return package


def extract(suite: str, folder: Path, selection: str) -> None:
    """Extracts the part of the source that tar's options select into an existing folder."""
    package = source(suite)
    with progress.step(f"unpacking {SOURCES[suite]}"):
        run(
            [
                "sh",
                "-euc",
                (
                    f"dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/src/{SOURCES[suite]}.tar.xz | "
                    f"tar -xJ --strip-components=1 -C {folder} --wildcards --wildcards-match-slash {selection}"
                ),
            ]
        )


def _unpack(suite: str, tree: Path, left_out: tuple[str, ...]) -> None:
    tree.mkdir()
    extract(suite, tree, " ".join(f"'--exclude={SOURCES[suite]}/{pattern}'" for pattern in left_out))


def checkpatch(suite: str) -> Path:
    """The kernel's checkpatch.pl, with the lists that it reads."""

    def fill(folder: Path) -> None:
        extract(suite, folder, " ".join(f"{SOURCES[suite]}/scripts/{name}" for name in CHECKPATCH))

    return cache.entry(f"checkpatch-{suite}", source_recipe(suite), fill) / "scripts" / CHECKPATCH[0]


def configure(tree: Path, fragments: list[Path], *more: str) -> None:
    """Adds the fragments to .config; later ones take precedence. The requested options are also stored, to compare them
    with the result."""
    requested = {}
    for line in [line for path in fragments for line in path.read_text().splitlines()] + list(more):
        if line.startswith("CONFIG_"):
            requested[line.partition("=")[0]] = line.partition("=")[2]
    lines = [f"# {name} is not set\n" if value == "n" else f"{name}={value}\n" for name, value in requested.items()]
    (tree / "requested.config").write_text("".join(lines))
    with open(tree / ".config", "a") as file:
        file.writelines(lines)


def lost(tree: Path) -> list[str]:
    """Requested options that Kconfig dropped, which it does without a message if their dependencies are not met."""
    result = (tree / ".config").read_text().splitlines()
    options = {line.partition("=")[0] for line in result}
    requested = (tree / "requested.config").read_text().splitlines()
    # "# CONFIG_X is not set" also holds for an option that does not exist.
    return [
        option
        for option in requested
        if (option.split()[1] in options if option.startswith("#") else option not in result)
    ]


def _pack_modules(folder: Path) -> None:
    stage = folder / "stage"
    for path in stage.glob("usr/lib/modules/*/*"):
        if path.is_symlink():  # source and build: not needed in a guest
            path.unlink()
    (stage / "lib").symlink_to("usr/lib")
    release = next((stage / "usr/lib/modules").iterdir()).name
    run(["depmod", "-b", stage, release], env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
    (stage / "lib").unlink()
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
    shutil.rmtree(stage)


def _prune(tree: Path, wanted: tuple[str, ...]) -> None:
    """Removes all but the files that modules are built against, a tenth of the tree."""
    for path in sorted(tree.rglob("*"), reverse=True):
        name = path.relative_to(tree).as_posix()
        kept = (
            name.startswith(tuple(f"{folder}/" for folder in wanted))
            or path.name.startswith(("Makefile", "Kbuild"))
            or name in (".config", "Module.symvers", "arch/x86/kernel/asm-offsets.s")
            or path.parent == tree
            and path.name == "requested.config"
        )
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif not kept or path.suffix == ".cmd":
            path.unlink()
