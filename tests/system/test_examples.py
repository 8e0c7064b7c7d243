# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The examples work as their README describes."""

import pytest
from labkit import stack
from programs import BIN, SUM_PORT
from stock import address, wait_listening


@pytest.mark.parametrize("options", ["", "--events"], ids=["polling", "events"])
@pytest.mark.parametrize("first, second, total", [(3, 4, 7), (0, 0, 0), (4000000000, 294967295, 4294967295)])
def test_sum(pair, options, first, second, total):
    server, client = pair.guests
    serving = server.start(f"exec {BIN}/sum-server {options}")
    wait_listening(server, SUM_PORT)
    done = client.start(f"exec {BIN}/sum-client {options} {address(server)} {first} {second}").wait(30)
    assert (done.rc, done.stdout, done.stderr) == (0, f"{first} + {second} = {total}\n", "")
    served = serving.wait(20)
    assert (served.rc, served.stdout) == (0, f"{first} + {second} = {total}\n")


def test_sum_client_reports_a_rejected_connect(pair):
    server, client = pair.guests
    done = client.run(f"{BIN}/sum-client {address(server)} 1 2", 40)
    assert done.rc == 1
    assert "RDMA_CM_EVENT_REJECTED" in done.stderr or "RDMA_CM_EVENT_UNREACHABLE" in done.stderr


EVENTS_PORT = 7473


@pytest.mark.parametrize("receiver", ["cq-blocking", "cq-nonblocking"])
@pytest.mark.parametrize("count", [1, 300])
def test_completion_events(pair, receiver, count):
    here, there = pair.guests
    receiving = here.start(f"exec {BIN}/{receiver} {count}")
    wait_listening(here, EVENTS_PORT)
    sent = there.run(f"{BIN}/cq-sender {address(here)} {count}", 60)
    assert (sent.rc, sent.stdout, sent.stderr) == (0, "", "")
    received = receiving.wait(60)
    assert (received.rc, received.stderr) == (0, f"{count} messages\n")
    assert received.stdout.splitlines() == [f"message {number} of {count}" for number in range(1, count + 1)]


def test_asynchronous_events(pair):
    """A cable is pulled and plugged in again, then an interface goes down and comes back."""
    here = pair.guests[0]
    name = here.interfaces[0]
    watching = here.start(f"exec {BIN}/async-nonblocking cxgb3_0 4")
    watching.expect("watching cxgb3_0", 20)
    for count, remove, restore in (
        (1, lambda: pair.sim.cable("p0", plugged=False), lambda: pair.sim.cable("p0", plugged=True)),
        (2, lambda: here.check(f"ip link set {name} down"), lambda: here.check(f"ip link set {name} up")),
    ):
        remove()
        try:
            watching.expect(f"(?s)(port error: port 1.*){{{count}}}", 30)
        finally:
            restore()
            for guest in pair.guests:
                guest.check(stack.wait_carrier(guest.interfaces[0]), 120)
        watching.expect(f"(?s)(port active: port 1.*){{{count}}}", 30)
    done = watching.wait(30)
    events = ["port error: port 1", "port active: port 1"]
    assert (done.rc, done.stdout.splitlines(), done.stderr) == (0, ["watching cxgb3_0", *events, *events], "")


@pytest.mark.parametrize(
    "command, status, message",
    [
        ("sum-client", 2, "usage: "),
        ("sum-server 1 2", 2, "usage: "),
        ("cq-blocking", 2, "usage: "),
        ("cq-nonblocking 0", 2, "usage: "),
        ("cq-sender 10.0.0.1", 2, "usage: "),
        ("async-nonblocking cxgb3_0", 2, "usage: "),
        ("async-nonblocking cxgb3_9 1", 1, "cxgb3_9: No such device"),
        ("cq-sender 192.0.2.1 1", 1, "is there an RDMA device"),
        ("sum-client 192.0.2.1 1 2", 1, "is there an RDMA device"),
    ],
)
def test_examples_report_errors(pair, command, status, message):
    done = pair.guests[0].run(f"{BIN}/{command}", 40)
    assert done.rc == status and message in done.stderr and not done.stdout, done


# What differs on AIX


@pytest.mark.parametrize(
    "to, status, message", [("10.0.0.1", 0, "yes"), ("192.0.2.1", 1, "no: Network is unreachable"), ("nonsense", 2, "")]
)
def test_a_program_written_for_aix(pair, to, status, message):
    done = pair.guests[1].run(f"{BIN}/check-verbs-support {to}", 40)
    assert (done.rc, done.stdout) == (status, f"{to}: {message}\n" if message else "")


def test_ofed_env_uses_providers_of_another_folder(pair):
    """As on AIX, IBV_CONFIG_DIR names the folder of the provider. The system's own file is removed meanwhile."""
    guest = pair.guests[0]
    own = "/etc/libibverbs.d/cxgb3.driver"
    guest.check(f"mkdir -p /tmp/config && mv {own} /tmp/config/")
    try:
        assert "cxgb3_0" not in guest.run("ibv_devices").stdout
        assert "cxgb3_0" in guest.check(f"IBV_CONFIG_DIR=/tmp/config {BIN}/ofed-env ibv_devices")
        # A path is allowed too, as in RDMAV_DRIVERS, whose previous value is kept.
        guest.check(
            f"cp {stack.PROVIDERS}/libcxgb3-rdmav34.so /tmp/config/ && echo driver /tmp/config/libcxgb3 >"
            " /tmp/config/cxgb3.driver"
        )
        shown = guest.check(
            f"IBV_CONFIG_DIR=/tmp/config RDMAV_DRIVERS=siw {BIN}/ofed-env sh -c 'echo $RDMAV_DRIVERS; ibv_devices'"
        )
        assert shown.startswith("siw:/tmp/config/libcxgb3\n") and "cxgb3_0" in shown
    finally:
        guest.check(f"cp /t3/provider/cxgb3.driver {own}; rm -r /tmp/config")


@pytest.mark.parametrize(
    "environment, words, status, message",
    [
        ("", "sh -c 'exit 7'", 7, ""),
        ("", "", 125, "a program is required"),
        ("", "--loud true", 125, "there is no option --loud"),
        ("IBV_CONFIG_DIR=/nowhere", "true", 125, "there is no folder /nowhere"),
        ("IBV_CONFIG_DIR=/usr/lib", "true", 125, "no file in /usr/lib names a driver"),
        ("IBV_CONFIG_DIR=", "true", 0, ""),
        ("", "/no/program", 127, "/no/program"),
    ],
)
def test_ofed_env_refuses_wrong_arguments(pair, environment, words, status, message):
    done = pair.guests[0].run(f"{environment} {BIN}/ofed-env {words}", 20)
    assert done.rc == status and message in done.stderr and not done.stdout, done


def test_ofed_env_help(pair):
    for option in ("-h", "--help"):
        assert "Usage: ofed-env PROGRAM" in pair.guests[0].check(f"{BIN}/ofed-env {option}")
    assert pair.guests[0].check(f"{BIN}/ofed-env --version") == "ofed-env (t3rdma) 0.1\n"
