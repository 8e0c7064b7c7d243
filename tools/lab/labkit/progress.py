# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Shows the progress of steps that take time."""

import contextlib
import os
import sys
import threading
import time


def show(text: str) -> None:
    print(f"t3lab: {text}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def step(text: str):
    """One step of work: a line when it starts and one with its time when it ends. A terminal sees the seconds
    count; a log (CI) gets plain lines only."""
    start = time.monotonic()
    live = sys.stderr.isatty() and not os.environ.get("CI")
    done = threading.Event()

    def tick():
        while not done.wait(1.0):
            print(f"\rt3lab: {text} ... {time.monotonic() - start:.0f} s", end="", file=sys.stderr, flush=True)

    ticker = threading.Thread(target=tick, daemon=True)
    if live:
        ticker.start()
    else:
        show(f"{text} ...")
    outcome = "failed"
    try:
        yield
        outcome = "done"
    finally:
        done.set()
        if live:
            ticker.join()
            print("\r\033[K", end="", file=sys.stderr)
        show(f"{text}: {outcome} in {time.monotonic() - start:.1f} s")
