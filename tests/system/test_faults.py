# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What user space sees when the card breaks. docs/faults.md says the same in one table.

In each test it is the client's card that breaks, in the middle of traffic. The witness program of either side tells
what it saw (tests/programs/witness.cc); the connection after it must work again.
"""

import json
import signal

import pytest
from conditions import unresponsive_host, unresponsive_host_appears
from labkit import stack
from programs import BIN, PORT, run_alone
from stock import address, rping_client, rping_server, wait_listening, wait_no_objects

CLIENT = 1
FLUSHED = "Work Request Flushed Error"
DISCONNECTED = "RDMA_CM_EVENT_DISCONNECTED"
REMOVAL = "RDMA_CM_EVENT_DEVICE_REMOVAL"
DEVICE_FATAL = "local catastrophic error"  # what libibverbs calls IBV_EVENT_DEVICE_FATAL
QP_FATAL = "local work queue catastrophic error"
REQUEST_ERROR = "invalid request local work queue error"
OF_PORTS = {"port active", "port error"}
CXGB3_WARNS = pytest.mark.allow_log(r"WARNING: .*__flush_work", "cxgb3.ko stops work that it never started; its own")


class Traffic:
    """Two witnesses with messages going to and fro between them."""

    def __init__(self, pair, options=""):
        self.server, self.client = pair.guests
        self.serving = self.server.start(f"exec {BIN}/t3-witness server {options}")
        wait_listening(self.server, PORT)
        self.asking = self.client.start(f"exec {BIN}/t3-witness client {address(self.server)} {options}")
        self.asking.expect("going", 60)

    def goes_on(self):
        """Returns when messages have been going to and fro for some time from now on."""
        told = self.asking.stderr.count("going")
        self.asking.expect(rf"(?s)(going.*?){{{told + 3}}}", 60)

    def results(self, timeout=60):
        """What server and client saw."""
        seen = []
        for side in (self.serving, self.asking):
            done = side.wait(timeout)
            assert done.stdout.strip(), f"{side.name}: status {done.rc}, {done.stderr}"
            seen.append(json.loads(done.stdout))
            assert done.rc == 0, seen[-1]
        return seen

    def end_in_order(self):
        """Ends an unharmed connection; what the client saw."""
        self.asking.kill(signal.SIGTERM)
        server, client = self.results()
        for side in (server, client):
            assert side["lost"] == 0 and not side["stalled"] and set(side["async"]) <= OF_PORTS, side
            assert side["wc"] in ([], [FLUSHED]) and side["cm"] == [DISCONNECTED], side
        return client


def struck(pair, what):
    return pair.sim.counters(CLIENT)[f"faults.{what}"]


def own_counter(guest, name):
    """Read afresh: the core keeps what it has for 10 ms."""
    path = f"/sys/class/infiniband/cxgb3_0/hw_counters/{name}"
    return int(guest.check(f"cat {path} >/dev/null; sleep 0.05; cat {path}"))


def all_is_well(pair):
    server, client = pair.guests
    for guest in pair.guests:
        wait_no_objects(guest)
    serving = rping_server(server, "-C 5 -V")
    assert rping_client(client, server, "-C 5 -V").wait(60).rc == 0
    assert serving.wait(30).rc == 0


def load_anew(guest):
    """Both drivers out and in again, and the ports up as before."""
    guest.check("rmmod iw_cxgb3 && rmmod cxgb3 && modprobe cxgb3", 90)
    ports_up(guest)
    guest.check(stack.load_module("iw_cxgb3"), 60)


def bind_anew(guest):
    """The card away from cxgb3 and back. A process has the device open meanwhile, so no module could be unloaded."""
    users = int(guest.check("cat /sys/module/iw_cxgb3/refcnt"))
    holder = guest.start("exec ibv_asyncwatch -d cxgb3_0")
    guest.check(f"for try in $(seq 100); do [ $(cat /sys/module/iw_cxgb3/refcnt) -gt {users} ] && exit; sleep 0.1; done; exit 1", 30)
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


# --- what nobody but a stop watch notices


def test_lost_interrupt_is_made_up_for(pair):
    traffic = Traffic(pair, "--events")
    polls = own_counter(pair.guests[CLIENT], "card_polls")
    before = struck(pair, "interrupts_lost")
    pair.sim.cause(CLIENT, "lost-interrupt")
    traffic.goes_on()
    assert struck(pair, "interrupts_lost") == before + 1
    assert own_counter(pair.guests[CLIENT], "card_polls") > polls
    assert traffic.end_in_order()["longest_pause_ms"] > 500


@pytest.mark.parametrize("fault, counter", [("late-dma", "dma_late"), ("late-cqe", "completions_late")])
def test_what_is_late_is_in_order(pair, fault, counter):
    traffic = Traffic(pair, "--events")
    before = struck(pair, counter)
    pair.sim.cause(CLIENT, fault, "1500ms")  # of the host's time: it may be some until the guest next asks for anything
    traffic.goes_on()
    assert struck(pair, counter) > before
    assert traffic.end_in_order()["longest_pause_ms"] > 200


def test_dropped_doorbells_are_rung_again(pair):
    traffic = Traffic(pair)
    before, told = struck(pair, "doorbells_dropped"), own_counter(pair.guests[CLIENT], "doorbell_drops")
    for _ in range(3):
        pair.sim.cause(CLIENT, "drop-doorbell")
        traffic.goes_on()
    assert struck(pair, "doorbells_dropped") == before + 3
    assert own_counter(pair.guests[CLIENT], "doorbell_drops") > told
    traffic.end_in_order()


def test_negative_advice_ends_nothing(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "negative-advice")
    traffic.goes_on()
    assert traffic.end_in_order()["wc"] in ([], [FLUSHED])


def test_link_flap(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "link-flap", "2500ms")
    traffic.goes_on()
    client = traffic.end_in_order()
    assert client["longest_pause_ms"] > 1000


# --- what ends a connection


def test_abort_from_the_card(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "abort")
    for side in traffic.results():
        assert (side["wc"], side["cm"], side["lost"], side["async"]) == ([FLUSHED], [DISCONNECTED], 0, []), side
    all_is_well(pair)


def test_abort_while_completions_are_late(pair):
    """What completes after the connection's end completes once: late entries are not for anybody else."""
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "late-cqe", "700ms")
    pair.sim.cause(CLIENT, "abort")
    for side in traffic.results():
        assert (side["cm"], side["lost"]) == ([DISCONNECTED], 0), side
    all_is_well(pair)


def test_ecc_error_in_the_tpt(pair):
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, "tpt-ecc")
    server, client = traffic.results()
    assert sorted(client["async"]) == [DEVICE_FATAL, QP_FATAL] and server["async"] == [REQUEST_ERROR]
    for side in (server, client):
        assert (side["wc"], side["cm"], side["lost"]) == ([FLUSHED], [DISCONNECTED], 0), side
    all_is_well(pair)


# --- what ends the card


@CXGB3_WARNS
@pytest.mark.parametrize("fault", ["pci-error", "pmrx-ecc"])
def test_error_that_cxgb3_answers_with_a_reset(pair, fault):
    """The other one of this kind, framing-error, is test_X16."""
    client = pair.guests[CLIENT]
    resets = client.dmesg().count("adapter reset succeeded")
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, fault)
    done = traffic.asking.wait(60)
    seen = json.loads(done.stdout)
    assert DEVICE_FATAL in seen["async"] and seen["lost"] == 0, seen
    assert set(seen["cm"]) & {REMOVAL, DISCONNECTED}, seen
    traffic.serving.kill()  # a card that is reset says good-bye to nobody
    traffic.serving.wait(20)
    client.check(f"""for try in $(seq 300); do
            [ $(dmesg | grep -c 'adapter reset succeeded') -gt {resets} ] && rdma link | grep -q 'cxgb3_.*ACTIVE' && exit
            sleep 0.1
        done; exit 1""", 90)
    all_is_well(pair)


@CXGB3_WARNS
@pytest.mark.parametrize("fault, recover", [("adapter-reset", load_anew), ("firmware-death", bind_anew)])
def test_card_that_falls_silent(pair, fault, recover):
    """Nothing reports it. The driver finds out, ends everything, and refuses what comes until cxgb3 has reset the card."""
    client = pair.guests[CLIENT]
    client.check("echo 2 > /sys/module/iw_cxgb3/parameters/card_timeout_secs")
    traffic = Traffic(pair)
    pair.sim.cause(CLIENT, fault)
    done = traffic.asking.wait(60)
    seen = json.loads(done.stdout)
    assert (seen["wc"], seen["cm"], seen["lost"]) == ([FLUSHED], [DISCONNECTED], 0), seen
    assert seen["async"] == [DEVICE_FATAL], seen
    traffic.serving.kill()
    traffic.serving.wait(20)
    refused = client.run(f"rping -c -a {address(pair.guests[0])} -C 1", 30)
    assert refused.rc != 0
    wait_no_objects(client)
    recover(client)
    all_is_well(pair)


# --- what is used up


def test_no_tid_for_a_connection(pair):
    server, client = pair.guests
    pair.sim.cause(CLIENT, "no-tid")
    serving = rping_server(server, "-C 1 -V")
    refused = rping_client(client, server, "-C 1").wait(30)
    assert refused.rc != 0 and "error -12" in refused.stdout + refused.stderr, refused
    pair.sim.cause(0, "no-tid")  # a SYN nobody hears: it comes again
    assert rping_client(client, server, "-C 1 -V").wait(60).rc == 0
    assert serving.wait(30).rc == 0
    all_is_well(pair)


def test_no_stid_for_a_listener(pair):
    server = pair.guests[0]
    pair.sim.cause(0, "no-stid")
    refused = server.run("rping -s -C 1 -V", 30)
    assert refused.rc != 0 and "Cannot allocate memory" in refused.stdout + refused.stderr, refused
    all_is_well(pair)


@pytest.mark.parametrize("what, laps", [
    ("rqt", 2), ("pbl", 1), pytest.param("pbl", 3, marks=pytest.mark.long)])
def test_memory_of_the_card_is_used_up(pair, what, laps):
    server, client = pair.guests
    seen = run_alone(client, server, "exhaust", f"--timeout=110 --what={what} --laps={laps}", 120)
    assert seen["refused"] == "Cannot allocate memory" and seen["as_much_again"] and seen["had"] > 1
    all_is_well(pair)


# One after another they take a minute or two. They end when the host that did not answer is there, and refuses.
@pytest.mark.long
def test_more_opens_than_the_card_has_ids_for(pair):
    server, client = pair.guests
    with unresponsive_host(client, patience=3600) as ghost:
        opening = client.start(f"exec {BIN}/t3-opens client {address(server)} --timeout=900 --ghost={ghost}")
        opening.expect("full", 600)
        with unresponsive_host_appears(server):
            done = opening.wait(300)
    assert done.rc == 0, done
    seen = json.loads(done.stdout)
    assert seen["had"] > 1000 and seen["denied"] == seen["had"], seen
    all_is_well(pair)
