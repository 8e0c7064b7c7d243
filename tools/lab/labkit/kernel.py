# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Kernels that the project builds itself, of Debian's source, because Debian's own have no KUnit and no KASAN.

They are small: only what guests and the RDMA stack need, and everything that Debian's guests load to boot is built in. A kernel is made
of the fragments tools/lab/kernels/*.config on top of the kernel's own tinyconfig. Options that a release's source has under another name
are in a fragment NAME-SUITE.config, which follows NAME.config.
"""

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from . import apt, buildroot, cache, mirror, paths, progress
from .errors import LabError, UsageError
from .process import run

# Raised when the making of kernels changes in a way that the recipe does not show.
RECIPE = 1

FRAGMENTS = paths.REPO / "tools/lab/kernels"
SOURCES = {"bookworm": "linux-source-6.1", "trixie": "linux-source-6.12", "forky": "linux-source-7.2"}

SUITES = ("bookworm", "forky")  # that kernels are built for; the fragments have not been tried with trixie's source

SOURCE_ROOM = 300  # MiB
ROOM = 3000  # MiB for the source and all objects, until they are removed

# Never built here; Kconfig files stay, since others include them.
CHECKPATCH = ("checkpatch.pl", "spelling.txt", "const_structs.checkpatch")  # of scripts/
LEFT_OUT = ("Documentation/*/*", "drivers/gpu/*.[ch]", "drivers/media/*.[ch]", "sound/*.[ch]", "drivers/staging/*.[ch]",
            "tools/testing/*.[ch]", "arch/[a-tv-w]*/*.[chS]", "arch/*/*.dts*")
# What building modules needs, next to all headers and makefiles.
KEPT = ("include", "scripts", "arch/x86/include", "tools/objtool")

# KCSAN looks at one access in some hundreds, wherever it is. So that it looks at ours, and as often as it can, only modules that are
# built out of the tree, the RDMA core and the NIC driver are instrumented; the rest reports its barriers alone, which the order of
# accesses around locks is judged by.
WATCHED = r"""sed -i \
    -e 's/^\t\$(CFLAGS_KCSAN))$/\t$(if $(t3-watched),$(CFLAGS_KCSAN),-D__KCSAN_INSTRUMENT_BARRIERS__))/' \
    -e '1a t3-watched = $(or $(KBUILD_EXTMOD),$(filter drivers/infiniband/core/% drivers/net/ethernet/chelsio/%,$(obj)/))' \
    scripts/Makefile.lib
grep -q 't3-watched),' scripts/Makefile.lib"""

# 6.1 refuses the filter on this architecture for want of an unwinder, which it has.
FILTERED = "sed -i '/^config FAULT_INJECTION_STACKTRACE_FILTER/,/select STACKTRACE/{/depends on !X86_64/d}' lib/Kconfig.debug"


class Kind(NamedTuple):
    """A kernel that can be asked for by name."""

    name: str
    text: str
    fragments: tuple[str, ...]
    slowness: float  # how many times slower than Debian's it is; deadlines grow with it
    memory: int  # MiB that a guest needs at least
    arguments: str = ""
    make: str = ""  # more for building modules
    cpus: int = 1  # that a guest needs at least
    edit: str = ""  # shell commands in the source, before it is configured


KINDS = {kind.name: kind for kind in (
    Kind("base", "small, with KUnit", ("base",), 1.0, 512),
    Kind("debug", "with KUnit, KASAN, lockdep, kmemleak, debug objects, fault injection, KCOV", ("base", "debug"), 4.0, 1024,
         "kmemleak=on", "KCOV_INSTRUMENT=y", edit=FILTERED),
    # An access is watched for up to 150 us, since the other CPU of the guest may not run on the host just then. More often than one in
    # 2000 makes the longest KUnit suites take minutes.
    Kind("kcsan", "with KUnit and KCSAN, which reports data races", ("base", "kcsan"), 4.0, 768,
         "kcsan.skip_watch=2000 kcsan.udelay_task=150 kcsan.udelay_interrupt=50", cpus=2, edit=WATCHED),
)}


@dataclass(frozen=True)
class Kernel:
    """A kernel that is built."""

    kind: Kind
    folder: Path
    release: str  # as uname -r

    @property
    def file(self) -> Path:
        """What QEMU boots. A bare vmlinux would be faster, but QEMU enters it before KASAN's shadow is there."""
        return self.folder / "bzImage"

    @property
    def modules(self) -> Path:
        """A squashfs."""
        return self.folder / "modules.squashfs"

    @property
    def build(self) -> Path:
        """What modules are built against."""
        return self.folder / "build"


def kind(name: str) -> Kind:
    if name not in KINDS:
        raise UsageError(f"no such kernel: {name} (known: {', '.join(KINDS)})")
    return KINDS[name]


def fragments(suite: str, wanted: Kind) -> list[Path]:
    """The fragments of a kernel, in their order."""
    paths_of = [FRAGMENTS / f"{name}{of}.config" for name in wanted.fragments for of in ("", f"-{suite}")]
    return [path for path in paths_of if path.exists()]


def recipe(suite: str, wanted: Kind) -> dict:
    """All that decides what a kernel is."""
    return {"recipe": RECIPE, "source": SOURCES[suite], "mirror": mirror.debian(), "left out": LEFT_OUT, "kept": KEPT,
            "fragments": [path.read_text() for path in fragments(suite, wanted)], **({"edit": wanted.edit} if wanted.edit else {})}


def source_recipe(suite: str) -> dict:
    return {"source": SOURCES[suite], "mirror": mirror.debian()}


def keys() -> set[str]:
    """The names of all cache entries that the tree would use as it is now."""
    return {cache.key(f"kernel-{suite}-{name}", recipe(suite, wanted)) for suite in SUITES for name, wanted in KINDS.items()} | \
        {cache.key(name, source_recipe(suite)) for suite in SOURCES for name in (SOURCES[suite], f"checkpatch-{suite}")}


def get(name: str, suite: str, build_root: Path) -> Kernel:
    """A kernel, built if need be with the compiler of a release's build root."""
    wanted = kind(name)
    if suite not in SUITES:
        raise UsageError(f"no kernel of ours is built for {suite} (but for {', '.join(SUITES)})")
    folder = cache.entry(f"kernel-{suite}-{name}", recipe(suite, wanted), lambda path: _make(suite, wanted, build_root, path))
    return Kernel(wanted, folder, json.loads((folder / "kernel.json").read_text())["release"])


def _make(suite: str, wanted: Kind, build_root: Path, folder: Path) -> None:
    paths.need_room(paths.cache(), ROOM, "building a kernel")
    tree = folder / "build"
    _unpack(suite, tree)
    with progress.step(f"building the {wanted.name} kernel of {SOURCES[suite]} (minutes)"):
        buildroot.run_script(build_root, f"cd /work/build\n{wanted.edit}\nmake -s tinyconfig", folder / "config.log", folder)
        configure(tree, fragments(suite, wanted), f'CONFIG_LOCALVERSION="-t3-{wanted.name}"')
        buildroot.run_script(build_root, "cd /work/build && make -s olddefconfig", folder / "config.log", folder)
        missing = lost(tree)
        if missing:
            raise LabError(f"the kernel's configuration lacks what was asked for: {', '.join(missing)}")
        buildroot.run_script(build_root, f"""
            cd /work/build
            nice -n 10 make -j{os.cpu_count()} bzImage modules
            cp arch/x86/boot/bzImage ..
            make -s modules_install INSTALL_MOD_PATH=/work/stage/usr
            """, folder / "build.log", folder)
    _pack_modules(folder)
    _prune(tree)
    made = (tree / "include/config/kernel.release").read_text().strip()
    (folder / "kernel.json").write_text(json.dumps({"release": made}) + "\n")


def source(suite: str) -> Path:
    """The Debian package with the kernel's source, kept because several things are made of it."""
    def fetch(folder: Path) -> None:
        paths.need_room(paths.cache(), SOURCE_ROOM, "the kernel's source")
        with progress.step(f"downloading {SOURCES[suite]} of {suite} (about 140 MB)"):
            apt.download(folder, [suite], SOURCES[suite], dependencies=False)

    folder = cache.entry(SOURCES[suite], source_recipe(suite), fetch)
    [package] = (folder / "debs").glob("*.deb")
    return package


def _extract(suite: str, folder: Path, selection: str) -> None:
    """What tar's options select of the source, into an existing folder."""
    package = source(suite)
    with progress.step(f"unpacking {SOURCES[suite]}"):
        run(["sh", "-euc", f"dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/src/{SOURCES[suite]}.tar.xz | "
             f"tar -xJ --strip-components=1 -C {folder} --wildcards --wildcards-match-slash {selection}"])


def _unpack(suite: str, tree: Path) -> None:
    tree.mkdir()
    _extract(suite, tree, " ".join(f"'--exclude={SOURCES[suite]}/{pattern}'" for pattern in LEFT_OUT))


def checkpatch(suite: str) -> Path:
    """The kernel's checkpatch.pl, beside the lists that it reads."""
    def fill(folder: Path) -> None:
        _extract(suite, folder, " ".join(f"{SOURCES[suite]}/scripts/{name}" for name in CHECKPATCH))

    return cache.entry(f"checkpatch-{suite}", source_recipe(suite), fill) / "scripts" / CHECKPATCH[0]


def configure(tree: Path, fragments: list[Path], *more: str) -> None:
    """Adds the fragments to .config; what comes later counts. The wishes are also kept, to be compared with what came of them."""
    wishes = {}
    for line in [line for path in fragments for line in path.read_text().splitlines()] + list(more):
        if line.startswith("CONFIG_"):
            wishes[line.partition("=")[0]] = line.partition("=")[2]
    lines = [f"# {name} is not set\n" if value == "n" else f"{name}={value}\n" for name, value in wishes.items()]
    (tree / "wishes.config").write_text("".join(lines))
    with open(tree / ".config", "a") as file:
        file.writelines(lines)


def lost(tree: Path) -> list[str]:
    """Wishes that Kconfig did not grant: it drops silently what other options forbid."""
    granted = (tree / ".config").read_text().splitlines()
    options = {line.partition("=")[0] for line in granted}
    wishes = (tree / "wishes.config").read_text().splitlines()
    # "# CONFIG_X is not set" is also granted by an option that is not there at all.
    return [wish for wish in wishes if (wish.split()[1] in options if wish.startswith("#") else wish not in granted)]


def _pack_modules(folder: Path) -> None:
    stage = folder / "stage"
    for path in stage.glob("usr/lib/modules/*/*"):
        if path.is_symlink():  # source and build: of no use in a guest
            path.unlink()
    (stage / "lib").symlink_to("usr/lib")
    release = next((stage / "usr/lib/modules").iterdir()).name
    run(["depmod", "-b", stage, release], env={**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"})
    (stage / "lib").unlink()
    run(["mksquashfs", stage, folder / "modules.squashfs", "-noI", "-noD", "-noF", "-noX", "-all-root", "-no-progress", "-quiet"])
    shutil.rmtree(stage)


def _prune(tree: Path) -> None:
    """Leaves what modules are built against, a tenth of it."""
    for path in sorted(tree.rglob("*"), reverse=True):
        name = path.relative_to(tree).as_posix()
        kept = name.startswith(tuple(f"{folder}/" for folder in KEPT)) or path.name.startswith(("Makefile", "Kbuild")) or \
            name in (".config", "Module.symvers", "arch/x86/kernel/asm-offsets.s") or path.parent == tree and path.name == "wishes.config"
        if path.is_dir() and not path.is_symlink():
            if not any(path.iterdir()):
                path.rmdir()
        elif not kept or path.suffix == ".cmd":
            path.unlink()
