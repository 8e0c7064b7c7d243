# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The messages of the IB connection protocol in a capture, as tshark reads them.

tshark (4.0) does not dissect SIDR REQ and SIDR REP, so their bytes are read here (IB architecture, volume 1, 12.11).
"""

import socket
import struct
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import NamedTuple

MANAGEMENT_CLASS = 7  # communication management
NAMES = {
    0x10: "REQ",
    0x11: "MRA",
    0x12: "REJ",
    0x13: "REP",
    0x14: "RTU",
    0x15: "DREQ",
    0x16: "DREP",
    0x17: "SIDR_REQ",
    0x18: "SIDR_REP",
}
PREFIX = "infiniband."
IP_HEADER = 36


class Message(NamedTuple):
    """A message: the IP addresses of its sender and receiver, and its fields by tshark's names without the prefix, as
    hexadecimal digits."""

    name: str
    sender: str
    receiver: str
    fields: dict[str, str]

    def number(self, field: str) -> int:
        return int(self.fields[field], 16)

    def bytes(self, field: str) -> bytes:
        return bytes.fromhex(self.fields[field])

    @property
    def data(self) -> bytes:
        """What follows the MAD header."""
        return self.bytes("mad.data")

    @property
    def protocol_fields(self) -> dict[str, str]:
        """Those of the message itself, without the headers before it."""
        return {name: value for name, value in self.fields.items() if name.startswith("cm.")}


class IpHeader(NamedTuple):
    """The head of a request's private data (IB architecture, annex A11)."""

    version: int
    ip_version: int
    source_port: int
    source: str
    destination: str

    @classmethod
    def parse(cls, data: bytes) -> "IpHeader":
        version, ip_version, port, source, destination = struct.unpack("!BBH16s16s", data[:IP_HEADER])
        assert not any(source[:12]) and not any(destination[:12]), "an IPv4 address is in the last 4 bytes"
        return cls(version, ip_version >> 4, port, socket.inet_ntoa(source[12:]), socket.inet_ntoa(destination[12:]))


class SidrRequest(NamedTuple):
    request: int
    pkey: int
    service: int
    private: bytes

    @classmethod
    def parse(cls, data: bytes) -> "SidrRequest":
        request, pkey, reserved, service = struct.unpack("!IHHQ", data[:16])
        assert not reserved
        return cls(request, pkey, service, data[16:])


class SidrReply(NamedTuple):
    request: int
    status: int
    qpn: int
    service: int
    qkey: int

    @classmethod
    def parse(cls, data: bytes) -> "SidrReply":
        request, status, info, qpn, service, qkey = struct.unpack("!IBB2xI Q I", data[:24])
        assert not info
        return cls(request, status, qpn >> 8, service, qkey)


def _message(packet: ElementTree.Element) -> Message:
    fields: dict[str, str] = {}
    for field in packet.find("proto[@name='infiniband']").iter("field"):
        name = field.get("name", "").removeprefix(PREFIX)
        if field.get("value") and name not in fields:
            fields[name] = field.get("value", "")
    ip = {field.get("name"): field.get("show", "") for field in packet.find("proto[@name='ip']").iter("field")}
    return Message(NAMES[int(fields["mad.attributeid"], 16)], ip["ip.src"], ip["ip.dst"], fields)


def messages(capture: Path) -> list[Message]:
    """All messages of a capture in their order. One that its sender repeated, because no reply came in time, is in it
    once."""
    done = subprocess.run(
        ["tshark", "-n", "-r", capture, "-Y", f"infiniband.mad.mgmtclass == {MANAGEMENT_CLASS}", "-T", "pdml"],
        capture_output=True,
        text=True,
        check=True,
    )
    seen: list[Message] = []
    for packet in ElementTree.fromstring(done.stdout).iter("packet"):
        malformed = packet.find("proto[@name='_ws.malformed']")
        assert malformed is None, ElementTree.tostring(packet, encoding="unicode")
        message = _message(packet)
        if not any(
            (other.name, other.sender, other.data) == (message.name, message.sender, message.data) for other in seen
        ):
            seen.append(message)
    return seen
