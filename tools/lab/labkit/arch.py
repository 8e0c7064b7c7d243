# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The architectures of guests.

The image of a guest that is not the host's has the release's name and that of its architecture, as in "trixie-arm64".
What it runs is cross-compiled in a root of the host's architecture, since an emulated compiler would take an hour.
"""

from dataclasses import dataclass

HOST = "amd64"

# Arguments of a kernel that removes a mapping of its IOMMU when it ends, not later with others.
STRICT = "iommu.strict=1 iommu.passthrough=0"


@dataclass(frozen=True)
class Arch:
    """An architecture as Debian has it, and the machine that QEMU emulates for it."""

    name: str  # also that of Debian's kernel packages
    debian: str  # of all other packages
    triplet: str  # of its compiler and its folder of libraries
    qemu_package: str
    qemu_program: str
    machine: tuple[str, ...]  # arguments of QEMU, with the processor if it is emulated
    arguments: str  # of the kernel
    iommu: tuple[str, ...]  # arguments of QEMU for an IOMMU in front of the cards
    iommu_arguments: str  # of the kernel
    elf_machine: int  # of its programs
    iommu_module: str = (  # its driver, below the folder of Debian's modules; it is loaded before those that find the disks, which wait for it  # noqa: E501
        ""  # noqa: E501
    )
    slowness: float = 1.0  # how many times slower its guests are; deadlines grow with it
    suite: str | None = None  # the only release with images; None: all
    same_programs: str | None = None  # an architecture with the same programs, which are built once
    own_kernel: bool = False  # Debian has no kernel for it: its guests are those of same_programs with a kernel of the project, which has its name  # noqa: E501

    @property
    def cross(self) -> bool:
        """Whether its programs cannot run on the host."""
        return self.debian != HOST


_ARM64 = {
    "debian": "arm64",
    "triplet": "aarch64-linux-gnu",
    "qemu_package": "qemu-system-arm",
    "qemu_program": "qemu-system-aarch64",
    # With the ITS, since cards use MSI-X. This processor has pages of 4, 16 and 64 KB, and no pointer authentication,
    # whose emulation is slow.
    "machine": ("-M", "virt,gic-version=3", "-cpu", "neoverse-n1"),
    # The NIC driver clears its 65,536 TCAM entries without a pause, which takes a minute if the host is busy.
    "arguments": "console=ttyAMA0 watchdog_thresh=60",
    # QEMU's model of the machine's own IOMMU (smmuv3) refuses a card: it reports no new mappings.
    "iommu": ("-device", "virtio-iommu-pci"),
    "iommu_arguments": STRICT,
    "elf_machine": 183,
    "iommu_module": "kernel/drivers/iommu/virtio-iommu.ko.xz",
    "slowness": 2.0,
    "suite": "trixie",
}

ARCHITECTURES = {
    arch.name: arch
    for arch in (
        Arch(
            "amd64",
            "amd64",
            "x86_64-linux-gnu",
            "qemu-system-x86",
            "qemu-system-x86_64",
            ("-M", "q35", "-cpu", "qemu64,+rdrand"),
            "console=ttyS0 tsc=reliable no_timer_check",
            # QEMU learns of new mappings only in caching mode.
            ("-device", "intel-iommu,caching-mode=on"),
            f"intel_iommu=on {STRICT}",
            elf_machine=62,
        ),
        Arch("arm64", **_ARM64),
        Arch("arm64-16k", **_ARM64, same_programs="arm64"),  # its kernel has pages of 16 KB
        Arch("arm64-64k", **_ARM64, same_programs="arm64", own_kernel=True),
    )
}

NATIVE = ARCHITECTURES[HOST]


def image_name(suite: str, arch: str) -> str:
    """The name of the image of a release for an architecture."""
    return suite if arch == HOST else f"{ARCHITECTURES[arch].suite}-{arch}"


def of_image(name: str) -> tuple[str, Arch]:
    """The release of an image, and its architecture."""
    for arch in ARCHITECTURES.values():
        if arch.cross and name == f"{arch.suite}-{arch.name}":
            return arch.suite, arch
    return name, NATIVE


def names(suites: tuple[str, ...]) -> tuple[str, ...]:
    """The names of all images that are made of Debian's packages."""
    return (
        *suites,
        *(image_name("", arch.name) for arch in ARCHITECTURES.values() if arch.cross and not arch.own_kernel),
    )
