# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs of other projects, unmodified from Debian: those that work move data, and those that a T3 refuses get a
reason.

docs/clients.md has a row for each. Guests with more packages take a minute to make, so the tests that need them run
with --long only.
"""

import contextlib
import json
import pathlib
import re

import pytest
import rdma_core
from conftest import Keeper, lend
from labkit import sim, siw, stack
from labkit.errors import CommandTimeout
from labkit.machine import Machine
from labkit.process import run
from labkit.sim import Wire
from stock import (
    PERFTEST_PORT,
    address,
    objects,
    perftest_sides,
    rping_client,
    rping_server,
    wait_listening,
    wait_no_objects,
)
from test_known_bugs import counters

HERE = pathlib.Path(__file__).parent / "guest"


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
    guest.check(
        (
            f"for try in $(seq 200); do grep -q ':{port:04X} 0*:0000 0A' /proc/net/tcp /proc/net/tcp6 && exit 0; sleep"
            " 0.1; done; exit 1"
        ),
        60,
    )


# The reasons of refusals

PYVERBS_REQUEST = """
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
try:
    from pyverbs.enums import IBV_ACCESS_LOCAL_WRITE, IBV_QPT_RC
except ModuleNotFoundError:  # since rdma-core 65
    from pyverbs.libibverbs_enums import ibv_access_flags, ibv_qp_type
    IBV_ACCESS_LOCAL_WRITE, IBV_QPT_RC = ibv_access_flags.IBV_ACCESS_LOCAL_WRITE, ibv_qp_type.IBV_QPT_RC
ctx = Context(name='cxgb3_0')
pd, cq = PD(ctx), CQ(ctx, 16)
def qp(**cap):
    return QP(pd, QPInitAttr(qp_type=IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(**{**dict(max_send_wr=1, max_recv_wr=1), **cap})))
"""  # noqa: E501


@pytest.mark.parametrize(
    "request_, reason",
    [
        ("qp(max_send_wr=1024)", "1024 send WRs requested, at most 1023 are possible"),
        ("qp(max_recv_wr=1024)", "1024 receive WRs requested, at most 1023 are possible"),
        ("qp(max_send_sge=5)", "5 SGEs of a send WR requested, at most 4 are possible"),
        ("qp(max_recv_sge=5)", "5 SGEs of a receive WR requested, at most 4 are possible"),
        ("qp(max_inline_data=65)", "65 bytes of inline data requested, at most 64 are possible"),
        ("CQ(ctx, 40000)", "40000 CQ entries requested, at most 32752 are possible"),
        (
            "MR(pd, 1 << 32, IBV_ACCESS_LOCAL_WRITE, address=1 << 20)",
            "4294967296 bytes of a region requested, at most 4294967295 are possible",
        ),
    ],
)
def test_the_kernel_log_names_the_limit_that_a_program_exceeds(pair, request_, reason):
    guest = pair.guests[0]
    with debug_messages(guest) as lines:
        done = guest.run(["python3", "-c", f"{PYVERBS_REQUEST}{request_}"])
    assert "Errno: 22, Invalid argument" in done.stderr, done
    assert any(line.endswith(reason) for line in lines), lines


# What these need, a T3 does not have: UD, UC, SRQs, XRC.
@pytest.mark.parametrize(
    "command, printed",
    [
        ("ibv_ud_pingpong -g 0", "Couldn't create QP"),
        ("ibv_uc_pingpong -g 0", "Couldn't create QP"),
        ("ibv_srq_pingpong -g 0", "Couldn't create SRQ"),
        ("ibv_xsrq_pingpong -g 0", "Couldn't Open the XRC Domain 95"),
        ("mckey -m 239.1.1.1 -b 10.0.0.1", "unable to create QP: Operation not supported"),
        ("udaddy -s 10.0.0.2", "unable to create QP: Operation not supported"),
    ],
)
def test_programs_for_other_transports_end_at_once(pair, command, printed):
    guest = pair.guests[0]
    done = guest.run(command, 30)
    assert done.rc and printed in done.stdout + done.stderr, done
    wait_no_objects(guest)


# Either side may fail first.
@pytest.mark.allow_log(r"ib_\w+\[\d+\].*(general protection|segfault).*librdmacm", "perftest's retry after a rejection")
@pytest.mark.parametrize(
    "command, listens, printed",
    [
        ("ibv_rc_pingpong -g 0", "tcp", "Failed to modify QP to RTR"),
        ("ib_write_bw -F", "tcp", " to RTR\n"),
        ("ib_send_bw -R -F --use-srq", "cm", "Couldn't create SRQ"),
        ("ib_atomic_bw -R -F", "cm", "Couldn't post send"),
    ],
)
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


# The peer may have ended the connection before.
@pytest.mark.parametrize(
    "tool, options",
    [
        ("ib_send_bw", "-b"),
        ("ib_write_bw", "-q 4 -t 16"),
        ("ib_write_lat", ""),
        ("ib_send_lat", "-a"),
        ("ib_send_bw", "-q 2 -r 64"),
        ("ib_read_bw", "-o 4"),
    ],
)
def test_perftest_disconnects_without_an_error(pair, tool, options):
    server, client = pair.guests
    for side in perftest_sides(server, client, tool, f"-n 100 {options}"):
        assert "Failed to disconnect" not in side.stdout + side.stderr, side


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
""".split()  # noqa: E501
# Why rdma-core's tests skip themselves on a T3: what it does not have, or no IP address in the GID, which is that of
# all iWARP devices.
SKIPS = (
    r"not supported|[Uu]nsupported|does(n't| not) (support|report)|requires|must be done by|No (supported port|IB"
    r" devices|relevant GID)|"
    r"no (MLNX|relevant)|not (an? |available|enabled)|hugepage|There is no|All gid indices populated|"
    r"/dev/dri/\w+ is not present"
)


def test_rdma_cores_own_tests_pass(pair, suite):
    guest = pair.guests[0]
    rdma_core.install(guest, suite)
    report = json.loads(
        guest.check(f"python3 {rdma_core.RUNNER} alone {rdma_core.FOLDER} cxgb3_0", 120).splitlines()[0]
    )
    assert not report["failed"], "\n".join(f"{name}: {trace}" for name, trace in report["failed"].items())
    assert set(PYVERBS) <= set(report["passed"]), set(PYVERBS) - set(report["passed"])
    unexplained = {name: why for name, why in report["skipped"].items() if not re.search(SKIPS, why)}
    assert not unexplained
    wait_no_objects(guest)


def pyverbs_sides(server, client, case):
    """Starts both sides of a case."""
    return [
        guest.start(
            f"exec python3 {rdma_core.RUNNER} {side} {rdma_core.FOLDER} {address(guest)} {address(peer)} {case}"
        )
        for guest, peer, side in ((server, client, "passive"), (client, server, "active"))
    ]


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
    """A QP that the program moves itself, after CONNECT_RESPONSE. t3_rdma_cm reports this event; the in-tree rdma_cm
    reports ESTABLISHED for all iWARP devices, for which the test is not made."""
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
    shown = {
        kind: json.loads(client.check(f"rdma -j resource show {kind}")) for kind in ("qp", "cq", "mr", "pd", "cm_id")
    }
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
    # The driver's own fields. rdma breaks long lines, each release at other fields.
    detailed = {
        kind: re.sub(r"\n +", " ", client.check(f"rdma -dd resource show {kind}"))
        for kind in ("qp", "cq", "mr", "cm_id")
    }
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
        ("ACTIVE", "LINK_UP", name) for name in client.interfaces
    ]


# The programs below are in more packages.

PACKAGES = ("qperf", "fio", "libfabric-bin", "curl", "open-iscsi", "tgt", "ucx-utils")
MACHINE = Machine(memory=1024, packages=PACKAGES)
PRELOAD = "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/rsocket/librspreload.so"
HTTP_PORT = 8000
FIO_PORT = 7900
ATTEMPTS = 3


@pytest.fixture(scope="module")
def _programs_keeper(suite, kernel, pytestconfig):
    keeper = Keeper(
        guests=2, suite=suite, kernel=kernel, name="programs", load=pytestconfig.getoption("--load"), machine=MACHINE
    )
    yield keeper
    keeper.drop()


@pytest.fixture
def programs(request, _programs_keeper):
    """Two guests with these programs, which know each other's names, as libfabric needs."""
    lending = lend(_programs_keeper, request)
    lab = next(lending)
    names = "".join(f"{address(guest)} {guest.name}\\n" for guest in lab.guests)
    for guest in lab.guests:
        guest.check(f"printf '127.0.0.1 localhost\\n{names}' > /etc/hosts; ip link set lo up")
    yield lab
    for guest in lab.guests:
        guest.end_commands()
        wait_no_objects(guest)
    yield from lending


# qperf

QPERF_PORT = 19765
QPERF_ATTEMPTS = 10  # on a busy host three in a row were rejected
QPERF_CRASH = pytest.mark.allow_log(
    r"qperf\[\d+\]: segfault at 0 ", "qperf destroys an object that it does not have, also over siw"
)


@contextlib.contextmanager
def qperf_server(guest):
    serving = guest.start("exec qperf")
    wait_tcp(guest, QPERF_PORT)
    try:
        yield
    finally:
        serving.kill()
        guest.run("pkill -KILL qperf")  # one process per client
        serving.wait(20)


def qperf(server, client, options):
    """The client's result. Two errors of qperf's own are tried again. The server sends the port to the client before it
    listens there, so a fast client is rejected. And each side ends the test by its own timer: the later one sees
    flushed requests, for the other side has ended the connection, and counts them as errors."""
    for _ in range(QPERF_ATTEMPTS):
        with qperf_server(server):
            done = client.run(f"qperf {address(server)} {options}", 60)
        if not re.search("flush|Event rejected", done.stdout + done.stderr):
            break
    return done


@pytest.mark.long
@QPERF_CRASH
@pytest.mark.parametrize(
    "test", ["rc_lat", "rc_lat -m 64K", "rc_lat -cp1", "rc_rdma_read_lat", "rc_rdma_read_lat -m 64K"]
)
def test_qperf_within_the_limits(programs, test):
    server, client = programs.guests
    before = sum(counters(client, "tcpActiveOpens"))
    options = " ".join(reversed(test.split(" ", 1)))  # options come before the test
    done = qperf(server, client, f"-cm1 -t 1 {options}")
    figure = re.search(r"^    latency  =  ([\d.]+) (us|ms)$", done.stdout, re.M)
    assert done.rc == 0 and figure and float(figure[1]) > 0, done
    assert sum(counters(client, "tcpActiveOpens")) > before, "qperf used the card"


@pytest.mark.long
@QPERF_CRASH
@pytest.mark.parametrize(
    "options, printed, logged",
    [
        ("-cm1 rc_bw", "failed to create QP: Invalid argument", "1024 send WRs requested, at most 1023 are possible"),
        (
            "-cm1 rc_rdma_write_bw",
            "failed to create QP: Invalid argument",
            "1024 send WRs requested, at most 1023 are possible",
        ),
        ("rc_lat", "failed to modify QP to RTR: Operation not supported", "iWARP connects by the RDMA CM only"),
        ("-cm1 rc_rdma_write_lat", "failed to post rdma write with immediate", None),
    ],
)
def test_qperf_beyond_the_limits_gets_a_reason(programs, options, printed, logged):
    server, client = programs.guests
    with debug_messages(client) as lines:
        done = qperf(server, client, options)
    assert printed in done.stdout + done.stderr, done
    assert logged is None or any(logged in line for line in lines), lines


# libfabric


def fi_pingpong(server, client, options, universe="FI_UNIVERSE_SIZE=2", timeout=120):
    command = f"exec fi_pingpong -d cxgb3_0 -c {options}"
    env = f"export {universe};" if universe else ""
    serving = server.start(f"{env} {command}")
    wait_tcp(server, 47592)
    done = client.run(f"{env} {command} {address(server)}", timeout)
    return done, serving.wait(30)


@pytest.mark.long
@pytest.mark.parametrize("endpoint", ["-p verbs -e msg", "-p 'verbs;ofi_rxm' -e rdm"], ids=["msg", "rxm"])
def test_fi_pingpong_of_libfabric(programs, endpoint):
    """-c compares the data."""
    server, client = programs.guests
    for size in (64, 4096, 65536, 1 << 20):
        done, served = fi_pingpong(server, client, f"{endpoint} -I 20 -S {size}")
        assert done.rc == served.rc == 0, (done, served)
        for side in (done, served):
            (figures,) = [line.split() for line in side.stdout.splitlines() if not line.startswith("bytes")]
            assert figures[1:3] == ["20", "=20"], side


@pytest.mark.long
def test_fi_pingpong_over_rxm_with_the_default_universe_gets_a_reason(programs):
    """ofi_rxm requests a CQ for 256 peers."""
    server, client = programs.guests
    with debug_messages(server) as lines:
        done, served = fi_pingpong(server, client, "-p 'verbs;ofi_rxm' -e rdm -I 20 -S 64", universe=None)
    assert done.rc and served.rc and "fi_enable()" in served.stderr and "Invalid argument" in served.stderr, (
        done,
        served,
    )
    assert any(re.search(r"\d+ CQ entries requested, at most 32752 are possible", line) for line in lines), lines


# UCX

UCX_PORT = 13337


@pytest.mark.long
def test_ucx_leaves_the_card_to_tcp(programs):
    """UCX connects its QPs by ibv_modify_qp(), and offers no transport of an iWARP device. So its programs use the
    host's TCP."""
    server, client = programs.guests
    transports = re.findall(r"Transport: (\w+)", client.check("ucx_info -d", 60))
    assert "tcp" in transports and not [name for name in transports if name.startswith(("rc", "ud", "dc"))], transports
    before = counters(client, "tcpActiveOpens")
    # Of Debian 13 and later: a program of MPI, except with -P 0. And of one of the card's two ports, see
    # docs/clients.md.
    perftest = "ucx_perftest" + (" -P 0" if "-P <0|1>" in server.run("ucx_perftest -h 2>&1").stdout else "")
    serving = server.start(f"UCX_NET_DEVICES={server.interfaces[0]} exec {perftest} 2>&1")
    wait_tcp(server, UCX_PORT)
    done = client.run(f"UCX_NET_DEVICES={client.interfaces[0]} {perftest} {address(server)} -t tag_lat -n 100 2>&1", 60)
    assert done.rc == 0 and re.search(r"^Final: +100 ", done.stdout, re.M), done
    assert counters(client, "tcpActiveOpens") == before, "the card has no connection"
    serving.kill()
    serving.wait(20)


# rsockets

SIZES = (1, 100000, 3000000)
# curl opens its socket with SOCK_NONBLOCK there, and librspreload replaces such sockets since rdma-core 65 only.
CURL_STAYS_WITH_TCP = ("trixie", "trixie-backports")
# There curl never ends, over siw neither: it waits in its own threads before it connects, and the server gets no
# request.
CURL_HANGS = ("forky",)


@contextlib.contextmanager
def web_server(guest):
    """http.server of Python over rsockets, with files named by their sizes."""
    guest.push(HERE / "rsocket_http.py", "/tmp/rsocket_http.py")
    guest.check(
        f"mkdir -p /tmp/www; cd /tmp/www; for size in {' '.join(map(str, SIZES))}; do head -c $size /dev/urandom >"
        " $size; done"
    )
    serving = guest.start(f"{PRELOAD} exec python3 /tmp/rsocket_http.py serve {address(guest)} {HTTP_PORT} /tmp/www")
    wait_listening(guest, HTTP_PORT)
    try:
        yield serving
    finally:
        serving.kill()
        serving.wait(20)


def fetch(server, client, command, size):
    """The result of a command that writes a file of the server to /tmp/SIZE of the client; the card connects once for
    it."""
    client.check(f"rm -f /tmp/{size}")
    opens = counters(client, "tcpActiveOpens")
    done = client.run(f"{PRELOAD} timeout 90 {command}", 120)
    assert done.rc == 0, done
    assert client.check(f"sha256sum < /tmp/{size}") == server.check(f"sha256sum < /tmp/www/{size}")
    assert counters(client, "tcpActiveOpens") == [opens[0] + 1], "the client used the card"
    return done


def curl(server, options, name):
    return f"curl -sS --max-time 60 {options} http://{address(server)}:{HTTP_PORT}/{name}"


@pytest.mark.long
def test_rsockets_carry_a_web_server_and_its_client(programs):
    server, client = programs.guests
    client.push(HERE / "rsocket_http.py", "/tmp/rsocket_http.py")
    with web_server(server) as serving:
        for size in SIZES:
            done = fetch(
                server,
                client,
                f"python3 /tmp/rsocket_http.py get {address(server)} {HTTP_PORT} {size} /tmp/{size}",
                size,
            )
            assert done.stdout == "200\n"
        assert serving.stderr.count('" 200 -') == len(SIZES)


@pytest.mark.long
def test_rsockets_carry_curl_where_its_sockets_are_replaced(programs, suite):
    """Otherwise curl connects by the host's TCP, with librspreload as without. There the RDMA listener of the server's
    card gets its request, which is no MPA request, and resets the connection; siw does the same."""
    server, client = programs.guests
    with web_server(server) as serving:
        opens = counters(client, "tcpActiveOpens")
        for prefix in ("", PRELOAD) if suite in CURL_STAYS_WITH_TCP else ("",):
            done = client.run(f"{prefix} {curl(server, '-o /tmp/1', 1)}", 90)
            assert done.rc == 56 and "Connection reset by peer" in done.stderr, done
        assert counters(client, "tcpActiveOpens") == opens, "the client's card has no connection"
        assert "GET" not in serving.stderr
        if suite in CURL_STAYS_WITH_TCP:
            return
        if suite in CURL_HANGS:
            done = client.run(
                f"{PRELOAD} timeout -s KILL 40 {curl(server, '-o /tmp/1', 1)}".replace(
                    "--max-time 60", "--max-time 10"
                ),
                90,
            )
            assert done.rc in (-9, 137), done
            return
        for size in SIZES:
            fetch(server, client, curl(server, f"-o /tmp/{size}", size), size)
        assert serving.stderr.count('" 200 -') == len(SIZES)
        missing = client.run(f"{PRELOAD} {curl(server, '--fail', 'missing')}", 90)
        assert "404" in missing.stderr and missing.rc == 22, missing


# fio


@contextlib.contextmanager
def recorded(lab, path):
    """A recording of the cards, as text of `t3sim trace`."""
    lines = []
    for action in (["start", path], ["stop"]):
        run([sim.program(), "ctl", lab.sim.control_socket, "record", *action])
        if action == ["stop"]:
            lines += run([sim.program(), "trace", path]).splitlines()
        else:
            yield lines


FIO = f"cd /tmp; ulimit -l unlimited; exec fio --ioengine=rdma --port={FIO_PORT} --bs=4k --thread --output-format=json"


def fio_both(server, client, options, server_depth, client_depth):
    """Starts a server and its client; the server learns the operation from the client."""
    serving = server.start(f"{FIO} --name=served {options} --rw=read --iodepth={server_depth} 2>&1")
    wait_listening(server, FIO_PORT)
    return serving, client.start(
        f"{FIO} --name=sent {options} --rw=write --iodepth={client_depth} --hostname={address(server)}"
    )


def fio(server, client, options, server_depth, client_depth, timeout=60):
    """The results of client and server. After an error on its connection, fio does not end."""
    serving, sending = fio_both(server, client, options, server_depth, client_depth)
    results = []
    for command in (sending, serving):
        try:
            results.append(command.wait(timeout))
        except CommandTimeout:
            command.kill()
            results.append(command.wait(10))
    return results


def job(result):
    return json.loads(result.stdout[result.stdout.index("{") :])["jobs"][0]


@pytest.mark.long
@pytest.mark.parametrize("depth", [1, 8])
@pytest.mark.parametrize("verb", ["write", "read"])
def test_fio_writes_and_reads(programs, verb, depth):
    server, client = programs.guests
    before = counters(client, "tcpInSegs", "tcpOutSegs")
    done, served = fio(server, client, f"--verb={verb} --size=2m", 1, depth)
    assert done.rc == served.rc == 0, (done, served)
    moved = job(done)["write"]
    assert job(done)["error"] == 0 and (moved["total_ios"], moved["io_bytes"], moved["short_ios"]) == (
        512,
        2 << 20,
        0,
    ), moved
    received, sent = (new - old for new, old in zip(counters(client, "tcpInSegs", "tcpOutSegs"), before))
    assert (sent if verb == "write" else received) > (2 << 20) // 1460, "the card moved the data"


@pytest.mark.long
def test_fio_sends_no_more_than_the_receives_that_are_posted(programs):
    """16 Sends, of which the other side has 32 receives. It has half a second to post them: fio sleeps."""
    server, client = programs.guests
    for _ in range(ATTEMPTS):
        done, served = fio(server, client, "--verb=send --size=64k", 32, 8)
        if done.rc == served.rc == 0:
            break
    assert done.rc == served.rc == 0, (done, served)
    assert job(done)["write"]["total_ios"] == 16 and job(served)["read"]["total_ios"] == 16


@pytest.mark.long
@pytest.mark.allow_wire(r"TERMINATE 1/2/0x02", "the receiver has posted too few receives")
def test_fio_sends_more_than_the_receives_that_are_posted(programs, tmp_path):
    """fio relies on the receiver-not-ready message of InfiniBand: its sender does not wait until the receiver has
    posted again. iWARP has no such message, and the receiver ends the connection (RFC 5041, 7.1). The card completed
    every receive that fio had posted.
    """
    server, client = programs.guests
    with debug_messages(server) as lines, recorded(programs, tmp_path / "fio.t3t") as trace:
        serving, sending = fio_both(server, client, "--verb=send --size=8m", 8, 8)
        serving.expect(r"cq completion status 5\(Work Request Flushed Error\)", 60)
    for command in (sending, serving):
        command.kill()
        command.wait(20)
    message = next(line for line in lines if "no receive posted" in line)
    qp = f"c0 .* QP 0x{int(re.search(r'qp ([0-9]+)', message)[1]):x} "
    posted = completed = 0
    for line in trace:
        if not re.search(qp, line):
            continue
        posted += bool(re.search(r" wr .* RECEIVE [0-9]+ B ", line))
        completed += bool(re.search(r" cqe .* CQE RECEIVE ", line))
        if "error: no receive" in line:
            break
    else:
        pytest.fail("the recording has no such error")
    assert posted == completed > 8, "all receives that fio posted, among them one for its parameters, have completed"


@pytest.mark.long
@pytest.mark.allow_wire(r"TERMINATE 2/1/0x02", "siw ends the connection, and swaps layer and type of its TERMINATE")
def test_fio_sends_too_much_for_siw_too(make_lab, suite, pytestconfig):
    """The receiver is siw, and ends the connection for the same reason: layer DDP, untagged buffers, no buffer for this
    message number."""
    if not pytestconfig.getoption("--no-build"):
        siw.module(suite)
    lab = make_lab(machine=MACHINE, cards=(1, 0), wires=[Wire("p0", ("c0.0", "n1"))], load="rdma")
    client, server = lab.guests
    with debug_messages(server, "siw") as lines:
        for attempt in range(1, ATTEMPTS + 1):
            serving, sending = fio_both(server, client, "--verb=send --size=8m", 8, 8)
            try:
                sending.expect("cq completion status", 30)
                break
            except (
                CommandTimeout
            ):  # siw does not process data that comes before it has handled its reply, see stock.run_both
                if attempt == ATTEMPTS:
                    raise
            finally:
                for command in (sending, serving):  # in this order: in-tree iw_cm does not survive the other with siw
                    command.kill()
                    command.wait(20)
    assert any("init TERM: layer 1, type 2, code 2" in line for line in lines), lines


# iSCSI over RDMA (iSER): the kernel's target (LIO isert), Debian's initiator (open-iscsi with the kernel's iser), and
# tgt

TARGET = "iqn.2003-01.t3:disk"
ISCSI_PORT = 3260
ISCSI_MB = 8


@contextlib.contextmanager
def lio(guest):
    """A target of LIO whose disk is a RAM disk."""
    portal = f"{address(guest)}:{ISCSI_PORT}"
    guest.check(
        f"""set -e
        modprobe brd rd_nr=1 rd_size={ISCSI_MB * 1024}
        modprobe target_core_iblock; modprobe iscsi_target_mod; modprobe ib_isert
        mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
        cd /sys/kernel/config/target
        mkdir -p core/iblock_0/disk
        echo udev_path=/dev/ram0 > core/iblock_0/disk/control
        echo 1 > core/iblock_0/disk/enable
        mkdir -p iscsi/{TARGET}/tpgt_1; cd iscsi/{TARGET}/tpgt_1
        mkdir -p lun/lun_0 np/{portal}
        ln -s /sys/kernel/config/target/core/iblock_0/disk lun/lun_0/disk
        for row in authentication=0 generate_node_acls=1 cache_dynamic_acls=1 demo_mode_write_protect=0; do
            echo ${{row#*=}} > attrib/${{row%=*}}
        done
        echo 1 > np/{portal}/iser
        echo 1 > enable""",
        120,
    )
    try:
        wait_listening(guest, ISCSI_PORT)
        yield
    finally:
        # LIO frees the ACL of a session that is still closing (6.1: list corruption in
        # transport_deregister_session_configfs).
        guest.check(
            f"""set -e
            for try in $(seq 300); do pgrep iscsi_t[rt]x > /dev/null || break; sleep 0.1; done
            cd /sys/kernel/config/target/iscsi/{TARGET}/tpgt_1
            echo 0 > enable
            rmdir np/{portal}; rm lun/lun_0/disk; rmdir lun/lun_0
            cd /sys/kernel/config/target
            rmdir iscsi/{TARGET}/tpgt_1 iscsi/{TARGET} iscsi core/iblock_0/disk core/iblock_0
            modprobe -r ib_isert iscsi_target_mod target_core_iblock brd""",
            60,
        )


@contextlib.contextmanager
def initiator(guest, target_guest):
    """iscsid with a record of the target; yields the command of iscsiadm for it."""
    node = f"iscsiadm -m node -T {TARGET} -p {address(target_guest)}:{ISCSI_PORT}"
    guest.check(
        """set -e
        modprobe ib_iser; modprobe sd_mod
        mkdir -p /run/lock/iscsi; echo InitiatorName=iqn.2003-01.t3:client > /etc/iscsi/initiatorname.iscsi""",
        60,
    )
    daemon = guest.start("exec iscsid -f 2>&1")
    try:
        guest.check(
            f"""set -e
            for try in $(seq 100); do ss -xl | grep -q ISCSIADM_ABSTRACT_NAMESPACE && break; sleep 0.1; done
            {node} -o new -I iser
            {node} -o update -n iface.transport_name -v iser
            {node} -o update -n node.session.initial_login_retry_max -v 1""",
            60,
        )
        yield node
    finally:
        daemon.kill()
        daemon.wait(20)
        # iscsiadm also loads the driver of the card's iSCSI engine, which is of the kernel.
        guest.check(f"{node} -o delete; modprobe -r ib_iser; modprobe -r cxgb3i", 60)


@pytest.fixture
def storage(programs):
    """The guests; at the end their driver is loaded again, since ib_core keeps its CQs for kernel users until the
    device is removed."""
    yield programs
    for guest in programs.guests:
        guest.check(f"rmmod iw_cxgb3\n{stack.load_module('iw_cxgb3')}", 60)


@pytest.mark.long
def test_a_disk_over_iser_keeps_its_data(storage):
    server, client = storage.guests
    with lio(server), initiator(client, server) as node:
        client.check(f"{node} -l", 120)
        try:
            session = client.check("iscsiadm -m session")
            assert session.startswith("iser: [") and TARGET in session
            disk = client.check(
                """for try in $(seq 200); do
                    for name in /sys/block/sd*; do [ -e $name ] && grep -q LIO $name/device/vendor && exec echo /dev/$(basename $name); done
                    sleep 0.1
                done; exit 1""",  # noqa: E501
                60,
            ).strip()  # noqa: E501
            client.check(f"head -c {ISCSI_MB}M /dev/urandom > /tmp/data")
            written = client.check("sha256sum < /tmp/data")
            # The target reads what is larger than a command's immediate data from the client's memory.
            for size, count in (("256k", 4 * ISCSI_MB), ("4k", 64), ("512", 64)):
                client.check(f"dd if=/tmp/data of={disk} bs={size} count={count} oflag=direct conv=notrunc", 120)
            assert server.check("sha256sum < /dev/ram0", 60) == written
            for size in ("256k", "4k"):
                assert client.check(f"dd if={disk} bs={size} iflag=direct | sha256sum", 120) == written
            used = objects(client)
            assert used["qp"] == 1 and used["mr"], used
        finally:
            client.check(f"{node} -u", 120)


@pytest.mark.long
@pytest.mark.allow_log(
    r"tgtd\[\d+\].*(general protection|segfault).*librdmacm",
    "after the error tgtd rejects with an id that it has destroyed",
)
def test_tgt_is_refused_with_a_reason(storage, pytestconfig):
    """tgtd also listens on IPv6 only, which the in-tree rdma_cm refuses. With t3_rdma_cm it listens, if its TCP has
    another port, but requests larger queues."""
    server, client = storage.guests
    with debug_messages(server) as lines:
        serving = server.start(
            f"exec tgtd -f --iscsi portal={address(server)}:{ISCSI_PORT + 1} --iser pool_sz_mb=64 2>&1"
        )
        if "t3_rdma_cm" in stack.level(pytestconfig.getoption("--load")).access:
            wait_listening(server, ISCSI_PORT)
            wait_tgtd = (
                "for try in $(seq 100); do tgtadm --lld iser --op show --mode sys > /dev/null 2>&1 && break; sleep 0.1;"
                " done"
            )
            server.check(
                f"""{wait_tgtd}; set -e; head -c 1M /dev/urandom > /tmp/disk
                tgtadm --lld iser --op new --mode target --tid 1 -T {TARGET}
                tgtadm --lld iser --op new --mode logicalunit --tid 1 --lun 1 -b /tmp/disk
                tgtadm --lld iser --op bind --mode target --tid 1 -I ALL""",
                60,
            )
            with initiator(client, server) as node:
                login = client.start(f"{node} -l")
                serving.expect("(?i)rdma_create_qp|failed to create qp", 60)
                login.kill()
                login.wait(20)
            reason = "1800 send WRs requested, at most 1023 are possible"
        else:
            serving.expect("rdma_listen -1: Address family not supported by protocol", 60)
            reason = f"listen refused: [::]:{ISCSI_PORT} (IPv6 only), and the card has no IPv6"
    assert any(reason in line for line in lines), lines
    serving.kill()
    serving.wait(20)
