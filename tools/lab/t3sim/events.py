# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What the cards do, as it happens."""

import json
import time
from types import SimpleNamespace
from typing import Callable

from .control import Control, Lines, T3simError


class Event(SimpleNamespace):
    """One event: time (nanoseconds), card, event (its kind), name, text, length; tid, qp and lost if it has them."""

    tid = qp = None
    lost = False


class Subscription:
    """The stream of `t3sim ctl subscribe`, a context. t3sim keeps 4,096 events for a script that does not read; lost
    counts those that did not fit."""

    def __init__(self, control: Control, *words: str):
        self.lost = 0
        self._lines = Lines(control.connect())
        try:
            self._lines.exchange({"command": "subscribe", "args": words})
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._lines.close()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def next(self, timeout: float = 20.0) -> Event:
        """The next event."""
        end = time.monotonic() + timeout
        while True:
            try:
                row = json.loads(self._lines.next(max(end - time.monotonic(), 0.001)))
            except (OSError, ValueError) as error:
                if isinstance(error, TimeoutError):
                    raise TimeoutError(f"no event within {timeout} s") from error
                raise T3simError(f"the subscription ended: {error}") from error
            if row["event"] != "lost":
                return Event(**row)
            self.lost += row["count"]

    def wait(self, *, timeout: float = 20.0, where: Callable[[Event], bool] = lambda event: True, **columns) -> Event:
        """The next event that has these columns: wait(event="tcp-out", name="ACK", tid=5)."""
        end = time.monotonic() + timeout
        seen = []
        while True:
            try:
                event = self.next(max(end - time.monotonic(), 0.001))
            except TimeoutError:
                last = "".join(f"\n  {one}" for one in seen[-10:])
                raise TimeoutError(f"no event {columns} within {timeout} s; the last ones: {last or 'none'}") from None
            if all(getattr(event, name, None) == value for name, value in columns.items()) and where(event):
                return event
            seen.append(event)
