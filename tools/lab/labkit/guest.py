# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One guest: its QEMU, its agent, its logs."""

import os
import shlex
import signal
import socket
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Sequence

from . import klog, paths
from .channel import Channel, Command, Result, deadline
from .errors import GuestEnded, LabError
from .image import Image
from .process import Child, tail
from .sim import Sim

BOOT_DEADLINE = 90.0  # several times as long with UEFI, and with an init of the guest's own
QEMU_DEADLINE = 30.0  # until its sockets exist
UML_ARGUMENTS = (
    "console=tty0 loglevel=5 panic=-1 oops=panic random.trust_cpu=on sysctl.kernel.hung_task_timeout_secs=45"
    " watchdog_thresh=30"
)
KERNEL_ARGUMENTS = (
    "loglevel=5 panic=-1 oops=panic mitigations=off nokaslr "
    "cryptomgr.notests random.trust_cpu=on "
    # A hung task is reported within a test's deadline; a slow host alone does not count as a stuck CPU.
    "sysctl.kernel.hung_task_timeout_secs=45 watchdog_thresh=30 rcupdate.rcu_cpu_stall_timeout=90"
)


class Firmware(NamedTuple):
    """UEFI instead of QEMU's own loader: its code, its variables, which outlive the guest, and a signed kernel."""

    code: Path
    variables: Path
    kernel: Path


@dataclass(frozen=True)
class Machine:
    """The parameters of a guest's machine."""

    memory: int = 512  # MiB
    cpus: int = 1
    kvm: bool = False
    counted: bool = False  # the guest's clock and TSC count instructions, one a nanosecond, so that figures repeat
    arguments: str = ""  # further arguments of the kernel's command line
    packages: tuple[str, ...] = ()  # beside those of the image
    firmware: Firmware | None = None
    iommu: bool = False  # between the cards and the guest's memory; disks and NICs of QEMU bypass it


PCI_OVER_VIRTIO = 1000  # of uml.config


class Nic(NamedTuple):
    """An ordinary network card, virtio-net, whose other side is an end of a wire."""

    socket: Path  # where t3sim listens for it
    network: int  # its address is stack.address(network, guest)


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
                *self._uml_arguments(agents.fileno()),
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
            state = f"did not boot within {timeout:g} s" if self.alive else "ended while it booted"
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
        return ["taskset", "-c", str(cores[self.number % len(cores)])] if self._cpus == 1 else []

    @property
    def _cpus(self) -> int:
        return max(self._machine.cpus, self.image.kernel.kind.cpus if self.image.kernel else 1)

    def _kernel_arguments(self) -> str:
        own = self.image.kernel
        parts = [
            UML_ARGUMENTS if self.image.uml else f"{KERNEL_ARGUMENTS} {self.image.arch.arguments}",
            f"t3lab.name={self.name}",
        ]
        if self.image.own_init:
            parts.append("t3lab.own_init systemd.unit=multi-user.target systemd.firstboot=off systemd.getty_auto=no")
        if own:
            parts += [f"t3lab.kernel={own.kind.name}", own.kind.arguments]
        if self._machine.iommu:
            parts.append(self.image.arch.iommu_arguments)
        return " ".join(filter(None, (*parts, self._machine.arguments)))

    @property
    def _memory(self) -> int:
        return max(self._machine.memory, self.image.kernel.kind.memory if self.image.kernel else 0)

    def _uml_arguments(self, agent: int) -> list[str]:
        root, modules = self.image.disks
        return [
            f"mem={self._memory}M",
            f"umid={self.name}-{os.getpid()}",
            f"uml_dir={self._initramfs.parent}",
            f"initrd={self._initramfs}",
            *(f"virtio_uml.device={card}:{PCI_OVER_VIRTIO}" for card in self.cards),
            f"ubdar={root}",
            f"ubdbr={modules}",
            "con=none",
            "con0=fd:0,fd:1",
            "ssl=none",
            f"ssl0=fd:{agent}",
            "t3lab.line=/dev/ttyS0",
            f"t3lab.t3={paths.guest_build(self.image.suite)}",
            f"t3lab.share={self.share}",
            *self._kernel_arguments().split(),
        ]

    def _arguments(self) -> list[str]:
        machine = self._machine
        memory = self._memory
        root, modules = self.image.disks
        counted = ["-icount", "shift=0"] if machine.counted else []
        accelerator = "kvm" if machine.kvm else f"tcg,thread={'single' if counted else 'multi'}"
        args = [
            *self.image.arch.machine,
            "-accel",
            accelerator,
            *counted,
            *(["-cpu", "host"] if machine.kvm else []),
            "-smp",
            str(self._cpus),
            # The cards' process reaches the guest's memory through this; without share=on it would see a copy.
            "-object",
            f"memory-backend-memfd,id=ram,size={memory}M,share=on",
            "-machine",
            "memory-backend=ram",
            "-m",
            f"{memory}M",
            *(self.image.arch.iommu if machine.iommu else ()),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-kernel",
            machine.firmware.kernel if machine.firmware else self.image.kernel_file,
            "-initrd",
            self._initramfs,
            "-append",
            self._kernel_arguments(),
            "-serial",
            f"file:{self.console}",
            "-device",
            "virtio-serial-pci",
            "-chardev",
            f"socket,id=agent,path={self._agent_socket},server=on,wait=off",
            "-device",
            "virtserialport,chardev=agent,name=t3.agent",
        ]
        if machine.firmware:
            # Only System Management Mode may write to its variables.
            args += [
                "-machine",
                "smm=on",
                "-global",
                "driver=cfi.pflash01,property=secure,value=on",
                "-drive",
                f"if=pflash,unit=0,format=raw,readonly=on,file={machine.firmware.code}",
                "-drive",
                f"if=pflash,unit=1,format=raw,file={machine.firmware.variables}",
            ]
        for name, disk in (("root", root), ("modules", modules)):
            args += [
                "-drive",
                f"if=none,id={name},file={disk},format=raw,readonly=on,file.locking=off",
                "-device",
                f"virtio-blk-pci,drive={name}",
            ]
        for tag, folder, extra in (
            ("t3", paths.guest_build(self.image.suite), ",readonly=on"),
            ("share", self.share, ""),
        ):
            args += ["-virtfs", f"local,path={folder},mount_tag={tag},security_model=none,multidevs=remap{extra}"]
        for number, nic in enumerate(self.nics):
            args += [
                "-netdev",
                f"stream,id=net{number},server=off,addr.type=unix,addr.path={nic.socket}",
                "-device",
                f"virtio-net-pci,id=virtio{number},netdev=net{number},romfile=,mac={self.mac(number)}",
            ]
        for number, card in enumerate(self.cards):
            # A T3 reads its link width, which only a real port has; hot-unplug would abort this QEMU.
            args += [
                "-device",
                f"pcie-root-port,id=rp{number},chassis={number + 1},slot={number + 1},hotplug=off",
                "-device",
                (
                    f'{{"driver":"vfio-user-pci","id":"nic{number}","bus":"rp{number}",'
                    f'"x-msg-timeout":60000,"socket":{{"type":"unix","path":"{card}"}}}}'
                ),
            ]
        return [str(arg) for arg in args]
