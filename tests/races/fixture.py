# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Prepares guests for t3-races: the modules with their points, and the other end of a card's connections."""

import time

from labkit import Lab, LabError, stack
from labkit.guest import Machine

MODULES = ("t3_races", "t3_uverbs", "t3_rdma_cm")
PEER_READY = 30.0


def new_lab(card, suite, kernel, name):
    """The guest of the operations, and with a card that of its peer; not started."""
    return Lab(guests=1 + card, cards=int(card), load="nic" if card else "none", suite=suite, kernel=kernel, name=name,
               machine=Machine(arguments="kasan_multi_shot", memory=1024))


def prepare(lab, folder, card):
    """Loads the modules, and makes the device of the operations reachable."""
    _load(lab.guests[0], folder, [*MODULES, *(["iw_cxgb3"] if card else [])])
    if card:
        _start_peer(lab.guests[1])
    else:
        lab.guests[0].check("ip addr add 10.77.0.1/24 dev race0 && ip link set race0 up")


def device_option(lab, card):
    """The option of t3-races that names the device."""
    return f" --card {lab.guests[0].interfaces[0]}" if card else ""


def _load(guest, folder, modules):
    """Loads our modules with their points."""
    modules = " ".join(modules)
    depends = guest.check(f"cd {folder} && for m in {modules}; do modinfo -F depends $m.ko; done")
    names = sorted({name for line in depends.split() for name in line.split(",") if not name.startswith("t3_")})
    guest.check(f"""modprobe -a {' '.join(names)}
        for m in {modules}; do insmod {folder}/$m.ko || exit; done
        ip link set lo up""", 120)


def _start_peer(guest):
    """The other end of the card's connections, over the in-tree modules."""
    stack.load_access([guest], stack.level("rdma").access)
    stack.bring_up_cards([guest])
    command = guest.start("exec /t3/bin/t3-races --peer")
    ends = time.monotonic() + PEER_READY * guest.channel.pace
    while "ready" not in command.stdout:
        if command.ended(0.05) is not None or time.monotonic() > ends:
            raise LabError(f"the card's peer did not start: {command.stdout}{command.stderr}")
