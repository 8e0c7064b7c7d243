# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The card model's process: one for all cards of a lab and the wires between them."""

import os
import re
import shlex
import time
from pathlib import Path
from typing import NamedTuple, Sequence

from t3sim import Script, T3simError
from t3sim.process import READY

from . import paths
from .channel import deadline
from .errors import LabError
from .process import Child

START_DEADLINE = 30.0
MAX_CARDS = 8  # t3sim's own limit


class Wire(NamedTuple):
    """A cable. Its ends are as t3sim names them: cN.P (port P of card N, cards counted through all guests),
    qemu:PATH, tap:NAME, udp:[PORT@]HOST:PORT; and nG, which gives guest G an ordinary NIC (virtio-net) there."""

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
    return Path(os.environ.get("T3SIM") or paths.REPO / "build/sim/t3sim")


class Sim(Script):
    """Cards are c0, c1 and so on; a number means the card with that name."""

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
        super().__init__(sockets / "sim.control")
        self.card_sockets = [sockets / f"card{number}" for number in range(cards)]
        self._log = artifacts / "t3sim.log"
        more = shlex.split(os.environ.get("T3SIM_OPTIONS", ""))  # e.g. --compute-sums
        argv = [str(program()), "--control", str(self.control_socket), *more, *options]
        for number, path in enumerate(self.card_sockets):
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

    def ended(self, timeout: float) -> bool:
        """Whether it ended, or ends within the timeout."""
        return self._child.wait(timeout) is not None

    def end_report(self) -> str:
        return f"t3sim ended with status {self._child.status}; its log's end:\n{self._child.tail(60)}"

    def tail(self, lines: int = 40) -> str:
        return self._child.tail(lines)

    def card_name(self, card: int | str) -> str:
        return f"c{card}" if isinstance(card, int) else card

    def control(self, command: str, *arguments):
        try:
            return super().control(command, *arguments)
        except T3simError as error:
            raise LabError(str(error)) from error

    def end(self) -> int | None:
        self._child.end()
        return self._child.status
