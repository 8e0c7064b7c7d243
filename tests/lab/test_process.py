# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from labkit import paths
from labkit.errors import LabError
from labkit.process import Child, run

PARENT = """
import sys, time, pathlib
sys.path.insert(0, {path!r})
from labkit.process import Child
child = Child("sleeper", ["sleep", "1000"], pathlib.Path({log!r}))
print(child.pid, flush=True)
time.sleep(1000)
"""


def gone(pid: int, timeout: float = 10.0) -> bool:
    """Whether a process ended, including a zombie."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


def test_a_child_is_killed_with_its_parent(tmp_path):
    script = PARENT.format(path=str(paths.REPO / "tools/lab"), log=str(tmp_path / "log"))
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline())
        assert not gone(child, 0.2)
        parent.kill()
    assert gone(child)


def test_end_kills_a_process_that_ignores_sigterm(tmp_path):
    child = Child("stubborn", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], tmp_path / "log")
    while "ready" not in child.tail().splitlines():
        time.sleep(0.02)
    child.end(grace=0.3)
    assert child.status == -signal.SIGKILL


def test_a_childs_log_starts_with_its_command(tmp_path):
    child = Child("speaker", ["sh", "-c", "echo out; echo err >&2"], tmp_path / "log")
    assert child.wait(10) == 0
    assert child.tail().splitlines() == ["$ sh -c 'echo out; echo err >&2'", "out", "err"]


def test_a_failed_program_shows_its_output(tmp_path):
    with pytest.raises(LabError, match="(?s)sh -c.*status 4.*because"):
        run(["sh", "-c", "echo because; exit 4"])


def test_environment_is_added_to(tmp_path):
    child = Child("speaker", ["sh", "-c", "echo $COLOUR $PATH"], tmp_path / "log", env={"COLOUR": "red"})
    child.wait(10)
    assert f"red {os.environ['PATH']}" in child.tail()
