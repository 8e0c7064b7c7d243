# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The series for rdma-core: the header of the interface to the kernel, then the provider.

rdma-core's sources are not in any Debian package, so nothing here is built with them. New files need no context. The
lists of rdma-core that name a provider are edited if a checkout is given.
"""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from labkit import LabError, apt, cache, mirror, paths
from labkit.process import run

from . import patches, rules, transform
from .rules import EVERY, Edit

FILES = Path(__file__).parent / "rdma-core"
HEADER = "kernel-headers/rdma/cxgb3-abi.h"
PROVIDER = "providers/cxgb3"
RELEASE = "65"  # of rdma-core

# Not needed beside the library's sources; verbs_abi.h is another one.
DROPPED = (
    "CMakeLists.txt",
    "README.md",
    "cxgb3.driver",
    "cxgb3.map",
    "self_check.c",
    "self_check.h",
    "t3_cpl.h",
    "verbs_abi.h",
)
SOURCES = ("userspace/providers/cxgb3", "userspace/common", "include/hw")

EDITS = (
    Edit(EVERY, r'"userspace/providers/cxgb3/self_check\.h"\n', ""),
    Edit(EVERY, r'(["(])(?:userspace/(?:providers/cxgb3|common)|include/hw)/', r"\1"),
    Edit("*/counters.h", r"; tools/cxgb3-counters prints it"),
    Edit(EVERY, r'"include/uapi/t3_abi\.h"', "<rdma/cxgb3-abi.h>"),
    Edit("*/glue.c", r"^#include (?=#include|\n)", ""),
    Edit("*/glue.c", r"^#define container_of.*\n", ""),
    # Commands in one piece: the library has types for their first part only.
    Edit("*.c", r"&(cmd|resp),(\s+)(sizeof\(\1\)|&resp_size)", r"(void *)&\1,\2\3"),
    Edit("*/glue.c", r"\bresp\.fw_ver\b", "resp.base.fw_ver"),
    Edit("*/glue.c", r"^static __attribute__\(\(constructor\)\)[\s\S]*", "PROVIDER_DRIVER(cxgb3, cxgb3_device_ops);\n"),
)

# Before which line a list gets which line.
LISTS = {
    "CMakeLists.txt": (r"add_subdirectory\(providers/cxgb4\)", "add_subdirectory(providers/cxgb3) # NO SPARSE"),
    "kernel-headers/CMakeLists.txt": (r"  rdma/cxgb4-abi\.h", "  rdma/cxgb3-abi.h"),
}


def files() -> dict[str, str]:
    """The files of the provider, by their path in rdma-core."""
    names = subprocess.run(
        ["git", "-C", paths.REPO, "ls-files", *SOURCES], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.split()
    texts = {}
    for name in names:
        if Path(name).name in DROPPED:
            continue
        text = (paths.REPO / name).read_text()
        if "T3_RDMA_CORE" in text:
            text = transform.decided(text, {"T3_RDMA_CORE": RELEASE})
        texts[name] = text
    for edit in EDITS:
        transform.edited(texts, edit, same_lines=False)
    made = {f"{PROVIDER}/{Path(name).name}": text for name, text in texts.items()}
    made[f"{PROVIDER}/verbs_abi.h"] = (FILES / "verbs_abi.h").read_text()
    sources = sorted(Path(name).name for name in made if name.endswith((".c", ".cc")))
    template = (FILES / "CMakeLists.txt").read_text()
    made[f"{PROVIDER}/CMakeLists.txt"] = template.replace("@SOURCES@", "\n".join(f"  {name}" for name in sources))
    return made


def enter(tree: Path) -> None:
    """Edits the lists of a checkout."""
    for name, (before, line) in LISTS.items():
        new, count = re.subn(rf"^(?={before})", f"{line}\n", (tree / name).read_text(), flags=re.M)
        if not count:
            raise LabError(f"rdma-core's {name} has no line {before}")
        (tree / name).write_text(new)


def make(checkout: Path | None, goal: Path) -> list[Path]:
    """Writes the patches into the folder goal."""
    provider = files()
    header = transform.driver()[rules.UAPI]
    shutil.rmtree(goal, ignore_errors=True)
    goal.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        patches.git(tree, "init", "-q", "-b", "base")
        for name in LISTS:
            if checkout:
                patches.write(tree, [(name, (checkout / name).read_text())])
        patches.git(tree, "add", "-A")
        patches.git(tree, "commit", "-q", "--allow-empty", "-m", "base")
        patches.git(tree, "checkout", "-q", "-b", "series")
        patches.write(tree, [(HEADER, header)])
        patches.commit(tree, "Update kernel headers\n\nFor the new driver of the Chelsio T3.\n")
        patches.write(tree, provider.items())
        if checkout:
            enter(tree)
        patches.commit(
            tree,
            "cxgb3: Add the provider for the Chelsio T3\n\n"
            "The data path is C++ and includes no header of the library but verbs.h; commands\n"
            "and objects are C. It works with the driver that Linux had until 5.4, too.\n",
        )
        patches.git(tree, "format-patch", "-q", "--zero-commit", "--no-signature", "-o", str(goal), "base")
    return sorted(goal.glob("*.patch"))


def missing(checkout: Path | None) -> list[str]:
    """What the patches lack, and what was not checked."""
    lists = [] if checkout else [f"{name} needs `{line.strip()}`" for name, (_, line) in LISTS.items()]
    return [*lists, "its C files were not compiled: they need rdma-core's private headers"]


def public_headers() -> Path:
    """libibverbs' public headers of that release."""

    def fill(folder: Path) -> None:
        [package] = apt.download(folder, (patches.SUITE,), "libibverbs-dev", dependencies=False)
        run(["dpkg-deb", "-x", package, folder])

    recipe = {"mirror": mirror.debian(), "suite": patches.SUITE}
    return cache.entry("upstream-libibverbs", recipe, fill) / "usr/include"


def remarks() -> list[str]:
    """What the compiler reports of the C++ files, which need none of rdma-core's private headers."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        patches.write(tree, files().items())
        patches.write(tree, [("include/rdma/cxgb3-abi.h", transform.driver()[rules.UAPI])])
        for path in sorted((tree / PROVIDER).glob("*.cc")):
            done = subprocess.run(
                [
                    "g++",
                    "-std=c++20",
                    "-Wall",
                    "-Wextra",
                    "-fsyntax-only",
                    "-I",
                    tree / "include",
                    "-isystem",
                    public_headers(),
                    path,
                ],
                capture_output=True,
                text=True,
                check=False,
            )
            found += [line for line in done.stderr.splitlines() if re.search(r"warning|error", line)]
    return found
