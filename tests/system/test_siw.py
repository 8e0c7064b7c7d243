# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Interoperability with siw: a guest with a card and a guest with an ordinary NIC and the kernel's software iWARP, on
one wire.

siw is an independent implementation, so it finds errors of the card model and its driver. The same programs run as
between two cards, in both directions, and must give the same results; tshark checks the wire.
"""

import contextlib
import json
import pathlib
import re

import pytest
from conftest import Keeper, lend
from labkit import siw, wirecheck
from labkit.sim import Wire
from programs import BIN, SUM_PORT
from stock import address, objects, perftest, rping_client, rping_server, run_both, ucmatose, wait_listening

HERE = pathlib.Path(__file__).parent / "guest"
CM_PORT = 7500

PATIENCE = 20


class Mixed:
    """The lab and its two guests."""

    def __init__(self, lab):
        self.lab = lab
        self.card, self.siw = lab.guests

    def ends(self, server):
        return (self.card, self.siw) if server == "card" else (self.siw, self.card)

    def set(self, *, card=None, siw=None):
        for guest, module, values in ((self.card, "iw_cxgb3", card), (self.siw, "siw", siw)):
            guest.check(
                "\n".join(
                    f"echo {value} > /sys/module/{module}/parameters/{name}" for name, value in (values or {}).items()
                )
                or "true"
            )


DEFAULTS = {
    "card": {"mpa_rev": 2, "crc_enabled": "Y", "peer2peer": 2},
    "siw": {"mpa_version": 2, "mpa_crc_required": "N", "mpa_crc_strict": "N", "peer_to_peer": "N", "reply_pause": 0},
}
SERVERS = pytest.mark.parametrize("server", ["card", "siw"], ids=["to-card", "to-siw"])


@pytest.fixture(scope="module")
def _keeper(suite, pytestconfig):
    if not pytestconfig.getoption("--no-build"):
        siw.module(suite)
    keeper = Keeper(guests=2, cards=(1, 0), wires=[Wire("p0", ("c0.0", "n1"))], suite=suite, name="siw", capture=True)
    yield keeper
    keeper.drop()


@pytest.fixture
def mixed(request, _keeper):
    lending = lend(_keeper, request)
    made = Mixed(next(lending))
    made.set(**DEFAULTS)
    yield made
    yield from lending


@contextlib.contextmanager
def negotiated(mixed):
    """The driver's tracepoint of the connections that are established meanwhile, one line each."""
    tracing = "/sys/kernel/tracing"
    event = f"{tracing}/events/iw_cxgb3_cm/t3_mpa_negotiated/enable"
    mixed.card.check(f"echo > {tracing}/trace; echo 1 > {event}")
    lines = []
    yield lines
    lines += re.findall(r"t3_mpa_negotiated: (.*)", mixed.card.check(f"echo 0 > {event}; cat {tracing}/trace"))
    assert lines


def run(start_server, start_client):
    return run_both(start_server, start_client, PATIENCE)


def rping(mixed, server, options):
    serving, client = mixed.ends(server)
    run(lambda: rping_server(serving, options), lambda: rping_client(client, serving, options))


@SERVERS
@pytest.mark.parametrize("crc", ["Y", "N"], ids=["crc", "no-crc"])
@pytest.mark.parametrize("size", [64, 65535])
def test_rping_with_verified_data(mixed, server, crc, size):
    mixed.set(card={"mpa_rev": 2, "crc_enabled": crc}, siw={"mpa_crc_required": crc})
    with negotiated(mixed) as traced:
        rping(mixed, server, f"-C 50 -V -S {size}")
    assert f"crc={int(crc == 'Y')}" in traced[-1]


# RFC 5044: CRCs are used if either side requires them.
@SERVERS
@pytest.mark.parametrize("card, siw, crc", [("Y", "N", 1), ("N", "Y", 1), ("N", "N", 0)])
def test_crcs_are_used_if_one_side_requires_them(mixed, server, card, siw, crc):
    if server == "siw" and (card, siw) == ("N", "Y"):
        crc = 0  # siw withdraws its requirement if the initiator does not require CRCs
    mixed.set(card={"mpa_rev": 2, "crc_enabled": card}, siw={"mpa_crc_required": siw})
    with negotiated(mixed) as traced:
        rping(mixed, server, "-C 10 -V")
    assert f"crc={crc}" in traced[-1]


def test_a_peer_that_refuses_crcs_is_rejected(mixed):
    mixed.set(card={"mpa_rev": 2}, siw={"mpa_crc_strict": "Y"})
    rping_server(mixed.siw)
    done = rping_client(mixed.card, mixed.siw, "-C 1").wait(PATIENCE)
    assert done.rc != 0 and "RDMA_CM_EVENT_REJECTED" in done.stderr


# With revision 1 siw reports a read depth of 0 to a server, so rping cannot be that server; the sum needs no read.
@pytest.mark.parametrize(
    "server, card, siw, used",
    [
        ("card", 1, 2, "rev=2 enhanced"),
        ("card", 2, 2, "rev=2 enhanced"),
        ("card", 2, 1, "rev=1"),
        ("siw", 2, 1, "rev=2 enhanced"),
        ("siw", 1, 2, "rev=1"),
    ],
)
def test_mpa_revisions_with_siw(mixed, server, card, siw, used):
    """The initiator chooses the revision, the responder uses it too."""
    mixed.set(card={"mpa_rev": card, "peer2peer": 0}, siw={"mpa_version": siw})
    with negotiated(mixed) as traced:
        sum_of(mixed, server, 7, 8)
    assert f" {used} crc" in traced[-1] and "rtr=none" in traced[-1]


@SERVERS
def test_the_responder_may_send_first(mixed, server):
    mixed.set(card={"mpa_rev": 2, "peer2peer": 1}, siw={"peer_to_peer": "Y"})
    with negotiated(mixed) as traced:
        rping(mixed, server, "-C 20 -V")
    assert "rev=2 enhanced" in traced[-1] and "rtr=read" in traced[-1]


@pytest.mark.parametrize("peer2peer, rtr", [(2, "read"), (0, "none")])
def test_a_first_message_that_comes_early(mixed, peer2peer, rtr):
    """It comes before siw_accept() returns. Debian's siw does not read it. If it is the RTR message, iw_cm has BUG()
    when the card closes the connection (docs/upstream)."""
    mixed.set(card={"peer2peer": peer2peer}, siw={"reply_pause": 500})
    with negotiated(mixed) as traced:
        rping(mixed, "siw", "-C 2 -V")
    assert f"rtr={rtr}" in traced[-1]


# RFC 6581, 9.1
@SERVERS
def test_ird_and_ord_with_siw(mixed, server):
    mixed.set(card={"mpa_rev": 2})
    for guest in (mixed.card, mixed.siw):
        guest.push(HERE / "cm.py", "/tmp/cm.py", 0o755)
    serving, client = mixed.ends(server)

    def listen():
        process = serving.start(f"exec /tmp/cm.py listen {address(serving)} {CM_PORT} --depths 6,3")
        wait_listening(serving, CM_PORT)
        return process

    with negotiated(mixed) as traced:
        done, served = run(
            listen, lambda: client.start(f"exec /tmp/cm.py connect {address(serving)} {CM_PORT} --depths 4,5")
        )
    request = next(
        line for line in map(json.loads, served.stdout.splitlines()) if line.get("event") == "CONNECT_REQUEST"
    )
    assert (request["responder_resources"], request["initiator_depth"]) == (5, 4)
    assert ("ird=6 ord=3" if server == "card" else "ird=4 ord=5") in traced[-1]


def sum_of(mixed, server, first, second):
    serving, client = mixed.ends(server)

    def listen():
        process = serving.start(f"exec {BIN}/sum-server")
        wait_listening(serving, SUM_PORT)
        return process

    done, served = run(listen, lambda: client.start(f"exec {BIN}/sum-client {address(serving)} {first} {second}"))
    assert done.stdout == served.stdout == f"{first} + {second} = {first + second}\n"


@SERVERS
def test_the_sum_example(mixed, server):
    sum_of(mixed, server, 123, 456)


@SERVERS
def test_lists_with_empty_sges(mixed, server):
    """siw has our patch (docs/upstream): without it the machine of its user stops."""
    serving, client = mixed.ends(server)

    def start_server():
        command = serving.start(f"exec {BIN}/t3-limits server --lists")
        wait_listening(serving, 7472)
        return command

    run(start_server, lambda: client.start(f"exec {BIN}/t3-limits client {address(serving)} --lists"))


@SERVERS
def test_ucmatose(mixed, server):
    mixed.set(siw={"peer_to_peer": "Y"})  # the server sends as soon as it has accepted
    ucmatose(*mixed.ends(server), "-c 4 -C 50")


@SERVERS
@pytest.mark.parametrize("tool, size", [("ib_send_lat", 16), ("ib_write_bw", 65536), ("ib_read_bw", 65536)])
def test_perftest(mixed, server, tool, size):
    mixed.set(card={"mpa_rev": 2})
    figures = perftest(*mixed.ends(server), tool, f"-s {size} -n 50", timeout=60)
    assert figures[:2] == [str(size), "50"]


@SERVERS
@pytest.mark.parametrize("outstanding", [1, 8])
def test_64_reads_posted_at_once(mixed, server, outstanding):
    mixed.set(card={"mpa_rev": 2})
    figures = perftest(*mixed.ends(server), "ib_read_bw", f"-s 4096 -n 512 -t 64 -o {outstanding}", timeout=60)
    assert figures[:2] == ["4096", "512"]


def test_all_captured_frames_are_valid_iwarp(mixed):
    """Runs last in this file: checks every frame of the other tests, and of one rping if none of them ran."""
    rping(mixed, "card", "-C 5 -V")
    # siw sends pages without a copy. The program may write to them between the checksum and the transmission of a
    # repeated segment; the card drops such a segment.
    report = wirecheck.check(
        mixed.lab.capture / "p0.pcapng", allowed=[rf"wrong TCP checksum, from {re.escape(address(mixed.siw))}$"]
    )
    assert all(report.messages[name] for name in ("Send", "Write", "Read Request", "Read Response")), report.messages
    for guest in (mixed.card, mixed.siw):
        left = objects(guest)
        assert not any(left.values()), f"{guest.name} has {left}"
