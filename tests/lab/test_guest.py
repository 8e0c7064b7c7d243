# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a guest reports of its kernel, without a guest: its QEMU is a process that ended."""

import pytest
from labkit import Lab, guest, machine
from labkit.errors import GuestEnded
from labkit.image import Image
from labkit.process import Child
from labkit.sim import Sim

WARNING = "[    5.000000] WARNING: CPU: 0 PID: 7 at kernel/workqueue.c:1 f+0x1"
PANIC = "[    6.000000] Kernel panic - not syncing: sysrq triggered crash"


@pytest.fixture
def ended(tmp_path):
    """A guest whose kernel logged a warning and whose QEMU ended; further lines go to its console."""
    made = guest.Guest(0, Image("bookworm", tmp_path, "6.1", ()), machine.Machine(), tmp_path, tmp_path, tmp_path, [])
    made._take_kernel_log(f"{WARNING}\n[    5.000001] Call Trace:\n")
    made._qemu = Child("QEMU of g0", ["true"], tmp_path / "qemu.log")
    made._qemu.wait(10)
    made.console.write_text(f"{WARNING}\r\n")
    return made


def test_a_panic_after_a_warning_is_reported(ended):
    with open(ended.console, "a") as console:
        console.write(f"{PANIC}\n")
    found = ended.new_trouble()
    assert found.count(WARNING) == 1 and found.count(PANIC) == 1


def test_a_panic_is_reported_after_the_warning_was(ended):
    ended.new_trouble()
    with open(ended.console, "a") as console:
        console.write(f"{PANIC}\n")
    found = ended.new_trouble()
    assert PANIC in found and WARNING not in found


def test_a_guest_that_ends_without_a_panic_is_reported_beside_its_warning(ended):
    lab = Lab(guests=1, cards=0)
    lab.guests = [ended]
    found = lab.new_trouble()
    assert WARNING in found and "g0 ended; its console's end:" in found


def test_the_end_of_the_model_is_the_cause_of_an_abort_of_qemu(tmp_path):
    """The model's sockets are closed, so QEMU aborts, before the model's parent can see its end."""

    class Model(Sim):
        def __init__(self):
            self._child = Child("t3sim", ["sh", "-c", "sleep 0.3; kill -KILL $$"], tmp_path / "t3sim.log")

    made = guest.Guest(
        *(0, Image("bookworm", tmp_path, "6.1", ()), machine.Machine(), tmp_path, tmp_path, tmp_path, []), sim=Model()
    )
    made._qemu = Child("QEMU of g0", ["sh", "-c", "kill -ABRT $$"], tmp_path / "qemu.log")
    made._qemu.wait(10)
    assert not made.reap()
    with pytest.raises(GuestEnded, match="t3sim ended with status -9"):
        made.channel.start("true")
