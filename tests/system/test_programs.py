# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs of other projects, unmodified from Debian: those that work move data, and those that a T3 refuses get a reason.

docs/clients.md has a row for each.
"""

import contextlib
import json
import re

import pytest
import rdma_core
from labkit import stack
from stock import PERFTEST_PORT, address, rping_client, rping_server, wait_listening, wait_no_objects



@contextlib.contextmanager
def debug_messages(guest, module="iw_cxgb3"):
    """The debug messages of a driver in this time, as lines."""
    control = "/proc/dynamic_debug/control"
    before = len(guest.dmesg())
    lines = []
    guest.check(f"echo 'module {module} +p' > {control}")
    try:
        yield lines
    finally:
        guest.check(f"echo 'module {module} -p' > {control}")
    lines += guest.dmesg()[before:].splitlines()


def wait_tcp(guest, port):
    """Returns once a program listens on the TCP port, by which several programs agree on the parameters of RDMA."""
    guest.check(f"for try in $(seq 200); do grep -q ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 && exit 0; sleep 0.1; done; exit 1", 60)


# The reasons of refusals

PYVERBS_REQUEST = """
import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
ctx = Context(name='cxgb3_0')
pd, cq = PD(ctx), CQ(ctx, 16)
def qp(**cap):
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(**{**dict(max_send_wr=1, max_recv_wr=1), **cap})))
"""


@pytest.mark.parametrize("request_, reason", [
    ("qp(max_send_wr=1024)", "1024 send WRs requested, at most 1023 are possible"),
    ("qp(max_recv_wr=1024)", "1024 receive WRs requested, at most 1023 are possible"),
    ("qp(max_send_sge=5)", "5 SGEs of a send WR requested, at most 4 are possible"),
    ("qp(max_recv_sge=5)", "5 SGEs of a receive WR requested, at most 4 are possible"),
    ("qp(max_inline_data=65)", "65 bytes of inline data requested, at most 64 are possible"),
    ("CQ(ctx, 40000)", "40000 CQ entries requested, at most 32752 are possible"),
    ("MR(pd, 1 << 32, e.IBV_ACCESS_LOCAL_WRITE, address=1 << 20)", "4294967296 bytes of a region requested, at most 4294967295 are possible"),
])
def test_the_kernel_log_names_the_limit_that_a_program_exceeds(pair, request_, reason):
    guest = pair.guests[0]
    with debug_messages(guest) as lines:
        done = guest.run(["python3", "-c", f"{PYVERBS_REQUEST}{request_}"])
    assert "Errno: 22, Invalid argument" in done.stderr, done
    assert any(line.endswith(reason) for line in lines), lines


# What these need, a T3 does not have: UD, UC, SRQs, XRC.
@pytest.mark.parametrize("command, printed", [
    ("ibv_ud_pingpong -g 0", "Couldn't create QP"),
    ("ibv_uc_pingpong -g 0", "Couldn't create QP"),
    ("ibv_srq_pingpong -g 0", "Couldn't create SRQ"),
    ("ibv_xsrq_pingpong -g 0", "Couldn't Open the XRC Domain 95"),
    ("mckey -m 239.1.1.1 -b 10.0.0.1", "unable to create QP: Operation not supported"),
    ("udaddy -s 10.0.0.2", "unable to create QP: Operation not supported"),
])
def test_programs_for_other_transports_end_at_once(pair, command, printed):
    guest = pair.guests[0]
    done = guest.run(command, 30)
    assert done.rc and printed in done.stdout + done.stderr, done
    wait_no_objects(guest)


# Either side may fail first.
@pytest.mark.allow_log(r"ib_\w+\[\d+\].*(general protection|segfault).*librdmacm", "perftest's retry after a rejection")
@pytest.mark.parametrize("command, listens, printed", [
    ("ibv_rc_pingpong -g 0", "tcp", "Failed to modify QP to RTR"),
    ("ib_write_bw -F", "tcp", " to RTR\n"),
    ("ib_send_bw -R -F --use-srq", "cm", "Couldn't create SRQ"),
    ("ib_atomic_bw -R -F", "cm", "Couldn't post send"),
])
def test_programs_that_need_more_than_a_t3_are_refused(pair, command, listens, printed):
    server, client = pair.guests
    serving = server.start(f"exec {command} 2>&1")
    (wait_tcp if listens == "tcp" else wait_listening)(server, PERFTEST_PORT)
    done = client.run(f"{command} {address(server)}", 60)
    serving.kill()
    served = serving.wait(20)
    assert done.rc and printed in done.stdout + done.stderr + served.stdout, (done, served)
    for guest in pair.guests:
        wait_no_objects(guest)


# rdma-core's Python tests

# Those that need no connection; test_qp.py expects a fresh QP of an iWARP device in INIT.
PYVERBS = """
    test_cq.CQAPITest.test_create_cq test_cq.CQAPITest.test_create_cq_bad_flow test_cq.CQAPITest.test_create_cq_with_comp_channel
    test_cqex.CQEXAPITest.test_create_cq_ex test_cqex.CQEXAPITest.test_create_cq_ex_bad_flow
    test_device.DeviceTest.test_dev_list test_device.DeviceTest.test_open_dev test_device.DeviceTest.test_phys_port_cnt_ex
    test_device.DeviceTest.test_query_device test_device.DeviceTest.test_query_device_ex test_device.DeviceTest.test_query_gid
    test_device.DeviceTest.test_query_gid_ex test_device.DeviceTest.test_query_gid_table
    test_device.DeviceTest.test_query_gid_table_bad_flow test_device.DeviceTest.test_query_pkey
    test_device.DeviceTest.test_query_port test_device.DeviceTest.test_query_port_bad_flow
    test_pd.PDTest.test_alloc_pd test_pd.PDTest.test_dealloc_pd test_pd.PDTest.test_destroy_pd_twice
    test_pd.PDTest.test_multiple_pd_creation
    test_qp.QPTest.test_create_rc_qp_ex_no_attr test_qp.QPTest.test_create_rc_qp_ex_with_attr
    test_qp.QPTest.test_create_rc_qp_no_attr test_qp.QPTest.test_create_rc_qp_with_attr test_qp.QPTest.test_query_rc_qp
""".split()
# Why rdma-core's tests skip themselves on a T3: what it does not have, or no IP address in the GID, which is that of all iWARP devices.
SKIPS = (r"not supported|[Uu]nsupported|does(n't| not) support|requires|must be done by|No (supported port|IB devices|relevant GID)|"
         r"no (MLNX|relevant)|not (an? |available|enabled)|hugepage|There is no|All gid indices populated")


def test_rdma_cores_own_tests_pass(pair, suite):
    guest = pair.guests[0]
    rdma_core.install(guest, suite)
    report = json.loads(guest.check(f"python3 {rdma_core.RUNNER} alone {rdma_core.FOLDER} cxgb3_0", 120).splitlines()[0])
    assert not report["failed"], "\n".join(f"{name}: {trace}" for name, trace in report["failed"].items())
    assert set(PYVERBS) <= set(report["passed"]), set(PYVERBS) - set(report["passed"])
    unexplained = {name: why for name, why in report["skipped"].items() if not re.search(SKIPS, why)}
    assert not unexplained
    wait_no_objects(guest)


def pyverbs_sides(server, client, case):
    """Starts both sides of a case."""
    return [guest.start(f"exec python3 {rdma_core.RUNNER} {side} {rdma_core.FOLDER} {address(guest)} {address(peer)} {case}")
             for guest, peer, side in ((server, client, "passive"), (client, server, "active"))]

@pytest.mark.parametrize("case", ["sync_traffic", "async_traffic", "async_reject_traffic", "async_read", "async_write"])
def test_rdma_cores_tests_of_the_cm_pass_between_two_cards(pair, suite, case):
    """Each side compares the bytes that it received or read, or that were written to its memory."""
    server, client = pair.guests
    for guest in pair.guests:
        rdma_core.install(guest, suite)
    for done in [side.wait(120) for side in pyverbs_sides(server, client, case)]:
        assert done.rc == 0 and json.loads(done.stdout.splitlines()[0]) == {"passed": [case]}, done
    for guest in pair.guests:
        wait_no_objects(guest)


def test_a_card_does_not_connect_to_itself(pair, suite):
    """As rdma-core's tests do when they start both sides."""
    guest = pair.guests[0]
    rdma_core.install(guest, suite)
    passive, active = pyverbs_sides(guest, guest, "async_traffic")
    done = active.wait(60)
    assert done.rc and "Failed to Connect. Errno: 95, Operation not supported" in done.stderr, done
    passive.kill()
    passive.wait(20)
    wait_no_objects(guest)


def test_rdma_cores_test_of_an_external_qp(pair, suite, pytestconfig):
    """A QP that the program moves itself, after CONNECT_RESPONSE. t3_rdma_cm reports this event; the in-tree rdma_cm reports ESTABLISHED for all
    iWARP devices, for which the test is not made."""
    server, client = pair.guests
    for guest in pair.guests:
        rdma_core.install(guest, suite)
    case = "async_traffic_external_qp"
    passive, active = [side.wait(120) for side in pyverbs_sides(server, client, case)]
    if "t3_rdma_cm" in stack.level(pytestconfig.getoption("--load")).access:
        for done in (passive, active):
            assert done.rc == 0 and json.loads(done.stdout.splitlines()[0]) == {"passed": [case]}, done
    else:
        assert active.stderr.endswith("Expected this event: 5, got this event: RDMA_CM_EVENT_ESTABLISHED\n"), active
    for guest in pair.guests:
        wait_no_objects(guest)


# rdma(8)

def test_rdma_shows_a_connection_in_use(pair):
    """Each kind of object, of the process that has it, while data moves."""
    server, client = pair.guests
    serving = rping_server(server, "-S 1000")
    pinging = rping_client(client, server, "-v -S 1000")
    pinging.expect("rdma-ping-5:", 60)
    shown = {kind: json.loads(client.check(f"rdma -j resource show {kind}")) for kind in ("qp", "cq", "mr", "pd", "cm_id")}
    own = {kind: [row for row in rows if row.get("comm") == "rping"] for kind, rows in shown.items()}
    (qp,), (cq,), (cm_id,) = own["qp"], own["cq"], own["cm_id"]
    assert (qp["ifname"], qp["port"], qp["type"], qp["state"]) == ("cxgb3_0", 1, "RC", "RTS")
    assert cq["users"] == 2 and cq["cqe"] >= 32
    assert sorted(mr["mrlen"] for mr in own["mr"]) == [16, 16, 1000, 1000]
    assert len({mr["rkey"] for mr in own["mr"]}) == 4
    # One of librdmacm, one of rping: the QP and the regions are in the latter.
    assert qp["pdn"] in {pd["pdn"] for pd in own["pd"]} and {mr["pdn"] for mr in own["mr"]} == {qp["pdn"]}
    assert next(pd for pd in own["pd"] if pd["pdn"] == qp["pdn"])["users"] == 5
    assert (cm_id["lqpn"], cm_id["state"], cm_id["ps"], cm_id["qp-type"]) == (qp["lqpn"], "CONNECT", "TCP", "RC")
    assert cm_id["src-addr"].startswith(f"{address(client)}:") and cm_id["dst-addr"] == f"{address(server)}:7174"
    # The driver's own fields.
    detailed = {kind: client.check(f"rdma -dd resource show {kind}") for kind in ("qp", "cq", "mr", "cm_id")}
    assert re.search(rf"lqpn {qp['lqpn']} .* drv_t3_state RTS .* drv_user 1 .*drv_tid (0x\w+)", detailed["qp"])
    tid = re.search(rf"lqpn {qp['lqpn']} .*drv_tid (0x\w+)", detailed["qp"])[1]
    assert re.search(rf"lqpn {qp['lqpn']} .* drv_ep_state fpdu drv_tid {tid} ", detailed["cm_id"])
    assert re.search(r"comm rping .*drv_user 1", detailed["cq"])
    assert len(re.findall(r"comm rping .*drv_usable 1", detailed["mr"])) == 4

    def statistic():
        (port,) = json.loads(client.check("sleep 0.05; rdma -j statistic show link cxgb3_0/1"))
        return port

    before = statistic()
    pinging.expect(f"rdma-ping-{int(re.findall(r'rdma-ping-([0-9]+):', pinging.stdout)[-1]) + 50}:", 60)
    after = statistic()
    assert before["tcpCurrEstab"] == after["tcpCurrEstab"] == 1
    # A round is two Sends, an RDMA Read and an RDMA Write.
    assert after["tcpOutSegs"] - before["tcpOutSegs"] >= 50 and after["tcpInSegs"] - before["tcpInSegs"] >= 50
    pinging.kill()
    pinging.wait(20)
    serving.wait(20)
    for guest in pair.guests:
        wait_no_objects(guest)
    (dev,) = json.loads(client.check("rdma -j -d dev show"))
    assert dev["ifname"] == "cxgb3_0" and dev["node_type"] == "rnic" and "MEM_MGT_EXTENSIONS" in dev["caps"]
    links = json.loads(client.check("rdma -j -d link show"))
    assert [(link["state"], link["physical_state"], link["netdev"]) for link in links] == [
        ("ACTIVE", "LINK_UP", name) for name in client.interfaces]
