#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Threads that send random commands on the same ids to /dev/infiniband/rdma_cm concurrently. (Not processes: write() requires the
credentials of the opener.)

    ucm_race.py ADDRESS PEER SECONDS      prints how many commands of each kind were accepted, and how many were refused
"""

import collections
import json
import random
import struct
import sys
import threading
import time

import ucm

THREADS = 4
IDS = 3
PORT = 7600


def commands(number, address, peer):
    yield from ucm.every(number)
    yield "BIND", ucm.bind(number, address), 0
    yield "RESOLVE_ADDR", ucm.resolve(number, peer, timeout=50, port=PORT), 0
    yield "LISTEN", struct.pack("=II", number, 1), 0
    yield "QUERY", struct.pack("=QII", ucm.WHERE, number, 1), 1024
    yield "DESTROY_ID", struct.pack("=QII", ucm.WHERE, number, 0), 4
    yield "CREATE_ID", struct.pack("=QQHB5x", 1, ucm.WHERE, ucm.TCP, 2), 4
    yield "GET_EVENT", struct.pack("=Q", ucm.WHERE), 336


def run(fd, numbers, address, peer, end, seed):
    """Numbers of destroyed ids are reused, so all threads keep using the same ones."""
    rng, accepted = random.Random(seed), collections.Counter()
    while time.monotonic() < end:
        possible = list(commands(rng.choice(numbers), address, peer))
        # A connection needs several commands in order, so those are chosen more often.
        name, payload, out = rng.choice(possible + [one for one in possible if one[0] in ("RESOLVE_ADDR", "RESOLVE_ROUTE")])
        accepted[name if ucm.send(fd, name, payload, out) == 0 else "refused"] += 1
    return accepted


def main():
    address, peer, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    fd = ucm.open_device()
    numbers = [ucm.create(fd) for _ in range(IDS)]
    end = time.monotonic() + seconds
    total = collections.Counter()
    threads = [threading.Thread(target=lambda seed=seed: total.update(run(fd, numbers, address, peer, end, seed))) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(total))


main()
