# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""siw, the kernel's software iWARP, for guests: Debian does not build it, so it is built from Debian's source (the
package linux-source-X.Y of the guests' release).

Its protocol is not changed, since tests use it as an independent implementation. Its constants for CRC and the MPA
revision become module parameters. As an initiator it agrees on a ready-to-receive message: without one it ends a
connection with EINVAL when the responder's first message arrives together with the MPA reply. It has our patches
(docs/upstream) for a first message that it would lose, after which iw_cm has BUG(), and for lists with empty SGEs, on
which it stops the machine. A parameter makes a pause in which that message comes.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from . import arch, build, cache, image, kernel, mirror, paths, progress, upstream
from .errors import LabError

PARAMETERS = {"mpa_crc_required": "bool", "mpa_crc_strict": "bool", "peer_to_peer": "bool", "mpa_version": "byte"}
ON = {"peer_to_peer"}
PATCHES = [upstream.PATCHES / name for name in ("siw-rtr.patch", "siw-empty-sge.patch")]
PAUSE = """
static unsigned int reply_pause; /* milliseconds between the MPA reply and what siw_accept() does then */
module_param(reply_pause, uint, 0644);
"""
AFTER_REPLY = "\tif (!wait_for_peer_rts) {\n"  # of siw_accept() with the patch


def _fetch(made: image.Image, folder: Path) -> None:
    package = kernel.source(arch.of_image(made.suite)[0])
    name = package_name(made)
    part = f"{name}/drivers/infiniband/sw/siw"
    script = (
        f"dpkg-deb --fsys-tarfile {package} | tar -xO ./usr/src/{name}.tar.xz | tar -xJ -C"
        f" {folder} --strip-components=4 {part}"
    )
    with progress.step(f"unpacking siw of {name}"):
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=False)
    if done.returncode or not (folder / "siw/siw_main.c").exists():
        raise LabError(f"{name} has no siw: {done.stderr.strip()}")


def package_name(made: image.Image) -> str:
    return kernel.SOURCES[arch.of_image(made.suite)[0]]


def recipe(made: image.Image) -> dict:
    """The inputs that determine the source."""
    return {"mirror": mirror.debian(), "release": made.release, "package": package_name(made)}


def source(made: image.Image) -> Path:
    """The folder with Debian's siw, unchanged."""
    return cache.entry(f"siw-{made.suite}", recipe(made), lambda folder: _fetch(made, folder)) / "siw"


def with_parameters(text: str, *, main: bool) -> str:
    """A source file of siw with variables for its settings, and module parameters in its main file."""
    for name, kind in PARAMETERS.items():
        text = re.sub(rf"\bconst (bool {name});", rf"\1{' = true' if main and name in ON else ''};", text)
        if main:
            text += f"module_param({name}, {kind}, 0644);\n"
    return text


def with_pause(text: str) -> str:
    """siw_cm.c, with the patch, in which siw_accept() can wait after its reply."""
    head, found, tail = text.rpartition("#include")
    line, newline, tail = tail.partition("\n")
    if not found or tail.count(AFTER_REPLY) != 1:
        raise LabError("siw_accept() is not as expected")
    return (
        head
        + found
        + line
        + newline
        + PAUSE
        + tail.replace(AFTER_REPLY, "\tif (reply_pause)\n\t\tmsleep(reply_pause);\n" + AFTER_REPLY)
    )


def patched(original: Path) -> dict[Path, str]:
    """The files of siw, and their texts with our patches."""
    with tempfile.TemporaryDirectory() as folder:
        tree = shutil.copytree(original, Path(folder) / "siw")
        for each in PATCHES:
            upstream.apply(each, tree, strip=5)
        return {path: path.read_text() for path in tree.iterdir() if path.is_file()}


def module(suite: str = "bookworm") -> Path | None:
    """Builds siw.ko into the folder of modules for guests; None: the kernel is one of the project, which have it."""
    made = image.get(suite)
    if made.kernel:
        return None
    goal = paths.guest_build(suite) / "siw"
    original = source(made)
    with build.alone(made, "siw"):
        goal.mkdir(parents=True, exist_ok=True)
        for path, text in patched(original).items():
            if path.name == "siw_cm.c":
                text = with_pause(text)
            if path.name in ("siw_main.c", "siw.h"):
                text = with_parameters(text, main=path.suffix == ".c")
            target = goal / path.name
            if not target.exists() or target.read_text() != text:
                target.write_text(text)
        build.in_build_root(
            made,
            f"""
            cd /src/build/guest/{suite}/siw
            make -C /lib/modules/{made.release}/build M=$PWD CONFIG_RDMA_SIW=m -j{os.cpu_count()} modules
            mkdir -p ../modules
            cp -pu siw.ko ../modules/""",
            paths.guest_build(suite) / "log/siw.log",
        )
    return paths.guest_build(suite) / "modules/siw.ko"
