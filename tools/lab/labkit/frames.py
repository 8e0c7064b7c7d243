# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The protocol of the lab and a guest's agent: frames on a byte stream.

Each frame belongs to a channel, which is one command in the guest, numbered by the requesting side. This file is
also copied into guests, so it uses only the standard library.
"""

import enum
import json
import struct
from typing import Iterator, NamedTuple

_HEAD = struct.Struct("<IIB")  # length of the payload, channel, kind
MAX_PAYLOAD = 1 << 20
CHUNK = 1 << 16


class Kind(enum.IntEnum):
    # to the guest
    SPAWN = 1  # json: argv, tty (rows and columns, or null), env
    STDIN = 2  # data; empty: end of input
    SIGNAL = 3  # json: number; goes to the command's whole process group
    RESIZE = 4  # json: rows, columns
    NAME = 5  # json: name, time, seed; to a guest that continues from a snapshot (channel 0); HELLO follows
    # from the guest
    HELLO = 16  # json; the agent is ready (channel 0)
    STARTED = 17  # json: pid
    STDOUT = 18
    STDERR = 19
    EXIT = 20  # json: rc, negative for a signal
    FAILED = 21  # json: why; the command could not be started
    KLOG = 22  # text of the kernel log (channel 0)


class Frame(NamedTuple):
    channel: int
    kind: Kind
    payload: bytes = b""

    def json(self):
        return json.loads(self.payload)


def pack(channel: int, kind: Kind, payload=b"") -> bytes:
    """A frame as bytes; any other payload than bytes is encoded as json."""
    data = payload if isinstance(payload, (bytes, bytearray)) else json.dumps(payload).encode()
    if len(data) > MAX_PAYLOAD:
        raise ValueError(f"frame of {len(data)} bytes; at most {MAX_PAYLOAD}")
    return _HEAD.pack(len(data), channel, kind) + data


class Decoder:
    """Splits a byte stream into frames."""

    def __init__(self):
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= _HEAD.size:
            length, channel, kind = _HEAD.unpack_from(self._buffer)
            if length > MAX_PAYLOAD:
                raise ValueError(f"frame of {length} bytes announced; the stream is out of step")
            end = _HEAD.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_HEAD.size : end])
            del self._buffer[:end]
            yield Frame(channel, Kind(kind), payload)
