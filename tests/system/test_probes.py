# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""t3-probe: each probe reports "as modelled" against the model, and notices when the model has its other answer."""

import contextlib
import json
import re

import pytest
from labkit import guesses
from labkit.sim import Wire
from stock import address

BIN = "/t3/bin"
PROBE = f"{BIN}/t3-probe"
REPORT = "/tmp/questions"
CLIENT = 1


def rows(output):
    return [json.loads(line) for line in output.splitlines() if '"point"' in line]


def probe(pair, points=None, timeout=600, without=None, more=""):
    """The results by point; the client's card is the one under test. Without: a capability that the client lacks."""
    server, client = pair.guests
    serving = server.start(f"exec {PROBE} server --timeout=600")
    serving.expect("listening", 30)
    some = f"--points={','.join(points)}" if points else ""
    lacking = f"setpriv --bounding-set=-{without} --inh-caps=-{without}" if without else ""
    done = client.run(f"{lacking} {PROBE} client {address(server)} {some} {more}", timeout)
    assert done.rc == 0 and serving.wait(30).rc == 0, done
    return {row["point"]: row for row in rows(done.stdout)}


def check_report(guest, options):
    """A run of t3accept with only the questions and the counters: every answer is in both forms of the report, and as
    modelled."""
    done = guest.run(f"{BIN}/t3accept {options} --only questions --only counters -o {REPORT}", 600)
    report = json.loads(guest.pull(f"{REPORT}.json"))
    text = guest.pull(f"{REPORT}.txt").decode()
    failed = [step for step in report["steps"] if step["state"] == "FAILED"]
    assert done.rc == 0 and not failed, failed
    assert [row["point"] for row in report["answers"]] == guest.check(f"{PROBE} --list").split()
    assert not [row for row in report["answers"] if row["result"] != "as modelled"]
    for row in report["answers"]:
        assert re.search(rf"^  {row['point']} +as modelled +{re.escape(row['answer'])}$", text, re.MULTILINE), row


def test_every_probe_reports_as_modelled(pair):
    server, client = pair.guests
    serving = server.start(f"exec {BIN}/t3accept --server")
    serving.expect("waits at", 30)
    try:
        check_report(client, f"--peer {address(server)}")
    finally:
        serving.kill(15)
        assert serving.wait(30).rc == 0


def test_questions_end_in_time(pair):
    """One probe may end late; those after the time have no answer, and the reason."""
    results = probe(pair, timeout=60, more="--seconds=1")
    assert set(results) == set(pair.guests[CLIENT].check(f"{PROBE} --list").split())
    late = {point for point, row in results.items() if row["answer"] == "the 1 s for all questions were over"}
    assert (
        late
        and all(results[point]["result"] == "not observed" for point in late)
        and results["G1"]["result"] == "as modelled"
    )
    assert "G12" in late


def test_card_memory_needs_cap_net_admin(pair):
    points = ["G20", "G27", "G37"]
    results = probe(pair, points, without="net_admin")
    for point in points:
        assert (
            results[point]["result"] == "not observed" and "without CAP_NET_ADMIN" in results[point]["answer"]
        ), results


@pytest.mark.long
def test_between_both_ports_of_a_card(make_lab):
    lab = make_lab(guests=1, wires=[Wire("p", ("c0.0", "c0.1"))])
    check_report(lab.guests[0], "--both-ports")


@contextlib.contextmanager
def guess(pair, point):
    """The card of the client has its other answer for the time of the context."""
    assert pair.sim.control("guess", f"c{CLIENT}", f"{point}=other") == f"{point}=other"
    try:
        yield
    finally:
        assert pair.sim.control("guess", f"c{CLIENT}", f"{point}=modelled") == ""


IN_EVERY_RUN = {"G10", "G45", "G49"}


@pytest.mark.parametrize(
    "point",
    [
        pytest.param(point, marks=() if point in IN_EVERY_RUN else pytest.mark.long)
        for point in guesses.with_probe()
        if point != "G12"
    ],
)
def test_the_probe_notices_the_other_answer(pair, point):
    with guess(pair, point):
        assert probe(pair, [point])[point]["result"] == "other"


@pytest.mark.long
@pytest.mark.allow_log(
    r"no reply to an abort|blocked for more than|hung_task_timeout_secs|Tainted|task:t3-probe|Call Trace",
    "iw_cxgb3 waits for the second copy of an abort, then gives the card up",
)
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
