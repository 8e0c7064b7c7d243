# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What all parts of the mutation tests use: names of sources, and the hash of what a result depends on."""

import hashlib
import re
from pathlib import Path

from labkit import paths

OUT = paths.REPO / "build/mutants"
MODULES = ("iw_cxgb3", "uverbs", "rdma_cm")
NOT_COMPILED = re.compile(
    r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*")|\s+__guarded_by\(.*?\)', re.S
)  # by gcc; strings are


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def sources(folder: str, *suffixes: str) -> list[str]:
    return sorted(
        str(path.relative_to(paths.REPO)) for path in (paths.REPO / folder).rglob("*") if path.suffix in suffixes
    )


def text_of(files: list[str]) -> list[str]:
    return [(paths.REPO / file).read_text() for file in files]


def code_in(files: list[str]) -> list[str]:
    """The same without comments, spaces, and what only the check of locks reads: what the results of running tests
    depend on."""
    return [re.sub(r"\s+", " ", NOT_COMPILED.sub(lambda match: match[1] or "", text)) for text in text_of(files)]


def files_in(folder: str) -> list[str]:
    """All sources below a folder."""
    return sorted(
        str(path.relative_to(paths.REPO))
        for path in (paths.REPO / folder).rglob("*")
        if path.suffix in (".c", ".h", ".cc", ".hh")
    )


def module_files() -> list[str]:
    return [
        file
        for module in MODULES
        for file in sources(f"kernel/{module}", ".c", ".h")
        if not Path(file).name.startswith("trace")
    ]


def closure(file: Path, folders: list[Path], seen: set[Path]) -> None:
    """A file with all files of the tree that it includes."""
    if file in seen:
        return
    seen.add(file)
    for name in re.findall(r'^#include ["<]([^">]+)[">]', file.read_text(), re.M):
        for folder in (file.parent, *folders):
            if (folder / name).is_file():
                closure((folder / name).resolve(), folders, seen)
                break
