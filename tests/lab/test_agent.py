# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The agent and the host's channel to it, joined by a socket on this machine."""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
import types

import pytest
from labkit import channel, control, paths
from labkit.errors import CommandTimeout, GuestEnded, LabError

START = "import os, sys; sys.path[:0] = {path!r}; import agent; agent.Agent({fd}).run()"


@pytest.fixture
def agent(tmp_path):
    """A Channel whose other end is an agent in a process of its own."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(tmp_path / "sock"))
    listener.listen()
    link = channel.Channel("here", lambda text: None, lambda: "here: the agent is gone")
    assert link.connect(str(tmp_path / "sock"))
    far, _ = listener.accept()
    search = [str(paths.GUEST_FILES), str(pathlib.Path(channel.__file__).parent)]
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", START.format(path=search, fd=far.fileno())], pass_fds=[far.fileno()]
    )
    far.close()
    assert link.wait_ready(10)
    link.process = process
    yield link
    process.kill()
    process.wait()


def run(link, command, stdin=b"", timeout=10):
    handle = link.start(command)
    handle.write(stdin)
    handle.end_input()
    return handle.wait(timeout)


@pytest.mark.parametrize(
    "command, rc, stdout, stderr",
    [
        ("echo out; echo err >&2; exit 3", 3, "out\n", "err\n"),
        (["echo", "one word", "$HOME"], 0, "one word $HOME\n", ""),
        ("kill -9 $$", -9, "", ""),
        ("cat", 0, "", ""),
    ],
)
def test_a_command_gives_status_and_both_streams(agent, command, rc, stdout, stderr):
    assert run(agent, command) == (rc, stdout, stderr)


def test_input_larger_than_any_pipe_comes_back_unchanged(agent):
    data = os.urandom(3_000_000).hex().encode()
    assert run(agent, "cat", data).stdout == data.decode()


def test_a_command_that_does_not_exist_is_an_error_with_its_name(agent):
    with pytest.raises(LabError, match="no-such-program"):
        run(agent, ["no-such-program"])
    assert run(agent, "true").rc == 0


def test_a_command_may_leave_its_input_unread(agent):
    assert run(agent, "exec <&-; echo fine", b"x" * 1_000_000).stdout == "fine\n"


def test_commands_run_side_by_side(agent):
    start = time.monotonic()
    handles = [agent.start(f"sleep 0.5; echo {number}") for number in range(20)]
    assert [handle.wait(10).stdout for handle in handles] == [f"{number}\n" for number in range(20)]
    assert time.monotonic() - start < 5


def test_many_short_commands_one_after_another(agent):
    assert [run(agent, f"echo {number}").stdout for number in range(200)] == [f"{number}\n" for number in range(200)]


def test_a_background_child_does_not_hold_its_command(agent):
    start = time.monotonic()
    assert run(agent, "sleep 20 & echo started").stdout == "started\n"
    assert time.monotonic() - start < 10


def test_a_command_over_its_time_is_killed_with_its_children(agent, tmp_path):
    mark = tmp_path / "mark"
    with pytest.raises(CommandTimeout, match="not done after 0.5 s"):
        run(agent, f"(sleep 2; touch {mark}) & wait", timeout=0.5)
    assert run(agent, "sleep 2.2").rc == 0
    assert not mark.exists()


def test_expect_finds_output_of_a_running_command(agent):
    handle = agent.start("echo listening on 42; cat")
    assert handle.expect(r"listening on (\d+)", 10)[1] == "42"
    handle.kill(signal.SIGTERM)
    assert handle.wait(10).rc == -signal.SIGTERM


def test_expect_reports_the_output_on_failure(agent):
    with pytest.raises(CommandTimeout, match="ended with 1 without printing.*\n.*sorry"):
        agent.start("echo sorry; exit 1").expect("hello", 10)


def test_a_shell_has_a_terminal(agent):
    handle = agent.start("test -t 0 && stty size", tty=(33, 77))
    assert handle.wait(10).stdout.split() == ["33", "77"]


def test_all_waiting_commands_fail_when_the_agent_ends(agent):
    waiting = agent.start("echo begun; exec sleep 100")
    waiting.expect("begun", 10)
    agent.process.kill()
    with pytest.raises(GuestEnded, match="the agent is gone"):
        waiting.wait(10)
    with pytest.raises(GuestEnded):
        agent.start("true")


@pytest.fixture
def lab(agent, tmp_path, monkeypatch):
    """The description of a lab whose only guest is the agent."""
    monkeypatch.setattr(paths, "runtime", lambda: tmp_path)
    (tmp_path / "here").mkdir()
    control.Server(types.SimpleNamespace(guests=[types.SimpleNamespace(channel=agent)]), tmp_path / "here/control")
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)  # switches between threads as often as possible
    yield {"name": "here", "guests": ["g0"]}
    sys.setswitchinterval(usual)


@pytest.mark.parametrize("leave", ["at once", "when it has ended"])
def test_an_exec_that_disconnects_does_not_end_the_guest(agent, lab, leave):
    for _ in range(200):
        client = control.Client(lab, 0)
        client._spawn(["echo", "fine"], None)
        received = b""
        while leave == "when it has ended" and b'"rc"' not in received:
            data = client._socket.recv(4096)
            assert data, received
            received += data
        client._socket.close()
    assert run(agent, "echo still here").stdout == "still here\n"
