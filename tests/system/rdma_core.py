# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""rdma-core's own Python tests. Debian has them in the documentation of python3-pyverbs, which guest images leave
out."""

import gzip
import io
import shutil
import tarfile
from pathlib import Path

from labkit import apt, cache, image
from labkit.process import run

HERE = Path(__file__).parent / "guest"
PACKAGE = "python3-pyverbs"
FOLDER = "/tmp/rdma-core/tests"
RUNNER = f"{FOLDER}/../pyverbs_tests.py"


def _fetch(suite: str, folder: Path) -> None:
    (package,) = apt.download(folder, [suite], PACKAGE, dependencies=False)
    run(["dpkg-deb", "-x", package, folder / "unpacked"])
    shutil.copytree(folder / "unpacked/usr/share/doc/rdma-core/tests", folder / "tests")
    for path in (folder / "tests").glob("*.gz"):  # debhelper compresses longer files of the documentation
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    for name in ("unpacked", "debs"):
        shutil.rmtree(folder / name)


def tests(suite: str) -> Path:
    """The folder with the tests of a release. A new image gets them again: its rdma-core may be newer."""
    recipe = {"image": image.get(suite).folder.name, "package": PACKAGE}
    return cache.entry(f"rdma-core-tests-{suite}", recipe, lambda folder: _fetch(suite, folder)) / "tests"


def install(guest, suite: str) -> None:
    """Copies the tests and our runner into a guest."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.add(tests(suite), "tests")
        archive.add(HERE / "pyverbs_tests.py", "pyverbs_tests.py")
    guest.check("mkdir -p /tmp/rdma-core")
    guest.push(data.getvalue(), "/tmp/rdma-core/all.tar")
    guest.check("tar -C /tmp/rdma-core --no-same-owner -xf /tmp/rdma-core/all.tar")
