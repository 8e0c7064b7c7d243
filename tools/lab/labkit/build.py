# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Builds modules and programs for guests, with the compiler and the headers of their release, as DKMS and dpkg do
there.

The result is build/guest/SUITE, which guests see read-only as /t3:
    modules/*.ko    provider/*.so, *.driver    bin/*    log/*
    kernels/NAME/modules/*.ko: the same for a kernel of the project (see kernel.py); guests that run it see them as
    /t3/modules
"""

import contextlib
import fcntl
import filecmp
import os
import shutil
from pathlib import Path

from . import arch, buildroot, image, paths, points, progress

# CMake targets with programs for guests.
CMAKE_TARGETS = ("cxgb3_provider", "examples", "test_programs", "tools")


def in_build_root(made: image.Image, script: str, log: Path) -> None:
    """Runs a shell script in the image's build root; the tree is /src there, and the folder of the project's kernel
    /work."""
    buildroot.run_script(made.build_root, script, log, made.kernel.folder if made.kernel else None)


@contextlib.contextmanager
def alone(made: image.Image, what: str):
    """Shows a step that builds for an image; other processes that build for it wait. Guests of these may use the
    products: what has not changed is not written again."""
    made.products.mkdir(parents=True, exist_ok=True)
    with open(made.products / ".lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with progress.step(
            f"building {what} for {made.suite}{f', kernel {made.kernel.kind.name}' if made.kernel else ''}"
        ):
            yield


def sync(source: Path, target: Path, skip=lambda path: False) -> None:
    """Copies changed files from source to target, so that make sees what changed. Files that only the target has are
    products and stay, except for sources."""
    for path in sorted(source.rglob("*")):
        goal = target / path.relative_to(source)
        if skip(path) or path.is_dir():
            continue
        if not goal.exists() or not filecmp.cmp(path, goal, shallow=False):
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, goal)
    for goal in target.rglob("*"):
        if (
            goal.suffix in (".c", ".h")
            and not goal.name.endswith(".mod.c")
            and not (source / goal.relative_to(target)).exists()
        ):
            goal.unlink()


def built(path: Path) -> bool:
    """Whether a file is a product of Kbuild."""
    return path.name.endswith((".o", ".ko", ".mod", ".mod.c", ".cmd")) or path.name in (
        "modules.order",
        "Module.symvers",
    )


def modules_folder(made: image.Image) -> Path:
    """Where modules for the image's kernel are built."""
    return made.products / "kernels" / made.kernel.kind.name if made.kernel else made.products


# The tree of a kernel of ours in its build root.
OWN_HEADERS = "/work/build"


def _headers(made: image.Image) -> str:
    """What modules for the image's kernel are built with, in its build root."""
    return OWN_HEADERS if made.kernel else f"/lib/modules/{made.release}/build"


def _copy(parts: tuple[str, ...], tree: Path, instead: dict[str, str]) -> None:
    """Copies those folders of this tree that are there. instead: new texts of some of their files."""
    for part in parts:
        if (paths.REPO / part).is_dir():
            sync(
                paths.REPO / part,
                tree / part,
                lambda path: built(path) or str(path.relative_to(paths.REPO)) in instead,
            )
    for name, text in instead.items():
        goal = tree / name
        if not goal.exists() or goal.read_text() != text:
            goal.parent.mkdir(parents=True, exist_ok=True)
            goal.write_text(text)


# What modules are built from, those of tests, too.
PARTS = ("include", "kernel", "tests/fakes", "tests/kunit", "tests/modules", "tests/tables")


def _kbuild(made: image.Image, source: str, target: str, with_points: bool = False) -> None:
    """Builds the modules of a folder of the tree, with all sources that they may include beside them."""
    out = modules_folder(made)
    src = "races/src" if with_points else "src"
    _copy(PARTS, out / src, points.sources() if with_points else {})
    more = made.kernel.kind.make if made.kernel else ""
    in_build_root(
        made,
        f"""
        cd /src/{out.relative_to(paths.REPO)}
        make -C {_headers(made)} M=$PWD/{src}/{source} -j{os.cpu_count()} {more} modules
        mkdir -p {target}
        find {src}/{source} -name '*.ko' -exec cp -pu {{}} {target}/ \\;""",
        out / f"log/{target}.log",
    )


def modules(made: image.Image) -> None:
    _kbuild(made, "kernel", "modules")


def kunit(suite: str, kernel_name: str | None) -> Path:
    """The KUnit suites for a kernel of ours, or the image's if that is one; returns their folder."""
    made = image.get(suite, kernel_name)
    with alone(made, "KUnit suites"):
        _kbuild(made, "tests/kunit", "kunit", with_points=True)
    return modules_folder(made) / "kunit"


def test_modules(suite: str, kernel_name: str | None = None) -> None:
    """Builds the modules of tests/modules into the folder of modules for guests."""
    made = image.get(suite, kernel_name)
    with alone(made, "modules of tests"):
        _kbuild(made, "tests/modules", "modules")


def races(suite: str, kernel_name: str | None = None) -> Path:
    """The product's modules with the points of tests/races, and the module that holds threads there; returns their
    folder. No guest uses these modules otherwise."""
    made = image.get(suite, kernel_name)
    out = modules_folder(made)
    more = made.kernel.kind.make if made.kernel else ""
    with alone(made, "modules with race points"):
        _copy(("include", "kernel", "tests/fakes", "tests/modules/races"), out / "races/src", points.sources())
        (out / "races/src/Kbuild").write_text("obj-m := tests/modules/races/ kernel/\n")
        in_build_root(
            made,
            f"""
            cd /src/{out.relative_to(paths.REPO)}/races
            make -C {_headers(made)} M=$PWD/src -j{os.cpu_count()} {more} modules
            find src/kernel src/tests/modules/races -name '*.ko' -exec cp -pu {{}} . \\;""",
            out / "log/races.log",
        )
    return out / "races"


def programs(made: image.Image, goal: Path) -> None:
    """Builds provider and programs into provider/ and bin/."""
    cmake = (
        paths.guest_build(
            arch.image_name(made.suite, made.arch.same_programs) if made.arch.same_programs else made.suite
        )
        / "cmake"
    )
    toolchain = f"--toolchain /src/tools/lab/guest/{made.arch.triplet}.cmake" if made.arch.cross else ""
    in_build_root(
        made,
        f"""
        cd /src
        out=build/guest/{made.suite}
        cmake={cmake.relative_to(paths.REPO)}
        [ -e $cmake/build.ninja ] || cmake -G Ninja -S . -B $cmake {toolchain} \\
            -DCMAKE_C_COMPILER_LAUNCHER=ccache -DCMAKE_CXX_COMPILER_LAUNCHER=ccache >/dev/null
        known=$(ninja -C $cmake -t targets all)
        for target in {' '.join(CMAKE_TARGETS)}; do
            echo "$known" | grep -q "^$target: phony" && ninja -C $cmake $target
        done
        mkdir -p $out/provider $out/bin
        find $cmake/userspace/providers -name '*-rdmav*.so' -exec cp -pu {{}} $out/provider/ \\;
        cp -pu userspace/providers/cxgb3/cxgb3.driver $out/provider/
        cp -pu userspace/aix/ofed-env $out/bin/
        find $cmake/examples $cmake/tests/programs $cmake/tools \\
            -name CMakeFiles -prune -o -type f -executable -exec cp -pu {{}} $out/bin/ \\; 2>/dev/null || true
        """,
        goal / "log/programs.log",
    )


def everything(suite: str = "bookworm", kernel_name: str | None = None) -> Path:
    """Builds all that guests of a release run; only changed parts are rebuilt."""
    made = image.get(suite, kernel_name)
    with alone(made, "modules and programs"):
        modules(made)
        programs(made, made.products)
    return made.products
