# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Brings a guest's network and RDMA stack up, step by step as an administrator would."""

from typing import NamedTuple

from .errors import LabError, UsageError

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
        raise UsageError(f"no such level of the stack: {name} (known: {', '.join(LEVELS)})")
    return LEVELS[name]


def address(port: int, guest: int) -> str:
    """The address of a guest's port; port p of all guests is one network."""
    return f"10.0.{port}.{guest + 1}"


def load_module(name: str, parameters: str = "") -> str:
    """A shell script that loads a module of ours with what it depends on, or else one of the kernel's."""
    return f"""set -e
        if [ -e {MODULES}/{name}.ko ]; then
            for needed in $(modinfo -F depends {MODULES}/{name}.ko | tr , ' '); do
                [ -e /sys/module/$needed ] && continue
                if [ -e {MODULES}/$needed.ko ]; then insmod {MODULES}/$needed.ko; else modprobe $needed; fi
            done
            insmod {MODULES}/{name}.ko {parameters}
        else
            modprobe {name} {parameters}
        fi"""


INSTALL_PROVIDER = (f"mkdir -p {PROVIDERS} /etc/libibverbs.d && cp /t3/provider/*.so {PROVIDERS}/ && "
                    "cp /t3/provider/*.driver /etc/libibverbs.d/")

# Prints the T3's interfaces in the order of cards and ports.
LIST_INTERFACES = """for path in /sys/class/net/*; do
        [ -e $path/device/vendor ] && [ $(cat $path/device/vendor) = 0x1425 ] || continue
        echo $(basename $(readlink -f $path/device)) $(($(cat $path/dev_port))) $(basename $path)
    done | sort | cut -d' ' -f3"""


def wait_carrier(name: str, up: bool = True, timeout: int = 30) -> str:
    """A shell script that ends when an interface has (or has lost) its carrier."""
    return f"""for try in $(seq {timeout * 10}); do
            [ "$(cat /sys/class/net/{name}/carrier 2>/dev/null)" = {int(up)} ] && exit 0
            sleep 0.1
        done
        echo 'carrier of {name} is not {int(up)} after {timeout} s'; exit 1"""


def _everywhere(lab, script, timeout: float = 120.0) -> list[str]:
    """Runs a script (made by script(guest), or the same for all) in all guests at a time: they start side by side."""
    running = [guest.start(script(guest) if callable(script) else script) for guest in lab.guests]
    outputs = []
    for command in running:
        done = command.wait(timeout)
        if done.rc:
            raise LabError(f"{command.name}\nstatus {done.rc}: {done.stdout}{done.stderr}")
        outputs.append(done.stdout)
    return outputs


def bring_up(lab, wanted: Level) -> None:
    """Loads the stack in all guests of a lab."""
    if not wanted.nic:
        return
    ports = lab.cards_per_guest * lab.ports
    for guest, names in zip(lab.guests, _everywhere(lab, f"modprobe cxgb3 && {LIST_INTERFACES}")):
        guest.interfaces = names.split()
        if len(guest.interfaces) != ports:
            raise LabError(f"{guest.name}: {ports} T3 ports expected, these are there: {names.split()}; its kernel says:\n"
                           f"{guest.dmesg()[-3000:]}")
    _everywhere(lab, lambda guest: " && ".join(
        f"ip addr add {address(port, guest.number)}/24 dev {name} && ip link set {name} up"
        for port, name in enumerate(guest.interfaces)))
    for port in range(ports):
        _everywhere(lab, lambda guest: wait_carrier(guest.interfaces[port]) if lab.wired(guest.number, port) else "true")
    for module in wanted.modules:
        _everywhere(lab, load_module(module))
    if wanted.provider:
        _everywhere(lab, INSTALL_PROVIDER)
