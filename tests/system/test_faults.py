# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What user space observes when the card fails. docs/faults.md has the same in one table.

In each test the client's card fails during traffic. The program tests/programs/traffic.cc of either side reports
what it observed; a connection after it must work again.
"""

import json
import signal

import pytest
from conditions import unresponsive_host, unresponsive_host_appears
from labkit import stack
from labkit.machine import Machine
from programs import BIN, PORT, run_alone, run_pair
from stock import address, assert_complete, rping, rping_client, rping_server, wait_listening, wait_no_objects

SERVER, CLIENT = 0, 1
FLUSHED = "Work Request Flushed Error"
DISCONNECTED = "RDMA_CM_EVENT_DISCONNECTED"
REMOVAL = "RDMA_CM_EVENT_DEVICE_REMOVAL"
DEVICE_FATAL = "local catastrophic error"  # what libibverbs calls IBV_EVENT_DEVICE_FATAL
QP_FATAL = "local work queue catastrophic error"
REQUEST_ERROR = "invalid request local work queue error"
OF_PORTS = {"port active", "port error"}
CXGB3_WARNS = pytest.mark.allow_log(r"WARNING: .*__flush_work", "cxgb3.ko stops work that it never started; its own")


class Traffic:
    """The program t3-traffic in both guests, which exchange messages."""

    def __init__(self, pair, options=""):
        self.server, self.client = pair.guests
        self.serving = self.server.start(f"exec {BIN}/t3-traffic server {options}")
        wait_listening(self.server, PORT)
        self.pinging = self.client.start(f"exec {BIN}/t3-traffic client {address(self.server)} {options}")
        self.pinging.expect("running", 60)

    def continues(self):
        """Returns when messages have been exchanged for some more time."""
        before = self.pinging.stderr.count("running")
        self.pinging.expect(rf"(?s)(running.*?){{{before + 3}}}", 60)

    def results(self, timeout=60):
        """What server and client reported."""
        reports = []
        for side in (self.serving, self.pinging):
            done = side.wait(timeout)
            assert done.stdout.strip(), f"{side.name}: status {done.rc}, {done.stderr}"
            reports.append(json.loads(done.stdout))
            assert done.rc == 0, reports[-1]
        return reports

    def end_in_order(self):
        """Ends a working connection; returns what the client reported."""
        self.pinging.kill(signal.SIGTERM)
        server, client = self.results()
        for side in (server, client):
            assert side["lost"] == 0 and not side["stalled"] and set(side["async"]) <= OF_PORTS, side
            assert side["wc"] in ([], [FLUSHED]) and side["cm"] == [DISCONNECTED], side
        return client


def fault_counter(pair, what):
    return pair.sim.counters(CLIENT)[f"faults.{what}"]


def hw_counter(guest, name):
    """A hw_counter, read twice: the core caches values for 10 ms."""
    path = f"/sys/class/infiniband/cxgb3_0/hw_counters/{name}"
    return int(guest.check(f"cat {path} >/dev/null; sleep 0.05; cat {path}"))


def check_recovered(pair):
    server, client = pair.guests
    for guest in pair.guests:
        wait_no_objects(guest)
    rping(server, client)


def reload(guest):
    """Unloads and loads both drivers, and brings the ports up."""
    guest.check("rmmod iw_cxgb3 && rmmod cxgb3 && modprobe cxgb3", 90)
    ports_up(guest)
    guest.check(stack.load_module("iw_cxgb3"), 60)


def rebind(guest):
    """Unbinds the card from cxgb3 and binds it again. A process has the device open meanwhile, so no module can be
    unloaded."""
    users = int(guest.check("cat /sys/module/iw_cxgb3/refcnt"))
    holder = guest.start("exec ibv_asyncwatch -d cxgb3_0")
    guest.check(
        (
            f"for try in $(seq 100); do [ $(cat /sys/module/iw_cxgb3/refcnt) -gt {users} ] && exit; sleep 0.1; done;"
            " exit 1"
        ),
        30,
    )
    assert guest.run("rmmod iw_cxgb3", 30).rc != 0
    card = guest.check(f"basename $(readlink -f /sys/class/net/{guest.interfaces[0]}/device)").strip()
    guest.check(f"cd /sys/bus/pci/drivers/cxgb3 && echo {card} > unbind && echo {card} > bind", 90)
    ports_up(guest)
    guest.check("for try in $(seq 300); do rdma link | grep -q 'cxgb3_.*ACTIVE' && exit; sleep 0.1; done; exit 1", 60)
    holder.kill()
    holder.wait(20)


def ports_up(guest):
    for port, name in enumerate(guest.interfaces):
        guest.check(f"ip addr add {address(guest, port)}/24 dev {name} && ip link set {name} up", 60)
    for name in guest.interfaces:
        guest.check(stack.wait_carrier(name), 60)


# --- faults that cause only a pause


def test_a_lost_interrupt_is_recovered(pair):
    traffic = Traffic(pair, "--events")
    polls = hw_counter(pair.guests[CLIENT], "card_polls")
    before = fault_counter(pair, "interrupts_lost")
    pair.sim.cause(CLIENT, "lost-interrupt")
    traffic.continues()
    assert fault_counter(pair, "interrupts_lost") == before + 1
    assert hw_counter(pair.guests[CLIENT], "card_polls") > polls
    assert traffic.end_in_order()["longest_pause_ms"] > 500


@pytest.mark.parametrize("fault, counter", [("late-dma", "dma_late"), ("late-cqe", "completions_late")])
def test_late_dma_keeps_the_order(pair, fault, counter):
    traffic = Traffic(pair, "--events")
    before = fault_counter(pair, counter)
    pair.sim.cause(CLIENT, fault, "1500ms")  # of the host's time; the guest may need some of it before its next request
    traffic.continues()
    assert fault_counter(pair, counter) > before
    assert traffic.end_in_order()["longest_pause_ms"] > 200


@pytest.mark.parametrize("load", ["rdma", "rdma-t3"])
def test_one_thread_accepts_while_answers_are_late(make_lab, load):
    """The guests' clocks count instructions, and go on while a guest sleeps: a call that waits for the card is seen, a
    slow host is not."""
    lab = make_lab(load=load, machine=Machine(counted=True))
    lab.sim.cause(SERVER, "late-answers", "5ms")
    server, _ = run_pair(*lab.guests, "accepts", "--connections=100", timeout=240)
    assert server["accept_us"] < 200_000
    assert lab.sim.counters(SERVER)["faults.answers_late"] > 100
    for guest in lab.guests:
        wait_no_objects(guest)


@pytest.mark.parametrize("load", ["rdma", "rdma-t3"])
def test_an_accept_fails_after_its_return(make_lab, load):
    """The peer has reset its connections, and the card reports it when they are accepted already."""
    lab = make_lab(load=load)
    server, client = lab.guests
    serving = server.start(f"exec {BIN}/t3-accepts server --connections=8 --gone")
    wait_listening(server, PORT)
    connecting = client.start(f"exec {BIN}/t3-accepts client {address(server)} --connections=8")
    serving.expect("requests", 60)
    lab.sim.cause(SERVER, "late-answers", "4s")  # of the host's time
    connecting.kill(signal.SIGKILL)
    wait_no_objects(client)
    serving.kill(signal.SIGUSR1)
    done = serving.wait(60)
    assert done.rc == 0, done
    assert json.loads(done.stdout)["connect_errors"] == (8 if load == "rdma-t3" else 0)
    lab.sim.cause(SERVER, "late-answers", "0ms")
    wait_no_objects(server)
    check_recovered(lab)


def test_a_dropped_doorbell_is_rung_again(pair):
    traffic = Traffic(pair)
    before, reported = fault_counter(pair, "doorbells_dropped"), hw_counter(pair.guests[CLIENT], "doorbell_drops")
    for _ in range(3):
        pair.sim.cause(CLIENT, "drop-doorbell")
        traffic.continues()
    assert fault_counter(pair, "doorbells_dropped") == before + 3
    assert hw_counter(pair.guests[CLIENT], "doorbell_drops") > reported
    traffic.end_in_order()


def test_negative_advice_keeps_the_connection(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "negative-advice")
    traffic.continues()
    assert traffic.end_in_order()["wc"] in ([], [FLUSHED])


def test_link_flap(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "link-flap", "2500ms")
    traffic.continues()
    client = traffic.end_in_order()
    assert client["longest_pause_ms"] > 1000


# --- faults that end a connection


def test_abort_from_the_card(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "abort")
    for side in traffic.results():
        assert (side["wc"], side["cm"], side["lost"], side["async"]) == ([FLUSHED], [DISCONNECTED], 0, []), side
    check_recovered(pair)


def test_abort_while_completions_are_late(pair):
    """Requests complete once: entries that arrive after the flush are dropped."""
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "late-cqe", "700ms")
    pair.sim.cause(CLIENT, "abort")
    for side in traffic.results():
        assert (side["cm"], side["lost"]) == ([DISCONNECTED], 0), side
    check_recovered(pair)


def test_ecc_error_in_the_tpt(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "tpt-ecc")
    server, client = traffic.results()
    assert sorted(client["async"]) == [DEVICE_FATAL, QP_FATAL] and server["async"] == [REQUEST_ERROR]
    for side in (server, client):
        assert (side["wc"], side["cm"], side["lost"]) == ([FLUSHED], [DISCONNECTED], 0), side
    check_recovered(pair)


# --- faults that end the card


@CXGB3_WARNS
@pytest.mark.parametrize("fault", ["pci-error", "pmrx-ecc"])
def test_an_error_that_resets_the_adapter(pair, fault):
    """The third fault of this kind, framing-error, is in test_X16."""
    client = pair.guests[CLIENT]
    resets = client.dmesg().count("adapter reset succeeded")
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, fault)
    done = traffic.pinging.wait(60)
    report = json.loads(done.stdout)
    assert DEVICE_FATAL in report["async"] and report["lost"] == 0, report
    assert set(report["cm"]) & {REMOVAL, DISCONNECTED}, report
    traffic.serving.kill()  # a card that is reset sends nothing to its peers
    traffic.serving.wait(20)
    client.check(
        f"""for try in $(seq 300); do
            [ $(dmesg | grep -c 'adapter reset succeeded') -gt {resets} ] && rdma link | grep -q 'cxgb3_.*ACTIVE' && exit
            sleep 0.1
        done; exit 1""",  # noqa: E501
        90,
    )  # noqa: E501
    check_recovered(pair)


@CXGB3_WARNS
@pytest.mark.parametrize("fault, recover", [("adapter-reset", reload), ("firmware-death", rebind)])
def test_an_unresponsive_card_is_shut_down(pair, fault, recover):
    """No interrupt reports it. The driver detects it, ends all connections, and refuses new ones until cxgb3 has reset
    the card."""
    client = pair.guests[CLIENT]
    client.check("echo 2 > /sys/module/iw_cxgb3/parameters/card_timeout_secs")
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, fault)
    done = traffic.pinging.wait(60)
    report = json.loads(done.stdout)
    assert (report["wc"], report["cm"], report["lost"]) == ([FLUSHED], [DISCONNECTED], 0), report
    # The carrier goes, too: another work item of the kernel reports that, before or after.
    assert report["async"].count(DEVICE_FATAL) == 1 and set(report["async"]) <= {DEVICE_FATAL, "port error"}, report
    assert client.check(f"cat /sys/class/net/{client.interfaces[0]}/carrier").strip() == "0"
    traffic.serving.kill()
    traffic.serving.wait(20)
    refused = client.run(f"rping -c -a {address(pair.guests[0])} -C 1", 30)
    assert refused.rc != 0
    wait_no_objects(client)
    recover(client)
    check_recovered(pair)


# --- resources of the card that run out


def test_connect_fails_without_a_tid(pair):
    server, client = pair.guests
    pair.sim.cause(CLIENT, "no-tid")
    serving = rping_server(server, "-C 1 -V")
    refused = rping_client(client, server, "-C 1").wait(30)
    assert refused.rc != 0 and "error -12" in refused.stdout + refused.stderr, refused
    pair.sim.cause(0, "no-tid")  # the SYN is dropped and repeated
    assert_complete(rping_client(client, server, "-C 1 -V").wait(60))
    assert serving.wait(30).rc == 0
    check_recovered(pair)


def test_listen_fails_without_an_stid(pair):
    server = pair.guests[0]
    pair.sim.cause(0, "no-stid")
    refused = server.run("rping -s -C 1 -V", 30)
    assert refused.rc != 0 and "Cannot allocate memory" in refused.stdout + refused.stderr, refused
    check_recovered(pair)


@pytest.mark.parametrize("what, laps", [("rqt", 2), ("pbl", 1), pytest.param("pbl", 3, marks=pytest.mark.long)])
def test_create_fails_without_card_memory(pair, what, laps):
    server, client = pair.guests
    report = run_alone(client, server, "exhaust", f"--timeout=110 --what={what} --laps={laps}", 120)
    assert report["refused"] == "Cannot allocate memory" and report["as_much_again"] and report["had"] > 1
    check_recovered(pair)


# Opening them takes a minute or two. They end when the unresponsive host appears and refuses them.
@pytest.mark.long
def test_connect_fails_without_an_atid(pair):
    server, client = pair.guests
    with unresponsive_host(client, patience=3600) as host:
        opening = client.start(f"exec {BIN}/t3-opens client {address(server)} --timeout=900 --unresponsive={host}")
        opening.expect("full", 600)
        with unresponsive_host_appears(server):
            done = opening.wait(300)
    assert done.rc == 0, done
    report = json.loads(done.stdout)
    assert report["had"] > 1000 and report["denied"] == report["had"], report
    check_recovered(pair)
