# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Our connection manager, t3_rdma_cm, instead of rdma_cm, iw_cm and rdma_ucm: stock programs over it, their events, and
a comparison with the in-tree modules, command by command."""

import json
import pathlib

import pytest
from labkit import stack
from programs import BIN, storm, ucm_differences
from stock import address, cmtime, objects, rcopy, rdma_client, rping, ucmatose, wait_listening

HERE = pathlib.Path(__file__).parent / "guest"
PORT = 7500
TABLE = "/sys/kernel/debug/t3_rdma_cm/ids"


@pytest.fixture
def ends(t3cm):
    for guest in t3cm.guests:
        for program in ("cm.py", "ucm.py", "ucm_race.py"):
            guest.push(HERE / program, f"/tmp/{program}", 0o755)
    return t3cm.guests


def listen(guest, options="", port=PORT, at=None):
    server = guest.start(f"exec /tmp/cm.py listen {at or address(guest)} {port} {options}")
    wait_listening(guest, port)
    return server


def connect(guest, server, options="", port=PORT):
    return guest.run(f"/tmp/cm.py connect {address(server)} {port} {options}", 30)


def lines(result):
    return [json.loads(line) for line in result.stdout.splitlines()]


def events(result):
    return [line["event"] for line in lines(result) if "event" in line]


# stock programs


def test_none_of_the_in_tree_managers_is_loaded(ends):
    for guest in ends:
        loaded = {line.split()[0] for line in guest.check("lsmod").splitlines()[1:]}
        assert "t3_rdma_cm" in loaded
        assert not loaded & {"rdma_cm", "iw_cm", "rdma_ucm"}


@pytest.mark.parametrize("options", ["-C 200 -S 4096 -V", "-C 20 -V -q"], ids=["rounds", "own-qp"])
def test_rping(ends, options):
    """With -q rping creates and modifies its QP itself, waits for CONNECT_RESPONSE, and calls rdma_establish()."""
    server, client = ends
    rping(server, client, options)


def test_ucmatose(ends):
    ucmatose(*ends, "-c 10 -C 20")


def test_rdma_client_and_rdma_server(ends):
    rdma_client(*ends)


def test_rcopy(ends):
    rcopy(*ends)


@pytest.mark.parametrize("program", ["rstream", "riostream"])
def test_rsockets(ends, program):
    server, client = ends
    serving = server.start(f"exec {program} -b {address(server)} -S 1024 -I 10 -C 10")
    wait_listening(server, 7471)
    done = client.run(f"{program} -s {address(server)} -S 1024 -I 10 -C 10", 60)
    assert done.rc == 0 and "1k" in done.stdout, done
    assert serving.wait(20).rc == 0


def test_cmtime(ends):
    cmtime(*ends, 50)


# events


@pytest.mark.parametrize("length", [0, 1, 255])
def test_the_events_of_a_connection(ends, length):
    server, client = ends
    serving = listen(server, f"--data {length} --depths 3,2")
    done = connect(client, server, f"--data {length}")
    assert done.rc == 0, done
    assert events(done) == ["ADDR_RESOLVED", "ROUTE_RESOLVED", "ESTABLISHED", "DISCONNECTED"]
    served = serving.wait(20)
    assert events(served) == ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED"]
    for established in (lines(done)[2], lines(served)[1]):
        assert (established["length"], established["intact"]) == (length, True)


@pytest.mark.parametrize("length", [0, 148])
def test_a_reject_with_private_data(ends, length):
    server, client = ends
    serving = listen(server, f"--reject --data {length}")
    refused = lines(connect(client, server))[-1]
    assert (refused["event"], refused["status"], refused["length"], refused["intact"]) == (
        "REJECTED",
        -111,
        length,
        True,
    )
    assert serving.wait(20).rc == 0


def test_connect_without_a_listener_is_rejected(ends):
    server, client = ends
    refused = lines(connect(client, server, port=PORT + 1))[-1]
    assert (refused["event"], refused["status"]) == ("REJECTED", -111)


def test_C10_one_listener_on_all_devices(ends):
    server, client = ends
    serving = listen(server, "--count 2", at="0.0.0.0")
    for card_port in (0, 1):
        done = client.run(f"/tmp/cm.py connect {address(server, card_port)} {PORT}")
        assert done.rc == 0, done
    assert serving.wait(20).rc == 0


# C22: a listener allocates for a request when it arrives.
def test_C22_a_backlog_limits_requests_without_allocating_in_advance(ends):
    server, client = ends
    serving = listen(server, "--backlog 1 --wait 2 --count 2")
    running = [client.start(f"exec /tmp/cm.py connect {address(server)} {PORT}") for _ in range(4)]
    ended = sorted(events(done.wait(30))[-1] for done in running)
    assert "REJECTED" in ended and "DISCONNECTED" in ended
    serving.kill()
    serving.wait(10)


# C4, C5, C14: a process that is killed in any state of its connection leaves neither ids nor QPs.
@pytest.mark.parametrize("victim", [0, 1], ids=["server", "client"])
@pytest.mark.parametrize("when", ["connected", pytest.param("requested", marks=pytest.mark.long)])
def test_C4_C5_C14_a_killed_process_leaves_no_objects(ends, victim, when):
    server, client = ends
    server_options = "--wait 30" if when == "requested" else ""
    running = [
        listen(server, server_options),
        client.start(f"exec /tmp/cm.py connect {address(server)} {PORT} --hold 30"),
    ]
    running[0].expect("CONNECT_REQUEST" if when == "requested" else "ESTABLISHED", 10)
    running[victim].kill()
    if when == "connected":  # a client cannot exit while its provider waits for the reply to a connect
        running[victim].wait(10)
    running[1 - victim].kill()
    for process in running:
        process.wait(10)
    for guest in ends:
        guest.check(
            "for try in $(seq 100); do rdma resource show | grep -q 'qp 0 cm_id 0' && exit; sleep 0.1; done; exit 1"
        )


def test_an_id_releases_its_network_namespace(ends):
    """The kernel removes the interfaces of a namespace when nothing refers to it any more. A listener in it binds and
    ends."""
    guest = ends[0]
    guest.check("modprobe veth; ip netns add n && ip link add outside type veth peer name inside netns n")
    listening = guest.start(f"exec ip netns exec n /tmp/cm.py listen 0.0.0.0 {PORT}")
    guest.check(f"for try in $(seq 100); do grep -q '^id ' {TABLE} && exit; sleep 0.1; done; exit 1")
    guest.check("ip netns del n && ip link show outside")
    listening.kill()
    listening.wait(10)
    guest.check(
        "for try in $(seq 100); do ip link show outside > /dev/null 2>&1 || exit 0; sleep 0.1; done; exit 1", 60
    )


def test_two_namespaces_run_the_same_server(ends):
    """Each has a port of the card. A wildcard listener of one takes neither connections nor the host's TCP of the
    other; it gets the port when that comes back."""
    server, client = ends
    at_n = address(server, 1)
    service = "import socket; print(socket.create_server(('', 7510)).accept(), flush=True)"
    server.check(
        f"""ip netns add n; ip link set eth1 netns n
        ip -n n addr add {at_n}/24 dev eth1; ip -n n link set eth1 up; ip -n n link set lo up
        for try in $(seq 100); do [ "$(ip netns exec n cat /sys/class/net/eth1/carrier)" = 1 ] && exit; sleep 0.1; done; exit 1""",  # noqa: E501
        60,
    )  # noqa: E501
    here, there = (
        server.start(f"exec {where} /tmp/cm.py listen 0.0.0.0 {PORT} --count {count}")
        for where, count in (("", 2), ("ip netns exec n", 1))
    )
    server.check(
        (
            f"for try in $(seq 100); do [ $(rdma resource show cm_id | grep -c 'LISTEN.*:{PORT} ') = 2 ] && exit; sleep"
            " 0.1; done; exit 1"
        ),
        60,
    )
    other = listen(server, port=7510, at="0.0.0.0")
    served = server.start(f'exec ip netns exec n python3 -c "{service}"')
    server.check(
        "for try in $(seq 100); do ip netns exec n ss -tln | grep -q :7510 && exit; sleep 0.1; done; exit 1", 60
    )
    client.check(f"python3 -c \"import socket; socket.create_connection(('{at_n}', 7510), 20)\"", 60)
    assert served.wait(20).rc == 0
    for card_port in (0, 1):
        done = client.run(f"/tmp/cm.py connect {address(server, card_port)} {PORT}", 30)
        assert done.rc == 0, done
    assert there.wait(20).rc == 0
    server.check(
        f"""ip -n n link set eth1 netns $$; ip netns del n; ip addr add {at_n}/24 dev eth1; ip link set eth1 up
        for try in $(seq 100); do [ "$(cat /sys/class/net/eth1/carrier)" = 1 ] && exit; sleep 0.1; done; exit 1""",
        60,
    )
    client.check(f"for try in $(seq 50); do /tmp/cm.py connect {at_n} {PORT} && exit; sleep 0.1; done; exit 1", 60)
    assert here.wait(20).rc == 0
    other.kill()
    other.wait(10)


@pytest.mark.long
# Calls in the wrong order, twice, through another file, and addresses of wrong lengths.
def test_C2_C8_C9_C19_every_command_returns_what_the_in_tree_manager_returns(ends):
    """The same program over both managers. DIFFERENT lists what ours does differently, with the reason."""
    server, client = ends
    script = f"/tmp/ucm.py {address(client)} {address(server)}"
    ours = client.check(script, 60)
    client.check("rmmod t3_rdma_cm && modprobe rdma_ucm")
    try:
        theirs = client.check(script, 60)
    finally:
        client.check("modprobe -r rdma_ucm rdma_cm iw_cm")
        client.check(stack.load_module("t3_rdma_cm"))
    assert ucm_differences(ours, theirs) == DIFFERENT


DIFFERENT = {}


def test_C7_concurrent_commands_on_one_id(ends):
    """Threads bind, resolve, connect, listen with and destroy the same ids: one command is done before the next."""
    server, client = ends
    names = "BIND LISTEN RESOLVE_ADDR RESOLVE_ROUTE GET_EVENT QUERY CREATE_ID DESTROY_ID refused"
    command = f"PYTHONDONTWRITEBYTECODE=1 /tmp/ucm_race.py {address(client)} {address(server)} 20 {names}"
    taken = json.loads(client.check(command, 90))
    assert all(taken.get(name, 0) >= 20 for name in names.split()), taken
    nothing_is_left(client)
    assert client.check(f"cat {TABLE}") == ""


@pytest.mark.long
@pytest.mark.allow_log(r"t3_sge_stop|__flush_work", "cxgb3 itself, see kernel/iw_cxgb3/README.md")
def test_C17_C24_device_removal_and_return(t3cm, ends):
    server, client = ends
    listening, idle = listen(server, "--count 9", at="0.0.0.0"), listen(server, "--count 9", port=PORT + 1)
    running = client.start(f"exec /tmp/cm.py connect {address(server)} {PORT} --hold 60")
    listening.expect("ESTABLISHED", 10)
    card = server.check("basename $(readlink -f /sys/class/net/eth0/device)").strip()
    server.check(f"echo {card} > /sys/bus/pci/drivers/cxgb3/unbind", 60)
    # An id that is bound to the device gets the event; a wildcard listener keeps listening.
    idle.expect("DEVICE_REMOVAL", 10)
    removed = idle.wait(10)
    assert removed.rc == 0 and lines(removed)[-2]["status"] == 0 and lines(removed)[-1] == {"destroyed": True}
    assert server.check("rdma link") == ""

    server.check(
        f"""echo {card} > /sys/bus/pci/drivers/cxgb3/bind
        for port in 0 1; do ip addr add 10.0.$port.1/24 dev eth$port; ip link set eth$port up; done
        for try in $(seq 100); do [ "$(cat /sys/class/net/eth0/carrier)" = 1 ] && exit; sleep 0.1; done; exit 1""",
        60,
    )
    running.kill()
    # The wildcard listener includes the new device.
    wait_listening(server, PORT)
    done = connect(client, server)
    assert done.rc == 0, done
    listening.kill()
    for process in (running, listening):
        process.wait(10)


# the manual pages


@pytest.fixture(params=["ours", pytest.param("in-tree", marks=pytest.mark.long)])
def either(request):
    """A pair with our connection manager, or with Linux's own."""
    lab = request.getfixturevalue("t3cm" if request.param == "ours" else "pair")
    return (*lab.guests, "" if request.param == "ours" else "--in-tree")


def pages(server, client, options):
    """Runs cases of tests/programs/cm_pages*.cc, of which none may fail; returns how many passed."""
    serving = server.start(f"exec {BIN}/t3-cm_pages server --timeout=200")
    wait_listening(server, 7472)
    done = client.run(f"{BIN}/t3-cm_pages client {address(server)} --timeout=180 {options}", 200)
    counted = json.loads(done.stdout or "{}")
    assert counted.get("failed") == [], (counted, done.stderr[-300:])
    assert json.loads(serving.wait(30).stdout)["failed"] == []
    return counted["passed"]


def test_C24_every_rule_of_the_manual_pages(either):
    """The arguments, errors and blocking of each call, and each event that iWARP has."""
    server, client, manager = either
    patience = "/sys/module/iw_cxgb3/parameters/ep_timeout_secs"
    before = client.check(f"cat {patience}; echo 2 > {patience}")
    try:
        assert pages(server, client, manager) > 60
    finally:
        client.check(f"echo {before.strip()} > {patience}")


def test_destroying_a_qp_does_not_wait_for_the_peer(either):
    """Nor for the driver's timeout, which is longer here than the program's."""
    server, client, manager = either
    assert pages(server, client, f"{manager} --case=destroy_qp:") == 2


# ports


BIND = """exec python3 -c "import signal, socket; s = socket.create_server(('{}', {})); print('bound', flush=True); signal.pause()" """  # noqa: E501


@pytest.mark.parametrize("reserve", ["Y", "N"])
def test_ports_shared_with_the_hosts_tcp(ends, reserve):
    """Neither the host's TCP nor RDMA binds a port of the other one; without reserve_tcp_ports both do, as in-tree."""
    server, _ = ends
    parameter = "/sys/module/t3_rdma_cm/parameters/reserve_tcp_ports"
    tcp_bind = BIND.format(address(server), PORT + 2)
    assert server.check(f"cat {parameter}").strip() == "Y"  # the default
    server.check(f"echo {reserve} > {parameter}")
    try:
        listening = listen(server, port=PORT + 2)
        after = server.start(tcp_bind)
        if reserve == "Y":
            assert "Address already in use" in after.wait(10).stderr
        else:
            after.expect("bound", 10)
            after.kill()
            after.wait(10)
        listening.kill()
        listening.wait(10)
        before = server.start(tcp_bind)  # the port is free again
        before.expect("bound", 10)
        listening = server.start(f"exec /tmp/cm.py listen {address(server)} {PORT + 2}")
        if reserve == "Y":
            assert lines(listening.wait(10))[-1]["errno"] == 98
        else:
            listening.expect("listening", 10)
            listening.kill()
            listening.wait(10)
        before.kill()
        before.wait(10)
    finally:
        server.check(f"echo Y > {parameter}")


# a storm


def nothing_is_left(*guests):
    for guest in guests:
        guest.check(
            "for try in $(seq 200); do rdma resource show | grep -q 'qp 0 cm_id 0' && exit; sleep 0.1; done; exit 1"
        )


@pytest.mark.parametrize("connections", [150, pytest.param(2000, marks=pytest.mark.debug)])
def test_C2_C3_C4_C5_C14_C16_C23_a_storm_leaves_no_objects(ends, connections):
    storm(*ends, connections, timeout=120 if connections < 1000 else 600)
    nothing_is_left(*ends)


def test_no_object_is_left(ends):
    """The last test of the file: it covers all tests above."""
    for guest in ends:
        left = objects(guest)
        assert left and not any(left.values()), left
        assert guest.check(f"cat {TABLE}") == ""
