# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The command t3lab."""

import argparse
import contextlib
import os
import re
import shlex
import signal
import sys
import threading
import time
from pathlib import Path

from . import arch, build, cache, control, image, kernel, paths, qemu, selftests, siw, snapshot, stack, wirecheck
from .errors import LabError, UsageError
from .lab import Lab
from .machine import Machine
from .process import tail
from .sim import MAX_CARDS, Wire


MAX_GUESTS = 16
# As a user can copy it from the output.
PROGRAM = os.environ.get("T3LAB_PROGRAM") or os.path.relpath(paths.REPO / "tools/lab/t3lab")


class Parser(argparse.ArgumentParser):
    """Wrong arguments: one line with the error and the usage, and status 2."""

    def error(self, message: str):
        usage = " ".join(self.format_usage().removeprefix("usage: ").split())
        self.exit(2, f"{self.prog}: {message}; usage: {usage}\n")


def number(what: str, least: int, most: int):
    """A type for argparse."""

    def parse(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a {what} (a number from {least} to {most})")
        return int(text)

    return parse


def guest_number(text: str) -> int:
    return number("guest", 0, MAX_GUESTS - 1)(text.removeprefix("g"))


def lab_name(text: str) -> str:
    """The name of a folder, and part of the paths of sockets, which must be short."""
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{,31}", text):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a name of a lab (up to 32 letters, digits, '-', '_' and '.')"
        )
    return text


def package_name(text: str) -> str:
    """As in Debian policy 5.6.1, so that it cannot be an option of apt or a list."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9+.-]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a name of a Debian package")
    return text


def guess(text: str) -> str:
    if not re.fullmatch(r"G\d+=(other|modelled)", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not an answer to an open question (for example G12=other)")
    return text


def new_folder(text: str) -> Path:
    """A folder for output, which is created if it does not exist."""
    path = Path(text)
    there = next(p for p in (path, *path.absolute().parents) if p.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise argparse.ArgumentTypeError(f"{text!r} is not a folder that can be written or created")
    return path


def wire(text: str) -> Wire:
    name, equals, ends = text.partition("=")
    if not name or not equals or ends.count(",") < 1 or "" in ends.split(","):
        raise argparse.ArgumentTypeError(f"{text!r} is not a wire (NAME=END,END, for example siw=c0.1,n1)")
    return Wire(name, tuple(ends.split(",")))


def _images(options) -> list[str]:
    """The images that --suite and --arch select: one for each --arch."""
    chosen = options.arch or [arch.HOST]
    only = {arch.ARCHITECTURES[name].suite for name in chosen}
    if options.suite and None not in only and options.suite not in only:
        raise UsageError(f"guests of {chosen[0]} are of {' or '.join(only)}, not of {options.suite}")
    return [arch.image_name(options.suite or "bookworm", name) for name in chosen]


def _suites(options) -> list[str]:
    """The image of each guest; the last --arch is that of all further guests."""
    chosen = _images(options)
    if len(chosen) > options.guests:
        raise UsageError(f"{len(chosen)} architectures for {options.guests} guests")
    return chosen + chosen[-1:] * (options.guests - len(chosen))


def _lab(options, name: str) -> Lab:
    suites = _suites(options)
    lab = Lab(
        options.guests,
        options.cards,
        suite=suites,
        kernel=options.kernel,
        wires=options.wire,
        capture=options.capture or False,
        record=options.record,
        load=options.load,
        name=name,
        sim_options=[word for one in options.guess for word in ("--guess", one)],
        machine=Machine(
            memory=options.memory,
            cpus=options.cpus,
            kvm=options.kvm,
            packages=tuple(options.package),
            arguments=options.append,
            iommu=options.iommu,
            boot=options.boot,
        ),
    )
    if stack.level(options.load).rdma and options.cards:
        for suite in dict.fromkeys(suites):
            build.everything(suite, options.kernel)
            if lab.has_nics:
                siw.module(suite)
    return lab


def up(options) -> int:
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: ended.set())
    with _lab(options, options.lab or control.DEFAULT_NAME) as lab:
        print(
            (
                f"lab {lab.name} is up: {', '.join(guest.name for guest in lab.guests)}. A shell: {PROGRAM} shell 0. "
                f"Logs: {lab.artifacts}. Ctrl-C or `{PROGRAM} down` ends it."
            ),
            flush=True,
        )
        with contextlib.suppress(KeyboardInterrupt):
            while lab.healthy and not ended.wait(1.0):
                pass
        if not lab.healthy:
            print(lab.new_trouble(), file=sys.stderr)
            return 1
    return 0


def run(options) -> int:
    with _lab(options, options.lab or f"run-{os.getpid()}") as lab:
        result = lab.guests[0].run(_joined(options.command), options.timeout)
        sys.stdout.write(result.stdout)
        sys.stderr.write(result.stderr)
        trouble = lab.new_trouble()
        if trouble:
            print(trouble, file=sys.stderr)
            return 1
    return result.rc


def _joined(words: list[str]):
    """One word is a line for a shell, several are a command and its arguments; unlike ssh it keeps quoting."""
    return words[0] if len(words) == 1 else shlex.join(words)


def shell(options) -> int:
    return control.Client(control.find(options.lab), options.guest).shell()


def execute(options) -> int:
    return control.Client(control.find(options.lab), options.guest).run(_joined(options.command))


def logs(options) -> int:
    """Shows the logs of a running or ended lab."""
    folder = paths.artifacts(options.lab or control.DEFAULT_NAME)
    found = sorted(folder.glob("*.log"))
    if not found:
        raise UsageError(f"no logs in {folder}")
    for path in found:
        print(f"==> {path} <==\n{tail(path, options.lines)}\n")
    return 0


def down(options) -> int:
    lab = control.find(options.lab)
    os.kill(lab["pid"], signal.SIGTERM)
    for _ in range(100):
        if all(other["name"] != lab["name"] for other in control.running()):
            return 0
        time.sleep(0.1)
    raise LabError(f"lab {lab['name']} (process {lab['pid']}) did not end within 10 s")


def make_image(options) -> int:
    for name in _images(options):
        made = image.get(name, options.kernel)
        qemu.command(made.arch)
        print(f"{made.suite}: kernel {made.release}, {made.folder}")
    return 0


def make_build(options) -> int:
    for name in _images(options):
        print(build.everything(name, options.kernel))
    return 0


def check_wire(options) -> int:
    """0: all captures are valid."""
    failed = False
    for path in options.captures:
        if not path.is_file():
            raise UsageError(f"there is no capture {path}")
        try:
            print(f"{path}: {wirecheck.check(path, options.connections)}")
        except wirecheck.WireError as error:
            print(error, file=sys.stderr)
            failed = True
    return int(failed)


def show_cache(options) -> int:
    if options.action == "clean":
        images = {cache.key(f"image-{s}", image.recipe(s)): s for s in image.NAMES}
        current = {
            *(cache.key("qemu", qemu.recipe(machine)) for machine in arch.ARCHITECTURES.values()),
            *images,
            *kernel.keys(),
            *map(selftests.key, selftests.SUITES),
        }
        for name in images.keys() & {item.name for item in cache.entries()}:
            made = image.get(images[name])
            current.add(cache.key(f"siw-{made.suite}", siw.recipe(made)))
            if snapshot.exists_for(made, Machine()) and qemu.is_present():
                recipe = snapshot.recipe(made, Machine(), qemu.command(made.arch))
                current.add(cache.key(f"snapshot-{made.suite}", recipe))
        if options.all:
            current.clear()
        for item in cache.clean(keep=lambda name: name in current):
            print(f"removed {item.name} ({item.size >> 20} MiB)")
        return 0
    for item in cache.entries():
        print(f"{item.size >> 20:6} MiB  {item.name}{'' if item.complete else '  (interrupted)'}")
    print(f"in {paths.cache()}")
    return 0


def parser() -> Parser:
    top = Parser(prog="t3lab", description="Runs guests with modelled T3 cards and the wires between them.")
    top.add_argument("--version", action="version", version=f"t3lab (t3rdma) {paths.version()}")
    commands = top.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)

    def command(name: str, function, text: str, *, sized: bool = False) -> Parser:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(function=function)
        if name not in ("image", "build", "cache", "check-wire"):
            sub.add_argument("--lab", type=lab_name, metavar="NAME", help="which lab (default: the only one, or 'lab')")
        if sized or name in ("image", "build"):
            sub.add_argument("--suite", choices=image.SUITES, help="Debian release of the guests (default: bookworm)")
            sub.add_argument(
                "--arch",
                choices=arch.ARCHITECTURES,
                action="append",
                help=(
                    "architecture of the guests (default: amd64); given several times: of guest 0, 1, ...; those of"
                    " arm64 are of trixie"
                ),
            )
            sub.add_argument(
                "--kernel", choices=kernel.KINDS, help="a kernel that the project builds, instead of Debian's"
            )
        if sized:
            sub.add_argument(
                "--guests", type=number("count of guests", 1, MAX_GUESTS), default=2, metavar="N", help="default: 2"
            )
            sub.add_argument(
                "--cards",
                type=number("count of cards", 0, MAX_CARDS),
                default=1,
                metavar="N",
                help="T3 cards per guest (default: 1)",
            )
            sub.add_argument("--load", choices=stack.LEVELS, default="rdma", help="how much of the stack to load")
            sub.add_argument(
                "--wire",
                type=wire,
                action="append",
                metavar="NAME=END,END",
                help=(
                    "wires instead of port to port; an end is cN.P (port of a card) or nG, a virtio-net NIC with siw in"
                    " guest G"
                ),
            )
            sub.add_argument("--capture", type=new_folder, metavar="FOLDER", help="capture all wires there")
            sub.add_argument(
                "--record", type=Path, metavar="FILE", help="record the cards' events there, for `t3sim trace`"
            )
            sub.add_argument(
                "--guess",
                type=guess,
                action="append",
                default=[],
                metavar="Gn=other",
                help=(
                    "all cards give the other answer to this open question; `t3sim --guess list` shows the questions"
                    " that have one"
                ),
            )
            sub.add_argument(
                "--memory",
                type=number("memory in MiB", 256, 1 << 20),
                default=512,
                metavar="MIB",
                help="of a guest (default: 512)",
            )
            sub.add_argument(
                "--cpus", type=number("count of CPUs", 1, 64), default=1, metavar="N", help="of a guest (default: 1)"
            )
            sub.add_argument(
                "--package",
                type=package_name,
                action="append",
                default=[],
                metavar="NAME",
                help="a Debian package that guests have beside the image's; may be given several times",
            )
            sub.add_argument(
                "--append", default="", metavar="ARGUMENTS", help="further arguments of the guests' kernels"
            )
            sub.add_argument(
                "--iommu", action="store_true", help="an IOMMU between the cards and the memory of their guests"
            )
            sub.add_argument(
                "--boot", action="store_true", help="boot the guests, instead of continuing from a snapshot"
            )
            sub.add_argument("--kvm", action="store_true", help="use /dev/kvm (default: emulation)")
        return sub

    command("up", up, "start a lab and keep it until Ctrl-C or `t3lab down`", sized=True)
    sub = command("run", run, "start a lab, run a command in guest 0, end the lab", sized=True)
    sub.add_argument(
        "--timeout",
        type=number("time in seconds", 1, 86400),
        default=300,
        metavar="S",
        help="for the command (default: 300)",
    )
    sub.add_argument("command", nargs="+", metavar="CMD")
    sub = command("shell", shell, "open a shell in a guest of a running lab; Ctrl-] leaves it")
    sub.add_argument("guest", type=guest_number, metavar="GUEST")
    sub = command("exec", execute, "run a command in a guest of a running lab")
    sub.add_argument("guest", type=guest_number, metavar="GUEST")
    sub.add_argument("command", nargs=argparse.REMAINDER, metavar="CMD")
    sub = command("logs", logs, "show the logs of a lab, running or ended")
    sub.add_argument(
        "--lines", type=number("count of lines", 1, 1000000), default=40, metavar="N", help="of each log (default: 40)"
    )
    command("down", down, "end a running lab")
    command("image", make_image, "make the guest image, if it is not cached")
    command("build", make_build, "build modules, provider and programs for guests")
    sub = command(
        "check-wire", check_wire, "check the iWARP traffic in captures with tshark: framing, CRC, order, TERMINATEs"
    )
    sub.add_argument("captures", nargs="+", type=Path, metavar="FILE")
    sub.add_argument(
        "--connections",
        type=number("count of connections", 0, 1 << 20),
        default=1,
        metavar="N",
        help="minimum number of RDMA connections in each (default: 1)",
    )
    sub = command("cache", show_cache, "list the cache, or clean it")
    sub.add_argument("action", nargs="?", choices=("list", "clean"), default="list")
    sub.add_argument("--all", action="store_true", help="clean: also entries in use")
    return top


def main(argv: list[str] | None = None) -> int:
    options = parser().parse_args(argv)
    if options.function is execute and not options.command:
        print("t3lab exec: no command given; usage: t3lab exec GUEST CMD...", file=sys.stderr)
        return 2
    try:
        return options.function(options)
    except (LabError, OSError) as error:
        print(f"t3lab: {error}", file=sys.stderr)
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        return 130
