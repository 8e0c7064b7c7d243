# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Prepares guests for t3-races: the modules with their points, the device, and the other end of its connections."""

import time

from labkit import Lab, LabError, stack
from labkit.machine import Machine

# The devices of the operations: without hardware; a modelled card; rxe, RoCE in software, on the card's Ethernet. rxe
# needs functions of ib_uverbs, so only the connection manager is ours there.
MODULES = {"none": ["t3_uverbs", "t3_rdma_cm"], "card": ["t3_uverbs", "t3_rdma_cm", "iw_cxgb3"], "rxe": ["t3_rdma_cm"]}
PEER_READY = 30.0


def new_lab(device, suite, kernel, name):
    """The guest of the operations, and that of its peer if the device has one; not started."""
    card = device != "none"
    return Lab(
        guests=1 + card,
        cards=int(card),
        load="nic" if card else "none",
        suite=suite,
        kernel=kernel,
        name=name,
        machine=Machine(arguments="kasan_multi_shot", memory=1024),
    )


def prepare(lab, folder, device):
    """Loads the modules, and makes the device of the operations reachable."""
    if device == "rxe":
        stack.load_access(lab.guests, ("ib_uverbs",))
        stack.add_links(lab.guests, "rxe", lambda guest: guest.interfaces[:1])
    load(lab.guests[0], folder, ["t3_races", *MODULES[device]])
    if device != "none":
        start_peer(lab.guests[1], device)
    else:
        lab.guests[0].check("ip addr add 10.77.0.1/24 dev race0 && ip link set race0 up")


def device_option(lab, device):
    """The option of t3-races that names the device."""
    return "" if device == "none" else f" --{device} {lab.guests[0].interfaces[0]}"


def load(guest, folder, modules, parameters="memory_windows=1"):
    """Loads our modules, with their points in the folder of the races. A card's windows are off by default, and the
    fixture binds one."""
    modules = " ".join(modules)
    depends = guest.check(f"cd {folder} && for m in {modules}; do modinfo -F depends $m.ko; done")
    names = sorted({name for line in depends.split() for name in line.split(",") if not name.startswith("t3_")})
    guest.check(
        f"""modprobe -a {' '.join(names)}
        for m in {modules}; do insmod {folder}/$m.ko $([ $m = iw_cxgb3 ] && echo {parameters}) || exit; done
        ip link set lo up""",
        120,
    )


def start_peer(guest, device):
    """The other end of the connections, over the in-tree modules."""
    stack.load_access([guest], stack.level("rdma").access)
    if device == "card":
        stack.bring_up_cards([guest])
    command = guest.start("exec /t3/bin/t3-races --peer")
    ends = time.monotonic() + PEER_READY * guest.channel.pace
    while "ready" not in command.stdout:
        if command.ended(0.05) is not None or time.monotonic() > ends:
            raise LabError(f"the peer did not start: {command.stdout}{command.stderr}")
