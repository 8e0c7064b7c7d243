# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A lab: guests, their cards and the wires. No process outlives its lab."""

import contextlib
import fcntl
import json
import os
import shutil
import threading
import time
import weakref
from pathlib import Path
from typing import Sequence

from . import image, paths, progress, qemu, snapshot, stack
from .arch import of_image
from .control import Server
from .errors import LabError, UsageError
from .guest import Guest
from .machine import Machine, Nic
from .sim import MAX_CARDS, Sim, Wire, nic_of, straight

PORTS = 2  # of a card
WATCH_PERIOD = 0.2


class Lab:
    """Guests with cards, as a context manager:

        with Lab(guests=2) as lab:
            lab.guests[0].run("ibv_devices")

    cards: per guest, or a number for each guest. wires: by default port p of all cards is on wire "pP"; a wire's end
    "nG" gives guest G an ordinary NIC, with the address 10.0.W.(G+1) for the wire's index W in the list. capture:
    folder that gets a capture of each wire (True: among the lab's logs). record: file for a recording of the cards, see
    `t3sim trace`. load: how much of the stack the guests load (see stack.LEVELS). suite: the image of all guests, or
    one for each, see arch.py. kernel: one of the project instead of Debian's (see kernel.KINDS). installed: an image
    that guests boot instead of the release's (see installed.py).

    Lab.running: the running labs of this process. Lab.capture_all: folder for the captures of labs that start while it
    is set and have no `capture` of their own.
    """

    running: "weakref.WeakSet[Lab]" = weakref.WeakSet()
    capture_all: Path | None = None

    def __init__(
        self,
        guests: int = 2,
        cards: int | Sequence[int] = 1,
        *,
        suite: str | Sequence[str] = "bookworm",
        kernel: str | None = None,
        wires: Sequence[Wire] | None = None,
        capture: Path | bool = False,
        record: Path | None = None,
        load: str = "rdma",
        name: str = "lab",
        machine: Machine = Machine(),
        sim_options: Sequence[str] = (),
        installed: image.Image | None = None,
    ):
        counts = tuple(cards) if isinstance(cards, Sequence) else (cards,) * guests
        if guests < 1 or len(counts) != guests or min(counts) < 0 or sum(counts) > MAX_CARDS:
            raise UsageError(
                f"a lab has one guest or more and {MAX_CARDS} cards at most, not {guests} with {cards} each"
            )
        suites = (suite,) * guests if isinstance(suite, str) else tuple(suite)
        if len(suites) != guests:
            raise UsageError(f"{len(suites)} images were named for {guests} guests")
        if machine.kvm and any(of_image(name)[1].cross for name in suites):
            raise UsageError("KVM runs only guests of the host's architecture")
        if machine.kvm and not os.access("/dev/kvm", os.R_OK | os.W_OK):
            raise UsageError(
                "/dev/kvm does not exist or you may not open it (group kvm); without --kvm guests are emulated"
            )
        if not capture and Lab.capture_all:
            capture = Lab.capture_all / name
        self.name = name
        self._installed = installed
        self.suites = (installed.suite,) * guests if installed else suites
        self.kernel = kernel
        self.guests: list[Guest] = []
        self.sim: Sim | None = None
        self.cards = counts
        self.ports = PORTS
        self.artifacts = paths.artifacts(name)
        self.capture = (self.artifacts / "wires" if capture is True else Path(capture)) if capture else None
        self._count = guests
        self._wires = straight(sum(counts), PORTS) if wires is None else list(wires)
        for wire in self._wires:
            for guest in map(nic_of, wire.ends):
                if guest is not None and guest >= guests:
                    raise UsageError(
                        f"wire {wire} has a NIC of guest {guest}, and the lab has {guests} guests, the first of which"
                        " is 0"
                    )
        self._load = stack.level(load if sum(counts) else "none")
        self._machine = machine
        self._sim_options = [*sim_options, *(["--record", str(record)] if record else [])]
        self._ending = threading.Event()
        self._resources = contextlib.ExitStack()

    # start and end

    def __enter__(self) -> "Lab":
        try:
            self._start()
        except BaseException:
            self.end()
            raise
        return self

    def __exit__(self, *_error) -> None:
        self.end()

    def _start(self) -> None:
        started = time.monotonic()
        images = {name: self._image(name) for name in dict.fromkeys(self.suites)}
        emulators = {name: [] if made.uml else qemu.command(made.arch) for name, made in images.items()}
        for made in images.values():
            self._prepare_products(made)
        snapshots = {
            name: snapshot.of(made, self._machine, emulators[name])
            for name, made in images.items()
            if snapshot.exists_for(made, self._machine)
        }
        sockets = self._claim_name()
        if self.artifacts.exists():
            shutil.rmtree(self.artifacts)
        share = self.artifacts / "share"
        share.mkdir(parents=True)

        cards: list[Path] = []
        wires, nics = self._with_nics(sockets)
        if sum(self.cards):
            self.sim = Sim(
                sum(self.cards),
                wires,
                sockets,
                self.artifacts,
                self.capture,
                self._sim_options,
                vhost_user=images[self.suite].uml,
            )
            self.sim.wait_ready()
            cards = self.sim.card_sockets
        for number in range(self._count):
            own = cards[sum(self.cards[:number]) : sum(self.cards[: number + 1])]
            suite = self.suites[number]
            guest = Guest(
                number,
                images[suite],
                self._machine,
                sockets,
                self.artifacts,
                share,
                own,
                nics[number],
                self.sim,
                snapshots.get(suite),
            )
            self.guests.append(guest)
            guest.boot(emulators[suite])
        threading.Thread(target=self._watch, name="watch", daemon=True).start()
        for guest in self.guests:
            guest.wait_ready()
        booted = time.monotonic()
        stack.bring_up(self, self._load)
        self._server = Server(self, sockets / "control")
        (sockets / "lab.json").write_text(json.dumps(self.describe(), indent=2) + "\n")
        Lab.running.add(self)
        progress.show(
            f"lab {self.name}: {self._count} guest{'s'[:self._count > 1]} ready in {booted - started:.1f} s, "
            f"stack loaded ({self._load.name}) in {time.monotonic() - booted:.1f} s"
        )

    def _image(self, name: str) -> image.Image:
        made = self._installed or image.get(name, self.kernel)
        if self._machine.packages:
            made = image.with_packages(made, self._machine.packages)
        if made.uml and (self.has_nics or self._machine.firmware or self._machine.counted or self._machine.iommu):
            raise UsageError(
                f"a guest with the kernel {self.kernel} has no NICs, no UEFI, no IOMMU and no counted instructions"
            )
        return made

    @staticmethod
    def _prepare_products(made: image.Image) -> None:
        """Creates the folders that guests mount, also for guests that load no modules of ours."""
        (made.products / "modules").mkdir(parents=True, exist_ok=True)
        if made.kernel:
            (made.products / "kernels" / made.kernel.kind.name / "modules").mkdir(parents=True, exist_ok=True)

    def end(self) -> None:
        """Ends all processes; also after a failed start, and repeatedly."""
        Lab.running.discard(self)
        self._ending.set()
        for guest in self.guests:
            guest.end()
        if self.sim:
            self.sim.end()
        self._resources.close()

    def _claim_name(self) -> Path:
        """The folder for sockets, locked by the running lab of this name."""
        folder = paths.runtime() / self.name
        folder.mkdir(exist_ok=True)
        lock = self._resources.enter_context(open(folder / "lock", "a+"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"a lab called {self.name} is running (t3lab down --lab {self.name} ends it)") from None
        for path in folder.iterdir():
            if path.name != "lock":
                path.unlink()
        lock.truncate(0)
        lock.write(f"{os.getpid()}\n")
        lock.flush()
        self._resources.callback(
            lambda: [path.unlink(missing_ok=True) for path in folder.iterdir() if path.name != "lock"]
        )
        return folder

    def _with_nics(self, sockets: Path) -> tuple[list[Wire], list[list[Nic]]]:
        """The wires with t3sim's names of ends, and the NICs of each guest."""
        wires: list[Wire] = []
        nics: list[list[Nic]] = [[] for _ in range(self._count)]
        for network, wire in enumerate(self._wires):
            ends = list(wire.ends)
            for at, end in enumerate(ends):
                guest = nic_of(end)
                if guest is not None:
                    nic = Nic(sockets / f"g{guest}.nic{len(nics[guest])}", network)
                    nics[guest].append(nic)
                    ends[at] = f"qemu:{nic.socket}"
            wires.append(Wire(wire.name, tuple(ends)))
        return wires, nics

    def _watch(self) -> None:
        """Ends the guests when t3sim ends, since they would hang, and reports the reason to all waiting commands."""
        while not self._ending.wait(WATCH_PERIOD):
            if self.sim and not self.sim.alive:
                for guest in self.guests:
                    guest.channel.lost(self.sim.end_report())
                    guest.end()
                return
            for guest in self.guests:
                guest.reap()

    # use

    @property
    def suite(self) -> str:
        """The image of the first guest, and of all others if they do not differ."""
        return self.suites[0]

    @property
    def healthy(self) -> bool:
        return all(guest.alive for guest in self.guests) and (self.sim is None or self.sim.alive)

    def wired(self, guest: int, port: int) -> bool:
        """Whether the port (counted over all cards of the guest) has a cable."""
        end = f"c{sum(self.cards[:guest]) + port // PORTS}.{port % PORTS}"
        return any(end in wire.ends for wire in self._wires)

    @property
    def has_nics(self) -> bool:
        """Whether guests have ordinary NICs, for which siw must have been built (siw.module())."""
        return any(nic_of(end) is not None for wire in self._wires for end in wire.ends)

    def describe(self) -> dict:
        return {
            "name": self.name,
            "pid": os.getpid(),
            "suite": ", ".join(dict.fromkeys(self.suites)),
            "artifacts": str(self.artifacts),
            "capture": str(self.capture) if self.capture else None,
            "guests": [guest.name for guest in self.guests],
        }

    def new_trouble(self, allowed=()) -> str:
        """Errors since the last call in any guest's kernel or in the card model; empty: none."""
        found = []
        if self.sim and not self.sim.alive:
            found.append(self.sim.end_report())
        for guest in self.guests:
            trouble = guest.new_trouble(allowed)
            if trouble:
                found.append(f"kernel of {guest.name}:\n{trouble}")
            if not guest.alive:
                found.append(
                    f"{guest.name} ended; its console's end:\n{guest.console.read_text(errors='replace')[-3000:]}"
                )
        return "\n".join(found)

    def leaks(self) -> str:
        """Memory that the guests' kernels leaked, if they have kmemleak; takes some seconds."""
        found = [(guest.name, guest.leaks()) for guest in self.guests]
        return "\n".join(f"{name}:\n{text}" for name, text in found if text)

    def report(self, lines: int = 60) -> str:
        """Ends of all logs, for the report of a failed test."""
        parts = [f"--- t3sim\n{self.sim.tail(lines)}"] if self.sim else []
        for guest in self.guests:
            try:
                log = guest.dmesg() if guest.alive else guest.console.read_text(errors="replace")
            except (LabError, OSError) as error:
                log = str(error)
            parts.append(f"--- kernel of {guest.name}\n" + "\n".join(log.splitlines()[-lines:]))
        return "\n".join(parts)
