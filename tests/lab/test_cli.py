# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import subprocess

import pytest
from labkit import paths

T3LAB = paths.REPO / "tools/lab/t3lab"


def t3lab(*words, **env):
    return subprocess.run([T3LAB, *words], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20,
                          env={"PATH": "/usr/bin:/bin", **env}, check=False)


@pytest.mark.parametrize("words, wrong", [
    ((), "required: COMMAND"),
    (("upp",), "invalid choice: 'upp'"),
    (("up", "--guests", "0"), "'0' is no count of guests"),
    (("up", "--suite", "buster"), "invalid choice: 'buster'"),
    (("shell",), "required: GUEST"),
    (("shell", "first"), "'first' is no guest"),
    (("exec", "0"), "no command given"),
    (("cache", "burn"), "invalid choice: 'burn'"),
])
def test_wrong_arguments_get_one_line_and_status_2(words, wrong):
    done = t3lab(*words)
    assert done.returncode == 2
    assert wrong in done.stderr and "right is: t3lab" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not done.stdout


@pytest.mark.parametrize("words", [("exec", "--lab", "nobody", "0", "true"), ("shell", "--lab", "nobody", "0"), ("down", "--lab", "nobody")])
def test_a_lab_that_does_not_run_is_named(words):
    done = t3lab(*words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "t3lab: no lab called nobody is running (t3lab up starts one)"


def test_help_names_every_command():
    done = t3lab("--help")
    assert done.returncode == 0
    for name in ("up", "run", "shell", "exec", "logs", "down", "image", "build", "cache"):
        assert f"\n    {name} " in done.stdout


def test_an_empty_cache_lists_nothing_but_its_place(tmp_path):
    done = t3lab("cache", XDG_CACHE_HOME=str(tmp_path))
    assert done.stdout == f"in {tmp_path}/t3rdma\n"
