# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Brings a guest's network and RDMA stack up, as an administrator would."""

from typing import NamedTuple

from .errors import LabError, UsageError

PROVIDERS = "/usr/lib/x86_64-linux-gnu/libibverbs"  # on x86
MODULES = "/t3/modules"


class Level(NamedTuple):
    """Which part of the stack is loaded, and the modules that serve user space: libibverbs and librdmacm use the first
    one for a kind of device. Modules are loaded from /t3/modules if they exist there; parameters follow the name."""

    name: str
    nic: bool = False
    rdma: bool = False
    access: tuple[str, ...] = ()


# Beside ib_uverbs, whose functions rdma_ucm needs (on 6.1 and 6.12 also siw and rxe), ours has other names.
T3_UVERBS_BESIDE = "t3_uverbs class_name=t3_verbs prefix=t3uverbs"

LEVELS = {
    level.name: level
    for level in (
        Level("none"),
        Level("nic", nic=True),
        Level("rdma", nic=True, rdma=True, access=("ib_uverbs", "rdma_ucm")),
        Level("rdma-t3cm", nic=True, rdma=True, access=("ib_uverbs", "t3_rdma_cm")),
        Level("rdma-t3uverbs", nic=True, rdma=True, access=(T3_UVERBS_BESIDE, "ib_uverbs", "rdma_ucm")),
        Level("rdma-t3", nic=True, rdma=True, access=("t3_uverbs", "t3_rdma_cm")),
    )
}


# Software RDMA devices, and their modules.
SOFTWARE = {"siw": "siw", "rxe": "rdma_rxe"}

# Modules that serve user space, in the order of unloading. First the devices that need functions of ib_uverbs on 6.1
# and 6.12.
_ACCESS_MODULES = (*SOFTWARE.values(), "t3_rdma_cm", "rdma_ucm", "rdma_cm", "iw_cm", "ib_cm", "ib_uverbs", "t3_uverbs")


def level(name: str) -> Level:
    if name not in LEVELS:
        raise UsageError(f"no such level of the stack: {name} (known: {', '.join(LEVELS)})")
    return LEVELS[name]


def address(network: int, guest: int) -> str:
    """An address of a guest. Port p of all guests is in network p, and a NIC in that of its wire."""
    return f"10.0.{network}.{guest + 1}"


# Programs of tests use memory windows, which are off by default.
PARAMETERS = {"iw_cxgb3": "memory_windows=1"}


def load_module(name: str, parameters: str = "") -> str:
    """A shell script that loads a module of ours with its dependencies, or one of the kernel's."""
    parameters = parameters or PARAMETERS.get(name, "")
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


INSTALL_PROVIDER = (
    "providers=/usr/lib/$(uname -m)-linux-gnu/libibverbs && mkdir -p $providers /etc/libibverbs.d && "
    "cp /t3/provider/*.so $providers/ && cp /t3/provider/*.driver /etc/libibverbs.d/"
)

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


# Prints the name of the interface with the address MAC.
NAME_OF_MAC = """for path in /sys/class/net/*; do
        [ "$(cat $path/address)" != MAC ] || exec basename $path
    done
    echo 'no interface has the address MAC'; exit 1"""


def _everywhere(guests, script, timeout: float = 120.0) -> list[str]:
    """Runs a script (made by script(guest), or the same for all) in all guests concurrently."""
    running = [guest.start(script(guest) if callable(script) else script) for guest in guests]
    outputs = []
    for command in running:
        done = command.wait(timeout)
        if done.rc:
            raise LabError(f"{command.name}\nstatus {done.rc}: {done.stdout}{done.stderr}")
        outputs.append(done.stdout)
    return outputs


def _bring_up_cards(lab) -> None:
    guests = [guest for guest in lab.guests if guest.cards]
    for guest, names in zip(guests, _everywhere(guests, f"modprobe cxgb3 && {LIST_INTERFACES}")):
        guest.interfaces = names.split()
        ports = len(guest.cards) * lab.ports
        if len(guest.interfaces) != ports:
            raise LabError(
                f"{guest.name}: {ports} T3 ports expected, found {names.split()}; its kernel log:\n"
                f"{guest.dmesg()[-3000:]}"
            )
    _everywhere(
        guests,
        lambda guest: " && ".join(
            f"ip addr add {address(port, guest.number)}/24 dev {name} && ip link set {name} up"
            for port, name in enumerate(guest.interfaces)
        ),
    )
    for guest in guests:
        for port, name in enumerate(guest.interfaces):
            if lab.wired(guest.number, port):
                guest.check(wait_carrier(name), 120)


def _bring_up_nics(lab) -> None:
    guests = [guest for guest in lab.guests if guest.nics]
    _everywhere(guests, "modprobe virtio_net")
    for guest in guests:
        guest.nic_interfaces = [
            guest.check(NAME_OF_MAC.replace("MAC", guest.mac(number))).strip() for number in range(len(guest.nics))
        ]
    _everywhere(
        guests,
        lambda guest: " && ".join(
            f"ip addr add {address(nic.network, guest.number)}/24 dev {name} && ip link set {name} up"
            for nic, name in zip(guest.nics, guest.nic_interfaces)
        ),
    )


def add_links(guests, kind: str, wanted=lambda guest: guest.nic_interfaces) -> None:
    """Creates software RDMA devices, siw0 or rxe0 and so on, on ordinary NICs."""
    _everywhere(guests, load_module(SOFTWARE[kind]))
    _everywhere(
        guests,
        lambda guest: " && ".join(
            f"rdma link add {kind}{number} type {kind} netdev {name}" for number, name in enumerate(wanted(guest))
        ),
    )


def load_access(guests, access: tuple[str, ...]) -> None:
    """Loads the modules that serve user space, in this order."""
    for module in access:
        _everywhere(guests, load_module(*module.split(" ", 1)))


def unload_access(guests) -> None:
    """Unloads all modules that serve user space, and software devices."""
    _everywhere(
        guests,
        f"for module in {' '.join(_ACCESS_MODULES)}; do [ ! -e /sys/module/$module ] || rmmod $module || exit; done",
    )


def bring_up_cards(guests) -> None:
    """Loads our driver and installs our provider."""
    _everywhere(guests, load_module("iw_cxgb3"))
    _everywhere(guests, INSTALL_PROVIDER)


def _bring_up_rdma(lab, access: tuple[str, ...]) -> None:
    """Our driver for cards, and siw for ordinary NICs."""
    load_access(lab.guests, access)
    bring_up_cards([guest for guest in lab.guests if guest.cards])
    add_links([guest for guest in lab.guests if guest.nics], "siw")


def bring_up(lab, wanted: Level) -> None:
    """Loads the stack in all guests of a lab."""
    if wanted.nic:
        _bring_up_cards(lab)
        _bring_up_nics(lab)
    if wanted.rdma:
        _bring_up_rdma(lab, wanted.access)
