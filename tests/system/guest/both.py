#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Uses a device through two dispatchers at once, without libibverbs, which would choose one: both.py DEVICE CLASS...

Prints for each class, as JSON, what QUERY_DEVICE answered there, and how many PDs the device has while each has made one.
"""

import ctypes
import json
import os
import pathlib
import struct
import subprocess
import sys

GET_CONTEXT, QUERY_DEVICE, ALLOC_PD = 0, 1, 3
QUERY_DEVICE_LENGTH = 176


def ask(fd, command, length):
    """A command of the write() ABI that has nothing to say but where its answer goes."""
    answer = ctypes.create_string_buffer(length)
    request = struct.pack("<IHHQ", command, 4, length // 4, ctypes.addressof(answer))
    if os.write(fd, request) != len(request):
        raise OSError(f"command {command} was taken in part")
    return answer.raw


def node(name, device):
    """The character device of an RDMA device in a class."""
    for path in pathlib.Path("/sys/class", name).glob("*/ibdev"):
        if path.read_text().strip() == device:
            return pathlib.Path("/dev/infiniband", path.parent.name)
    raise SystemExit(f"{name} has no {device}")


device, *classes = sys.argv[1:]
opened = {name: os.open(node(name, device), os.O_RDWR) for name in classes}
said = {}
for name, fd in opened.items():
    ask(fd, GET_CONTEXT, 64)
    ask(fd, ALLOC_PD, 64)
    said[name] = ask(fd, QUERY_DEVICE, QUERY_DEVICE_LENGTH).hex()
shown = subprocess.run(["rdma", "resource", "show", "pd"], capture_output=True, text=True, check=True).stdout
print(json.dumps({"said": said, "pds": sum(f"pid {os.getpid()} " in line for line in shown.splitlines() if f"dev {device} " in line)}))
