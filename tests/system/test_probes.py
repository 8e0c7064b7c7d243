# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""t3-probe: each probe reports "as modelled" against the model, and notices when the model has its other answer."""

import contextlib
import json

import pytest
from labkit import guesses
from stock import address

PROBE = "/t3/bin/t3-probe"
CLIENT = 1


def rows(output):
    return [json.loads(line) for line in output.splitlines() if '"point"' in line]


def probe(pair, points=None, timeout=600):
    """The results by point; the client's card is the one under test."""
    server, client = pair.guests
    serving = server.start(f"exec {PROBE} server --timeout=600")
    serving.expect("listening", 30)
    some = f"--points={','.join(points)}" if points else ""
    done = client.run(f"{PROBE} client {address(server)} {some}", timeout)
    assert done.rc == 0 and serving.wait(30).rc == 0, done
    return {row["point"]: row for row in rows(done.stdout)}


def test_every_probe_reports_as_modelled(pair):
    listed = pair.guests[CLIENT].check(f"{PROBE} --list").split()
    found = probe(pair)
    assert list(found) == listed
    assert not {point: row for point, row in found.items() if row["result"] != "as modelled"}


@contextlib.contextmanager
def guess(pair, point):
    """The card of the client has its other answer for the time of the context."""
    assert pair.sim.control("guess", f"c{CLIENT}", f"{point}=other") == f"{point}=other"
    try:
        yield
    finally:
        assert pair.sim.control("guess", f"c{CLIENT}", f"{point}=modelled") == ""


IN_EVERY_RUN = {"G10", "G45", "G49"}


@pytest.mark.parametrize("point", [pytest.param(point, marks=() if point in IN_EVERY_RUN else pytest.mark.long)
                                   for point in guesses.with_knob() if point != "G12"])
def test_the_probe_notices_the_other_answer(pair, point):
    with guess(pair, point):
        assert probe(pair, [point])[point]["result"] == "other"


@pytest.mark.long
@pytest.mark.allow_log(r"no reply to an abort|blocked for more than|hung_task_timeout_secs|Tainted|task:t3-probe|Call Trace",
                       "iw_cxgb3 waits for the second copy of an abort, then gives the card up")
def test_the_probe_notices_single_aborts(make_lab):
    lab = make_lab(guests=2, sim_options=["--guess", "G12=other"])
    server, client = lab.guests
    with contextlib.ExitStack() as ending:
        serving = server.start(f"exec {PROBE} server")
        ending.callback(serving.kill)
        serving.expect("listening", 30)
        probing = client.start(f"exec {PROBE} client {address(server)} --points=G12")
        ending.callback(probing.kill)
        probing.expect('"point": "G12", "result": "other"', 60)
