# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What all parts of the mutation tests use: names of sources, and the hash of what a result depends on."""

import hashlib

from labkit import paths

OUT = paths.REPO / "build/mutants"


def digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def sources(folder: str, *suffixes: str) -> list[str]:
    return sorted(str(path.relative_to(paths.REPO)) for path in (paths.REPO / folder).iterdir() if path.suffix in suffixes)


def text_of(files: list[str]) -> list[str]:
    return [(paths.REPO / file).read_text() for file in files]


def files_in(folder: str) -> list[str]:
    """All sources below a folder."""
    return sorted(str(path.relative_to(paths.REPO)) for path in (paths.REPO / folder).rglob("*") if path.suffix in (".c", ".h", ".cc", ".hh"))
