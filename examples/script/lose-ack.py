#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Lose this ACK: the second one that a card sends from now on for its first QP. The next one reports at
least as much.

    lose-ack.py CARD [SOCKET]      SOCKET: the --control of t3sim; without it $T3SIM_CONTROL
"""

import sys

from t3sim import Script


def main(card, *socket):
    script = Script(*socket)
    (qp, *_) = script.wait(lambda: script.qps(card), timeout=60)
    connection = qp.connection
    with connection.subscribe("tcp-out", "tcp-in") as events:
        connection.lose("sent-ack", nth=2)
        lost = events.wait(event="tcp-out", lost=True)
        print(f"lost on the way to {connection.peer}: {lost.name} {lost.text}")
        again = events.wait(event="tcp-out", name="ACK", lost=False)
        print(f"{(again.time - lost.time) / 1e6:.1f} ms later: {again.name} {again.text}")


main(*sys.argv[1:])
