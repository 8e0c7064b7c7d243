# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The driver's files as the kernel has them."""

import fnmatch
import re
import subprocess
import textwrap
from pathlib import Path

from labkit import LabError, paths

from . import align, rules


WIDTH = 100  # of a line, as checkpatch wants it


def listed() -> dict[str, str]:
    """The files of the driver that git knows, and their paths in the kernel's tree."""
    names = subprocess.run(
        ["git", "-C", paths.REPO, "ls-files", *rules.FOLDERS, *rules.FILES],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    ).stdout.split()
    found = dict(rules.FILES)
    for name in names:
        for here, there in rules.FOLDERS.items():
            if name.startswith(f"{here}/") and name not in rules.DROPPED:
                found[name] = re.sub(r"/Kbuild$", "/Makefile", there + name.removeprefix(here))
    return found


def decided(text: str, defined: dict[str, str | None]) -> str:
    """Without the conditions that these macros decide."""
    text = re.sub(
        r"KERNEL_VERSION\((\d+), (\d+), (\d+)\)",
        lambda found: str((int(found[1]) << 16) + (int(found[2]) << 8) + int(found[3])),
        text,
    )
    options = [f"-U{name}" if value is None else f"-D{name}={value}" for name, value in defined.items()]
    done = subprocess.run(["unifdef", "-B", *options], input=text, capture_output=True, text=True, check=False)
    if done.returncode > 1:
        raise LabError(f"unifdef: {done.stderr.strip()}")
    return done.stdout


def camel_case(found: re.Match) -> str:
    """cxgb3's name of a counter."""
    first, *others = found[0].split("_")
    return first + "".join("OKs" if word == "oks" else word.capitalize() for word in others)


def edited(texts: dict[str, str], edit: rules.Edit, same_lines: bool) -> None:
    """Makes one edit in all files."""
    replacement = camel_case if edit.replacement == "camel case" else edit.replacement
    count = 0
    for name, text in texts.items():
        if fnmatch.fnmatch(name, edit.files):
            new, made = re.subn(edit.pattern, replacement, text, flags=re.M)
            count += made
            texts[name] = align.kept(text, new) if same_lines and made else new
    if not count:
        raise LabError(f"a rule of tools/dev/series/rules.py has no effect: {edit.files}: {edit.pattern}")


def tidy(text: str) -> str:
    """Mends what edits leave: empty lines, groups of headers, and long lines of comments."""
    text = re.sub(r"\n{3,}", "\n\n", text)
    text = re.sub(r"^\{\n\n", "{\n", text, flags=re.M)
    text = re.sub(r'^(#include ".*"\n)\n(?=#include ")', r"\1", text, flags=re.M)
    # From a line that is too long to the end of its paragraph.
    return re.sub(
        rf"^( \* )(.{{{WIDTH - 2},}}(?:\n \* \S.*)*)",
        lambda found: textwrap.fill(
            found[2].replace("\n * ", " "), WIDTH, initial_indent=" * ", subsequent_indent=" * "
        ),
        text,
        flags=re.M,
    )


def driver() -> dict[str, str]:
    """All files of the driver, by their path in the kernel's tree."""
    where = listed()
    texts = {
        name: decided((paths.REPO / name).read_text(), rules.DEFINED) for name in where if Path(name).name != "Kbuild"
    }
    texts |= {name: (paths.REPO / name).read_text() for name in where if Path(name).name == "Kbuild"}
    for edit in rules.EDITS:
        edited(texts, edit, same_lines=False)
    for edit in rules.RENAMES:
        edited(texts, edit, same_lines=True)
    return {where[name]: tidy(text) for name, text in texts.items()}


def banned(texts: dict[str, str]) -> list[str]:
    """The places where a file has what it must not have."""
    return [
        f"{name}:{number}: {line.strip()}"
        for name, text in sorted(texts.items())
        for number, line in enumerate(text.splitlines(), 1)
        if any(re.search(pattern, line) for pattern in rules.BANNED)
    ]
