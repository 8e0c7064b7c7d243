#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""An outside witness of what cards put on the wire: Wireshark's iWARP dissectors.

    wirecheck.py CAPTURE...

fails if a capture holds a frame that tshark calls malformed or an expert error, a wrong checksum, an FPDU with a bad
CRC, a byte of an RDMA connection that is not MPA, DDP and RDMAP, or no RDMA connection at all. As a module:

    report = wirecheck.check("p0.pcapng")      # raises WireError
    report.messages["Send"]                    # FPDUs by RDMAP opcode
"""

import argparse
import collections
import dataclasses
import re
import shutil
import subprocess
import sys


class WireError(AssertionError):
    """What is wrong with a capture, one line for each thing."""


@dataclasses.dataclass
class Report:
    frames: int = 0
    connections: int = 0  # with an MPA request
    messages: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    problems: list = dataclasses.field(default_factory=list)


# A line of columns for each frame, tabs between them, then the details of the iWARP protocols.
COLUMNS = "frame.number tcp.stream tcp.srcport tcp.len tcp.flags ip.checksum.status tcp.checksum.status _ws.expert.severity _ws.expert.message"
FORMAT = ",".join(f'"{field}","%Cus:{field}"' for field in COLUMNS.split()) + ',"info","%i"'
TSHARK = [
    "tshark", "-n", "-T", "tabs", "-P", "-O", "iwarp_mpa,iwarp_ddp_rdmap", "-o", f"gui.column.format:{FORMAT}",
    # These guess at what SENDs carry, and call ours malformed.
    "--disable-protocol", "rpcordma", "--disable-protocol", "smb_direct",
    # Off by default.
    "-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE", "-o", "tcp.try_heuristic_first:TRUE",
]  # fmt: skip

FIN = 1
OPCODE = re.compile(r" = OpCode: (.*) \(0x")
# Nothing new is dissected in these, and nothing has to be. What is sent again within 3 ms tshark calls out of order.
REPEATED = re.compile(r"retransmission|out-of-order|keep-?alive|zero ?window ?probe", re.IGNORECASE)


@dataclasses.dataclass
class Frame:
    """What one frame's columns and details say."""

    number: int
    stream: str
    source_port: str
    length: int
    flags: int
    problems: list
    info: str
    details: set = dataclasses.field(default_factory=set)  # "mpa", "ddp", "start-up"

    @classmethod
    def parse(cls, line):
        number, stream, port, length, flags, ip_sum, tcp_sum, severity, message, info = line.split("\t", 9)
        problems = [f"wrong {name} checksum" for name, status in (("IP", ip_sum), ("TCP", tcp_sum)) if "Bad" in status]
        if "Error" in severity:
            problems.append(f"expert error: {message}")
        return cls(int(number), stream, port, int(length or 0), int(flags or "0", 16), problems, info)


class _Checker:
    def __init__(self):
        self.report = Report()
        self.rdma = set()  # streams
        self.incomplete = {}  # (stream, source port) -> frame in which an FPDU began

    def frames(self, lines):
        frame = None
        for line in lines:
            if "\t" in line and line.lstrip()[:1].isdigit():
                if frame:
                    self.frame(frame)
                frame = Frame.parse(line)
            elif frame:
                self.detail(frame, line)
        if frame:
            self.frame(frame)

    def detail(self, frame, line):
        if line.startswith("        "):
            if found := OPCODE.search(line):
                self.report.messages[found[1]] += 1
            elif "(Bad CRC32" in line:
                frame.problems.append("MPA " + line.strip())
        elif line.startswith("iWARP Marker Protocol"):
            frame.details.add("mpa")
        elif line.startswith("iWARP Direct Data Placement"):
            frame.details.add("ddp")
        elif line.startswith("    Request frame header"):
            self.report.connections += 1
            self.rdma.add(frame.stream)
            frame.details.add("start-up")
        elif line.startswith("    Reply frame header"):
            frame.details.add("start-up")
        elif line.startswith("[Malformed Packet") or line.startswith("[Unreassembled"):
            frame.problems.append(line.strip())

    def frame(self, frame):
        self.report.frames += 1
        if frame.stream in self.rdma:
            self.rdma_frame(frame)
        self.report.problems += (f"frame {frame.number}: {problem}" for problem in frame.problems)

    def rdma_frame(self, frame):
        direction = (frame.stream, frame.source_port)
        if "mpa" in frame.details:
            self.incomplete.pop(direction, None)
            if not frame.details & {"ddp", "start-up"}:
                frame.problems.append("MPA without DDP and RDMAP")
        elif frame.length and not REPEATED.search(frame.info):
            if "TCP segment of a reassembled PDU" in frame.info:
                self.incomplete.setdefault(direction, frame.number)
            else:
                frame.problems.append(f"{frame.length} bytes of an RDMA connection that are not MPA")
        if frame.flags & FIN and direction in self.incomplete:
            frame.problems.append(f"FIN inside the FPDU that began in frame {self.incomplete[direction]}")


def check(path, connections=1):
    """Checks a capture with at least that many RDMA connections. Raises WireError."""
    if not shutil.which("tshark"):
        raise WireError("tshark is not installed")
    checker = _Checker()
    with subprocess.Popen([*TSHARK, "-r", str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tshark:
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


def main():
    parser = argparse.ArgumentParser(description="Checks the iWARP traffic in captures.")
    parser.add_argument("captures", nargs="+", metavar="CAPTURE")
    parser.add_argument("--connections", type=int, default=1, metavar="N", help="at least N RDMA connections (default: 1)")
    options = parser.parse_args()
    failed = False
    for path in options.captures:
        try:
            report = check(path, options.connections)
        except WireError as error:
            print(error, file=sys.stderr)
            failed = True
            continue
        counts = ", ".join(f"{count} {name}" for name, count in sorted(report.messages.items()))
        print(f"{path}: {report.frames} frames, {report.connections} RDMA connections, FPDUs: {counts or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
