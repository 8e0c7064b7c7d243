# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A cache of folders, keyed by their recipes. An entry is complete or absent: it is filled under another name and
renamed; other processes wait on a lock meanwhile."""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Callable, Iterator, NamedTuple

from . import paths, progress

_FILLING = ".filling-"


def digest(recipe) -> str:
    """A short hash of anything that json can encode."""
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]


def remove_tree(path: Path) -> None:
    """Also removes folders without write permission, as Debian roots hold some."""

    def retry(function, name, _info):
        os.chmod(os.path.dirname(name), stat.S_IRWXU)
        os.chmod(name, stat.S_IRWXU, follow_symlinks=not os.path.islink(name))
        function(name)

    shutil.rmtree(path, onerror=retry)


@contextlib.contextmanager
def _lock(name: str) -> Iterator[None]:
    paths.cache().mkdir(parents=True, exist_ok=True)
    with open(paths.cache() / f".lock-{name}", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step(f"waiting for another t3lab that makes {name}"):
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def key(name: str, recipe) -> str:
    return f"{name}-{digest(recipe)}"


def entry(name: str, recipe, fill: Callable[[Path], None]) -> Path:
    """The folder NAME-HASH, which fill(folder) makes if it does not exist."""
    full = key(name, recipe)
    path = paths.cache() / full
    if path.is_dir():
        return path
    with _lock(full):
        if path.is_dir():
            return path
        filling = paths.cache() / f"{_FILLING}{full}"
        if filling.exists():  # left by a run that was interrupted
            remove_tree(filling)
        filling.mkdir()
        fill(filling)
        (filling / "recipe.json").write_text(json.dumps(recipe, indent=2, sort_keys=True) + "\n")
        filling.rename(path)
    return path


class Entry(NamedTuple):
    name: str
    size: int
    complete: bool


def _size(path: Path) -> int:
    total = 0
    for root, _dirs, files in os.walk(path):
        for file in files:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, file)).st_blocks * 512
    return total


def entries() -> list[Entry]:
    found = []
    for path in sorted(paths.cache().glob("*")) if paths.cache().is_dir() else []:
        if path.is_dir():
            complete = not path.name.startswith(_FILLING)
            found.append(Entry(path.name.removeprefix(_FILLING), _size(path), complete))
    return found


def clean(keep: Callable[[str], bool] = lambda name: False) -> list[Entry]:
    """Removes entries for which keep() is false; returns them."""
    removed = []
    for item in entries():
        if item.complete and keep(item.name):
            continue
        with _lock(item.name):
            path = paths.cache() / (item.name if item.complete else _FILLING + item.name)
            if path.is_dir():
                removing = paths.cache() / f"{_FILLING}{item.name}"
                if item.complete:
                    path.rename(removing)
                remove_tree(removing)
                removed.append(item)
        (paths.cache() / f".lock-{item.name}").unlink(missing_ok=True)
    return removed
