# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The tools' command lines, parsed from --help."""

import functools
import re
import subprocess

import pytest
from labkit import paths

# The folder of each tool.
FOLDERS = {
    "ofedctrl": "build/tools",
    "t3info": "build/tools",
    "t3doctor": "build/tools",
    "t3accept": "build/tools",
    "ofed-check": "build/tools",
    "ofed-env": "userspace/aix",
    "t3sim": "build/sim",
    "t3lab": "tools/lab",
}
TOOLS = tuple(FOLDERS)
# Commands with options of their own.
COMMANDS = {
    "t3sim": ("trace", "ctl"),
    "t3lab": ("up", "run", "shell", "exec", "logs", "down", "image", "build", "check-wire", "cache"),
}


def program(tool):
    path = paths.REPO / FOLDERS[tool] / tool
    if not path.exists():
        pytest.skip(f"{path} is not built")
    return path


@functools.cache
def help_of(tool, *words):
    return subprocess.run([program(tool), *words, "--help"], capture_output=True, text=True, check=True).stdout


def parse(help_text):
    """The options of a help text, without words with a dash in examples."""
    named = re.findall(r"^ +(-[\w, -]+?)(?=  |$| [A-Z\[{])", help_text, re.M)
    return {option for line in named for option in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", line)}


def options_of(tool):
    """The options of the tool and of all its commands."""
    return set().union(parse(help_of(tool)), *(parse(help_of(tool, command)) for command in COMMANDS.get(tool, ())))


def commands_of(tool):
    if tool == "t3sim":
        return re.findall(r"^([a-z]+) ", help_of(tool, "ctl"), re.M)
    return re.findall(r"^    ([a-z-]+)(?: |$)", help_of(tool), re.M)
