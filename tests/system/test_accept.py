# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""t3accept: the complete run between two guests and between both ports of one card, and failures that the model
provokes."""

import contextlib
import json
import re
import time

import pytest
from labkit import stack
from labkit.sim import Wire
from stock import address, objects, wait_no_objects

BIN = "/t3/bin"
CLIENT = 1
REPORT = "/tmp/accept"
CXGB3_WARNS = pytest.mark.allow_log(r"WARNING: .*__flush_work", "cxgb3.ko stops work that it never started; its own")
PERFTEST_CRASHES = pytest.mark.allow_log(
    r"ib_\w+\[\d+\].*(general protection|segfault).*librdmacm", "perftest's retry after a rejection"
)


@contextlib.contextmanager
def serving(guest, options="--server"):
    server = guest.start(f"exec {BIN}/t3accept {options}")
    server.expect("waits at", 30)
    try:
        yield server
    finally:
        server.kill(15)
        assert server.wait(30).rc == 0


def read(guest, name=REPORT):
    """The steps of the report, by name, and the report. Both its forms have the same results."""
    report = json.loads(guest.pull(f"{name}.json"))
    text = guest.pull(f"{name}.txt").decode()
    for step in report["steps"]:
        assert re.search(rf"^{step['name']} +{step['state']}", text, re.MULTILINE), step
    return {step["name"]: step for step in report["steps"]}, report


def accept(guest, options, timeout=300, name=REPORT):
    """Runs it to its end; returns the steps that were not skipped."""
    done = guest.run(f"{BIN}/t3accept --quick -o {name} {options}", timeout)
    steps, report = read(guest, name)
    assert done.rc == (0 if report["passed"] else 1), done
    return {name: step for name, step in steps.items() if step["state"] != "skipped"}


def shown(steps):
    """For the message of a failed assertion."""
    return json.dumps(steps, indent=1)


def only(*steps):
    return " ".join(f"--only {step}" for step in steps)


def check_complete(guest, done, limit=600):
    steps, report = read(guest)
    wrong = {name: step for name, step in steps.items() if step["state"] not in ("passed", "note")}
    assert done.rc == 0 and report["passed"] and not wrong, shown(wrong)
    assert report["seconds"] < limit
    assert steps["write-bw"]["figures"]["average MB/s"] > 0 and steps["read-lat"]["figures"]["typical us"] > 0
    assert steps["rate"]["figures"]["connections/s"] > 0
    card = report["ends"][0]["cards"][0]
    assert card["VPD"]["ID"] and card["RDMA device"]["chip"] == "T3C"
    assert card["interfaces"][0]["firmware"] == "7.12.0" and card["interfaces"][0]["protocol SRAM"] == "1.1.0"
    # Facts that docs/hw/open-questions.md lacks for real boards; here they are the model's.
    assert (
        card["bytes of BARs"]["BAR2"] == 8 << 20
        and {"id": 17, "offset": 0x9C, "vectors": 9} in card["PCI capabilities"]
    )
    assert report["ends"][0]["machine"]["kernel"] == guest.check("uname -r").strip()
    return report


def check_anonymous(guest, *others):
    """Nothing in the report identifies a machine."""
    for end in (guest, *others):
        words = end.check(
            """cat /sys/class/net/eth*/address; cat /sys/class/infiniband/*/node_guid
            ip -4 -o addr | awk '$2 ~ /^eth/ {sub("/.*", "", $4); print $4}'"""
        ).split()
        for name in (".txt", ".json"):
            content = guest.pull(REPORT + name).decode().lower()
            assert f'"host": "{end.name}"' not in content
            for word in words:
                assert not re.search(rf"(?<![0-9a-z]){re.escape(word.lower())}(?![0-9a-z])", content), word


@pytest.mark.long
@pytest.mark.parametrize("rounds, limit", [("--quick", 600), ("--minutes 50", 3000)])
@PERFTEST_CRASHES
def test_complete_run_between_two_machines(pair, rounds, limit):
    """Also with all rounds, for which a machine without emulation needs less than ten minutes."""
    server, client = pair.guests
    with serving(server, f"-s {address(server)}"):
        done = client.run(f"{BIN}/t3accept {rounds} -o {REPORT} -p {address(server)}", limit)
    report = check_complete(client, done, limit)
    assert [end["role"] for end in report["ends"]] == ["here", "peer"] and report["anonymous"]
    check_anonymous(client, server)
    for guest in pair.guests:
        assert not any(objects(guest).values())


@pytest.mark.long
@PERFTEST_CRASHES
def test_complete_run_between_both_ports_of_a_card(make_lab):
    lab = make_lab(guests=1, wires=[Wire("p", ("c0.0", "c0.1"))])
    (guest,) = lab.guests
    before = guest.check("ip -4 -o addr show")
    done = guest.run(f"{BIN}/t3accept --both-ports --quick --output {REPORT}", 600)
    report = check_complete(guest, done)
    assert report["setting"] == "both ports of one card"
    check_anonymous(guest)
    assert guest.check("ip netns list").strip() == "" and guest.check("ip -4 -o addr show") == before
    # The same after Ctrl-C.
    running = guest.start(f"exec {BIN}/t3accept -b -q -o {REPORT}")
    running.expect(r"rping-small +passed", 120)
    running.kill(2)
    assert running.wait(60).rc == 1 and read(guest)[0]["afterwards"]["what"] == "a signal ended the run"
    assert guest.check("ip netns list").strip() == "" and guest.check("ip -4 -o addr show") == before
    # Without the cable it reports that, and everything is as before.
    lab.sim.cable("p", plugged=False)
    guest.check(
        (
            f"for try in $(seq 100); do grep -q down /sys/class/net/{guest.interfaces[0]}/operstate && exit 0; sleep"
            " 0.1; done; exit 1"
        ),
        40,
    )
    done = guest.run(f"{BIN}/t3accept -b -q -o {REPORT}", 120)
    steps, _ = read(guest)
    assert done.rc == 1 and "a cable must join it" in steps["peer"]["what"], done
    assert steps["rping-small"]["what"] == "there is no connection to the other end"
    assert guest.check("ip netns list").strip() == ""


def test_one_machine(pair):
    guest = pair.guests[CLIENT]
    steps = accept(guest, "--minutes 5")
    assert {name for name, step in steps.items() if step["state"] == "passed"} >= {
        "inventory",
        "card",
        "link",
        "log",
        "counters",
    }
    everything, _ = read(guest)
    assert everything["rping-small"]["what"] == "needs another end: --peer or --both-ports"
    printed = json.loads(guest.check(f"{BIN}/t3accept --only inventory --personal --json -o {REPORT}"))
    assert (
        guest.check("cat /sys/class/net/eth0/address").strip()
        == printed["ends"][0]["cards"][0]["interfaces"][0]["address"]
    )


@pytest.mark.parametrize(
    "options, status, why",
    [
        ("--only nonsense", 2, "there is no step nonsense"),
        ("-p 10.0.0.1 -b", 2, "--both-ports"),
        ("--peer", 2, "--peer"),
        ("--minutes 0", 2, "--minutes"),
        ("--port 0", 2, "--port"),
        ("--server 192.0.2.7", 1, "cannot listen at 192.0.2.7"),
        ("--loud", 2, "--loud"),
    ],
)
def test_refuses_wrong_arguments(pair, options, status, why):
    done = pair.guests[CLIENT].run(f"{BIN}/t3accept {options}", 60)
    assert done.rc == status and why in done.stderr and not done.stdout, done


def test_help_version_and_list(pair):
    guest = pair.guests[CLIENT]
    shown = guest.check(f"{BIN}/t3accept --help")
    assert guest.check(f"{BIN}/t3accept -h") == shown and "Usage: t3accept " in shown
    assert guest.check(f"{BIN}/t3accept --version").startswith("t3accept (t3rdma) ")
    listed = json.loads(guest.check(f"{BIN}/t3accept --list --json"))
    assert [row["name"] for row in listed] == [
        line.split()[0] for line in guest.check(f"{BIN}/t3accept --list").splitlines()
    ]


# --- failures: each is in the report


def test_no_server(pair):
    server, client = pair.guests
    steps = accept(client, f"--peer {address(server)} --port 7999 {only('rping-small')}")
    assert steps["peer"]["state"] == "FAILED" and "Connection refused" in steps["peer"]["what"]


def test_a_program_that_is_missing(pair):
    server, client = pair.guests
    at = server.check("command -v ib_send_lat").strip()
    server.check(f"mv {at} {at}.away")
    try:
        with serving(server):
            accept(client, f"-p {address(server)} {only('send-lat')}")
    finally:
        server.check(f"mv {at}.away {at}")
    step = read(client)[0]["send-lat"]
    assert (step["state"], step["what"]) == (
        "skipped",
        "ib_send_lat is not installed at the other end (package perftest)",
    )


def test_a_pulled_cable(pair):
    client = pair.guests[CLIENT]
    pair.sim.cable("p0", plugged=False)
    try:
        client.check(
            (
                f"for try in $(seq 100); do grep -q down /sys/class/net/{client.interfaces[0]}/operstate && exit 0;"
                " sleep 0.1; done; exit 1"
            ),
            40,
        )
        steps = accept(client, only("link"))
    finally:
        pair.sim.cable("p0", plugged=True)
        for guest in pair.guests:
            guest.check(stack.wait_carrier(guest.interfaces[0]), 40)
    assert f"{client.interfaces[0]} is up and has no link" in steps["link"]["what"]


# Armed before the step: (card, fault, times), the step, and what it reports.
@pytest.mark.parametrize(
    "card, fault, step, what",
    [
        (CLIENT, ("no-tid", 1), "rping-small", "rping: status"),
        pytest.param(0, ("no-stid", 1), "rping-small", "the server's rping ended with status", marks=pytest.mark.long),
        # Before or after it has seen that it is connected.
        (CLIENT, ("tpt-ecc", 1), "rping-small", "rping"),
        pytest.param(0, ("tpt-ecc", 1), "requests", "wrong result", marks=pytest.mark.long),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else str(value),
)
def test_a_fault_of_the_card_fails_the_step(pair, card, fault, step, what):
    server, client = pair.guests
    with serving(server):
        pair.sim.cause(card, *fault)
        steps = accept(client, f"-p {address(server)} {only(step)}")
    assert steps[step]["state"] == "FAILED" and what in steps[step]["what"], shown(steps)
    assert steps[step].get("output") or "ended with status" in what
    # What is left of the fault must not reach other tests.
    with serving(server):
        for _ in range(4):
            if accept(client, f"-p {address(server)} {only('rping-small')}")["rping-small"]["state"] == "passed":
                break
        else:
            pytest.fail("the fault did not end")


def during(pair, steps, fault, options="--quick"):
    """Runs these steps; the fault comes when the ends are connected, before the first of them or during it."""
    server, client = pair.guests
    with serving(server):
        running = client.start(f"exec {BIN}/t3accept {options} -o {REPORT} -p {address(server)} {only(*steps)}")
        running.expect(r"peer +passed", 60)
        fault()
        done = running.wait(400)
    found, report = read(client)
    assert done.rc == (0 if report["passed"] else 1)
    return found


def wait_for_messages(sim):
    """Returns when both programs exchange messages. An abort before the client's program has got ESTABLISHED would be a
    rejection, after which perftest crashes (t3accept tries again), though the QP is in RTS."""
    wanted = sim.counters(CLIENT)["sge.cqes"] + 20
    for _ in range(600):
        if sim.counters(CLIENT)["sge.cqes"] >= wanted:
            return
        time.sleep(0.05)
    pytest.fail("no messages")


def fault_of_a_connection(pair, *fault):
    def cause():
        wait_for_messages(pair.sim)
        pair.sim.cause(CLIENT, *fault)

    return cause


def test_an_abort_fails_the_step(pair):
    steps = during(pair, ["event-lat"], fault_of_a_connection(pair, "abort"))
    assert steps["event-lat"]["state"] == "FAILED" and steps["event-lat"]["output"], shown(steps)
    for guest in pair.guests:
        wait_no_objects(guest)


@pytest.mark.long
def test_dropped_doorbells_are_noted(pair):
    steps = during(pair, ["send-lat", "counters"], fault_of_a_connection(pair, "drop-doorbell", 2), options="")
    assert steps["send-lat"]["state"] == "passed", shown(steps)
    assert steps["counters"]["state"] == "note" and "doorbell_drops" in steps["counters"]["what"], shown(steps)


@pytest.mark.long
def test_a_lost_interrupt_is_noted(pair):
    # Without the first interrupts an end of perftest is late, and the other one's message may find no receive. This is
    # not looked at.
    steps = during(pair, ["event-lat", "counters"], fault_of_a_connection(pair, "lost-interrupt"))
    assert steps["counters"]["state"] == "note" and "card_polls" in steps["counters"]["what"], shown(steps)


@pytest.mark.long
def test_a_link_that_flaps_is_in_the_log(pair):
    steps = during(pair, ["tcp", "rping-small", "log"], lambda: pair.sim.cause(CLIENT, "link-flap", "2500ms"))
    assert steps["log"]["state"] == "FAILED" and "link down" in steps["log"]["what"], shown(steps)
    for guest in pair.guests:
        for interface in guest.interfaces:
            guest.check(stack.wait_carrier(interface), 40)


@pytest.mark.long
@pytest.mark.parametrize(
    "impairment, steps, what",
    [
        ("loss=0.5", ("ping", "log"), "packets were lost"),
        ("corrupt=0.05", ("counters", "rping-large"), "tcpInErrs"),
    ],
    ids=["loss", "corrupt"],
)
def test_a_bad_cable(pair, impairment, steps, what):
    try:
        found = during(pair, steps, lambda: pair.sim.control("impair", "p0", "all", impairment, "seed=7"))
    finally:
        pair.sim.control("impair", "p0", "all", "none")
    assert found[steps[0]]["state"] == "FAILED" and what in found[steps[0]]["what"], shown(found)


@pytest.mark.long
@CXGB3_WARNS
def test_an_error_that_resets_the_adapter(pair):
    server, client = pair.guests
    steps = during(pair, ["rping-small", "log"], lambda: pair.sim.cause(CLIENT, "pmrx-ecc"))
    assert steps["log"]["state"] == "FAILED" and "cxgb3" in steps["log"]["what"], shown(steps)
    client.check("for try in $(seq 300); do rdma link | grep -q 'cxgb3_.*ACTIVE' && exit; sleep 0.1; done; exit 1", 60)
    for guest in (server, client):
        guest.check(stack.wait_carrier(guest.interfaces[0]), 60)
        wait_no_objects(guest)
