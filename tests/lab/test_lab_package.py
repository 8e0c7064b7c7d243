# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The lab as its package installs it: a copy that is independent of this tree."""

import subprocess

import pytest
from labkit import paths


@pytest.fixture
def installed(tmp_path):
    """Runs the installed t3lab, in a root that is a folder."""
    root = tmp_path / "root"
    subprocess.run([paths.REPO / "packaging/lab/install-tree", root], check=True)
    command = root / "usr/bin/t3lab"
    text = command.read_text()
    assert "@" not in text.replace('"$@"', "") and paths.version() in text
    command.write_text(text.replace("/usr/", f"{root}/usr/"))

    def run(*words):
        return subprocess.run(
            [command, *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
            check=False,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "cache")},
        )

    run.tree = tmp_path / f"home/.local/state/t3lab/{paths.version()}"
    run.share = root / "usr/share/t3lab"
    return run


def test_each_user_has_a_private_tree(installed):
    done = installed("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"t3lab (t3rdma) {paths.version()}\n", "")
    assert (installed.tree / "kernel/iw_cxgb3/device/main.c").is_file()
    # A second run keeps products, and copies newer sources.
    (installed.tree / "build").mkdir()
    (installed.share / "CMakeLists.txt").write_text("newer")
    assert installed("cache").stdout.startswith("in ")
    assert (installed.tree / "build").is_dir() and (installed.tree / "CMakeLists.txt").read_text() == "newer"


def test_the_package_has_only_the_sources_for_guests(installed):
    names = {path.name for path in installed.share.iterdir()}
    assert names == {"CMakeLists.txt", "include", "kernel", "userspace", "tools", "examples", "packaging"}
    left = [
        path
        for path in installed.share.rglob("*")
        if path.suffix in (".o", ".ko", ".pyc") or path.name == "__pycache__"
    ]
    assert not left
    # The recipe of the image is that of this tree, so that the image is shared.
    ask = (
        "import sys; sys.path.insert(0, sys.argv[1] + '/tools/lab'); from labkit import image;"
        " print(image.recipe('bookworm'))"
    )
    recipes = {
        subprocess.run(["/usr/bin/python3", "-B", "-c", ask, tree], capture_output=True, text=True, check=True).stdout
        for tree in (paths.REPO, installed.share)
    }
    assert len(recipes) == 1


def test_the_package_uses_its_own_name_and_the_installed_model(installed):
    done = installed("up", "--guests", "17")
    assert done.returncode == 2 and done.stderr.startswith("t3lab up: ")
    assert "T3LAB_PROGRAM=t3lab" in (installed.share.parents[1] / "bin/t3lab").read_text()
