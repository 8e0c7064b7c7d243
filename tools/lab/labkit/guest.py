# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One guest: its QEMU, its agent, its logs."""

import os
import shlex
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Sequence

from . import klog, machine
from .channel import Channel, Command, Result, deadline
from .errors import GuestEnded, LabError
from .frames import Kind
from .image import Image
from .machine import Machine, Nic
from .process import Child, tail
from .sim import Sim

BOOT_DEADLINE = 90.0  # several times as long with UEFI, and with an init of the guest's own
QEMU_DEADLINE = 30.0  # until its sockets exist


class Guest:
    """A guest of a lab. Commands run as root in it; any number at a time."""

    def __init__(
        self,
        number: int,
        image: Image,
        machine: Machine,
        sockets: Path,
        artifacts: Path,
        share: Path,
        cards: Sequence[Path],
        nics: Sequence[Nic] = (),
        sim: Sim | None = None,
        snapshot: Path | None = None,
    ):
        self.number = number
        self.name = f"g{number}"
        self.image = image
        self.share = share
        self.interfaces: list[str] = []  # of its cards' ports, once the NIC driver is loaded
        self.nics = nics
        self.nic_interfaces: list[str] = []  # in the order of nics
        self.console = artifacts / f"{self.name}.console.log"
        self.kernel_log = artifacts / f"{self.name}.kernel.log"
        self._machine = machine
        self.cards = cards
        self._sim = sim  # serves the cards
        self._snapshot = snapshot  # from which it continues instead of booting
        self._kernel_name = None if snapshot else self.name  # on the kernel's command line
        self._agent_socket = sockets / f"{self.name}.agent"
        self._initramfs = artifacts / f"{self.name}.initramfs"
        self._qemu_log = artifacts / f"{self.name}.qemu.log"
        self._qemu: Child | None = None
        self._power_cycling = False
        self._log_lock = threading.Condition()
        self._log: list[str] = []
        self._checked = 0
        self._marks = 0
        self.channel = self._new_channel()

    # start and end

    def boot(self, qemu: Sequence[str]) -> None:
        """Starts the guest, which boots, or continues from its snapshot."""
        self.kernel_log.write_text("")
        self._initramfs.write_bytes(self.image.initramfs(self._machine.iommu))
        if self.image.uml:
            self._boot_uml()
            return
        self._qemu = Child(f"QEMU of {self.name}", [*self._pinned(), *qemu, *self._arguments()], self._qemu_log)

        left = deadline(QEMU_DEADLINE)
        while not self.channel.connect(str(self._agent_socket)):
            if self._qemu.status is not None or not left():
                raise LabError(f"{self.name}: QEMU did not start (status {self._qemu.status}):\n{self._qemu.tail()}")
            time.sleep(0.02)
        if self._snapshot:
            seed = os.urandom(64).hex()
            self.channel.send(0, Kind.NAME, {"name": self.name, "time": time.time(), "seed": seed})

    def _boot_uml(self) -> None:
        ours, agents = socket.socketpair()
        with agents:
            # The processes of the guest's programs end with the namespace, in any case.
            user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
            command = [
                "unshare",
                *user,
                "--pid",
                "--kill-child=KILL",
                "--fork",
                "--",
                self.image.kernel_file,
                *machine.of_uml(
                    self.image,
                    self._machine,
                    self.name,
                    f"{self.name}-{os.getpid()}",
                    self._initramfs,
                    self.share,
                    self.cards,
                    agents.fileno(),
                ),
            ]
            self._qemu = Child(
                f"kernel of {self.name}", [str(word) for word in command], self.console, descriptors=[agents.fileno()]
            )
        self.channel.use(ours)

    def _new_channel(self) -> Channel:
        return Channel(self.name, self._take_kernel_log, self._end_report, self.image.pace)

    def wait_ready(self, timeout: float = BOOT_DEADLINE) -> None:
        timeout *= self.image.pace * (1 + 2 * bool(self._machine.firmware) + 5 * self.image.own_init)
        if not self.channel.wait_ready(timeout):
            what = f"continue from {self._snapshot} (--boot boots it)" if self._snapshot else "boot"
            state = f"did not {what} within {timeout:g} s" if self.alive else f"ended and did not {what}"
            raise GuestEnded(f"{self.name} {state}; its console:\n{tail(self.console, 60)}\n{self._qemu.tail(10)}")

    @property
    def pid(self) -> int:
        return self._qemu.pid

    @property
    def alive(self) -> bool:
        return self._qemu is not None and self._qemu.status is None

    def reap(self) -> bool:
        """Checks whether QEMU runs; false once it has ended."""
        if self.alive or self._power_cycling:
            return True
        self.channel.lost(self._end_report())
        return False

    def _end_report(self) -> str:
        status = self._qemu.wait(2.0) if self._qemu else None
        # QEMU aborts when t3sim ends during an access to a card, perhaps before the parent can see that t3sim ended.
        if self._sim and self._sim.ended(1.0 if status == -signal.SIGABRT else 0):
            return self._sim.end_report()
        return f"{self.name}: QEMU ended with status {status}; the console's end:\n{tail(self.console, 50)}"

    def end(self) -> None:
        """Ends the guest without a shutdown: its disks are read-only, its logs are on the host."""
        if self._qemu:
            self._qemu.end(grace=2.0)
        self.channel.lost(f"{self.name}: the lab ended it")

    def power_cycle(self, qemu: Sequence[str]) -> None:
        """Turns the guest off and on: a new machine with the same cards, whose host disconnects and connects again."""
        self._power_cycling = True
        self.end()
        with self._log_lock:
            self._log, self._checked, self._marks = [], 0, 0
        self.channel = self._new_channel()
        self.boot(qemu)
        self._power_cycling = False
        self.wait_ready()

    # commands

    def start(self, command: str | Sequence[str], env: dict[str, str] | None = None) -> Command:
        """Starts a command; its standard input stays open for write()."""
        return self.channel.start(command, env=env)

    def run(
        self, command: str | Sequence[str], timeout: float = 30.0, stdin: bytes = b"", env: dict[str, str] | None = None
    ) -> Result:
        """Runs a command to its end."""
        handle = self.start(command, env)
        if stdin:
            handle.write(stdin)
        handle.end_input()
        return handle.wait(timeout)

    def check(self, command: str | Sequence[str], timeout: float = 30.0) -> str:
        """Runs a command that must succeed; returns its output."""
        result = self.run(command, timeout)
        if result.rc:
            shown = command if isinstance(command, str) else shlex.join(command)
            raise LabError(f"{self.name}: {shown}: status {result.rc}\n{result.stdout}{result.stderr}")
        return result.stdout

    def end_commands(self, timeout: float = 20.0) -> list[str]:
        """Kills running commands, and returns their names."""
        left = self.channel.running() if self.alive else []
        for command in left:
            command.kill()
        for command in left:
            command.wait(timeout)
        return [command.name for command in left]

    # files

    def push(self, source: Path | str | bytes, target: str, mode: int = 0o644, timeout: float = 60.0) -> None:
        """Copies a file of the host (or bytes) into the guest."""
        data = source if isinstance(source, bytes) else Path(source).read_bytes()
        to = shlex.quote(target)
        if self.image.uml:  # whose serial line stops for good after some kilobytes that are not read fast enough
            with tempfile.NamedTemporaryFile(dir=self.share) as file:
                file.write(data)
                file.flush()
                done = self.run(f"cat < /share/{Path(file.name).name} > {to} && chmod {mode:o} {to}", timeout)
        else:
            done = self.run(f"cat > {to} && chmod {mode:o} {to}", timeout, stdin=data)
        if done.rc:
            raise LabError(f"{self.name}: cannot write {target}: {done.stderr.strip()}")

    def pull(self, source: str, timeout: float = 60.0) -> bytes:
        """A file of the guest."""
        handle = self.start(["cat", source])
        handle.end_input()
        if handle.wait(timeout).rc:
            raise LabError(f"{self.name}: cannot read {source}: {handle.stderr.strip()}")
        return handle.stdout_bytes

    # the kernel log

    def dmesg(self) -> str:
        """The kernel log so far, including what was printed before this call."""
        self._sync_kernel_log()
        with self._log_lock:
            return "".join(self._log)

    def new_trouble(self, allowed: Sequence[klog.Allowed] = ()) -> str:
        """Errors in the kernel log since the last call; empty: none."""
        if self.reap():
            try:
                self._sync_kernel_log()
            except LabError:
                self.reap()
        with self._log_lock:
            text = "".join(self._log)
        fresh, self._checked = text[self._checked :], len(text)
        found = klog.trouble(fresh, allowed)
        if not self.alive:
            # The agent cannot send a panic: only the console has it. The console also repeats lines of the log.
            last = klog.only_in(tail(self.console, 400), text)
            found = "\n".join(filter(None, (found, klog.trouble(last, allowed))))
        return found

    def leaks(self) -> str:
        """Memory that the kernel leaked, by kmemleak; empty: none, or the kernel has no kmemleak.

        kmemleak reports an object without references only five seconds after its allocation.
        """
        return self.check(
            """cd /sys/kernel/debug; [ -e kmemleak ] || exit 0
            sleep 5.5; echo scan > kmemleak; echo scan > kmemleak; cat kmemleak""",
            120.0,
        )

    def _take_kernel_log(self, text: str) -> None:
        with self._log_lock:
            self._log.append(text)
            with open(self.kernel_log, "a") as file:
                file.write(text)
            self._log_lock.notify_all()

    def _sync_kernel_log(self, timeout: float = 30.0) -> None:
        """Messages arrive through the agent with a delay; a mark in the log shows when all have arrived."""
        self._marks += 1
        mark = f"t3lab: mark {self._marks}"
        self.check(f"echo '{mark}' > /dev/kmsg", timeout)
        with self._log_lock:
            self._log_lock.wait_for(lambda: any(mark in part for part in self._log[-20:]), timeout)

    # QEMU

    def mac(self, nic: int) -> str:
        return f"52:54:00:74:{self.number:02x}:{nic:02x}"

    def _pinned(self) -> list[str]:
        """One guest per core: halves the latency of registers, since fewer sleeping cores have to wake up."""
        cores = sorted(os.sched_getaffinity(0))
        return (
            ["taskset", "-c", str(cores[self.number % len(cores)])] if self._machine.cpus_with(self.image) == 1 else []
        )

    def _arguments(self) -> list[str]:
        files = machine.Files(self._initramfs, self.console, self._agent_socket)
        return [
            *machine.of_qemu(self.image, self._machine, self._kernel_name, files),
            *self._devices(),
            *(["-incoming", f"file:{self._snapshot}"] if self._snapshot else []),
        ]

    def _devices(self) -> list[str]:
        nics = [(nic, self.mac(number)) for number, nic in enumerate(self.nics)]
        return machine.devices(self.image, self.share, nics, self.cards)
