# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The lab with real guests: which failures it reports, and that no process outlives it."""

import os
import pathlib
import pty
import signal
import subprocess
import sys
import time

import pytest
from labkit import Lab
from labkit.errors import CommandTimeout, GuestEnded
from labkit.machine import Machine
from labkit.paths import REPO

T3LAB = REPO / "tools/lab/t3lab"


@pytest.fixture(scope="module")
def plain():
    """One guest without a card."""
    with Lab(guests=1, cards=0, name="plain") as lab:
        yield lab


def gone(pid, timeout=20.0):
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("boot", [False, True])
def test_guests_of_one_snapshot_differ(boot):
    """A guest that continues has a name and random numbers of its own, and the present time; so has one that boots."""
    with Lab(guests=2, cards=0, name="snapshot", machine=Machine(boot=boot)) as lab:
        random = {guest.check("cat /proc/sys/kernel/random/uuid") for guest in lab.guests}
        assert len(random) == 2
        assert [guest.check("uname -n").strip() for guest in lab.guests] == ["g0", "g1"]
        assert [guest.run("grep -q t3lab.name= /proc/cmdline").rc == 0 for guest in lab.guests] == [boot, boot]
        assert abs(int(lab.guests[1].check("date +%s")) - time.time()) < 10


def test_files_of_any_content_go_in_and_out(plain):
    data = os.urandom(2_000_000)
    plain.guests[0].push(data, "/tmp/with a space")
    assert plain.guests[0].pull("/tmp/with a space") == data


def test_a_deadline_ends_a_command_in_the_guest(plain):
    with pytest.raises(CommandTimeout):
        plain.guests[0].run("sleep 12345", timeout=1)
    assert plain.guests[0].run("sleep 0.2; pgrep -f '^sleep 12345'").rc == 1


@pytest.mark.parametrize("line", ["WARNING: CPU: 0 PID: 1 at fs/inode.c:1", "BUG: KASAN: use-after-free in f"])
def test_an_error_in_the_kernel_log_is_reported_once(plain, line):
    plain.guests[0].check(f"echo '{line}' > /dev/kmsg")
    assert line in plain.new_trouble()
    assert plain.new_trouble() == ""


def test_ext4_loads(plain):
    plain.guests[0].check("modprobe ext4 && grep -w ext4 /proc/filesystems")


def test_another_process_runs_commands_in_the_guest(plain):
    done = subprocess.run(
        [T3LAB, "exec", "--lab", "plain", "0", "cat; uname -n; exit 7"],
        input=b"from outside\n",
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, b"from outside\ng0\n")


def test_a_guest_that_does_not_exist_is_refused(plain):
    done = subprocess.run(
        [T3LAB, "exec", "--lab", "plain", "3", "true"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "t3lab: there is no guest 3; lab plain has g0\n")


def test_a_shell_has_a_terminal(plain):
    pid, master = pty.fork()
    if pid == 0:
        os.execv(T3LAB, [str(T3LAB), "shell", "--lab", "plain", "0"])
    seen = b""

    def until(text, timeout=30.0):
        nonlocal seen
        end = time.monotonic() + timeout
        while text not in seen:
            assert time.monotonic() < end, seen
            seen += os.read(master, 4096)

    until(b"root@g0")
    os.write(master, b"test -t 0 && echo terminal $((40 + 2))\n")
    until(b"terminal 42")
    os.write(master, b"\x1d")  # Ctrl-]
    assert os.waitpid(pid, 0)[1] == 0
    os.close(master)


def test_a_panic_is_reported_at_once_with_the_console():
    with Lab(guests=1, cards=0, name="panic") as lab:
        start = time.monotonic()
        with pytest.raises(GuestEnded, match="(?s)QEMU ended.*sysrq"):
            lab.guests[0].run("echo c > /proc/sysrq-trigger", timeout=60)
        assert time.monotonic() - start < 30
        assert "Kernel panic - not syncing: sysrq triggered crash" in lab.new_trouble()
        assert not lab.healthy


def test_a_killed_card_model_ends_its_guests_and_is_reported():
    with Lab(guests=2, cards=1, load="nic", name="orphan") as lab:
        os.kill(lab.sim.pid, signal.SIGKILL)
        with pytest.raises(GuestEnded, match="(?s)t3sim ended with status -9.*t3sim: ready"):
            lab.guests[1].run("sleep 100", timeout=90)
        assert all(gone(guest.pid) for guest in lab.guests)
        assert "t3sim ended with status -9" in lab.new_trouble()


KILLED = f"""
import sys, time
sys.path.insert(0, {str(REPO / 'tools/lab')!r})
from labkit import Lab
with Lab(guests=2, cards=1, load="none", name="killed") as lab:
    print(lab.sim.pid, *(guest.pid for guest in lab.guests), flush=True)
    time.sleep(1000)
"""


def test_nothing_outlives_a_lab_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True) as holder:
        pids = [int(word) for word in holder.stdout.readline().split()]
        assert len(pids) == 3 and not any(gone(pid, 0.1) for pid in pids)
        holder.kill()
    assert all(gone(pid) for pid in pids)
    with Lab(guests=1, cards=0, name="killed") as lab:  # neither the old sockets nor the lock prevent it
        assert lab.guests[0].check("echo again") == "again\n"
