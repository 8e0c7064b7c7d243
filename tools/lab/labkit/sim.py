# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The card model's process: one for all cards of a lab and the wires between them."""

import contextlib
import json
import os
import re
import shlex
import socket
import time
from pathlib import Path
from typing import Iterator, NamedTuple, Sequence

from . import paths
from .channel import deadline
from .errors import LabError
from .process import Child

START_DEADLINE = 30.0
READY = "t3sim: ready"
MAX_CARDS = 8  # t3sim's own limit


class Wire(NamedTuple):
    """A cable. Its ends are as t3sim names them: cN.P (port P of card N, cards counted through all guests),
    qemu:PATH, tap:NAME; and nG, which gives guest G an ordinary NIC (virtio-net) there."""

    name: str
    ends: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}={','.join(self.ends)}"


def nic_of(end: str) -> int | None:
    """The guest whose NIC an end is, if it is one."""
    return int(end[1:]) if re.fullmatch(r"n\d+", end) else None


def straight(cards: int, ports: int) -> list[Wire]:
    """Port p of all cards on wire p."""
    return (
        [Wire(f"p{port}", tuple(f"c{card}.{port}" for card in range(cards))) for port in range(ports)]
        if cards > 1
        else []
    )


def program() -> Path:
    """The model of this tree; T3SIM selects another one, e.g. one with sanitizers."""
    return Path(os.environ.get("T3SIM") or paths.REPO / "build/sim/vfio/t3sim")


class Sim:
    def __init__(
        self,
        cards: int,
        wires: Sequence[Wire],
        sockets: Path,
        artifacts: Path,
        capture: Path | None = None,
        options: Sequence[str] = (),
        vhost_user: bool = False,
    ):
        if not program().exists():
            raise LabError(f"the card model is not built: {program()} is missing (make sim)")
        self.cards = [sockets / f"card{number}" for number in range(cards)]
        self._control = sockets / "sim.control"
        self._log = artifacts / "t3sim.log"
        more = shlex.split(os.environ.get("T3SIM_OPTIONS", ""))  # e.g. --compute-sums
        argv = [str(program()), "--control", str(self._control), *more, *options]
        for number, path in enumerate(self.cards):
            argv += ["--card", f"c{number}={path}"]
            if vhost_user:  # for User Mode Linux
                argv += ["--vhost-user", f"c{number}"]
        for wire in wires:
            argv += ["--wire", str(wire)]
        if capture:
            capture.mkdir(parents=True, exist_ok=True)
            argv += ["--capture", str(capture)]
        self._child = Child("t3sim", argv, self._log)

    def wait_ready(self) -> None:
        left = deadline(START_DEADLINE)
        while READY not in self._child.tail():
            if not self.alive or not left():
                raise LabError(f"t3sim did not start (status {self._child.status}):\n{self._child.tail()}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.status is None

    @property
    def control_socket(self) -> Path:
        """For `t3sim ctl`."""
        return self._control

    def end_report(self) -> str:
        return f"t3sim ended with status {self._child.status}; its log's end:\n{self._child.tail(60)}"

    def tail(self, lines: int = 40) -> str:
        return self._child.tail(lines)

    def control(self, command: str, *arguments: str, timeout: float = 20.0):
        """Sends a command to the model; see `t3sim ctl SOCKET help`."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout)
            try:
                sock.connect(str(self._control))
                sock.sendall(json.dumps({"command": command, "args": arguments}).encode() + b"\n")
                with sock.makefile() as replies:
                    reply = json.loads(replies.readline())
            except (OSError, ValueError) as error:
                raise LabError(f"t3sim does not reply to {command!r}: {error}") from error
        if not reply["ok"]:
            raise LabError(f"t3sim: {reply['error']}")
        return reply["result"]

    def cable(self, wire: str, plugged: bool) -> None:
        """Plugs a wire in or pulls it."""
        self.control("wire", "up" if plugged else "down", wire)

    @contextlib.contextmanager
    def capturing(self, folder: Path) -> Iterator[list[Path]]:
        """Captures all wires for the time of the context, instead of a running capture; yields the files, one for each
        wire."""
        files = [Path(name) for name in self.control("capture", "start", str(folder))]
        try:
            yield files
        finally:
            if self.alive:
                self.control("capture", "stop")

    def counters(self, card: int) -> dict[str, int]:
        return self.control("counters", f"c{card}")[f"c{card}"]

    def cause(self, card: int, fault: str, *amount) -> None:
        """Injects a fault into a card; see `t3sim ctl SOCKET cause --list`."""
        self.control("cause", f"c{card}", fault, *map(str, amount))

    def end(self) -> int | None:
        self._child.end()
        return self._child.status
