# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Brings a guest's network and RDMA stack up, step by step as an administrator would."""

from typing import NamedTuple

from .errors import LabError
from .guest import Guest

PROVIDERS = "/usr/lib/x86_64-linux-gnu/libibverbs"
MODULES = "/t3/modules"


class Level(NamedTuple):
    """How far the stack is loaded. Modules of the tree are looked for in /t3/modules first, so that e.g. rdma_ucm means
    the in-tree module and t3_rdma_cm ours."""

    name: str
    nic: bool = False
    modules: tuple[str, ...] = ()
    provider: bool = False


LEVELS = {level.name: level for level in (
    Level("none"),
    Level("nic", nic=True),
    Level("rdma", nic=True, modules=("iw_cxgb3", "ib_uverbs", "rdma_ucm"), provider=True),
)}


def level(name: str) -> Level:
    if name not in LEVELS:
        raise LabError(f"no such level of the stack: {name} (known: {', '.join(LEVELS)})")
    return LEVELS[name]


def address(port: int, guest: int) -> str:
    """The address of a guest's port; port p of all guests is one network."""
    return f"10.0.{port}.{guest + 1}"


def load_module(guest: Guest, name: str, parameters: str = "", timeout: float = 60.0) -> None:
    """Loads a module of ours with what it depends on, or else one of the kernel's."""
    guest.check(f"""set -e
        if [ -e {MODULES}/{name}.ko ]; then
            for needed in $(modinfo -F depends {MODULES}/{name}.ko | tr , ' '); do
                [ -e /sys/module/$needed ] && continue
                if [ -e {MODULES}/$needed.ko ]; then insmod {MODULES}/$needed.ko; else modprobe $needed; fi
            done
            insmod {MODULES}/{name}.ko {parameters}
        else
            modprobe {name} {parameters}
        fi""", timeout)


def install_provider(guest: Guest) -> None:
    """Where Debian's libibverbs looks for providers."""
    guest.check(f"mkdir -p {PROVIDERS} /etc/libibverbs.d && cp /t3/provider/*.so {PROVIDERS}/ && "
                f"cp /t3/provider/*.driver /etc/libibverbs.d/")


def set_addresses(guest: Guest, ports: int) -> list[str]:
    """Gives each port its address and brings it up; returns the interfaces' names in the order of ports."""
    names = guest.check(
        "for path in /sys/class/net/*; do [ -e $path/device/vendor ] && [ $(cat $path/device/vendor) = 0x1425 ] && "
        "echo $(basename $(readlink -f $path/device)) $(($(cat $path/dev_port))) $(basename $path); done | sort | "
        "cut -d' ' -f3").split()
    if len(names) != ports:
        raise LabError(f"{guest.name}: {ports} T3 ports expected, these are there: {' '.join(names) or 'none'}")
    for port, name in enumerate(names):
        guest.check(f"ip addr add {address(port, guest.number)}/24 dev {name} && ip link set {name} up")
    return names


def wait_carrier(guest: Guest, name: str, up: bool = True, timeout: int = 30) -> None:
    wanted = int(up)
    guest.check(f"""for try in $(seq {timeout * 10}); do
            [ "$(cat /sys/class/net/{name}/carrier 2>/dev/null)" = {wanted} ] && exit 0
            sleep 0.1
        done
        echo 'carrier of {name} is not {wanted} after {timeout} s'; exit 1""", timeout + 10)


def bring_up(lab, wanted: Level) -> None:
    """Loads the stack in all guests of a lab. Steps are taken in all guests at a time, so that they boot side by side."""
    if not wanted.nic:
        return
    ports = lab.cards_per_guest * lab.ports
    started = [(guest, guest.start("modprobe cxgb3")) for guest in lab.guests]
    for _, command in started:
        done = command.wait(90)
        if done.rc:
            raise LabError(f"{command.name}: {done.stderr}")
    for guest in lab.guests:
        guest.interfaces = set_addresses(guest, ports)
    for guest in lab.guests:
        for port, name in enumerate(guest.interfaces):
            if lab.wired(guest.number, port):
                wait_carrier(guest, name)
    for module in wanted.modules:
        for guest in lab.guests:
            load_module(guest, module)
    if wanted.provider:
        for guest in lab.guests:
            install_provider(guest)
