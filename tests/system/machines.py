# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Installed machines (labkit/installed.py), as the tests use them."""

import contextlib
import json

from labkit import Lab
from labkit.machine import Machine
import stock

OURS = ("t3rdma-dkms", "libibverbs-cxgb3", "t3rdma-tools")
DEVICE = "iwp1s0"  # as rdma-core's udev rules name it, by its place
MEMORY = 1024  # MiB
BOOT = 240  # seconds until all services have started, on a busy machine


def ours(debs):
    """The packages for a machine with a card."""
    found = [
        path for path in debs if path.name.startswith(tuple(f"{name}_" for name in OURS)) and "_i386" not in path.name
    ]
    assert len(found) == len(OURS)
    return found


def settle(guest):
    """Waits until init has no jobs: services that udev requests for a device start after the boot, which does not wait
    for them."""
    guest.run("systemctl is-system-running --wait", BOOT)
    guest.check(
        'udevadm settle --timeout 120; while [ "$(systemctl list-jobs --no-legend)" ]; do sleep 0.5; done', BOOT
    )


@contextlib.contextmanager
def booted(made, name="machine", later=None, **options):
    """Two guests with the root of this machine, whose services have started; the test adds addresses."""
    with Lab(
        guests=2,
        installed=made.image(name, later),
        load="nic",
        name=f"installed-{made.made.suite}",
        machine=Machine(memory=MEMORY),
        **options,
    ) as lab:
        for guest in lab.guests:
            settle(guest)
            assert guest.check("cat /proc/1/comm").strip() == "systemd"
        yield lab
        assert not lab.new_trouble()


def rping(lab, rounds=20, card_port=0):
    server, client = lab.guests
    stock.rping(server, client, f"-C {rounds} -S 4096 -V", card_port=card_port, timeout=120)
    return f"{rounds} rounds"


def loaded(guest):
    """The modules of the stack that are loaded, as ofedctrl shows them."""
    done = json.loads(guest.check("ofedctrl -q --json"))
    assert done["loaded"], done
    return {row["name"] for row in done["modules"] if row["loaded"]}
