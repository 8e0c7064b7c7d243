# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/hw/test-vectors.md: FPDUs have the right length and CRC, computed here independently, and the named tests
contain the words."""

import re

import pytest
from labkit import paths
from named_tests import TESTS, existing

PAGE = (paths.REPO / "docs/hw/test-vectors.md").read_text()
SECTIONS = dict(re.findall(r"^## (\d+) [^\n]*\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
BOARD = (paths.REPO / "docs/hw/board.md").read_text()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def fpdus():
    """Each FPDU of the page: a block of words alone, a line "FPDU", "req." or "resp." with what follows it, or a row of
    the last table."""
    found = re.findall(r"^```\n((?:[0-9a-f]{8}[ \n])+)```", SECTIONS["2"], re.M)
    found += re.findall(r"^(?:FPDU|req\.|resp\.) +((?:[0-9a-f]{8}\s+)+)", SECTIONS["3"], re.M)
    found += re.findall(r"^\| [^|]+ \| ((?:[0-9a-f]+ )+)\|$", SECTIONS["5"], re.M)
    return [bytes.fromhex("".join(text.split())) for text in found]


def wrong(fpdu):
    """What is wrong with an FPDU without markers, or None."""
    length = int.from_bytes(fpdu[:2])
    if len(fpdu) != (2 + length + 3) // 4 * 4 + 4:
        return "length"
    if any(fpdu[2 + length : -4]):
        return "padding"
    if int.from_bytes(fpdu[-4:], "little") != crc32c(fpdu[:-4]):
        return "CRC"
    tagged = fpdu[3] & 0xF in (0, 2)
    return None if bool(fpdu[2] & 0x80) == tagged and fpdu[2] & 3 == 1 and fpdu[3] >> 6 == 1 else "control"


def test_crc_of_the_rfc():
    assert crc32c(bytes(32)).to_bytes(4, "little").hex() == "aa36918a"


def test_fpdus_are_valid():
    assert len(fpdus()) == 11
    assert [(fpdu.hex(), problem) for fpdu in fpdus() if (problem := wrong(fpdu))] == []


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda f: f + bytes(4), "length"),
        (lambda f: f[:-1] + bytes([f[-1] ^ 1]), "CRC"),
        (lambda f: f[:20] + b"\x01" + f[21:], "CRC"),
    ],
)
def test_a_wrong_fpdu_is_found(change, problem):
    assert wrong(change(fpdus()[0])) == problem


def test_checksum_of_the_vpd_image():
    rows = re.findall(r"^c[0-9a-b]0  ((?:[0-9a-f]{2} ?)+)$", BOARD, re.M)
    image = bytes.fromhex("".join(rows))
    assert len(image) == 178 and image[-1] == 0x78
    assert sum(image[:-1]) % 256 == 0


# Section 5 has request headers in other contexts than the tests; its FPDUs are those of the named test.
WITH_TESTS = {"1": r"\w{8}", "2": r"\w{8}", "3": r"\w{8}", "4": r"\w{8}", "5": r"\w{8}(?= \|$)"}


@pytest.mark.parametrize("number, vector", WITH_TESTS.items())
def test_named_tests_contain_the_words(number, vector):
    named = re.search(r"^Tests: (.*?)^$", SECTIONS[number], re.M | re.S)[1]
    assert existing(named)
    text = "".join((TESTS / path).read_text() for path in set(re.findall(r"`([\w/]+\.\w+)", named))).lower()
    words = "".join(text.split()).replace('"', "")
    constants = {int(digits, 16) for digits in re.findall(r"\b(?:0x)?([0-9a-f]{3,8})\b", text)}
    # Values that the receiver does not look at, and the end of a connection, are explained there without being exact.
    exact = re.sub(r"^\*Free:\*.*?^$|^B's RX_DATA_ACK.*?(?=^Tests)", "", SECTIONS[number], flags=re.M | re.S)
    vectors = {word for word in re.findall(rf"(?<!\w){vector}", exact, re.M) if re.fullmatch(r"[0-9a-f]{8}", word)}
    assert len(vectors) > 6
    assert [
        word
        for word in sorted(vectors)
        if int(word, 16) > 0x1000 and word not in words and int(word, 16) not in constants
    ] == []
