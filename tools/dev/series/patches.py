# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The series for the kernel: commits on the files that it changes, and git's patches of these."""

import os
import re
import shutil
import subprocess
import tempfile
import textwrap
from pathlib import Path
from typing import Iterable, NamedTuple

from labkit import LabError, cache, kernel, mirror, paths, upstream

from . import rules, transform

SUITE = "forky"
ENTRY = Path(__file__).parent / "kernel"  # Kconfig and the entry of MAINTAINERS

CXGB3 = "drivers/net/ethernet/chelsio/cxgb3"
LISTS = ("drivers/infiniband/Kconfig", "drivers/infiniband/hw/Makefile", "MAINTAINERS")


class Part(NamedTuple):
    """A commit of new files: those whose path matches."""

    subject: str
    body: str
    files: str


PARTS = (
    Part(
        "RDMA/cxgb3: Add the interface to user space",
        "The driver's part of the verbs commands. It is version 1 of the interface that "
        "the T3 driver had until it was removed from the kernel, so programs with the "
        "library of that time work.",
        r"^include/uapi/",
    ),
    Part(
        "RDMA/cxgb3: Add the layouts of the card and of iWARP",
        "Work requests, completion entries, CPL messages and memory keys of the T3, and "
        "the headers of MPA, DDP and RDMAP (RFC 5040, 5041, 5044 and 6581).",
        rf"^{rules.DRIVER}/(?:hw|wire)/",
    ),
    Part(
        "RDMA/cxgb3: Add the services of the card",
        "Memory writes by the control QP, ids and adapter memory with a quota for each "
        "user, deadlines of the card, and requests in slots.",
        rf"^{rules.DRIVER}/(?:card/|\w+\.[ch]$)",
    ),
    Part(
        "RDMA/cxgb3: Add the verbs",
        "Contexts, PDs, MRs, MWs, CQs and QPs. The states of a QP are a table.",
        rf"^{rules.DRIVER}/verbs/",
    ),
    Part(
        "RDMA/cxgb3: Add the connections",
        "The operations of iw_cm, and the exchange of MPA frames. The states of an endpoint "
        "are a table. One thread at a time handles the messages and requests of a "
        "connection. A listener and a connect hold their port in the host's TCP.",
        rf"^{rules.DRIVER}/conn/",
    ),
    Part(
        "RDMA/cxgb3: Add the RDMA driver for the Chelsio T3",
        "Registration of devices, events, counters, and the build. "
        "Cards of the T3 family had a driver until Linux 5.4. This one is new.",
        r".",
    ),
)


def git(tree: Path, *arguments: str, text: str | None = None) -> str:
    # The same patches from the same tree.
    date = subprocess.run(
        ["git", "-C", paths.REPO, "log", "-1", "--format=%cI"], check=True, stdout=subprocess.PIPE, text=True
    ).stdout.strip()
    identity = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "t3rdma maintainers"), ("EMAIL", "maintainers@t3rdma.invalid"), ("DATE", date))
    }
    done = subprocess.run(
        ["git", "-C", tree, *arguments],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **identity, "GIT_CONFIG_GLOBAL": "/dev/null"},
    )
    if done.returncode:
        raise LabError(f"git {arguments[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def source() -> Path:
    """The kernel's source, of which the series changes a part."""

    def fill(folder: Path) -> None:
        kernel.extract(SUITE, folder, " ".join(f"{kernel.SOURCES[SUITE]}/{name}" for name in (CXGB3, *LISTS)))

    recipe = {"mirror": mirror.debian(), "package": kernel.SOURCES[SUITE], "files": [CXGB3, *LISTS]}
    return cache.entry("upstream-source", recipe, fill)


def message(patch: Path) -> str:
    """The commit message of one of our patches: plain, or a mail."""
    head = re.split(r"^(?:---|diff )", patch.read_text(), maxsplit=1, flags=re.M)[0]
    mail = re.search(r"^Subject: \[.*?\] (.*?)\n\n(.*)", head, re.S | re.M)
    if mail:
        return re.sub(r"\n ", " ", mail[1]) + "\n\n" + mail[2]
    return head


def commit(tree: Path, text: str) -> None:
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-F", "-", text=text)


def mend(tree: Path) -> None:
    """Our patches for cxgb3."""
    for patch in upstream.patches(SUITE):
        upstream.apply(patch, tree)
        commit(tree, message(patch))
    # The patch of docs/upstream has the same text around its changes as the one above.
    done = subprocess.run(["sh", "-euc", kernel.CXGB3], cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError("cxgb3 has other locks than the edit of tools/lab/labkit/kernel.py expects")
    commit(tree, message(upstream.PATCHES / "cxgb3-queue-restart.patch"))
    export = upstream.PATCHES / f"cxgb3-listeners-{kernel.SOURCES[SUITE].rpartition('-')[2]}.patch"
    upstream.apply(export, tree)
    commit(tree, message(export))


def insert(path: Path, before: str, text: str) -> None:
    """Inserts a text before the first line that begins so."""
    old = path.read_text()
    new = re.sub(rf"^(?={re.escape(before)})", lambda _: text, old, count=1, flags=re.M)
    if new == old:
        raise LabError(f"{path.name} has no line that begins with {before}")
    path.write_text(new)


def enter(tree: Path) -> None:
    """The lists that name a driver."""
    name = Path(rules.DRIVER).name
    insert(tree / LISTS[0], f'source "{rules.DRIVER.replace("cxgb3", "cxgb4")}/', f'source "{rules.DRIVER}/Kconfig"\n')
    insert(tree / LISTS[1], "obj-$(CONFIG_INFINIBAND_CXGB4)", f"obj-$(CONFIG_INFINIBAND_CXGB3)\t\t+= {name}/\n")
    insert(tree / LISTS[2], "CXGB4 CRYPTO DRIVER", (ENTRY / "MAINTAINERS").read_text() + "\n")
    shutil.copy(ENTRY / "Kconfig", tree / rules.DRIVER)


def write(tree: Path, files: Iterable[tuple[str, str]]) -> None:
    for name, text in files:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


def make(base: Path, goal: Path) -> list[Path]:
    """The series on top of the files in base, as patches in the folder goal."""
    left = transform.driver()
    places = transform.banned(left)
    if places:
        raise LabError("the kernel has no use for this:\n" + "\n".join(places))
    shutil.rmtree(goal, ignore_errors=True)
    goal.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        shutil.copytree(base, tree, dirs_exist_ok=True, ignore=shutil.ignore_patterns("recipe.json"))
        git(tree, "init", "-q", "-b", "base")
        commit(tree, "base")
        git(tree, "checkout", "-q", "-b", "series")
        mend(tree)
        for part in PARTS:
            chosen = {name: text for name, text in left.items() if re.search(part.files, name)}
            left = {name: text for name, text in left.items() if name not in chosen}
            if part is PARTS[-1]:
                enter(tree)
            write(tree, chosen.items())
            commit(tree, f"{part.subject}\n\n" + textwrap.fill(part.body, 72) + "\n")
        git(tree, "format-patch", "-q", "--zero-commit", "--no-signature", "--no-renames", "-o", str(goal), "base")
        # What git am makes of the patches is what they were made of.
        git(tree, "checkout", "-q", "base")
        made = sorted(goal.glob("*.patch"))
        git(tree, "am", "-q", *map(str, made))
        if git(tree, "diff", "base", "series"):
            raise LabError("git am makes another tree of the patches")
    return made
