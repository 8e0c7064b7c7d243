# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The frames on the wire between two guests, checked with tshark."""

from labkit import wirecheck
from stock import rping


def test_rping_frames_are_valid_iwarp(pair, tmp_path):
    sizes, rounds = (64, 4096, 65535), 50
    server, client = pair.guests
    with pair.sim.capturing(tmp_path):
        for size in sizes:
            options = f"-C {rounds} -S {size} -V"
            rping(server, client, options)
    report = wirecheck.check(tmp_path / "p0.pcapng", connections=len(sizes))
    assert report.connections == len(sizes)
    # The initiator sends a zero-length read (RTR). A round of rping has four sends, and one read and one write by the
    # server.
    assert report.messages["Read Request"] == len(sizes) * (1 + rounds)
    assert report.messages["Send"] == 4 * len(sizes) * rounds
    assert report.messages["Write"] > report.messages["Read Request"], "65535 bytes need many FPDUs"
