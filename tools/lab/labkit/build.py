# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Builds what guests run, with the compiler and the headers of their own release, as DKMS and dpkg would there.

The result is build/guest/SUITE, which guests see read-only as /t3:
    modules/*.ko    provider/*.so, *.driver    bin/*    log/*
"""

import filecmp
import os
import shutil
import subprocess
from pathlib import Path

from . import image, paths, progress
from .errors import LabError

# Programs of the tree that guests can use, by the CMake target that makes them.
CMAKE_TARGETS = ("cxgb3_provider", "examples", "test_programs", "tools")


def in_build_root(made: image.Image, script: str, log: Path) -> None:
    """Runs a shell script in the build root; the tree is /src there. As an ordinary user this needs user namespaces."""
    root = made.build_root
    if not any(line.split()[4] == "/" for line in Path("/proc/self/mountinfo").read_text().splitlines()):
        # Mounts made here could then be seen by, and stay in, the system around us.
        raise LabError("building for guests needs a root that is a mount point, and a plain chroot's is none; "
                       "before the chroot: mount --bind ROOT ROOT")
    (root / "src").mkdir(exist_ok=True)
    setup = f"mount --rbind /dev {root}/dev && mount --rbind /proc {root}/proc && mount --rbind {paths.REPO} {root}/src && " \
            f"exec chroot {root} /bin/sh -euc \"$1\""
    identity = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as output:
        done = subprocess.run(["unshare", *identity, "--mount", "sh", "-euc", setup, "sh", script],
                              stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "HOME": "/tmp"})
    if done.returncode:
        text = log.read_text(errors="replace").splitlines()
        wrong = [line for line in text if "error: " in line or "No rule to make" in line][:20] or text[-20:]
        raise LabError(f"building for {made.suite} failed (all of it: {log}):\n" + "\n".join(wrong))


def mirror(source: Path, target: Path, skip=lambda path: False) -> None:
    """Makes target's files those of source, leaving alone what is the same, so that make sees what changed. What only the
    target has is what was built there; it stays, except for sources."""
    for path in sorted(source.rglob("*")):
        goal = target / path.relative_to(source)
        if skip(path) or path.is_dir():
            continue
        if not goal.exists() or not filecmp.cmp(path, goal, shallow=False):
            goal.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, goal)
    for goal in target.rglob("*"):
        if goal.suffix in (".c", ".h") and not goal.name.endswith(".mod.c") and not (source / goal.relative_to(target)).exists():
            goal.unlink()


def built(path: Path) -> bool:
    """Whether a file is a product of Kbuild."""
    return path.name.endswith((".o", ".ko", ".mod", ".mod.c", ".cmd")) or path.name in ("modules.order", "Module.symvers")


def modules(made: image.Image, goal: Path) -> None:
    for part in ("kernel", "include"):
        if (paths.REPO / part).is_dir():
            mirror(paths.REPO / part, goal / "src" / part, built)
    in_build_root(made, f"""
        cd /src/build/guest/{made.suite}/src/kernel
        make -C /lib/modules/{made.release}/build M=$PWD -j{os.cpu_count()} modules
        mkdir -p ../../modules
        find . -name '*.ko' -exec cp -p {{}} ../../modules/ \\;""", goal / "log/modules.log")


def programs(made: image.Image, goal: Path) -> None:
    """Provider and programs. They go where guests look: provider/ and bin/."""
    in_build_root(made, f"""
        cd /src
        out=build/guest/{made.suite}
        [ -e $out/cmake/build.ninja ] || cmake -G Ninja -S . -B $out/cmake >/dev/null
        known=$(ninja -C $out/cmake -t targets all)
        for target in {' '.join(CMAKE_TARGETS)}; do
            echo "$known" | grep -q "^$target: phony" && ninja -C $out/cmake $target
        done
        mkdir -p $out/provider $out/bin
        find $out/cmake/userspace/providers -name '*-rdmav*.so' -exec cp -p {{}} $out/provider/ \\;
        cp -p userspace/providers/cxgb3/cxgb3.driver $out/provider/
        find $out/cmake/examples $out/cmake/tools $out/cmake/tests/programs \\
            -name CMakeFiles -prune -o -type f -executable -exec cp -p {{}} $out/bin/ \\; 2>/dev/null || true
        """, goal / "log/programs.log")


def everything(suite: str = "bookworm") -> Path:
    """All that guests of a release run; only what changed is built anew."""
    made = image.get(suite)
    goal = paths.guest_build(suite)
    goal.mkdir(parents=True, exist_ok=True)
    with progress.step(f"building modules and programs for {suite}"):
        modules(made, goal)
        programs(made, goal)
    return goal
