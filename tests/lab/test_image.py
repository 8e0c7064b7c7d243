# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import lzma
import struct
import subprocess

import pytest
from labkit import image, qemu
from labkit.cpio import Archive
from labkit.errors import LabError


def bzimage(payload: bytes, setup_sectors: int = 4, offset: int = 0x2D0) -> bytes:
    """A kernel file with the fields of the boot protocol that matter here."""
    head = bytearray((setup_sectors + 1) * 512)
    head[0x1F1] = setup_sectors
    head[0x202:0x206] = b"HdrS"
    head[0x248:0x250] = struct.pack("<II", offset, len(payload) + 4)
    return bytes(head) + bytes(offset) + payload + b"\x12\x34\x56\x78" + bytes(100)


def zstd(data):
    return subprocess.run(["zstd", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


@pytest.mark.parametrize(
    "compress", [lambda data: lzma.compress(data, check=lzma.CHECK_CRC32), zstd], ids=["xz", "zstd"]
)
def test_the_uncompressed_kernel_is_extracted(compress):
    kernel = b"\x7fELF" + bytes(range(256)) * 1000
    assert image.unpack_kernel(bzimage(compress(kernel))) == kernel


@pytest.mark.parametrize("data, why", [(bytes(2000), "not a bzImage"), (bzimage(b"\x1f\x8b????"), "compression")])
def test_another_file_is_refused(data, why):
    with pytest.raises(LabError, match=why):
        image.unpack_kernel(data)


def test_an_unknown_release_is_refused_by_name():
    with pytest.raises(LabError, match="buster.*bookworm"):
        image.get("buster")


def test_boot_modules_follow_their_dependencies(tmp_path):
    (tmp_path / "modules.dep").write_text(
        "kernel/virtio_pci.ko.xz: kernel/modern.ko.xz kernel/virtio.ko.xz kernel/ring.ko.xz\n"
        "kernel/virtio_blk.ko.xz: kernel/virtio.ko.xz kernel/ring.ko.xz\n"
        "kernel/9p.ko.xz: kernel/9pnet.ko.xz\nkernel/other.ko.xz:\n"
    )
    names = [path.name for path in image._boot_files(tmp_path)]
    assert (
        names == "ring.ko.xz virtio.ko.xz modern.ko.xz virtio_pci.ko.xz virtio_blk.ko.xz 9pnet.ko.xz 9p.ko.xz".split()
    )


def test_a_file_system_with_a_missing_dependency_is_reported():
    assert (
        image.incomplete(
            """\
depmod: WARNING: /x/./lib/modules/6.1.0-50-amd64/kernel/fs/ext4/ext4.ko needs unknown symbol mb_cache_create
depmod: WARNING: /x/./lib/modules/6.1.0-50-amd64/kernel/fs/ext4/ext4.ko needs unknown symbol mb_cache_destroy
depmod: WARNING: /x/./lib/modules/6.12.5-amd64/kernel/crypto/xor.ko.xz needs unknown symbol f
depmod: WARNING: /x/./lib/modules/6.1.0-50-amd64/kernel/drivers/block/zram/zram.ko needs unknown symbol zs_malloc
"""
        )
        == ["crypto/xor", "fs/ext4/ext4"]
    )


def test_an_archive_has_the_format_of_cpio(tmp_path):
    archive = Archive()
    archive.file("bin/tool", b"#!/bin/sh\n", 0o755)
    archive.file("bin/odd", b"123")
    archive.node("dev/console", 5, 1)
    listing = subprocess.run(
        ["/usr/bin/python3", "-c", READER], input=archive.data(), stdout=subprocess.PIPE, check=True
    ).stdout
    assert listing.decode().splitlines() == [
        "40755 0 bin",
        "100755 10 bin/tool",
        "100644 3 bin/odd",
        "40755 0 dev",
        "20600 0 dev/console",
    ]


READER = """
import sys
data, at = sys.stdin.buffer.read(), 0
while True:
    assert data[at:at + 6] == b"070701"
    f = [int(data[at + 6 + 8 * i:at + 14 + 8 * i], 16) for i in range(13)]
    name = data[at + 110:at + 110 + f[11] - 1].decode()
    if name == "TRAILER!!!": break
    print(f"{f[1]:o} {f[6]} {name}")
    at = (at + 110 + f[11] + 3) // 4 * 4
    at = (at + f[6] + 3) // 4 * 4
"""


@pytest.mark.parametrize(
    "text, version", [("QEMU emulator version 11.1.3 (Debian 1:11.1.3+ds)", (11, 1)), ("version 7.2.9", (7, 2))]
)
def test_qemus_version_is_read(text, version):
    assert qemu.parse_version(text) == version


def test_a_version_that_cannot_be_parsed_is_an_error():
    with pytest.raises(LabError, match="cannot read a version"):
        qemu.parse_version("bash: not found")
