# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Manual pages are correct: their options are those of --help, their module parameters those of the sources."""

import re
import subprocess

import command_lines
import pytest
from command_lines import TOOLS, help_of, options_of, program
from labkit import guesses, paths

PAGES = {path.name.split(".")[0]: path for path in (paths.REPO / "docs/man").glob("*.scd")}


@pytest.mark.parametrize("tool", TOOLS)
def test_options_are_those_of_help(tool):
    section = PAGES[tool].read_text().partition("# OPTIONS")[2].partition("\n# ")[0]
    documented = set(
        re.findall(r"\*(--?[a-z][a-z-]*)\*", "\n".join(line for line in section.splitlines() if line.startswith("*")))
    )
    assert documented == options_of(tool)


@pytest.mark.parametrize("tool", ["t3lab", "t3sim"])
def test_commands_are_those_of_help(tool):
    section = PAGES[tool].read_text().partition("# COMMANDS")[2].partition("\n# ")[0]
    documented = set(
        re.findall(r"\*([a-z-]+)[* ]", "\n".join(line for line in section.splitlines() if line[:1] in "[|"))
    )
    assert documented == set(command_lines.commands_of(tool))


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_pages_are_well_formed_and_refer_to_existing_pages(page):
    subprocess.run(["scdoc"], input=page.read_bytes(), capture_output=True, check=True)
    text = page.read_text()
    assert text.startswith(page.name.removesuffix(".scd").replace(".", "(") + ")\n") and "\n# SEE ALSO\n" in text
    names = {other.name.removesuffix(".scd") for other in PAGES.values()}
    for name, section in re.findall(r"\*([\w-]+)\*\((\d)\)", text):
        if re.match(r"t3|ofed|libcxgb3|iw_cxgb3", name):
            assert f"{name}.{section}" in names


def offered(*words):
    """The completions of bash for the last of these words."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = f"""PATH={program(words[0]).parent}:$PATH; source {paths.REPO}/tools/completions/t3rdma
        COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _t3rdma {words[0]}; printf '%s\\n' "${{COMPREPLY[@]}}" """
    return set(subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split())


def long_options(help_text):
    return {option for option in command_lines.parse(help_text) if option.startswith("--")}


@pytest.mark.parametrize("tool", TOOLS)
def test_completion_offers_the_options_of_help(tool):
    assert offered(tool, "--") == long_options(help_of(tool))


@pytest.mark.parametrize(
    "words, expected",
    [
        (("ofedctrl", "--own", "v"), {"verbs"}),
        (("t3info", "q"), {"qp"}),
        (("t3lab", "s"), {"shell"}),
        (("t3lab", ""), set(command_lines.commands_of("t3lab"))),
        (("t3lab", "up", "--suite", "t"), {"trixie", "trixie-backports"}),
        (("t3sim", "t"), {"trace"}),
        (("t3sim", "--guess", "G1"), {name + "=other" for name in guesses.with_knob() if name.startswith("G1")}),
        (("t3sim", "--guess", "l"), {"list"}),
        (("t3sim", "ctl", "/tmp/ctl", "q"), {"qps", "quit"}),
        (("t3sim", "ctl", "/tmp/ctl", ""), set(command_lines.commands_of("t3sim"))),
        (("t3sim", "ctl", "q"), set()),
    ],
)
def test_completion_of_words(words, expected):
    assert offered(*words) == expected


def test_completion_knows_the_variable_of_the_socket(monkeypatch):
    monkeypatch.setenv("T3SIM_CONTROL", "/tmp/ctl")
    assert offered("t3sim", "ctl", "q") == {"qps", "quit"}


@pytest.mark.parametrize("words", [("t3lab", "run"), ("t3lab", "check-wire"), ("t3sim", "trace"), ("t3sim", "ctl")])
def test_completion_of_the_options_of_commands(words):
    assert offered(*words, "--") == long_options(help_of(*words))


@pytest.mark.parametrize(
    "module, folder", [("iw_cxgb3", "iw_cxgb3"), ("t3_uverbs", "uverbs"), ("t3_rdma_cm", "rdma_cm")]
)
def test_module_parameters_of_the_page_are_in_the_sources(module, folder):
    sources = "".join(path.read_text() for path in (paths.REPO / "kernel" / folder).rglob("*.c"))
    section = PAGES[module].read_text().partition("# PARAMETERS")[2].partition("\n# ")[0]
    documented = set(re.findall(r"^\*(\w+)\*$", section, re.M))
    there = set(re.findall(r"module_param(?:_\w+)?\((\w+),", sources))
    assert documented and documented <= there
    # Undocumented parameters are for tests.
    assert module == "iw_cxgb3" or documented == there


def test_completion_and_packages_name_every_tool():
    completion = (paths.REPO / "tools/completions/t3rdma").read_text().splitlines()[-1]
    installed = "".join(path.read_text() for path in (paths.REPO / "packaging/debian").glob("*.install"))
    for tool in TOOLS:
        assert tool in completion.split() and f"bin/{tool}\n" in installed


@pytest.mark.parametrize("tool", TOOLS)
def test_every_tool_prints_the_version_of_the_project(tool):
    done = subprocess.run([program(tool), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{tool} (t3rdma) {paths.version()}\n"


def test_packages_have_the_version_of_the_project():
    assert (paths.REPO / "packaging/debian/changelog").read_text().startswith(f"t3rdma ({paths.version()}) ")
    assert f"Version: {paths.version()}\n" in (paths.REPO / "userspace/aix/ofedaix.pc.in").read_text()
