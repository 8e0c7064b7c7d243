# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Lets other processes use a running lab: `t3lab exec` and `t3lab shell` exchange the agent's frames with the lab.

A client first sends one frame of kind HELLO with {"guest": N} on channel 0, then frames on channel 1.
"""

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sys
import termios
import threading
import tty
from pathlib import Path
from typing import Sequence

from . import paths
from .channel import to_argv
from .errors import LabError, UsageError
from .frames import CHUNK, Decoder, Frame, Kind, pack

ESCAPE = b"\x1d"  # Ctrl-]
DEFAULT_NAME = "lab"  # of what `t3lab up` starts


class Server:
    """The lab's side."""

    def __init__(self, lab, path: Path):
        self._lab = lab
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, name="control", daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._listener.accept()
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        decoder = Decoder()
        channel = number = None

        def forward(frame: Frame) -> None:
            try:
                client.sendall(pack(1, frame.kind, frame.payload))
                if frame.kind in (Kind.EXIT, Kind.FAILED):
                    client.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the client has disconnected; its command is ended below

        try:
            while data := client.recv(CHUNK):
                for frame in decoder.feed(data):
                    if channel is None:
                        guest = frame.json()["guest"]
                        if not 0 <= guest < len(self._lab.guests):
                            client.sendall(
                                pack(
                                    1,
                                    Kind.FAILED,
                                    {
                                        "why": (
                                            f"there is no guest {guest}; this lab has 0 to {len(self._lab.guests) - 1}"
                                        )
                                    },
                                )
                            )
                            return
                        channel = self._lab.guests[guest].channel
                        number = channel.open(None, forward)
                    else:
                        channel.send(number, frame.kind, frame.payload)
            if channel:
                channel.send(number, Kind.SIGNAL, {"number": int(signal.SIGHUP)})
        except (LabError, OSError, ValueError, KeyError):
            pass  # the client has failed or the guest has ended
        finally:
            if channel:
                channel.close(number)
            client.close()


def running() -> list[dict]:
    """Descriptions of the labs that run now."""
    found = []
    for folder in sorted(paths.runtime().iterdir()):
        description = folder / "lab.json"
        if folder.is_dir() and description.exists() and _locked(folder / "lock"):
            found.append(json.loads(description.read_text()))
    return found


def _locked(path: Path) -> bool:
    with open(path) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def find(name: str | None) -> dict:
    """The running lab of that name; without a name the only one, or the one with the default name of `t3lab up`."""
    labs = running()
    if name or len(labs) > 1 and any(lab["name"] == DEFAULT_NAME for lab in labs):
        labs = [lab for lab in labs if lab["name"] == (name or DEFAULT_NAME)]
    if not labs:
        raise UsageError(
            f"no lab {'called ' + name if name else ''} is running (t3lab up starts one)".replace("  ", " ")
        )
    if len(labs) > 1:
        raise UsageError(f"several labs run ({', '.join(lab['name'] for lab in labs)}); choose with --lab")
    return labs[0]


class Client:
    """One command in a guest of a lab that another process runs."""

    def __init__(self, lab: dict, guest: int):
        if guest >= len(lab["guests"]):
            raise UsageError(f"there is no guest {guest}; lab {lab['name']} has {', '.join(lab['guests'])}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(paths.runtime() / lab["name"] / "control"))
        except OSError as error:
            raise LabError(f"lab {lab['name']} does not reply: {error}") from error
        self._socket.sendall(pack(0, Kind.HELLO, {"guest": guest}))

    def run(self, command: str | Sequence[str]) -> int:
        """Connects the command to this process's standard streams; returns its status as a shell does."""
        self._spawn(to_argv(command), None)
        return self._pump()

    def shell(self) -> int:
        """An interactive shell on this terminal; Ctrl-] leaves it at any time."""
        if not sys.stdin.isatty():
            raise UsageError("a shell needs a terminal (t3lab exec runs single commands)")
        print("Ctrl-] leaves.", file=sys.stderr)
        saved = termios.tcgetattr(sys.stdin)
        size = shutil.get_terminal_size()
        self._spawn(["/bin/bash", "-l"], (size.lines, size.columns))
        signal.signal(signal.SIGWINCH, lambda *_: self._resize())
        tty.setraw(sys.stdin)
        try:
            return self._pump(interactive=True)
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, saved)

    def _spawn(self, argv: list[str], terminal: tuple[int, int] | None) -> None:
        self._send(Kind.SPAWN, {"argv": argv, "tty": terminal, "env": {"TERM": os.environ.get("TERM", "dumb")}})

    def _send(self, kind: Kind, payload=b"") -> None:
        self._socket.sendall(pack(1, kind, payload))

    def _resize(self) -> None:
        size = shutil.get_terminal_size()
        self._send(Kind.RESIZE, {"rows": size.lines, "columns": size.columns})

    def _pump(self, interactive: bool = False) -> int:
        decoder = Decoder()
        sources = [self._socket, sys.stdin.fileno()]
        while True:
            ready, _, _ = select.select(sources, [], [])
            if sys.stdin.fileno() in ready:
                data = os.read(sys.stdin.fileno(), CHUNK)
                if interactive and ESCAPE in data:
                    return 0
                self._send(Kind.STDIN, data)
                if not data:
                    sources.remove(sys.stdin.fileno())
            if self._socket in ready:
                data = self._socket.recv(CHUNK)
                if not data:
                    raise LabError("the lab ended")
                for frame in decoder.feed(data):
                    if frame.kind == Kind.EXIT:
                        rc = frame.json()["rc"]
                        return rc if rc >= 0 else 128 - rc
                    if frame.kind == Kind.FAILED:
                        raise LabError(frame.json()["why"])
                    if frame.kind in (Kind.STDOUT, Kind.STDERR):
                        stream = sys.stdout if frame.kind == Kind.STDOUT else sys.stderr
                        stream.buffer.write(frame.payload)
                        stream.buffer.flush()
