# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Common code of the benchmarks of kernel modules: products for the guest, and a guest whose clock counts
instructions."""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools/lab"))

from labkit import Lab, build, image, paths, progress, siw, stack  # noqa: E402
from labkit.guest import Guest  # noqa: E402
from labkit.machine import Machine  # noqa: E402

SUITE = "bookworm"


def products(*programs: str, modules: tuple[str, ...] = ()) -> None:
    """Builds for the guest our modules, siw, and of this folder programs (of guest/) and modules (by their folders)."""
    made = image.get(SUITE)
    goal = paths.guest_build(SUITE)
    goal.mkdir(parents=True, exist_ok=True)
    with progress.step(f"building modules for {SUITE}"):
        build.modules(made)
    siw.module(SUITE)
    for name in modules:
        # Beside the sources of our modules: they include tests/fakes.
        build.sync(ROOT / "bench" / name, goal / "src/bench" / name, build.built)
    script = [f"cd /src/{goal.relative_to(ROOT)}", "mkdir -p bin"]
    for name in programs:
        script.append(
            "c++ -std=c++20 -O2 -Wall -Wextra -Werror -static-libstdc++ -static-libgcc -o"
            f" bin/t3-{name.replace('_', '-')} /src/bench/guest/{name}.cc -lrdmacm -libverbs -lpthread"
        )
    for name in modules:
        script.append(
            f"make -C /lib/modules/{made.release}/build M=$PWD/src/bench/{name} modules"
            f" && cp -p src/bench/{name}/*.ko modules/"
        )
    build.in_build_root(made, "\n".join(script), goal / "log/bench.log")


def guest(name: str, *, counted: bool, cpus: int = 1) -> Lab:
    """A lab of one guest without a card. counted: its TSC counts instructions, and so does its clock."""
    return Lab(guests=1, cards=0, wires=[], name=name, load="none", machine=Machine(counted=counted, cpus=cpus))


def load(machine: Guest, *modules: str) -> None:
    """Modules by name, each followed by its parameters."""
    for module in modules:
        machine.check(stack.load_module(*module.split(" ", 1)), 120)


def release() -> str:
    """The name under which figures are comparable: the kernel's release. Its compiler also builds the modules."""
    return image.get(SUITE).release
