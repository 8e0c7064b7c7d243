# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Guests of arm64 with pages of 4, 16 and 64 KB, against each other and against x86 over one wire, with our modules and
with the in-tree ones.

All guests are emulated, so these run in `make test-long` only; it also runs the main test files with both guests of
arm64 (--suite=trixie-arm64).
"""

import json

import pytest
from conftest import Keeper, lend
from labkit import build
from labkit.machine import Machine
from programs import run_alone, run_pair
from stock import address, listening, perftest, rdma_client, reload_driver, rping, rping_client, rping_server, ucmatose

pytestmark = pytest.mark.long

# Image and page size of server and client, and the stack.
PAIRS = {
    "16k-with-x86": (("trixie-arm64-16k", 16384), ("bookworm", 4096), "rdma-t3"),
    "16k-with-4k": (("trixie-arm64-16k", 16384), ("trixie-arm64", 4096), "rdma"),
    "4k-with-x86": (("trixie-arm64", 4096), ("bookworm", 4096), "rdma-t3"),
    "64k-with-64k": (("trixie-arm64-64k", 65536), ("trixie-arm64-64k", 65536), "rdma"),
    "64k-with-x86": (("trixie-arm64-64k", 65536), ("bookworm", 4096), "rdma-t3"),
}


@pytest.fixture(scope="module", params=PAIRS)
def machines(request, _appended):
    *ends, load = PAIRS[request.param]
    suites = [name for name, _ in ends]
    if not request.config.getoption("--no-build"):
        for name in dict.fromkeys(suites):
            build.everything(name)
    keeper = Keeper(guests=2, suite=suites, name="arm64", load=load, machine=_appended(Machine(memory=768)))
    yield keeper, ends
    keeper.drop()


@pytest.fixture
def pair(request, machines):
    yield from lend(machines[0], request, empty=True)


def test_guests_have_the_architecture_and_the_pages_of_their_image(pair, machines):
    for guest, (name, page) in zip(pair.guests, machines[1]):
        machine = "aarch64" if "arm64" in name else "x86_64"
        assert guest.check("uname -m; getconf PAGESIZE").split() == [machine, str(page)]
        assert guest.check("ibv_devinfo -d cxgb3_0").count("PORT_ACTIVE") == 2
        assert machine in guest.check("ls -d /usr/lib/*/libibverbs/libcxgb3-rdmav34.so")


@pytest.mark.parametrize("size", [64, 16384, 65535])
def test_rping_both_ways(pair, size):
    for server, client in (pair.guests, reversed(pair.guests)):
        rping(server, client, f"-C 50 -S {size} -V", timeout=120)


@pytest.mark.parametrize(
    "tool, options",
    [
        ("ib_send_lat", "-s 64 -n 100 -I 64"),
        ("ib_send_bw", "-s 65536 -n 50"),
        ("ib_write_lat", "-s 16385 -n 100"),
        ("ib_write_bw", "-s 1048576 -n 10"),
        ("ib_read_bw", "-s 1048576 -n 10"),
        ("ib_send_bw", "-s 4096 -n 200 -b"),
        ("ib_send_bw", "-s 64 -n 500 -e -Q 1 -r 1023"),
    ],
)
def test_perftest(pair, tool, options):
    assert perftest(*pair.guests, tool, options, timeout=240)[0] == options.split()[1]


def test_ucmatose_and_rdma_client(pair):
    server, client = pair.guests
    ucmatose(server, client, "-c 5 -C 5 -S 4000", timeout=120)
    ucmatose(client, server, "-c 5 -C 5 -S 4000", timeout=120)
    rdma_client(server, client, timeout=120)


# verbs_smoke also binds windows to parts of a region of several pages.
@pytest.mark.parametrize(
    "name, options",
    [("verbs_smoke", ""), ("verbs_smoke", "--extended"), ("flush", ""), ("fork", ""), ("bad_access", ""), ("rnr", "")],
)
def test_verbs(pair, name, options):
    for server, client in (pair.guests, reversed(pair.guests)):
        run_pair(server, client, name, options, timeout=180)


def test_domains(pair):
    for server, client in (pair.guests, reversed(pair.guests)):
        run_alone(client, server, "domains", timeout=180)


# Regions of many pages, until the card's memory for page lists is used up; as many again after these are freed.
def test_page_lists_are_used_up(pair):
    server, client = pair.guests
    for guest, peer in ((server, client), (client, server)):
        run_alone(guest, peer, "exhaust", "--what=pbl", timeout=240)


def doorbell_groups(guest):
    """How many QP ids share a doorbell page, and the pages in which each process has QPs."""
    bar2 = guest.check("cat /sys/bus/pci/drivers/cxgb3/0*/resource").splitlines()[2].split()
    start, end, page = int(bar2[0], 16), int(bar2[1], 16), int(guest.check("getconf PAGESIZE"))
    ids = 65536 // ((end - start + 1) // page)
    pages: dict[int, set[int]] = {}
    for qp in json.loads(guest.check("rdma -j resource show qp")):
        if qp.get("type") == "RC":
            pages.setdefault(qp["pid"], set()).add(qp["lqpn"] // ids)
    return ids, pages


def test_a_doorbell_page_belongs_to_one_process(pair, machines):
    """A process maps doorbells in pages of the system, and can ring all in them."""
    server, client = pair.guests
    serving = [rping_server(server, "-C 1000000", 7200 + number) for number in range(4)]
    pinging = [rping_client(client, server, "-C 1000000", 7200 + number) for number in range(4)]
    for guest, (_, page) in zip(pair.guests, machines[1]):
        guest.check(
            (
                "for try in $(seq 600); do [ $(rdma resource show qp | grep -c 'state RTS') = 4 ] && exit; sleep 0.1;"
                " done; rdma resource show qp; exit 1"
            ),
            120,
        )
        ids, pages = doorbell_groups(guest)
        assert ids == 32 * page // 4096
        assert len(pages) == 4
        used = [number for own in pages.values() for number in own]
        assert len(used) == len(set(used)), f"two processes have QPs in one page: {pages}"
    for process in (*pinging, *serving):
        process.kill()
        process.wait(30)


def test_qps_of_more_than_one_doorbell_page(pair, machines):
    """Connections of one process with ids beyond the first page. Each must transfer, so each doorbell must reach its
    QP."""
    server, client = pair.guests
    connections = 32 * max(page for _, page in machines[1]) // 4096 + 2
    for passive, active in ((server, client), (client, server)):
        ucmatose(passive, active, f"-c {connections} -C 2 -S 100", timeout=240)


# As many contexts as can have a QP, each with a device of its own.
CONTEXTS = """
import resource
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.enums import IBV_QPT_RC
from pyverbs.pd import PD
from pyverbs.pyverbs_error import PyverbsRDMAError
from pyverbs.qp import QP, QPCap, QPInitAttr
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = []
try:
    while len(held) < 2000:
        context = Context(name='cxgb3_0')
        pd, cq = PD(context), CQ(context, 1)
        held.append((QP(pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))), pd, cq, context))
except PyverbsRDMAError as error:
    print(len(held), error)
"""  # noqa: E501


def test_doorbell_pages_are_used_up(pair, machines):
    """The 32,768 QP ids are divided among the pages, and no two contexts share a page; the ids below 16 are not for
    QPs. docs/limits.md has the figures."""
    for guest, (_, page) in zip(pair.guests, machines[1]):
        contexts, error = guest.check(["python3", "-c", CONTEXTS], 300).split(" ", 1)
        assert (int(contexts), "Errno: 28" in error) == (32768 // (32 * page // 4096) - 1, True), error


def test_a_killed_process_leaves_no_object(pair):
    server, client = pair.guests
    serving = listening(server, f"rping -s -a {address(server)} -p 7300 -C 1000000", 7300)
    pinging = rping_client(client, server, "-C 1000000", 7300)
    server.check(
        "for try in $(seq 300); do rdma resource show qp | grep -q 'state RTS' && exit; sleep 0.1; done; exit 1", 60
    )
    pinging.kill()
    pinging.wait(30)
    serving.wait(60)


def test_the_driver_is_unloaded_and_loaded_again(pair):
    for guest in pair.guests:
        reload_driver(guest)
    rping(*pair.guests, "-C 5 -V")
