#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Writes a firmware image with only a version to a T3's flash, by cxgb3's own ioctl: firmware.py INTERFACE
MAJOR.MINOR.MICRO."""

import ctypes
import fcntl
import socket
import struct
import sys

SIOCCHIOCTL = 0x89F0
CHELSIO_LOAD_FW = 1041
OFFLOAD = 1  # the "T" of "T 7.12.0"

interface, version = sys.argv[1:]
major, minor, micro = map(int, version.split("."))
word = OFFLOAD << 28 | major << 16 | minor << 8 | micro
image = struct.pack(">II", word, 0xFFFFFFFF - word)  # all words add up to -1
request = ctypes.create_string_buffer(struct.pack("=5I", CHELSIO_LOAD_FW, 0, 0, len(image), 0) + image)
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
    fcntl.ioctl(sock, SIOCCHIOCTL, struct.pack("16sQ16x", interface.encode(), ctypes.addressof(request)))
