#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Hold this CQE: the next completion of a card's first QP is not written until it is released.

    hold-cqe.py CARD [SOCKET]      SOCKET: the --control of t3sim; without it $T3SIM_CONTROL
"""

import sys

from t3sim import Script


def main(card, *socket):
    script = Script(*socket)
    (qp, *_) = script.wait(lambda: script.qps(card), timeout=60)
    qp.hold_cqe()
    # It counts the completion that would have been written.
    script.wait(lambda: script.counters(card)["faults.completions_held"], timeout=60)
    with qp.subscribe("cqe", "fpdu-in") as events:
        for _ in range(3):
            events.wait(event="fpdu-in")
        print(f"QP {qp.qp}: a completion is held, and three more messages have arrived behind it")
        qp.release_cqe()
        released = [events.wait(event="cqe") for _ in range(4)]
        print(f"released: {len(released)} completions, {released[0].name} is the first")


main(*sys.argv[1:])
