#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Uses a device through two dispatchers at once, without libibverbs, which would choose one: both.py DEVICE CLASS...

Prints for each class, as JSON, the response to QUERY_DEVICE, and the number of PDs of the device while each class has
created one.
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


def send(fd, command, length):
    """Sends a command of the write() ABI whose only field is the address of its response; returns the response."""
    response = ctypes.create_string_buffer(length)
    request = struct.pack("<IHHQ", command, 4, length // 4, ctypes.addressof(response))
    if os.write(fd, request) != len(request):
        raise OSError(f"command {command} was written in part")
    return response.raw


def node(name, device):
    """The character device of an RDMA device in a class."""
    for path in pathlib.Path("/sys/class", name).glob("*/ibdev"):
        if path.read_text().strip() == device:
            return pathlib.Path("/dev/infiniband", path.parent.name)
    raise SystemExit(f"{name} has no {device}")


device, *classes = sys.argv[1:]
opened = {name: os.open(node(name, device), os.O_RDWR) for name in classes}
responses = {}
for name, fd in opened.items():
    send(fd, GET_CONTEXT, 64)
    send(fd, ALLOC_PD, 64)
    responses[name] = send(fd, QUERY_DEVICE, QUERY_DEVICE_LENGTH).hex()
shown = subprocess.run(["rdma", "resource", "show", "pd"], capture_output=True, text=True, check=True).stdout
print(
    json.dumps(
        {
            "responses": responses,
            "pds": sum(f"pid {os.getpid()} " in line for line in shown.splitlines() if f"dev {device} " in line),
        }
    )
)
