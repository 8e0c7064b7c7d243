# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The control protocol of t3sim: a JSON object per line each way (sim/rig/README.md)."""

import json
import os
import socket
from pathlib import Path

VARIABLE = "T3SIM_CONTROL"  # names the socket, as for `t3sim ctl`


class T3simError(Exception):
    """t3sim refused a command, or does not reply."""


class Control:
    """Sends commands to the t3sim whose --control is this socket."""

    def __init__(self, path: str | os.PathLike | None = None, timeout: float = 20.0):
        if path is None and not os.environ.get(VARIABLE):
            raise T3simError(f"no socket is given, and the variable {VARIABLE} names none")
        self.control_socket = Path(path if path is not None else os.environ[VARIABLE])
        self._timeout = timeout

    def connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(self._timeout)
        try:
            sock.connect(str(self.control_socket))
        except OSError as error:
            sock.close()
            raise T3simError(f"cannot reach a t3sim at '{self.control_socket}': {error}") from error
        return sock

    def control(self, command: str, *arguments):
        """The result of a command; see `t3sim ctl help`. Of a table all parts."""
        request = {"command": command, "args": [str(each) for each in arguments]}
        rows = []
        # A connection for each command: t3sim drops idle ones when there are too many.
        lines = Lines(self.connect())
        try:
            while True:
                reply = lines.exchange(request)
                if "next" not in reply and not rows:
                    return reply["result"]
                rows += reply["result"]
                if "next" not in reply:
                    return rows
                request["from"] = reply["next"]
        finally:
            lines.close()


class Lines:
    """Lines on a socket, with a timeout that loses no part of a line."""

    def __init__(self, sock: socket.socket):
        self._socket = sock
        self._text = b""

    def close(self) -> None:
        self._socket.close()

    def next(self, timeout: float | None = None) -> bytes:
        if timeout is not None:
            self._socket.settimeout(timeout)
        while b"\n" not in self._text:
            piece = self._socket.recv(65536)
            if not piece:
                raise ConnectionError("it has closed the connection")
            self._text += piece
        line, _, self._text = self._text.partition(b"\n")
        return line

    def exchange(self, request: dict) -> dict:
        """Sends a request and returns its reply."""
        try:
            self._socket.sendall(json.dumps(request).encode() + b"\n")
            reply = json.loads(self.next())
        except (OSError, ValueError) as error:
            raise T3simError(f"t3sim does not reply to {request['command']!r}: {error}") from error
        if not reply["ok"]:
            raise T3simError(f"t3sim: {reply['error']}")
        return reply
