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


# Upper layers that guess at what SENDs carry, and call ours malformed; and checks that are off by default.
TSHARK = (
    "tshark -n --disable-protocol rpcordma --disable-protocol smb_direct"
    " -o ip.check_checksum:TRUE -o tcp.check_checksum:TRUE -o tcp.desegment_tcp_streams:TRUE -o tcp.try_heuristic_first:TRUE"
    " -O ip,tcp,iwarp_mpa,iwarp_ddp_rdmap -r"
).split()

FRAME = re.compile(r"^Frame (\d+): ")
STREAM = re.compile(r"^    \[Stream index: (\d+)\]")
TCP = re.compile(r"^Transmission Control Protocol, Src Port: (\d+), .* Len: (\d+)$")
OPCODE = re.compile(r"^ +\.\.\.\. [01]{4} = OpCode: (.*) \(0x")
# Nothing new is dissected in these, and nothing has to be.
REPEATED = re.compile(r"(retransmission|Keep-Alive|Zero-?Window ?Probe)", re.IGNORECASE)
WRONG = (
    (re.compile(r"^\[Malformed Packet"), "malformed"),
    (re.compile(r"Expert Info \(Error/"), "expert error"),
    (re.compile(r"\(Bad CRC32"), "MPA CRC"),
    (re.compile(r"\[(Header c|C)hecksum [Ss]tatus: Bad\]"), "checksum"),
)


def _frames(lines):
    """Splits tshark's text into (number, lines)."""
    number, body = None, []
    for line in lines:
        found = FRAME.match(line)
        if found:
            if number is not None:
                yield number, body
            number, body = int(found[1]), []
        body.append(line.rstrip("\n"))
    if number is not None:
        yield number, body


class _Checker:
    def __init__(self):
        self.report = Report()
        self.rdma = set()  # stream numbers
        self.incomplete = {}  # (stream, source port) -> frame in which an FPDU began

    def problem(self, number, what, line=""):
        self.report.problems.append(f"frame {number}: {what}{': ' + line.strip() if line else ''}")

    def frame(self, number, body):
        self.report.frames += 1
        stream = port = None
        length = 0
        mpa = ddp = fin = repeated = False
        for line in body:
            for pattern, what in WRONG:
                if pattern.search(line):
                    self.problem(number, what, line)
            if found := STREAM.match(line):
                stream = int(found[1])
            elif found := TCP.match(line):
                port, length = int(found[1]), int(found[2])
            elif found := OPCODE.match(line):
                self.report.messages[found[1]] += 1
            elif line.startswith("iWARP Marker Protocol"):
                mpa = True
            elif line.startswith("iWARP Direct Data Placement"):
                ddp = True
            elif line == "    Request frame header":
                self.report.connections += 1
                self.rdma.add(stream)
                ddp = True  # the frames of the start-up are MPA alone
            elif line == "    Reply frame header":
                ddp = True
            elif line.endswith("Fin: Set"):
                fin = True
            elif REPEATED.search(line):
                repeated = True
        if stream in self.rdma:
            self.payload(number, (stream, port), length, mpa, ddp, fin, repeated, body)

    def payload(self, number, direction, length, mpa, ddp, fin, repeated, body):
        if mpa and not ddp:
            self.problem(number, "MPA without DDP and RDMAP")
        if mpa:
            self.incomplete.pop(direction, None)
        elif length and not repeated:
            if any(line.startswith("    TCP segment data") for line in body):
                self.incomplete.setdefault(direction, number)
            else:
                self.problem(number, f"{length} bytes of an RDMA connection that are not MPA")
        if fin and direction in self.incomplete:
            self.problem(number, f"FIN inside the FPDU that began in frame {self.incomplete[direction]}")


def check(path, connections=1):
    """Checks a capture with at least that many RDMA connections. Raises WireError."""
    if not shutil.which("tshark"):
        raise WireError("tshark is not installed")
    checker = _Checker()
    with subprocess.Popen([*TSHARK, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as tshark:
        for number, body in _frames(tshark.stdout):
            checker.frame(number, body)
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
