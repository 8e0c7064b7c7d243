# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The kernel series in a whole kernel: it applies, builds without a warning, and checkpatch has no remark."""

import os
import re
import subprocess
from pathlib import Path

from labkit import buildroot, cache, kernel, mirror, package, paths, progress, upstream
from labkit.errors import LabError

from . import patches, rules

ROOT = "flex,bison,bc,libelf-dev,libssl-dev,perl,python3"  # for building a kernel
SPACE = 5000  # MiB
GOAL = paths.REPO / "build/upstream"

IGNORED = {
    "MISSING_SIGN_OFF": "the sender signs the series off",
    "FILE_PATH_CHANGES": "the last patch has the entry of MAINTAINERS",
    "LONG_LINE_STRING": "messages are not split",
    "MACRO_ARG_REUSE": "the macros of tables name a member or a type twice: nothing is evaluated",
}
# Of single patches, by a word of their subject.
IGNORED_IN = {
    "layouts": {"COMPLEX_MACRO"},  # lists of initializers
    "driver-for": {"CAMELCASE"},  # the names of cxgb3's counters
    "services": {"MULTISTATEMENT_MACRO_USE_DO_WHILE"},  # a loop with a condition
}
TRACE = {"OPEN_ENDED_LINE", "PARENTHESIS_ALIGNMENT"}  # TRACE_EVENT() is written like no other macro

BUILD = """
cd /work
make -s allmodconfig
make -s -j{jobs} {nic}/
rm -f {driver}/*.o {driver}/*/*.o
make -s -j{jobs} W=1 C=1 {driver}/
gcc -std=c90 -Wall -Wextra -Werror -fsyntax-only -x c {uapi}
nm {nic}/cxgb3.o | sed -n 's/.* __ksymtab_//p' >exported
cut -f2 /usr/src/linux-headers-*/Module.symvers >>exported
nm -u {driver}/iw_cxgb3.o | sed 's/.* //' | grep -vE '^__(asan|sanitizer|ubsan)_' >wanted
for name in $(grep -vxFf exported wanted); do
    grep -qrE "EXPORT_SYMBOL\\w*\\($name[,)]" kernel lib mm net drivers/infiniband arch/x86 ||
        echo "error: $name is not exported"
done
"""


def root() -> Path:
    """A root of the release with what builds its kernel."""
    made = subprocess.run(
        [paths.REPO / "tools/kernel-headers/root", patches.SUITE, ROOT], check=True, stdout=subprocess.PIPE, text=True
    )
    return Path(made.stdout.strip())


def tree() -> Path:
    """The kernel's source, configured and prepared."""

    def fill(folder: Path) -> None:
        paths.need_space(paths.cache(), SPACE, "the kernel's source")
        (folder / "linux").mkdir()
        kernel.extract(
            patches.SUITE, folder / "linux", f"'--exclude={kernel.SOURCES[patches.SUITE]}/Documentation/*/*'"
        )
        with progress.step("preparing the kernel"):
            script = f"cd /work\nmake -s allmodconfig\nmake -s -j{os.cpu_count()} prepare"
            buildroot.run_script(root(), script, folder / "log", folder / "linux")

    recipe = {"mirror": mirror.debian(), "package": kernel.SOURCES[patches.SUITE], "root": ROOT}
    return cache.entry("upstream-tree", recipe, fill) / "linux"


def remarks(program: Path, patch: Path) -> list[str]:
    """What checkpatch reports of a patch."""
    ignored = set(IGNORED).union(*(types for word, types in IGNORED_IN.items() if word in patch.name))
    # It takes a member with this attribute for a statement: tools/kernel-headers/checkpatch.
    text = re.sub(r"[ \t]__guarded_by\([^()]*\)", "", patch.read_text())
    command = ["perl", program, "--no-tree", "--strict", "--terse", "--show-types", "--no-summary"]
    done = subprocess.run(
        [*command, "--max-line-length=100", "--ignore", ",".join(sorted(ignored)), "-"],
        cwd=program.parents[1],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    files, name = [], ""
    for line in text.splitlines():
        name = line[6:] if line.startswith("+++ b/") else name
        files.append(name)
    found = []
    for line in done.stdout.splitlines():
        place = re.match(r"-:(\d+): \w+:(\w+): ", line)
        if not place or place[2] not in TRACE or "/trace" not in files[int(place[1]) - 1]:
            found.append(f"{patch.name}{line.removeprefix('-')}")
    return found


def built(tree_of: Path, made: list[Path]) -> list[str]:
    """What the compiler and sparse report of the driver, in a kernel with the series."""
    upper = GOAL / "tree"
    log = GOAL / "build.log"
    if upper.exists():
        cache.remove_tree(upper)
    with package.layered([tree_of], upper) as merged:
        for patch in made:
            upstream.apply(patch, merged)
        jobs = os.cpu_count()
        script = BUILD.format(jobs=jobs, nic=patches.CXGB3, driver=rules.DRIVER, uapi=rules.UAPI)
        with progress.step("building cxgb3 and iw_cxgb3 in the kernel"):
            try:
                buildroot.run_script(root(), script, log, merged)
                failed = []
            except LabError as error:
                failed = [str(error)]
    reported = [line for line in log.read_text().splitlines() if re.search(r"warning|error", line, re.I)]
    return reported or failed


def check(made: list[Path]) -> list[str]:
    """All that is not clean."""
    package.need_root()
    tree_of = tree()
    program = tree_of / "scripts/checkpatch.pl"
    found = [line for patch in made for line in remarks(program, patch)]
    return found + built(tree_of, made)
