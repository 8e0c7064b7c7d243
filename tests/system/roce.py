# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two guests with rxe, the kernel's RoCE in software, and a connection manager each."""

import pathlib

from labkit import stack
from stock import objects

HERE = pathlib.Path(__file__).parent / "guest"
MODULES = {"ours": "t3_rdma_cm", "in-tree": "rdma_ucm"}
BOTH_WAYS = [("ours", "ours"), ("ours", "in-tree"), ("in-tree", "ours")]  # client and server
IDS = "/sys/kernel/debug/t3_rdma_cm/ids"
OF_IB_CORE = {"pd": 1, "cq": 1, "qp": 1}  # management datagrams of rxe


def interface(guest):
    """The one that rxe is on."""
    return (guest.nic_interfaces or guest.interfaces)[0]


def add_device(guest):
    stack.add_links([guest], "rxe", lambda _guest: [interface(guest)])


class Ends:
    """Two guests, with one connection manager each. rxe is on their NICs, or on the first port of their cards."""

    def __init__(self, lab):
        self.lab = lab
        self._managers = [None, None]
        for guest in lab.guests:
            # The first port of a card has the address of the first NIC, too, and TCP (cmtime of rdma-core 65) would
            # take its route.
            for name in guest.interfaces if guest.nic_interfaces else ():
                guest.check(f"ip addr flush dev {name}")

    def use(self, *managers):
        for number, manager in enumerate(managers):
            guest = self.lab.guests[number]
            if manager == self._managers[number]:
                continue
            stack.unload_access([guest])
            stack.load_access([guest], ("ib_uverbs", MODULES[manager]))
            add_device(guest)
            guest.check(f"ip route replace 224.0.0.0/4 dev {interface(guest)}")
            for program in ("cm.py", "ucm.py"):
                guest.push(HERE / program, f"/tmp/{program}", 0o755)
            self._managers[number] = manager
        return self.lab.guests


def nothing_is_left(guests):
    """Waits for what processes that were killed leave for a while."""
    for guest in guests:
        guest.check(
            (
                "for try in $(seq 300); do rdma resource show rxe0 | grep -q ' qp 1 cm_id 0 ' && exit; sleep 0.1; done;"
                " rdma resource show cm_id; exit 1"
            ),
            60,
        )
        left = objects(guest, "rxe0")
        assert left == {kind: OF_IB_CORE.get(kind, 0) for kind in left}, (guest.name, left)
        assert guest.run(f"cat {IDS}").stdout == ""
