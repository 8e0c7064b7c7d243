# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""wirecheck itself: captures made here, good ones and one for each kind of wrong. Needs no guest."""

import struct

import pytest
import wirecheck

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


def send(msn, data):
    return b"\x41\x43" + struct.pack(">IIII", 0, 0, msn, 0) + data


class Conversation:
    """One TCP connection between an initiator (0) and a responder (1), as a capture shows it."""

    addresses = (bytes([10, 0, 0, 1]), bytes([10, 0, 0, 2]))
    ports = (50000, 7471)

    def __init__(self, rdma=True):
        self.seq = [1000, 2000]
        self.frames = []
        self.segment(0, flags=SYN)
        self.segment(1, flags=SYN | ACK)
        self.segment(0)
        if rdma:
            self.segment(0, mpa_frame(b"MPA ID Req Frame"))
            self.segment(1, mpa_frame(b"MPA ID Rep Frame"))

    def segment(self, who, data=b"", flags=ACK, checksum_error=0):
        other = 1 - who
        ack = self.seq[other] if flags & ACK else 0
        ports = struct.pack(">HH", self.ports[who], self.ports[other])
        tcp = ports + struct.pack(">IIBBHHH", self.seq[who], ack, 0x50, flags, 65535, 0, 0)
        addresses = self.addresses[who] + self.addresses[other]
        pseudo = addresses + struct.pack(">BBH", 0, 6, len(tcp) + len(data))
        checksum = internet_checksum(pseudo + tcp + data) ^ checksum_error
        tcp = tcp[:16] + struct.pack(">H", checksum) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(tcp) + len(data), 1, 0, 64, 6, 0) + addresses
        ip = ip[:10] + struct.pack(">H", internet_checksum(ip)) + ip[12:]
        self.frames.append(b"\x00\x07\x43\x11\x22\x00\x00\x07\x43\x33\x44\x00\x08\x00" + ip + tcp + data)
        self.seq[who] += len(data) + bool(flags & (FIN | SYN))

    def end(self):
        self.segment(0, flags=FIN | ACK)
        self.segment(1, flags=FIN | ACK)
        self.segment(0)

    def save(self, path):
        records = [struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)]
        for second, frame in enumerate(self.frames):
            records.append(struct.pack("<IIII", second, 0, len(frame), len(frame)) + frame)
        path.write_bytes(b"".join(records))
        return path


@pytest.fixture
def checked(tmp_path):
    return lambda conversation, **options: wirecheck.check(conversation.save(tmp_path / "c.pcap"), **options)


def test_counts_what_a_good_capture_holds(checked):
    talk = Conversation()
    talk.segment(0, fpdu(send(1, b"abcd")) + fpdu(send(2, b"two in a segment")))
    cut = fpdu(send(1, bytes(2000)))
    talk.segment(1, cut[:1460])
    talk.segment(1, cut[1460:])
    talk.end()
    report = checked(talk)
    assert (report.frames, report.connections) == (len(talk.frames), 1)
    assert report.messages == {"Send": 3}


def wrong_crc(talk):
    talk.segment(0, fpdu(send(1, b"abcd"), crc_error=1))


def wrong_checksum(talk):
    talk.segment(0, fpdu(send(1, b"abcd")), checksum_error=0x0100)


def cut_short(talk):
    talk.segment(0, fpdu(send(1, bytes(100)))[:50])


@pytest.mark.parametrize(
    "spoil, message",
    [(wrong_crc, "frame 6: MPA CRC check"), (wrong_checksum, "frame 6: wrong TCP checksum"), (cut_short, "frame 7: FIN inside the FPDU")],
)
def test_names_the_frame_that_is_wrong(checked, spoil, message):
    talk = Conversation()
    spoil(talk)
    talk.end()
    with pytest.raises(wirecheck.WireError, match=message):
        checked(talk)


def test_wants_to_see_rdma(checked):
    talk = Conversation(rdma=False)
    talk.segment(0, b"GET / HTTP/1.0\r\n\r\n")
    talk.end()
    with pytest.raises(wirecheck.WireError, match="0 RDMA connections, at least 1 expected"):
        checked(talk)
    checked(talk, connections=0)


def test_a_file_that_is_no_capture(tmp_path):
    path = tmp_path / "text"
    path.write_text("no capture")
    with pytest.raises(wirecheck.WireError, match="tshark: "):
        wirecheck.check(path)
