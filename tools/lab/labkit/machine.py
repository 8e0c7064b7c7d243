# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The machine of a guest: its parameters, and the arguments that QEMU or User Mode Linux gets for them."""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Sequence

from . import paths
from .image import Image

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
PCI_OVER_VIRTIO = 1000  # of uml.config


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
    boot: bool = False  # never continues from a snapshot, see snapshot.py

    def cpus_with(self, image: Image) -> int:
        return max(self.cpus, image.kernel.kind.cpus if image.kernel else 1)

    def memory_with(self, image: Image) -> int:
        return max(self.memory, image.kernel.kind.memory if image.kernel else 0)


class Nic(NamedTuple):
    """An ordinary network card, virtio-net, whose other side is an end of a wire."""

    socket: Path  # where t3sim listens for it
    network: int  # its address is stack.address(network, guest)


class Files(NamedTuple):
    """What a guest's QEMU reads, writes and listens on."""

    initramfs: Path
    console: Path
    agent: Path  # socket; QEMU begins when the lab has connected


def kernel_arguments(image: Image, machine: Machine, name: str | None) -> str:
    """The command line. Without a name the guest has no folders of the host, until it gets a name."""
    own = image.kernel
    parts = [UML_ARGUMENTS if image.uml else f"{KERNEL_ARGUMENTS} {image.arch.arguments}"]
    if name:
        parts.append(f"t3lab.name={name}")
    if image.own_init:
        parts.append("t3lab.own_init systemd.unit=multi-user.target systemd.firstboot=off systemd.getty_auto=no")
    if own:
        parts += [f"t3lab.kernel={own.kind.name}", own.kind.arguments]
    if machine.iommu:
        parts.append(image.arch.iommu_arguments)
    return " ".join(filter(None, (*parts, machine.arguments)))


def of_uml(
    image: Image,
    machine: Machine,
    name: str,
    umid: str,
    initramfs: Path,
    share: Path,
    cards: Sequence[Path],
    agent: int,
) -> list[str]:
    """All arguments of User Mode Linux. umid: a name on the host; agent: descriptor."""
    root, modules = image.disks
    return [
        f"mem={machine.memory_with(image)}M",
        f"umid={umid}",
        f"uml_dir={initramfs.parent}",
        f"initrd={initramfs}",
        *(f"virtio_uml.device={card}:{PCI_OVER_VIRTIO}" for card in cards),
        f"ubdar={root}",
        f"ubdbr={modules}",
        "con=none",
        "con0=fd:0,fd:1",
        "ssl=none",
        f"ssl0=fd:{agent}",
        "t3lab.line=/dev/ttyS0",
        f"t3lab.t3={paths.guest_build(image.suite)}",
        f"t3lab.share={share}",
        *kernel_arguments(image, machine, name).split(),
    ]


def of_qemu(image: Image, machine: Machine, name: str | None, files: Files) -> list[str]:
    """QEMU's arguments for the machine and its disks, without devices(), which a snapshot does not have."""
    memory = machine.memory_with(image)
    root, modules = image.disks
    counted = ["-icount", "shift=0"] if machine.counted else []
    accelerator = "kvm" if machine.kvm else f"tcg,thread={'single' if counted else 'multi'}"
    args = [
        *image.arch.machine,
        "-accel",
        accelerator,
        *counted,
        *(["-cpu", "host"] if machine.kvm else []),
        "-smp",
        machine.cpus_with(image),
        # The cards' process reaches the guest's memory through this; without share=on it would see a copy.
        "-object",
        f"memory-backend-memfd,id=ram,size={memory}M,share=on",
        "-machine",
        "memory-backend=ram",
        "-m",
        f"{memory}M",
        *(image.arch.iommu if machine.iommu else ()),
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-no-reboot",
        "-kernel",
        machine.firmware.kernel if machine.firmware else image.kernel_file,
        "-initrd",
        files.initramfs,
        "-append",
        kernel_arguments(image, machine, name),
        "-serial",
        f"file:{files.console}",
        "-device",
        "virtio-serial-pci",
        "-chardev",
        # Of a guest that continues, the agent would take a socket that is not connected for the end of the lab.
        f"socket,id=agent,path={files.agent},server=on,wait=on",
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
    return [str(arg) for arg in args]


def devices(image: Image, share: Path, nics: Sequence[tuple[Nic, str]], cards: Sequence[Path]) -> list[str]:
    """QEMU's arguments for what differs between guests: folders of the host, NICs with their MAC addresses, cards."""
    args = []
    for tag, folder, extra in (("t3", paths.guest_build(image.suite), ",readonly=on"), ("share", share, "")):
        args += ["-virtfs", f"local,path={folder},mount_tag={tag},security_model=none,multidevs=remap{extra}"]
    for number, (nic, mac) in enumerate(nics):
        args += [
            "-netdev",
            f"stream,id=net{number},server=off,addr.type=unix,addr.path={nic.socket}",
            "-device",
            f"virtio-net-pci,id=virtio{number},netdev=net{number},romfile=,mac={mac}",
        ]
    for number, card in enumerate(cards):
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
    return args
