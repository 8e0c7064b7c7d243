# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Judges the mutants that lack a lock: by the compiler's check of locks, one file at a time."""

import os
import re
import shutil
import subprocess

from common import OUT, closure, digest, module_files, text_of
from labkit import paths

import mutate

TOOLS = paths.REPO / "tools/kernel-headers"
WORK = paths.REPO / "build/modules/locks"  # what check-locks has copied, and its commands
FOLDERS = [paths.REPO / part for part in ("kernel/include", "include", ".")]
IN_ROOT = """
    mount --bind "$2" "$1/src"
    mount --rbind /proc "$1/proc"
    exec chroot "$1" /bin/sh "/src/commands/$3" """
REPORT = re.compile(r"warning: (.*\[-Wthread-safety[^]]*\])")


class Locks:
    """The compiler must report a member that is accessed, or a function that is called, without its lock."""

    name = "locks"

    def __init__(self):
        self.files = module_files()
        self._root = None
        self._tree = WORK
        self._checked = {}  # names of the .c files that are checked for a source
        for file in sorted(self.files):
            if file.endswith(".c"):
                seen = set()
                closure(paths.REPO / file, FOLDERS, seen)
                for path in seen:
                    self._checked.setdefault(str(path.relative_to(paths.REPO)), []).append(file)

    def prepare(self):
        subprocess.run([TOOLS / "check-locks"], check=True)
        self._root = subprocess.run(
            [TOOLS / "root", "forky", "clang-22"], check=True, capture_output=True, text=True
        ).stdout.strip()
        return [mutant for mutant in mutate.numbered(paths.REPO, self.files) if mutant.step == "lock"]

    def depends(self, mutant):
        return digest(
            self.name,
            mutant.name,
            *text_of([*self.files, "kernel/include/t3_context.h", "tools/kernel-headers/clang-context"]),
        )

    def survey(self, _files):
        pass  # check-locks has passed

    def worker(self, number):
        made = Locks()
        made._root, made._tree = self._root, OUT / f"locks-{number}"
        shutil.rmtree(made._tree, ignore_errors=True)
        shutil.copytree(WORK, made._tree)
        return made

    def _users(self, mutant):
        """The files that are checked: of a header's function, those that call it."""
        files = self._checked[mutant.file]
        using = [file for file in files if re.search(rf"\b{mutant.function}\b", (paths.REPO / file).read_text())]
        return using or files

    def _report(self, file):
        """What the compiler reports for a file, or ""."""
        done = subprocess.run(
            [
                "unshare",
                "--mount",
                *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]),
                "sh",
                "-euc",
                IN_ROOT,
                "sh",
                self._root,
                self._tree,
                file.removeprefix("kernel/"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        found = REPORT.search(done.stderr)
        if done.returncode:
            raise SystemExit(f"{file} cannot be compiled: {done.stderr}")
        return found[1] if found else ""

    def judge(self, mutants):
        for mutant in mutants:
            text = (paths.REPO / mutant.file).read_text()
            target = self._tree / mutant.file
            target.write_text(mutate.without(text, mutant))
            users = self._users(mutant)
            for file in users:
                wrong = self._report(file)
                if wrong:
                    yield mutant, "killed", file, wrong
                    break
            else:
                yield mutant, "survived", users[0], ""
            target.write_text(text)

    def stop(self):
        pass

    def end(self):
        pass
