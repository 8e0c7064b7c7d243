#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Threads that send random commands on the same ids to /dev/infiniband/rdma_cm concurrently. (Not processes: write()
requires the credentials of the opener.)

    ucm_race.py ADDRESS PEER COUNT NAME... until COUNT commands of each of these names were accepted ("refused":
    refused); at most a
                                              minute. Prints the number of each
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
LONGEST = 60  # seconds


def commands(number, address, peer):
    yield from ucm.every(number)
    yield "BIND", ucm.bind(number, address), 0
    yield "RESOLVE_ADDR", ucm.resolve(number, peer, timeout=50, port=PORT), 0
    yield "LISTEN", struct.pack("=II", number, 1), 0
    yield "QUERY", struct.pack("=QII", ucm.WHERE, number, 1), 1024
    yield "DESTROY_ID", struct.pack("=QII", ucm.WHERE, number, 0), 4
    yield "CREATE_ID", struct.pack("=QQHB5x", 1, ucm.WHERE, ucm.TCP, 2), 4
    yield "GET_EVENT", struct.pack("=Q", ucm.WHERE), 336


def run(fd, numbers, address, peer, goes_on, accepted, seed):
    """Numbers of destroyed ids are reused, so all threads keep using the same ones."""
    rng = random.Random(seed)
    while goes_on():
        possible = list(commands(rng.choice(numbers), address, peer))
        # A connection needs several commands in order, so those are chosen more often.
        name, payload, out = rng.choice(
            possible + [one for one in possible if one[0] in ("RESOLVE_ADDR", "RESOLVE_ROUTE")]
        )
        accepted[name if ucm.send(fd, name, payload, out) == 0 else "refused"] += 1


def main():
    address, peer, count, names = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:]
    fd = ucm.open_device()
    numbers = [ucm.create(fd) for _ in range(IDS)]
    end = time.monotonic() + LONGEST
    each = [collections.Counter() for _ in range(THREADS)]

    def goes_on():
        return any(sum(accepted[name] for accepted in each) < count for name in names) and time.monotonic() < end

    threads = [
        threading.Thread(target=run, args=(fd, numbers, address, peer, goes_on, each[seed], seed))
        for seed in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(json.dumps(sum(each, collections.Counter())))


main()
