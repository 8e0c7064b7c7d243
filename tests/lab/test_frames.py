# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import pytest
from labkit.frames import MAX_PAYLOAD, Decoder, Frame, Kind, pack


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_frames_are_decoded_from_any_pieces_of_the_stream(step):
    frames = [
        Frame(1, Kind.STDOUT, b"abc"),
        Frame(2, Kind.EXIT, b"{}"),
        Frame(3, Kind.STDIN, b""),
        Frame(1, Kind.STDERR, b"x" * 300),
    ]
    stream = b"".join(pack(*frame) for frame in frames)
    decoder = Decoder()
    got = [frame for at in range(0, len(stream), step) for frame in decoder.feed(stream[at : at + step])]
    assert got == frames


def test_other_payloads_are_encoded_as_json():
    (frame,) = Decoder().feed(pack(5, Kind.EXIT, {"rc": -9}))
    assert frame.json() == {"rc": -9}


def test_a_misaligned_stream_is_an_error():
    with pytest.raises(ValueError, match="out of step"):
        list(Decoder().feed(b"\xff" * 20))


def test_an_oversized_frame_is_not_sent():
    with pytest.raises(ValueError):
        pack(1, Kind.STDIN, bytes(MAX_PAYLOAD + 1))
