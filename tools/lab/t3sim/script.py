# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a script does with a running t3sim."""

import contextlib
import os
import time
from pathlib import Path
from typing import Callable, Iterator, TypeVar

from .control import Control, T3simError
from .events import Subscription

Value = TypeVar("Value")


class Row:
    """A row of a table of `t3sim ctl`; its columns are attributes."""

    def __init__(self, script: "Script", columns: dict):
        self.script = script
        self.columns = columns

    def __getattr__(self, name: str):
        try:
            return self.columns[name]
        except KeyError:
            columns = ", ".join(self.columns)
            raise AttributeError(f"{type(self).__name__} has no {name}; its columns are {columns}") from None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.columns.items())})"


class Connection(Row):
    """An offloaded TCP connection of a card."""

    @property
    def target(self) -> dict:
        return {"tid": self.tid}

    def lose(self, what: str, nth: int = 1) -> None:
        """Loses one segment: lose("sent-ack", 3). The others are sent-segment, sent-fpdu and received-... of each."""
        self.script.cause(self.card, f"lose-{what}", **self.target, nth=nth)

    def bad_crc(self, nth: int = 1) -> None:
        """The nth FPDU that the card sends from now on has a wrong CRC."""
        self.script.cause(self.card, "bad-crc", **self.target, nth=nth)

    def at(self, event: str, *command, name: str | None = None, nth: int = 1) -> None:
        """Script.at() for an event of this connection."""
        self.script.at(self.card, event, *command, name=name, nth=nth, **self.target)

    def subscribe(self, *events: str) -> Subscription:
        """The events of this connection."""
        return self.script.subscribe(self.card, *events, **self.target)


class Qp(Connection):
    """A connected QP of a card."""

    @property
    def target(self) -> dict:
        return {"qp": self.qp}

    @property
    def connection(self) -> Connection:
        for each in self.script.connections(self.card):
            if each.tid == self.tid:
                return each
        raise T3simError(f"the connection of QP {self.qp} of card {self.card} has ended")

    def hold_cqe(self, nth: int = 1) -> None:
        """The nth completion of this QP from now on, and all behind it, wait."""
        self.script.cause(self.card, "hold-cqe", **self.target, nth=nth)

    def release_cqe(self) -> None:
        """Completions that wait are written; later ones do not wait any more."""
        self.script.cause(self.card, "release-cqe", **self.target)


class Card(Row):
    """A card."""

    def connections(self) -> list[Connection]:
        return self.script.connections(self.name)

    def qps(self) -> list[Qp]:
        return self.script.qps(self.name)

    def counters(self) -> dict[str, int]:
        return self.script.counters(self.name)

    def cause(self, fault: str, *amount, **target) -> None:
        self.script.cause(self.name, fault, *amount, **target)

    def at(self, event: str, *command, **selection) -> None:
        self.script.at(self.name, event, *command, **selection)

    def unplug(self) -> None:
        """Takes the card out of its slot until reset()."""
        self.script.cause(self.name, "unplug")

    def reset(self) -> None:
        """Resets the card, as a reset of its PCI function does."""
        self.script.control("reset", self.name)

    def time(self, *words: str) -> str:
        """Sets the time that the card takes, time("fetch=2us", "jitter=100us"), and returns all of it."""
        return self.script.control("time", self.name, *words)

    def pause(self) -> None:
        """Stops the time of the card and of all that wires join to it."""
        self.script.control("pause", self.name)

    def step(self, events: int = 1) -> int:
        """Runs the next events of paused cards. Returns the time, in nanoseconds."""
        return self.script.control("step", self.name, events)["time"]

    def run(self) -> None:
        """Ends pause()."""
        self.script.control("run", self.name)


def pairs(selection: dict) -> list[str]:
    return [f"{key}={value}" for key, value in selection.items() if value is not None]


class Script(Control):
    """A running t3sim. Cards are named as on its command line."""

    def card_name(self, card) -> str:
        return str(card)

    def cards(self) -> list[Card]:
        return [Card(self, row) for row in self.control("cards")]

    def card(self, name) -> Card:
        for card in self.cards():
            if card.name == self.card_name(name):
                return card
        raise T3simError(f"there is no card '{self.card_name(name)}'")

    def connections(self, *card) -> list[Connection]:
        return [Connection(self, row) for row in self.control("connections", *map(self.card_name, card))]

    def qps(self, *card) -> list[Qp]:
        return [Qp(self, row) for row in self.control("qps", *map(self.card_name, card))]

    def counters(self, card) -> dict[str, int]:
        return self.control("counters", self.card_name(card))[self.card_name(card)]

    def cause(self, card, fault: str, *amount, **target) -> None:
        """Injects a fault into a card, cause("a", "lose-sent-fpdu", qp=64, nth=3); see `t3sim ctl cause --list`."""
        self.control("cause", self.card_name(card), fault, *amount, *pairs(target))

    def at(self, card, event: str, *command, **selection) -> None:
        """Runs a command in the event of the model at which the nth such event of the card happens: at("a", "cpl",
        "cause", "a", "unplug", name="PEER_CLOSE", nth=2)."""
        self.control("at", self.card_name(card), event, *pairs(selection), *command)

    def subscribe(self, *words: str, **selection) -> Subscription:
        """A stream of events: subscribe("a", "cpl", "tcp-out", tid=5). Without words: of all cards and kinds."""
        return Subscription(self, *words, *pairs(selection))

    def cable(self, wire: str, plugged: bool) -> None:
        """Plugs a wire in or pulls it."""
        self.control("wire", "up" if plugged else "down", wire)

    def impair(self, wire: str, end: str = "all", **what) -> None:
        """Impairs the frames that an end sends: impair("a.0-b.0", loss=0.01, reorder_delay="50us"). Without
        impairments: none."""
        words = [f"{key.replace('_', '-')}={value}" for key, value in what.items()]
        self.control("impair", wire, end, *(words or ["none"]))

    @contextlib.contextmanager
    def capturing(self, folder: os.PathLike) -> Iterator[list[Path]]:
        """Captures all wires for the time of the context, instead of a running capture; yields the files, one for each
        wire."""
        files = [Path(name) for name in self.control("capture", "start", folder)]
        try:
            yield files
        finally:
            if self.alive:
                self.control("capture", "stop")

    @property
    def alive(self) -> bool:
        """Whether t3sim still listens."""
        with contextlib.suppress(T3simError):
            self.connect().close()
            return True
        return False

    def wait(self, condition: Callable[[], Value], timeout: float = 20.0) -> Value:
        """The first value of the condition that is true."""
        end = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() >= end:
                raise TimeoutError(f"not within {timeout} s: {getattr(condition, '__name__', condition)}")
            time.sleep(0.01)
        return value
