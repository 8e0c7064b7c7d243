# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Prepares guests for t3-races: the modules with their points, and the other end of a card's connections."""

import time

from labkit import LabError, stack

PEER_READY = 30.0


def load(guest, folder, modules):
    """Loads our modules with their points."""
    modules = " ".join(modules)
    depends = guest.check(f"cd {folder} && for m in {modules}; do modinfo -F depends $m.ko; done")
    names = sorted({name for line in depends.split() for name in line.split(",") if not name.startswith("t3_")})
    guest.check(f"""modprobe -a {' '.join(names)}
        for m in {modules}; do insmod {folder}/$m.ko || exit; done
        ip link set lo up""", 120)


def start_peer(guest):
    """The other end of the card's connections, over the in-tree modules."""
    stack.load_access([guest], stack.level("rdma").access)
    stack.bring_up_cards([guest])
    command = guest.start("exec /t3/bin/t3-races --peer")
    ends = time.monotonic() + PEER_READY * guest.channel.pace
    while "ready" not in command.stdout:
        if command.ended(0.05) is not None or time.monotonic() > ends:
            raise LabError(f"the card's peer did not start: {command.stdout}{command.stderr}")
