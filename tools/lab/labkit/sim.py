# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The card model's process: one for all cards of a lab and the wires between them."""

import socket
import time
from pathlib import Path
from typing import NamedTuple, Sequence

from . import paths
from .channel import deadline
from .errors import LabError
from .process import Child

START_DEADLINE = 30.0


class Wire(NamedTuple):
    """A cable between two ports; a port is (card, port)."""

    a: tuple[int, int]
    b: tuple[int, int]

    def __str__(self) -> str:
        return "{}:{}={}:{}".format(*self.a, *self.b)


def straight(cards: int, ports: int) -> list[Wire]:
    """Port p of each card wired to port p of the next: 0-1, 2-3, ..."""
    return [Wire((card, port), (card + 1, port)) for card in range(0, cards - 1, 2) for port in range(ports)]


class Sim:
    def __init__(self, program: Path, cards: int, wires: Sequence[Wire], sockets: Path, artifacts: Path,
                 capture: Path | None = None, options: Sequence[str] = ()):
        if not program.exists():
            raise LabError(f"the card model is not built: {program} is missing (make sim)")
        self.cards = [sockets / f"card{number}" for number in range(cards)]
        self.capture = capture
        self._control = sockets / "sim.control"
        argv: list[str] = [str(program)]
        for card in self.cards:
            argv += ["--card", str(card)]
        for wire in wires:
            argv += ["--wire", str(wire)]
        if capture:
            argv += ["--capture", str(capture)]
        self._child = Child("t3sim", [*argv, "--control", str(self._control), *options], artifacts / "t3sim.log")

    @classmethod
    def default_program(cls) -> Path:
        return paths.REPO / "build/t3sim"

    def wait_ready(self) -> None:
        left = deadline(START_DEADLINE)
        while not all(path.exists() for path in [*self.cards, self._control]):
            if not self.alive or not left():
                raise LabError(f"t3sim did not start (status {self._child.status}):\n{self._child.tail()}")
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._child.status is None

    def obituary(self) -> str:
        return f"t3sim ended with status {self._child.status}; its log's end:\n{self._child.tail(60)}"

    def tail(self, lines: int = 40) -> str:
        return self._child.tail(lines)

    def control(self, line: str, timeout: float = 20.0) -> str:
        """One line to the model's control socket; returns its answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout)
            try:
                sock.connect(str(self._control))
                sock.sendall(line.encode() + b"\n")
                sock.shutdown(socket.SHUT_WR)
                answer = b""
                while part := sock.recv(65536):
                    answer += part
            except OSError as error:
                raise LabError(f"t3sim does not answer to {line!r}: {error}") from error
        return answer.decode(errors="replace")

    def end(self) -> int | None:
        self._child.end()
        return self._child.status
