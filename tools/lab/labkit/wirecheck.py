# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Checks a capture with an independent implementation: tshark dissects it, and the result is compared with the RFCs.

    t3lab check-wire CAPTURE...

fails if a capture has a frame that tshark reports as malformed or as an expert error, a wrong checksum, an
acknowledgement of unsent data, data beyond the window, an FPDU with a bad CRC, a byte of an RDMA connection that is not
MPA, DDP and RDMAP, messages out of order (MSN, MO, TO, queue number, last flag), a TERMINATE whose code the RFCs do not
define for its cause, or no RDMA connection at all. As a module:

    report = wirecheck.check("p0.pcapng")      # raises WireError
    report.messages["Send"]                    # FPDUs by RDMAP opcode
    report.terminates                          # the codes of TERMINATEs, as iwarp.Code

A capture must have all frames that the ends sent, as those of t3sim do. Connections that began before the capture are
not checked.
"""

import collections
import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Iterable

from .iwarp import ANY, Cause, Code, Direction, Fpdu, Op


class WireError(AssertionError):
    """The errors of a capture, one line each."""


@dataclasses.dataclass
class Report:
    frames: int = 0
    connections: int = 0  # with an MPA request
    messages: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    terminates: list[Code] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)
    allowed: list[str] = dataclasses.field(default_factory=list)  # problems that the caller expected

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.messages.items()))
        ends = "".join(f"; TERMINATE {code}" for code in self.terminates)
        return f"{self.frames} frames, {self.connections} RDMA connections, FPDUs: {counts or 'none'}{ends}"


# A line of columns for each frame, tabs between them, then the details of the iWARP protocols.
COLUMNS = (
    "frame.number tcp.stream ip.src tcp.srcport tcp.len tcp.flags tcp.seq_raw tcp.ack_raw tcp.window_size "
    "tcp.window_size_scalefactor ip.checksum.status tcp.checksum.status _ws.expert.severity _ws.expert.message"
)
FORMAT = ",".join(f'"{field}","%Cus:{field}"' for field in COLUMNS.split()) + ',"info","%i"'
TSHARK = [
    "tshark", "-n", "-T", "tabs", "-P", "-O", "iwarp_mpa,iwarp_ddp_rdmap", "-o", f"gui.column.format:{FORMAT}",
    # These guess the content of SENDs, and report ours as malformed.
    "--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct",
    # Off by default.
    "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "tcp.try_heuristic_first:TRUE",
]  # fmt: skip

FIN, SYN, RST, ACK = 1, 2, 4, 16
# tshark does not dissect these again. It reports retransmissions within 3 ms as out of order.
REPEATED = re.compile(r"retransmission|out-of-order|keep-?alive|zero ?window ?probe", re.IGNORECASE)
# Expert messages below "error" that cannot occur in a complete capture of correct TCP.
IMPOSSIBLE = ("ACKed segment that wasn't captured", "Previous segment(s) not captured")


def _number(text: str) -> int:
    """Of "12 bytes", "0x00000005", "Read Request (0x1)"."""
    found = re.search(r"0x[0-9a-fA-F]+", text)
    return int(found[0], 16) if found else int(text.split()[0])


def _flag(text: str) -> bool:
    return text.startswith(("True", "Set"))


# The names of an FPDU's fields in tshark, and in Fpdu. "Version" alone is RDMAP's: MPA has a "Revision".
FIELDS = {
    "Tagged flag": ("tagged", _flag),
    "Last flag": ("last", _flag),
    "DDP protocol version": ("ddp_version", _number),
    "Version": ("rdmap_version", _number),
    "OpCode": ("op", _number),
    "Queue number": ("queue", _number),
    "Message sequence number": ("msn", _number),
    "Message offset": ("offset", _number),
    "(Data Sink) Steering Tag": ("stag", _number),
    "(Data Sink) Tagged offset": ("offset", _number),
    "Data Sink STag": ("sink_stag", _number),
    "Data Sink Tagged Offset": ("sink_offset", _number),
    "RDMA Read Message Size": ("read_size", _number),
    "Layer": ("layer", _number),
    **dict.fromkeys(
        ("Error Types", "Error Types for RDMA layer", "Error Types for DDP layer", "Error Types for LLP layer"),
        ("error_type", _number),
    ),
    **dict.fromkeys(
        (
            "Error Code",
            "Error Code for RDMA layer",
            "Error Code for DDP Tagged Buffer",
            "Error Code for DDP Untagged Buffer",
            "Error Code for LLP layer",
        ),
        ("error_code", _number),
    ),
}


@dataclasses.dataclass
class Frame:
    """One frame, from its columns and details."""

    number: int
    stream: str
    source_port: str
    length: int
    flags: int
    seq: int
    ack: int
    window: int | None  # in bytes; None: the scale is unknown
    problems: list
    info: str
    unseen: str  # tshark's message about bytes that are not in the capture
    start_up: bool = False
    fpdus: list = dataclasses.field(default_factory=list)
    bad_crc: list = dataclasses.field(default_factory=list)  # indices of fpdus

    @classmethod
    def parse(cls, line: str) -> "Frame":
        (
            number,
            stream,
            source,
            port,
            length,
            flags,
            seq,
            ack,
            window,
            scale,
            ip_sum,
            tcp_sum,
            severity,
            message,
            info,
        ) = line.split("\t", 14)
        problems = [
            f"wrong {name} checksum, from {source}"
            for name, status in (("IP", ip_sum), ("TCP", tcp_sum))
            if "Bad" in status
        ]
        if "Error" in severity:
            problems.append(f"expert: {message}")
        flags = int(flags or "0", 16)
        known = window and (flags & SYN or scale != "-1")
        return cls(
            int(number),
            stream,
            port,
            int(length or 0),
            flags,
            int(seq or 0),
            int(ack or 0),
            int(window) if known else None,
            problems,
            info,
            unseen=next((text for text in IMPOSSIBLE if text in message), ""),
        )

    def detail(self, line: str) -> None:
        """A line of the details."""
        key, colon, value = line.strip().partition(": ")
        if " = " in key:  # bits
            key = key.rpartition(" = ")[2]
        if not colon:
            if key in ("Request frame header", "Reply frame header"):
                self.start_up = True
            elif key.startswith(("[Malformed Packet", "[Unreassembled")):
                self.problems.append(key)
        elif key == "ULPDU length":
            self.fpdus.append(Fpdu(self.number, _number(value)))
        elif key.startswith("CRC") and "(Bad CRC32" in value:
            self.bad_crc.append(len(self.fpdus) - 1)
            self.problems.append(f"MPA {line.strip()}")
        elif key in FIELDS and self.fpdus:
            name, convert = FIELDS[key]
            setattr(self.fpdus[-1], name, convert(value))
        elif key.startswith(("[Malformed Packet", "[Unreassembled")):
            self.problems.append(line.strip())


def _after(a: int, b: int) -> int:
    """The distance of a sequence number from another one; negative: before it."""
    return (a - b + (1 << 31)) % (1 << 32) - (1 << 31)


class _Half:
    """The data that one end of a TCP connection sent."""

    def __init__(self):
        self.end: int | None = None  # sequence number behind the last byte
        self.edge: int | None = None  # right edge of the window that it advertised
        self.incomplete: int | None = None  # frame in which an FPDU began that has not ended
        self.messages = Direction()


class _Connection:
    def __init__(self):
        self.from_start = False  # its start is in the capture
        self.rdma = False
        self.halves: dict[str, _Half] = {}

    def half(self, port: str) -> tuple[_Half, _Half]:
        """The half that sends from that port, and the other one."""
        if not self.halves:
            one, other = _Half(), _Half()
            one.messages.peer, other.messages.peer = other.messages, one.messages
            self.halves = {port: one, "": other}
        elif port not in self.halves:
            self.halves[port] = self.halves.pop("")
        other = next(half for name, half in self.halves.items() if name != port)
        return self.halves[port], other


class _Checker:
    def __init__(self, allowed: Iterable[str]):
        self.report = Report()
        self._allowed = [re.compile(pattern) for pattern in allowed]
        self._connections: dict[str, _Connection] = collections.defaultdict(_Connection)

    def frames(self, lines: Iterable[str]) -> None:
        frame = None
        for line in lines:
            if "\t" in line and line.lstrip()[:1].isdigit():
                if frame:
                    self._frame(frame)
                frame = Frame.parse(line)
            elif frame:
                frame.detail(line)
        if frame:
            self._frame(frame)

    def problem(self, text: str) -> None:
        expected = any(pattern.search(text) for pattern in self._allowed)
        (self.report.allowed if expected else self.report.problems).append(text)

    def _frame(self, frame: Frame) -> None:
        self.report.frames += 1
        if frame.stream:
            self._segment(self._connections[frame.stream], frame)
        for problem in frame.problems:
            self.problem(f"frame {frame.number}: {problem}")

    def _segment(self, connection: _Connection, frame: Frame) -> None:
        sender, receiver = connection.half(frame.source_port)
        connection.from_start |= bool(frame.flags & SYN)
        if connection.from_start and frame.unseen:
            frame.problems.append(f"expert: {frame.unseen}")
        repeated = self._window(sender, receiver, frame)
        if frame.start_up and not connection.rdma:
            connection.rdma = True
            self.report.connections += 1
        if connection.rdma:
            self._rdma(sender, frame, repeated)

    @staticmethod
    def _window(sender: _Half, receiver: _Half, frame: Frame) -> bool:
        """Checks TCP's sequence numbers. True: all of the segment was sent before."""
        if frame.flags & RST:
            return False
        if frame.flags & ACK and frame.window is not None:
            edge = (frame.ack + frame.window) % (1 << 32)
            if sender.edge is None or _after(edge, sender.edge) > 0:
                sender.edge = edge
        end = (frame.seq + frame.length + bool(frame.flags & SYN)) % (1 << 32)
        repeated = sender.end is not None and frame.length > 0 and _after(end, sender.end) <= 0
        if sender.end is None or _after(end, sender.end) > 0:
            sender.end = end
        if frame.length and receiver.edge is not None and _after(end, receiver.edge) > 0:
            frame.problems.append(f"{_after(end, receiver.edge)} bytes beyond the window")
        return repeated

    def _rdma(self, sender: _Half, frame: Frame, repeated: bool) -> None:
        if repeated:
            return
        if frame.fpdus or frame.start_up:
            sender.incomplete = None
        elif frame.length and not REPEATED.search(frame.info):
            if "TCP segment of a reassembled PDU" in frame.info:
                sender.incomplete = sender.incomplete or frame.number
            else:
                frame.problems.append(f"{frame.length} bytes of an RDMA connection that are not MPA")
        for index, fpdu in enumerate(frame.fpdus):
            self._fpdu(sender.messages, frame, fpdu, index in frame.bad_crc)
        if frame.flags & FIN and sender.incomplete:
            frame.problems.append(f"FIN inside the FPDU that began in frame {sender.incomplete}")

    def _fpdu(self, direction: Direction, frame: Frame, fpdu: Fpdu, bad_crc: bool) -> None:
        if fpdu.op is None or fpdu.tagged is None:
            frame.problems.append("MPA without DDP and RDMAP")
            return
        self.report.messages[Op(fpdu.op).title if fpdu.op in ANY else f"opcode {fpdu.op}"] += 1
        if bad_crc:
            direction.wrong.append((Cause.CRC, fpdu.op))
        frame.problems += (problem.text for problem in direction.feed(fpdu))
        if fpdu.op == Op.TERMINATE and direction.terminate:
            self.report.terminates.append(direction.terminate)


def check(path: Path | str, connections: int = 1, allowed: Iterable[str] = ()) -> Report:
    """Checks a capture with at least this number of RDMA connections; problems that match an allowed pattern are
    expected. Raises WireError."""
    if not shutil.which("tshark"):
        raise WireError("tshark is not installed")
    checker = _Checker(allowed)
    with subprocess.Popen(
        [*TSHARK, "-r", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as tshark:
        checker.frames(tshark.stdout)
        complaints = tshark.stderr.read()
    report = checker.report
    if tshark.returncode:
        report.problems.append(f"tshark: {complaints.strip()}")
    if report.connections < connections:
        report.problems.append(f"{report.connections} RDMA connections, at least {connections} expected")
    if report.problems:
        shown = report.problems[:20]
        if len(report.problems) > len(shown):
            shown.append(f"... and {len(report.problems) - len(shown)} more")
        raise WireError(f"{path}:\n  " + "\n  ".join(shown))
    return report
