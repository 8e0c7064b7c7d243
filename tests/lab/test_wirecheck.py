# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""wirecheck, with captures made by this test: valid ones, and one for each error. Needs no guest."""

import re
import struct

import pytest
from labkit import cli, iwarp, wirecheck

FIN, SYN, ACK = 1, 2, 16


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def internet_checksum(data):
    data += bytes(len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def mpa_frame(key):
    return key + b"\x40\x01\x00\x00"  # CRC, revision 1


def fpdu(ulpdu, crc_error=0):
    body = struct.pack(">H", len(ulpdu)) + ulpdu
    body += bytes(-len(body) % 4)
    return body + struct.pack("<I", crc32c(body) ^ crc_error)


def untagged(op, queue, msn, data, offset=0, last=True, ddp=1, rdmap=1):
    return struct.pack(">BBIIII", (0x40 if last else 0) | ddp, rdmap << 6 | op, 0, queue, msn, offset) + data


def tagged(op, stag, offset, data, last=True):
    return struct.pack(">BBIQ", 0x81 | (0x40 if last else 0), 0x40 | op, stag, offset) + data


def send(msn, data, **header):
    return untagged(3, 0, msn, data, **header)


def write(stag, offset, data, **header):
    return tagged(0, stag, offset, data, **header)


def read_request(msn, stag, offset, size, **header):
    return untagged(1, 1, msn, struct.pack(">IQIIQ", stag, offset, size, 0x222, 0x2000), **header)


def read_response(stag, offset, data, **header):
    return tagged(2, stag, offset, data, **header)


def terminate(layer, kind, code, msn=1):
    return untagged(7, 2, msn, bytes([layer << 4 | kind, code, 0, 0]))


class Conversation:
    """One TCP connection between an initiator (0) and a responder (1), as a capture shows it."""

    addresses = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))

    def __init__(self, rdma=True, port=50000):
        self.ports = (port, 7471)
        self.seq = [1000, 2000]
        self.frames = []
        self.segment(0, flags=SYN)
        self.segment(1, flags=SYN | ACK)
        self.segment(0)
        if rdma:
            self.segment(0, mpa_frame(b"MPA ID Req Frame"))
            self.segment(1, mpa_frame(b"MPA ID Rep Frame"))

    def segment(self, who, data=b"", flags=ACK, checksum_error=0, window=65535, ack_error=0, again=False):
        other = 1 - who
        if again:
            self.seq[who] -= len(data)
        ack = self.seq[other] + ack_error if flags & ACK else 0
        ports = struct.pack(">HH", self.ports[who], self.ports[other])
        tcp = ports + struct.pack(">IIBBHHH", self.seq[who], ack, 0x50, flags, window, 0, 0)
        addresses = self.addresses[who] + self.addresses[other]
        pseudo = addresses + struct.pack(">BBH", 0, 6, len(tcp) + len(data))
        checksum = internet_checksum(pseudo + tcp + data) ^ checksum_error
        tcp = tcp[:16] + struct.pack(">H", checksum) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp) + len(data), 1, 0, 64, 6, 0) + addresses
        ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
        self.frames.append(b"\x00\x07\x43\x11\x22\x00\x00\x07\x43\x33\x44\x00\x08\x00" + ip + tcp + data)
        self.seq[who] += len(data) + bool(flags & (FIN | SYN))

    def sends(self, who, *ulpdus):
        """A segment for each FPDU."""
        for ulpdu in ulpdus:
            self.segment(who, fpdu(ulpdu))

    def end(self):
        self.segment(0, flags=FIN | ACK)
        self.segment(1, flags=FIN | ACK)
        self.segment(0)


def save(path, *conversations):
    """One after another, in one capture."""
    records = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
    for second, frame in enumerate(frame for conversation in conversations for frame in conversation.frames):
        records.append(struct.pack("<IIII", second, 0, len(frame), len(frame)) + frame)
    path.write_bytes(b"".join(records))
    return path


@pytest.fixture
def checked(tmp_path):
    return lambda conversation, **options: wirecheck.check(save(tmp_path / "c.pcap", conversation), **options)


def test_messages_of_a_valid_capture_are_counted(checked):
    connection = Conversation()
    connection.segment(0, fpdu(send(1, b"abcd")) + fpdu(send(2, b"two in a segment")))
    cut = fpdu(send(1, bytes(2000)))
    connection.segment(1, cut[:1460])
    connection.segment(1, cut[1460:])
    connection.end()
    report = checked(connection)
    assert (report.frames, report.connections) == (len(connection.frames), 1)
    assert report.messages == {"Send": 3}


def test_all_kinds_of_messages_in_a_valid_order(checked):
    """A valid capture, from which each case below differs in one error."""
    connection = Conversation()
    connection.sends(
        0,
        send(1, bytes(100), last=False),
        send(1, bytes(50), offset=100),
        send(2, b""),
        read_request(1, 5, 0x1000, 150),
    )
    connection.sends(
        1,
        read_response(5, 0x1000, bytes(100), last=False),
        read_response(5, 0x1064, bytes(50)),
        untagged(6, 0, 1, b"inv"),
    )
    connection.sends(
        0, write(9, 0, bytes(64), last=False), write(9, 64, bytes(8)), write(9, 0x500, b"x"), read_request(2, 5, 0, 0)
    )
    connection.sends(1, read_response(5, 0, b""), terminate(1, 1, 0))
    connection.segment(1, fpdu(terminate(1, 1, 0)), again=True)  # a retransmission is not a second message
    connection.end()
    report = checked(connection)
    assert report.messages["Write"] == 3 and report.messages["Read Response"] == 3
    assert report.terminates == [iwarp.Code(1, 1, 0)]


def wrong_crc(connection):
    connection.segment(0, fpdu(send(1, b"abcd"), crc_error=1))


def wrong_checksum(connection):
    connection.segment(0, fpdu(send(1, b"abcd")), checksum_error=0x0100)


def cut_short(connection):
    connection.segment(0, fpdu(send(1, bytes(100)))[:50])


def no_mpa(connection):
    connection.sends(0, send(1, b""))
    connection.segment(0, bytes(16))


def acknowledged_unseen(connection):
    connection.segment(0, ack_error=1000)


def beyond_the_window(connection):
    for _ in range(70):
        connection.segment(0, fpdu(send(1, bytes(1400))))


def sends(*ulpdus, before=()):
    def spoil(connection):
        connection.sends(1, *before)
        connection.sends(0, *ulpdus)

    return spoil


REQUEST = read_request(1, 5, 0x1000, 150)
WRONG = {
    "crc": (wrong_crc, "frame 6: MPA CRC check"),
    "checksum": (wrong_checksum, "frame 6: wrong TCP checksum"),
    "cut short": (cut_short, "frame 7: FIN inside the FPDU"),
    "no mpa": (no_mpa, "frame 7: (16 bytes of an RDMA connection that are not MPA|MPA without DDP and RDMAP)"),
    "acknowledged unseen": (acknowledged_unseen, "frame 6: expert: .*ACKed segment that wasn't captured"),
    "beyond the window": (beyond_the_window, "frame 52: 1393 bytes beyond the window"),
    "ddp version": (sends(send(1, b"", ddp=2)), "DDP version 2"),
    "rdmap version": (sends(send(1, b"", rdmap=0)), "RDMAP version 0"),
    "opcode": (sends(untagged(12, 0, 1, b"")), "opcode 12"),
    "tagged send": (sends(tagged(3, 1, 0, b"")), "SEND in a tagged buffer"),
    "untagged write": (sends(untagged(0, 0, 1, b"")), "WRITE in an untagged buffer"),
    "first msn": (sends(send(2, b"")), "SEND with MSN 2, 1 is next"),
    "msn repeated": (sends(send(1, b""), send(1, b"")), "SEND with MSN 1, 2 is next"),
    "msn left out": (sends(send(1, b""), send(3, b"")), "SEND with MSN 3, 2 is next"),
    "msn changes within a message": (
        sends(send(1, b"ab", last=False), send(2, b"c", offset=2)),
        "SEND with MSN 2, 1 is next",
    ),
    "reads have an msn of their own": (
        sends(send(1, b""), read_request(2, 5, 0, 9)),
        "READ_REQUEST with MSN 2, 1 is next",
    ),
    "queue": (sends(untagged(3, 1, 1, b"")), "SEND in queue 1"),
    "queue of a read": (sends(untagged(1, 0, 1, bytes(28))), "READ_REQUEST in queue 0"),
    "first offset": (sends(send(1, b"", offset=4)), "SEND with message offset 4, 0 is next"),
    "hole in a message": (
        sends(send(1, b"ab", last=False), send(1, b"c", offset=3)),
        "SEND with message offset 3, 2 is next",
    ),
    "last flag left out": (sends(send(1, b"ab", last=False), send(2, b"c")), "SEND with MSN 2, 1 is next"),
    "last flag too early": (sends(send(1, b"ab"), send(1, b"c", offset=2)), "SEND with MSN 1, 2 is next"),
    "interleaved": (
        sends(write(9, 0, b"ab", last=False), send(1, b"")),
        "SEND begins before the WRITE before it has ended",
    ),
    "write goes back": (sends(write(9, 8, b"ab", last=False), write(9, 8, b"ab")), "does not continue the segment"),
    "write changes its STag": (
        sends(write(9, 8, b"ab", last=False), write(8, 10, b"ab")),
        "does not continue the segment",
    ),
    "request in two": (sends(read_request(1, 5, 0, 9, last=False)), "READ_REQUEST without its last segment"),
    "short request": (sends(untagged(1, 1, 1, bytes(20))), "READ_REQUEST of 20 bytes|Malformed"),
    "response to nothing": (sends(read_response(5, 0, b"")), "READ_RESPONSE to no request"),
    "response elsewhere": (
        sends(read_response(6, 0x1000, bytes(150)), before=[REQUEST]),
        "but the request of frame [0-9]+ is for 0x00000005",
    ),
    "response too short": (sends(read_response(5, 0x1000, bytes(149)), before=[REQUEST]), "with 149 of 150 bytes ends"),
    "response too long": (sends(read_response(5, 0x1000, bytes(151)), before=[REQUEST]), "with 151 of 150 bytes ends"),
    "response without an end": (
        sends(read_response(5, 0x1000, bytes(150), last=False), before=[REQUEST]),
        "with 150 of 150 bytes continues",
    ),
    "after a terminate": (sends(terminate(0, 0, 0), send(1, b"")), "a message after TERMINATE"),
    "second terminate": (sends(terminate(0, 0, 0), terminate(0, 0, 0, msn=2)), "a message after TERMINATE"),
    "unknown code": (sends(terminate(0, 1, 0x77)), "TERMINATE 0/1/0x77 .no such code."),
    "unknown layer": (sends(terminate(5, 0, 0)), "TERMINATE 5/0/0x00 .no such code."),
    "code for another message": (
        sends(terminate(0, 1, 0), before=[write(9, 0, b"")]),
        "is for READ_REQUEST.*the peer has sent WRITE only",
    ),
    "tagged code for a send": (
        sends(terminate(1, 1, 1), before=[send(1, b"")]),
        "is for READ_RESPONSE, WRITE; the peer has sent SEND only",
    ),
}


# Errors of the peer, a valid TERMINATE code, and an invalid one.
CAUSES = {
    "MSN": (send(7, b""), (1, 2, 3), (1, 2, 1)),
    "queue": (untagged(3, 1, 1, b""), (1, 2, 1), (1, 2, 3)),
    "offset": (send(1, b"", offset=4), (1, 2, 4), (1, 2, 5)),
    "DDP version": (send(1, b"", ddp=2), (1, 2, 6), (0, 2, 5)),
    "RDMAP version": (send(1, b"", rdmap=0), (0, 2, 5), (1, 2, 6)),
    "opcode": (untagged(12, 0, 1, b""), (0, 2, 6), (0, 2, 5)),
}


def with_terminate(wrong, code):
    def spoil(connection):
        wrong(connection)
        connection.sends(0, terminate(*code))

    return spoil


def peer_sends(ulpdu):
    return lambda connection: connection.sends(1, ulpdu)


def peers_bad_crc(connection):
    connection.segment(1, fpdu(send(1, b"abcd"), crc_error=1))


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """{name: problems} of all errors above, in one capture, because tshark takes long to start."""
    spoilers = {name: spoil for name, (spoil, _) in WRONG.items()}
    for name, (wrong, valid, invalid) in CAUSES.items():
        spoilers[f"{name}, valid code"] = with_terminate(peer_sends(wrong), valid)
        spoilers[f"{name}, invalid code"] = with_terminate(peer_sends(wrong), invalid)
    spoilers["CRC, valid code"] = with_terminate(peers_bad_crc, (2, 0, 2))
    spoilers["CRC, invalid code"] = with_terminate(peers_bad_crc, (2, 0, 3))
    spoilers["CRC, unknown error type"] = with_terminate(peers_bad_crc, (2, 3, 2))
    talks = []
    for number, spoil in enumerate(spoilers.values()):
        talks.append(Conversation(port=50000 + number))
        spoil(talks[-1])
        talks[-1].end()
    report = wirecheck.check(save(tmp_path_factory.mktemp("wrong") / "c.pcap", *talks), allowed=["."])
    assert report.connections == len(talks)
    owners = [
        (name, number) for name, connection in zip(spoilers, talks) for number in range(1, len(connection.frames) + 1)
    ]
    found = {name: [] for name in spoilers}
    for problem in report.allowed:
        number, text = re.fullmatch(r"frame (\d+): (.*)", problem).groups()
        name, own = owners[int(number) - 1]
        found[name].append(f"frame {own}: {text}")
    return found


@pytest.mark.parametrize("name", WRONG)
def test_each_error_is_reported_with_its_frame(verdicts, name):
    _, message = WRONG[name]
    assert re.search(message, "\n".join(verdicts[name]))


@pytest.mark.parametrize("cause", [*CAUSES, "CRC"])
def test_terminate_codes_must_match_their_cause(verdicts, cause):
    assert not [problem for problem in verdicts[f"{cause}, valid code"] if "TERMINATE" in problem]
    (complaint,) = (problem for problem in verdicts[f"{cause}, invalid code"] if "TERMINATE" in problem)
    assert re.match(r"frame 7: TERMINATE .* for the peer's wrong .*; expected:", complaint)


def test_terminate_of_mpa_has_error_type_0(verdicts):
    assert "frame 7: TERMINATE 2/3/0x02 (no such code)" in verdicts["CRC, unknown error type"]


def test_allowed_problems_are_counted_and_others_still_fail(checked):
    connection = Conversation()
    connection.sends(0, send(2, b""), send(3, b""), send(5, b""))
    connection.end()
    with pytest.raises(wirecheck.WireError, match="MSN 5"):
        checked(connection, allowed=["MSN 2,"])
    assert len(checked(connection, allowed=["MSN 2,", "MSN 5,"]).allowed) == 2


@pytest.mark.parametrize("cause", iwarp.Cause)
@pytest.mark.parametrize("op", iwarp.Op)
def test_every_cause_has_codes_that_exist(cause, op):
    codes = iwarp.codes_for(cause, op)
    assert codes <= set(iwarp.CODES)
    if cause is not iwarp.Cause.STAG:  # which SENDs do not have
        assert codes


def test_a_capture_without_rdma_is_an_error(checked):
    connection = Conversation(rdma=False)
    connection.segment(0, b"GET / HTTP/1.0\r\n\r\n")
    connection.end()
    with pytest.raises(wirecheck.WireError, match="0 RDMA connections, at least 1 expected"):
        checked(connection)
    checked(connection, connections=0)


def test_the_command_prints_reports_and_fails_on_errors(tmp_path, capsys):
    good, bad = Conversation(), Conversation()
    good.sends(0, send(1, b""), terminate(0, 0, 0))
    bad.sends(0, send(2, b""))
    files = [str(save(tmp_path / name, connection)) for name, connection in (("good.pcap", good), ("bad.pcap", bad))]
    assert cli.main(["check-wire", files[0]]) == 0
    assert (
        capsys.readouterr().out == f"{files[0]}: 7 frames, 1 RDMA connections, FPDUs: 1 Send, 1 Terminate; "
        "TERMINATE 0/0/0x00 (local catastrophic error)\n"
    )
    assert cli.main(["check-wire", *files]) == 1
    assert capsys.readouterr().err == f"{files[1]}:\n  frame 6: SEND with MSN 2, 1 is next\n"
    assert cli.main(["check-wire", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"t3lab: there is no capture {tmp_path / 'none'}\n"


def test_another_file_is_an_error(tmp_path):
    path = tmp_path / "text"
    path.write_text("no capture")
    with pytest.raises(wirecheck.WireError, match="tshark: "):
        wirecheck.check(path)
