# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import pytest
from labkit.frames import MAX_PAYLOAD, Decoder, Frame, Kind, pack


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_frames_survive_any_cut_of_the_stream(step):
    frames = [Frame(1, Kind.STDOUT, b"abc"), Frame(2, Kind.EXIT, b"{}"), Frame(3, Kind.STDIN, b""), Frame(1, Kind.STDERR, b"x" * 300)]
    stream = b"".join(pack(*frame) for frame in frames)
    decoder = Decoder()
    got = [frame for at in range(0, len(stream), step) for frame in decoder.feed(stream[at:at + step])]
    assert got == frames


def test_a_payload_that_is_no_bytes_goes_as_json():
    (frame,) = Decoder().feed(pack(5, Kind.EXIT, {"rc": -9}))
    assert frame.json() == {"rc": -9}


def test_a_stream_out_of_step_is_noticed():
    with pytest.raises(ValueError, match="out of step"):
        list(Decoder().feed(b"\xff" * 20))


def test_a_frame_that_no_decoder_would_take_is_not_sent():
    with pytest.raises(ValueError):
        pack(1, Kind.STDIN, bytes(MAX_PAYLOAD + 1))
