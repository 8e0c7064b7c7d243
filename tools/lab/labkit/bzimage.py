# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unpacks a bootable kernel of x86. It imports no other module of the lab, since the DKMS package includes it."""

import lzma
import subprocess


def unpack(image: bytes) -> bytes:
    """The vmlinux inside a bzImage; its offset is in the header of the x86 boot protocol. Raises ValueError for another
    file."""
    if image[0x202:0x206] != b"HdrS":
        raise ValueError("not a bzImage")
    setup_sectors = image[0x1F1] or 4
    offset, length = (int.from_bytes(image[at : at + 4], "little") for at in (0x248, 0x24C))
    start = (setup_sectors + 1) * 512 + offset
    payload = image[start : start + length - 4]  # its last word is the unpacked size
    if payload.startswith(b"\xfd7zXZ\0"):
        return lzma.decompress(payload)
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(["zstd", "-dc"], input=payload, stdout=subprocess.PIPE, check=True).stdout
    raise ValueError(f"unknown kernel compression (starts with {payload[:6].hex()})")
