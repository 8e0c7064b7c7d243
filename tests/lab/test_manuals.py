# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Manual pages say what is so: their options are those of --help, their module parameters those of the sources."""

import re
import subprocess

import pytest
from labkit import paths

PAGES = {path.name.split(".")[0]: path for path in (paths.REPO / "docs/man").glob("*.scd")}
TOOLS = ("ofedctrl", "t3info", "t3doctor", "ofed-check")


def help_of(tool):
    program = paths.REPO / "build/tools" / tool
    if not program.exists():
        pytest.skip(f"{program} is not built")
    return subprocess.run([program, "--help"], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("tool", TOOLS)
def test_options_are_those_of_help(tool):
    said = set(re.findall(r"(?<![\w-])(--?[a-z][a-z-]*)", help_of(tool)))
    section = PAGES[tool].read_text().partition("# OPTIONS")[2].partition("\n# ")[0]
    documented = set(re.findall(r"\*(--?[a-z][a-z-]*)\*", "\n".join(line for line in section.splitlines() if line.startswith("*"))))
    assert documented == said


@pytest.mark.parametrize("tool", TOOLS)
def test_completion_offers_what_help_says(tool):
    script = f"""PATH={paths.REPO}/build/tools:$PATH; source {paths.REPO}/tools/completions/t3rdma
        COMP_WORDS=({tool} --); COMP_CWORD=1; _t3rdma {tool}; printf '%s\\n' "${{COMPREPLY[@]}}"
        COMP_WORDS=({tool} --own v); COMP_CWORD=2; _t3rdma {tool}; printf '%s\\n' "${{COMPREPLY[@]}}" """
    offered = set(subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split())
    assert offered == set(re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", help_of(tool))) | {"verbs"}


@pytest.mark.parametrize("module, folder", [("iw_cxgb3", "iw_cxgb3"), ("t3_uverbs", "uverbs"), ("t3_rdma_cm", "rdma_cm")])
def test_module_parameters_of_the_page_are_in_the_sources(module, folder):
    sources = "".join(path.read_text() for path in (paths.REPO / "kernel" / folder).glob("*.c"))
    section = PAGES[module].read_text().partition("# PARAMETERS")[2].partition("\n# ")[0]
    documented = set(re.findall(r"^\*(\w+)\*$", section, re.M))
    there = set(re.findall(r"module_param(?:_\w+)?\((\w+),", sources))
    assert documented and documented <= there
    # What is not documented is for tests.
    assert module == "iw_cxgb3" or documented == there


def test_completion_and_packages_name_every_tool():
    completion = (paths.REPO / "tools/completions/t3rdma").read_text().splitlines()[-1]
    installed = (paths.REPO / "packaging/debian/t3rdma-tools.install").read_text()
    for tool in TOOLS:
        assert tool in completion.split() and f"bin/{tool}\n" in installed


def test_one_version():
    version = re.search(r'version = "([\d.]+)"', (paths.REPO / "tools/common/cli.hh").read_text())[1]
    assert (paths.REPO / "packaging/debian/changelog").read_text().startswith(f"t3rdma ({version}) ")
