#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Unplug the card between these two CPLs: PASS_ACCEPT_REQ reaches the driver, PASS_ESTABLISH does not any more.

    unplug-between.py CARD [SOCKET]      SOCKET: the --control of t3sim; without it $T3SIM_CONTROL
"""

import sys

from t3sim import Script


def main(card, *socket):
    script = Script(*socket)
    with script.subscribe(card, "cpl", "at") as events:
        script.at(card, "cpl", "cause", card, "unplug", name="PASS_ESTABLISH")
        print(f"card {card} waits for a connection", flush=True)
        first = events.wait(event="cpl", name="PASS_ACCEPT_REQ", timeout=60)
        print(f"{first.name}: {first.text}")
        done = events.wait(event="at")
        print(f"{(done.time - first.time) / 1e3:.0f} us later: {done.name}: {done.text}")


main(*sys.argv[1:])
