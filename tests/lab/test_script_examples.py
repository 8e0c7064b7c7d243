# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The examples of docs/script.md, and faults of one operation, with drivers as guests (tests/sim/script)."""

import contextlib
import re
import subprocess

import pytest
from labkit import paths

HOSTS = paths.REPO / "build/tests/sim/script/t3sim_hosts"
CONNECTIONS = 2


@pytest.fixture
def guests(t3sim_script):
    """Starts the guests: card a sends on each connection to card b again and again."""
    if not HOSTS.exists():
        pytest.skip(f"{HOSTS} is not built")
    with contextlib.ExitStack() as running:

        def start():
            process = subprocess.Popen(
                [HOSTS, t3sim_script.socket("a"), t3sim_script.socket("b"), str(CONNECTIONS)], stdin=subprocess.PIPE
            )
            running.callback(process.wait, 20)
            running.callback(process.stdin.close)

        yield start


def example(name, script, card):
    return subprocess.Popen(
        ["/usr/bin/python3", paths.REPO / "examples/script" / name, card, script.control_socket],
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(paths.REPO / "tools/lab")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(name, script, card):
    process = example(name, script, card)
    text, _ = process.communicate(timeout=90)
    assert process.returncode == 0, text
    return text


def test_lose_this_ack(t3sim_script, guests):
    guests()
    text = run("lose-ack.py", t3sim_script, "b")
    lost, again = (int(number, 16) for number in re.findall(r"ACK seq \S+ ack (0x[0-9a-f]+),", text))
    assert again >= lost, text  # of the data that the peer sends again, or of later data
    assert t3sim_script.counters("b")["faults.segments_lost"] == 1


def test_hold_this_cqe(t3sim_script, guests):
    guests()
    text = run("hold-cqe.py", t3sim_script, "b")
    assert text.endswith("released: 4 completions, CQE RECEIVE is the first\n"), text
    qp = t3sim_script.qps("b")[0]
    with qp.subscribe("cqe") as events:
        assert events.wait(name="CQE RECEIVE").qp == qp.qp


def test_unplug_the_card_between_these_two_cpls(t3sim_script, guests):
    process = example("unplug-between.py", t3sim_script, "b")
    assert process.stdout.readline() == "card b waits for a connection\n"
    guests()
    text, _ = process.communicate(timeout=90)
    assert process.returncode == 0 and re.search(r"^PASS_ACCEPT_REQ: ", text) and text.endswith("unplug: done\n"), text
    assert t3sim_script.qps("b") == []
    assert all(not each.rdma for each in t3sim_script.connections("b"))


def test_a_connection_has_its_faults_and_events(t3sim_script, guests):
    guests()
    qp = t3sim_script.wait(lambda: t3sim_script.qps("a"))[0]
    connection = qp.connection
    assert (connection.tid, connection.card, connection.rdma) == (qp.tid, "a", True)
    with connection.subscribe("tcp-out") as events:
        qp.lose("sent-fpdu", nth=3)
        lost = events.wait(lost=True)
        again = events.wait(where=lambda event: event.text.split()[:2] == lost.text.split()[:2])
        assert again.time > lost.time and not again.lost
    qp.at("fpdu-out", "wire", "down", "a.0-b.0", nth=2)
    with t3sim_script.subscribe("at") as reports:
        assert reports.wait().name == "wire down a.0-b.0"
    assert not t3sim_script.control("wires")[0]["up"]


def test_a_bad_crc_ends_the_stream_of_the_peer(t3sim_script, guests):
    guests()
    qp = t3sim_script.wait(lambda: t3sim_script.qps("a"))[-1]
    qp.bad_crc(nth=2)
    t3sim_script.wait(lambda: "stopped" in [each.state for each in t3sim_script.qps("b")])
    assert t3sim_script.counters("b")["rnic.errors"] == 1


def test_an_unplugged_card_is_back_after_a_reset(t3sim_script):
    card = t3sim_script.card("a")
    with t3sim_script.subscribe("a", "reset") as events:
        card.unplug()
        card.reset()
        assert events.wait().name == "chip reset"


def test_no_event_in_time_is_an_error_that_shows_the_last_ones(t3sim_script):
    with t3sim_script.subscribe("a") as events:
        t3sim_script.card("a").reset()
        with pytest.raises(TimeoutError, match=r"(?s)no event \{'event': 'cpl'\} within 0.3 s.*chip reset"):
            events.wait(event="cpl", timeout=0.3)
