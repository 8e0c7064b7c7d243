# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import os
import re
import subprocess

import pytest
from labkit import build, paths


def tree(path, **files):
    for name, text in files.items():
        file = path / name.replace("__", "/").replace("_c", ".c").replace("_h", ".h")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def test_sync_copies_only_changed_files(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    tree(source, a_c="one", sub__b_h="two")
    build.sync(source, target)
    for file in ("a.c", "sub/b.h"):
        os.utime(target / file, (1, 1))
    tree(source, a_c="one", sub__b_h="changed")
    build.sync(source, target)
    assert (target / "a.c").stat().st_mtime == 1
    assert (target / "sub/b.h").stat().st_mtime != 1
    assert (target / "sub/b.h").read_text() == "changed"


def test_sync_removes_deleted_sources_and_keeps_products(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    tree(source, a_c="one", old_c="two")
    build.sync(source, target)
    for product in ("a.o", "mod.mod.c", "mod.ko"):
        (target / product).write_text("x")
    (source / "old.c").unlink()
    build.sync(source, target)
    assert sorted(path.name for path in target.iterdir()) == ["a.c", "a.o", "mod.ko", "mod.mod.c"]


def test_sync_does_not_copy_products(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    tree(source, a_c="one")
    for product in ("a.o", ".a.o.cmd", "mod.mod", "Module.symvers", "modules.order"):
        (source / product).write_text("for another kernel")
    build.sync(source, target, build.built)
    assert [path.name for path in target.iterdir()] == ["a.c"]


# D15
@pytest.mark.parametrize("module", ["iw_cxgb3", "rdma_cm", "uverbs"])
def test_modules_wait_for_their_rcu_callbacks(module):
    """A module waits at unloading for RCU to call its functions. Memory that kfree_rcu() frees needs no code of the
    module, unless it is of a cache that the module destroys."""
    text = "\n".join(path.read_text() for path in sorted((paths.REPO / "kernel" / module).rglob("*.[ch]")))
    left_to_rcu = re.findall(r"\b(?:call_s?rcu\w*|queue_rcu_work|kmem_cache_destroy)\(", text)
    ends = re.findall(r"^static void __exit \w+\(void\)\n\{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert len(ends) == 1
    assert not left_to_rcu or "rcu_barrier();" in ends[0], left_to_rcu


def test_the_dispatcher_refuses_a_32_bit_kernel():
    """Its code divides 64-bit numbers, which does not link there, so Kbuild refuses."""
    for options, refused in ((), True), (("-DCONFIG_64BIT",), False):
        done = subprocess.run(
            ["cc", "-E", "-nostdinc", "-x", "c", *options, paths.REPO / "kernel/uverbs/table.h"],
            capture_output=True,
            text=True,
        )
        assert ("needs a kernel of 64 bits" in done.stderr) == refused, done.stderr
