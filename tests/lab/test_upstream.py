# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The series for Linux and for rdma-core, without a build: tools/dev/upstream."""

import re
import subprocess
import sys

import pytest
from labkit import LabError, paths

sys.path.insert(0, str(paths.REPO / "tools/dev"))

from series import align, patches, provider, rules, transform  # noqa: E402


@pytest.fixture(scope="module")
def driver():
    return transform.driver()


def kernel_lists(folder):
    """The lines of the kernel's lists that the series looks for."""
    texts = ('source "drivers/infiniband/hw/cxgb4/Kconfig"\n', "obj-$(CONFIG_INFINIBAND_CXGB4)\t\t+= cxgb4/\n")
    patches.write(folder, zip(patches.LISTS, (*texts, "CXGB4 CRYPTO DRIVER (chcr)\n")))
    return folder


def test_the_driver_has_nothing_of_other_kernels_and_of_tests(driver):
    assert transform.banned(driver) == []


def test_what_is_not_wanted_is_found():
    assert transform.banned({"a.c": "int a;\n\tt3_compat(here);\n"}) == ["a.c:2: t3_compat(here);"]


def test_each_header_of_the_driver_is_there(driver):
    """Those in quotes are the driver's own, or cxgb3's."""
    have = {path.rpartition("/")[2] for path in driver} | {"common.h", "cxgb3_ctl_defs.h", "cxgb3_offload.h"}
    wanted = {name for text in driver.values() for name in re.findall(r'^#include "(?:.*/)?(.*)"', text, re.M)}
    assert wanted - have == set()


def test_each_object_has_its_source(driver):
    makefile = driver[f"{rules.DRIVER}/Makefile"]
    objects = re.findall(r"\w+\.o\b", makefile)
    sources = {path.rpartition("/")[2].replace(".c", ".o") for path in driver if path.endswith(".c")}
    assert set(objects) - {"iw_cxgb3.o"} == sources


def test_an_edit_without_an_effect_is_an_error():
    with pytest.raises(LabError, match="no effect"):
        transform.edited({"a.c": "int a;\n"}, rules.Edit("*", "absent", ""), same_lines=False)


def test_lines_stay_aligned():
    old = 'call(a(0), "(", /* ( */\n     b);\n\tother(x,\n\t      y);\n'
    new = old.replace("call(", "much_longer(").replace("other(", "o(")
    assert align.kept(old, new) == 'much_longer(a(0), "(", /* ( */\n\t    b);\n\to(x,\n\t  y);\n'


def test_the_patches_apply(tmp_path, monkeypatch):
    """git am makes the tree again; patches.make() compares. The mends of cxgb3 need its source."""
    monkeypatch.setattr(patches, "mend", lambda tree: None)
    made = patches.make(kernel_lists(tmp_path / "base"), tmp_path / "series")
    assert len(made) == len(patches.PARTS)
    tree = tmp_path / "tree"
    kernel_lists(tree)
    for patch in made:
        subprocess.run(["patch", "--fuzz=0", "-s", "-p1", "-d", tree, "-i", patch], check=True)
    assert 'source "drivers/infiniband/hw/cxgb3/Kconfig"' in (tree / "drivers/infiniband/Kconfig").read_text()
    assert (tree / rules.DRIVER / "Kconfig").exists()
    assert (tree / rules.UAPI).exists()


def test_the_mends_of_cxgb3_have_messages():
    for patch in (*sorted(patches.upstream.PATCHES.glob("cxgb3-*.patch")),):
        subject, empty, *_ = patches.message(patch).split("\n")
        assert subject.startswith("cxgb3: ") and not empty


def test_the_lists_of_rdma_core(tmp_path):
    checkout = tmp_path / "rdma-core"
    headers = "publish_internal_headers(rdma\n  rdma/cxgb4-abi.h\n)\nrdma_kernel_provider_abi(\n  rdma/cxgb4-abi.h\n)\n"
    patches.write(
        checkout,
        [("CMakeLists.txt", "add_subdirectory(providers/cxgb4)\n"), ("kernel-headers/CMakeLists.txt", headers)],
    )
    _, patch = provider.make(checkout, tmp_path / "series")
    added = re.findall(r"^\+((?:add_sub|  rdma/).*)", patch.read_text(), re.M)
    assert added == ["add_subdirectory(providers/cxgb3) # NO SPARSE"] + 2 * ["  rdma/cxgb3-abi.h"]


def test_the_provider_is_whole():
    texts = provider.files()
    assert not [name for name, text in texts.items() if re.search(r"T3_RDMA_CORE|T3_PABI|userspace/|include/hw", text)]
    have = {name.rpartition("/")[2] for name in texts}
    wanted = {name for text in texts.values() for name in re.findall(r'^#include "(.*)"', text, re.M)}
    assert wanted - have == set()
