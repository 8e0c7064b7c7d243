# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two users of one card, an attacker and a victim, and an accomplice in the second guest (tests/programs/isolation):
nothing that the attacker does reaches the victim's memory, connections, ports or time.

Each case runs over the in-tree modules and over ours, in the same guests; with --load over those.
"""

import contextlib
import json
import pathlib

import pytest
from conditions import parameters
from conftest import Keeper, lend
from labkit import build, stack
from labkit.machine import Machine
from programs import BIN
from stock import address, rping, wait_no_objects

PROGRAM = f"{BIN}/t3-isolation"
CM = pathlib.Path(__file__).parent / "guest/cm.py"
PORT = 7472
ATTACKER, ACCOMPLICE = 2001, 2003
OURS = "t3_rdma_cm"


def as_user(user: int) -> str:
    return f"setpriv --reuid={user} --regid={user} --clear-groups"


def pytest_generate_tests(metafunc):
    if "level" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--load")
        metafunc.parametrize("level", ["rdma", "rdma-t3"] if chosen == "rdma" else [chosen], scope="module")


class Users:
    """The lab, and which modules its guests have loaded."""

    def __init__(self):
        self.lab = self._loaded = None

    def use(self, lab, level: str) -> None:
        if lab is not self.lab:
            self.lab, self._loaded = lab, "rdma"
        if level != self._loaded:
            self._loaded = None
            stack.unload_access(lab.guests)
            stack.load_access(lab.guests, stack.level(level).access)
            self._loaded = level

    @property
    def host(self):
        """The guest with the card of attacker and victim."""
        return self.lab.guests[0]

    @property
    def peer(self):
        return self.lab.guests[1]

    @property
    def manager_is_ours(self) -> bool:
        return OURS in stack.level(self._loaded).access

    @contextlib.contextmanager
    def accomplice(self, count: int = 2):
        """The accomplice's sockets, at so many pairs of ports."""
        serving = self.peer.start(f"exec {as_user(ACCOMPLICE)} {PROGRAM} server --count={count} --timeout=7200")
        serving.expect("listening", 20)
        try:
            yield
        finally:
            serving.kill()
            serving.wait(20)

    def run(self, case: str, options: str = "", timeout: int = 120, count: int = 2) -> dict:
        """The result of a case; the test judges it."""
        with self.accomplice(count):
            done = self.host.run(
                f"exec {PROGRAM} client {address(self.peer)} --case={case} --timeout={timeout} {options}", timeout + 20
            )
        print(done.stdout, done.stderr)
        result = json.loads(done.stdout)
        assert not result.keys() & {"error", "victim_ended_by_signal"}, result
        return result


@pytest.fixture(scope="module")
def _keeper(suite, kernel, _appended):
    keeper = Keeper(guests=2, suite=suite, kernel=kernel, name="isolation", load="rdma", machine=_appended(Machine()))
    yield keeper
    keeper.drop()


@pytest.fixture(scope="module")
def _users():
    return Users()


@pytest.fixture
def users(request, _keeper, _users, level):
    lending = lend(_keeper, request)
    _users.use(next(lending), level)
    yield _users
    for guest in _users.lab.guests:
        guest.end_commands()
        wait_no_objects(guest)
    yield from lending


# memory

WINDOWS = ("window", "wrapped", "window_read")
ROUNDS = {"receive": 40, "huge": 10, "write": 10, "read": 10, "window": 4, "wrapped": 1, "window_read": 10}
LONG_ROUNDS = 2000


def check_memory(users, kind: str, rounds: int, timeout: int) -> None:
    result = users.run("memory", f"--kinds={kind} --rounds={rounds}", timeout)
    if f"{kind}_windows" in result:
        assert result[f"{kind}_windows"] == "EOPNOTSUPP"  # windows are off
        return
    assert (result[f"{kind}_changed"], result[f"{kind}_leaked"]) == (0, 0), result
    # Data that go nowhere would prove nothing.
    assert result[f"{kind}_delivered"] + result[f"{kind}_refused"] == rounds
    if kind not in WINDOWS:
        assert result[f"{kind}_delivered"] == rounds, result


@pytest.mark.parametrize("kind", ROUNDS)
def test_the_card_does_not_reach_memory_of_a_region_that_was_deregistered(users, kind):
    """Between a request and its delivery; pages, and the region's list on the card, then go to the victim."""
    check_memory(users, kind, ROUNDS[kind], 240)


COMMANDS = "/sys/kernel/debug/t3_kernel_receive"
CONSUMER = "t3_kernel_receive"


@pytest.fixture
def consumers(users, suite, kernel, pytestconfig):
    """Both guests, with a consumer of verbs in the kernel (tests/modules/kernel_receive)."""
    if not pytestconfig.getoption("--no-build"):
        build.test_modules(suite, kernel)
    guests = users.lab.guests
    for guest in guests:
        guest.check(stack.load_module(CONSUMER), 60)
    yield guests
    for guest in guests:
        guest.check(f"rmmod {CONSUMER}", 60)


def test_a_kernel_receive_does_not_reach_a_region_that_was_deregistered(consumers):
    host, peer = consumers
    for guest, command in (
        (host, f"listen {address(host)}"),
        (peer, f"connect {address(host)}"),
        (host, "receive"),
        (peer, "send"),
    ):
        guest.check(f"echo {command} > {COMMANDS}", 60)
    checked = host.run(f"printf check | dd of={COMMANDS} status=none", 60)
    assert "Structure needs cleaning" in checked.stderr, "the region got no data"
    for guest, command in ((host, "deregister"), (peer, "send"), (host, "check")):
        guest.check(f"echo {command} > {COMMANDS}", 60)


def test_windows_are_off_unless_they_are_allowed(users):
    with parameters([users.host], memory_windows="N"):
        assert users.run("memory", "--kinds=window --rounds=1")["window_windows"] == "EOPNOTSUPP"


@pytest.mark.long
@pytest.mark.parametrize("kind", ["receive", "write", "read", "window", "window_read"])
def test_ten_thousand_deregistrations_before_a_delivery(users, kind):
    check_memory(users, kind, LONG_ROUNDS, 7200)


# queue pairs


def test_a_connection_takes_only_a_qp_of_its_own_user(users):
    """The attacker connects and accepts with the number of the victim's QP."""
    result = users.run("qp_number")
    assert not result["connect"].startswith("accepted") and not result["accept"].startswith("accepted"), result
    assert not result["state_changed"] and result["victims_connection"] == "", result


DEVICE_FATAL = 8  # of enum ib_event_type
TRACING = "/sys/kernel/tracing"


@contextlib.contextmanager
def device_fatal_events(guest):
    """The DEVICE_FATAL events that kernel users of the device get meanwhile."""
    found = []
    guest.check(
        f"""echo 'p:isolation/event ib_dispatch_event type=+16(%di):u32' > {TRACING}/kprobe_events
        echo > {TRACING}/trace; echo 1 > {TRACING}/events/isolation/event/enable"""
    )
    try:
        yield found
    finally:
        trace = guest.check(
            f"echo 0 > {TRACING}/events/isolation/event/enable; cat {TRACING}/trace; echo > {TRACING}/kprobe_events"
        )
        found += [line for line in trace.splitlines() if f"type={DEVICE_FATAL}" in line.split()]


def test_a_malformed_request_is_an_error_of_its_own_qp(users):
    """The attacker writes into its own ring what no library does."""
    with device_fatal_events(users.host) as fatal:
        result = users.run("malformed")
    assert result["refused"] > 10 and result["victims_connection"] == "", result
    assert (result["device_fatal_of_the_attacker"], result["device_fatal_of_the_victim"], fatal) == (0, 0, [])


def test_a_client_cannot_invalidate_a_region_for_other_clients(users):
    """SEND with invalidate of one client, and a write of another client to the same region."""
    result = users.run("invalidate")
    assert result["other_client_writes"] and not result["other_connection_in_error"], result


# ports

SERVICE = """exec python3 -c "
import socket
with socket.create_server(('{address}', {port})) as server:
    print('bound', flush=True)
    while True:
        connection, _ = server.accept()
        connection.sendall(b'the host')
        connection.close()
" """
CLIENT = """python3 -c "
import socket
with socket.create_connection(('{address}', {port}), 10) as connection:
    connection.settimeout(10)
    print(connection.recv(100).decode())
" """


@contextlib.contextmanager
def running(command):
    """A command that is killed at the end."""
    try:
        yield command
    finally:
        command.kill()
        command.wait(20)


def started(guest, command: str, port: int, *, nowhere: bool = False):
    """An RDMA listener that may be refused; returns when it listens or has ended. nowhere: or runs without a device to
    listen on."""
    listener = guest.start(f"exec {command}")
    for _ in range(30 if nowhere else 100):
        if (
            not listener.running
            or not guest.run(f"rdma resource show cm_id | grep 'LISTEN.*:{port} ' || {{ sleep 0.1; exit 1; }}").rc
        ):
            return listener
    assert nowhere, f"neither listening nor refused: {listener.output}"
    return listener


def serves(users, port: int) -> bool:
    """Whether a TCP client at the peer reaches the host's service at the card's address."""
    done = users.peer.run(CLIENT.format(address=address(users.host), port=port), 60)
    return done.rc == 0 and "the host" in done.stdout


@pytest.mark.parametrize("at", ["address", "wildcard"])
def test_a_listener_does_not_take_the_port_of_a_tcp_server(users, at):
    """Both orders."""
    port = 5433
    own = address(users.host) if at == "address" else "0.0.0.0"
    listen = f"{as_user(ATTACKER)} rping -s -a {own} -p {port}"
    service = SERVICE.format(address=own, port=port)
    with running(users.host.start(service)) as server:
        server.expect("bound", 20)
        assert serves(users, port)
        with running(started(users.host, listen, port)) as listener:
            assert serves(users, port)
            assert "Address already in use" in listener.wait(20).stderr
    with running(started(users.host, listen, port)) as listener:
        assert listener.running, listener.output
        assert "Address already in use" in users.host.start(service).wait(20).stderr


def test_an_id_without_a_port_of_tcp_does_not_take_one(users):
    """RDMA_PS_IB has ports of its own, of which the host's TCP knows nothing."""
    port = 5434
    users.host.push(CM, "/tmp/cm.py", 0o755)
    with running(users.host.start(SERVICE.format(address="", port=port))) as server:
        server.expect("bound", 20)
        listen = f"{as_user(ATTACKER)} /tmp/cm.py listen {address(users.host)} {port} --space ib"
        with running(started(users.host, listen, port)) as listener:
            assert not listener.running, listener.output
            assert serves(users, port)


IN_A_NAMESPACE = {
    "wildcard": "rping -s -p {port}",
    "dummy": """sh -c 'ip link add here type dummy && ip link set here address {mac} && ip addr add {address}/24 dev here &&
        ip link set here up && exec rping -s -a {address} -p {port}'""",  # noqa: E501
}  # noqa: E501


@pytest.mark.parametrize("port", [22, 5432])
@pytest.mark.parametrize("how", IN_A_NAMESPACE)
def test_a_listener_in_a_user_namespace_does_not_take_a_port_of_the_host(users, how, port):
    """Any user is root in a namespace of its own, whose network has no port of the card. An interface there may have
    the address of one."""
    mac = users.host.check(
        f"modprobe dummy numdummies=0; cat /sys/class/net/{users.host.interfaces[0]}/address"
    ).strip()
    command = IN_A_NAMESPACE[how].format(port=port, mac=mac, address=address(users.host))
    with running(users.host.start(SERVICE.format(address="", port=port))) as server:
        server.expect("bound", 20)
        with running(started(users.host, f"{as_user(ATTACKER)} unshare -Urn {command}", port, nowhere=True)):
            assert serves(users, port)


# time


def test_one_time_out_for_all_dead_peers_of_a_process(users):
    """A process is killed whose connections are being closed; the wire loses what they send. One time-out after the
    other took 100 s; a busy host lengthens one of them."""
    count, limit = 10, 10  # T3_CLOSE_TIMEOUT
    with users.accomplice(count):
        process = users.host.start(
            f"exec {PROGRAM} client {address(users.peer)} --case=dead_peers --count={count} --timeout=300"
        )
        process.expect("ready", 60)
        users.lab.sim.control("impair", "p0", "all", "loss=1")
        try:
            process.write(b"\n")
            process.expect("closing", 60)
            begin = uptime(users.host)
            process.kill()
            process.wait(200)
            took = uptime(users.host) - begin
        finally:
            users.lab.sim.control("impair", "p0", "all", "none")
    print(f"{took:.1f} s")
    assert took < count * limit / 2, f"{took:.1f} s"


def uptime(guest) -> float:
    return float(guest.check("cat /proc/uptime").split()[0])


def test_a_process_without_memory_delays_no_other_one(users):
    """A cgroup above its memory.high pays for ids whose addresses are resolved; their processes have left it, so they
    do not sleep themselves. A worker that pays for them sleeps two seconds for each, and the other process resolves at
    most five addresses in its ten seconds."""
    if not users.manager_is_ours:
        pytest.skip("Linux's own manager")
    group = "/tmp/cg/none"
    users.host.check(
        f"""mkdir -p /tmp/cg && mount -t cgroup2 none /tmp/cg && echo +memory > /tmp/cg/cgroup.subtree_control
        mkdir {group}"""
    )
    try:
        attackers = [
            users.host.start(
                f"echo $$ > {group}/cgroup.procs; ulimit -n 4096; exec {PROGRAM} client {address(users.peer)} "
                "--case=hoard --count=1000 --timeout=600"
            )
            for _ in range(4)
        ]
        try:
            for attacker in attackers:
                attacker.expect("ready", 120)
            users.host.check(
                f"""for pid in $(cat {group}/cgroup.procs); do echo $pid > /tmp/cg/cgroup.procs; done
                echo 0 > {group}/memory.high""",
                60,
            )
            for attacker in attackers:
                attacker.write(b"\n")
            victim = f"{PROGRAM} client {address(users.peer)} --case=resolve --seconds=10 --timeout=200"
            resolved = json.loads(users.host.run(victim, 220).stdout)["resolved"]
        finally:
            users.host.check(f"echo max > {group}/memory.high", 60)
            for attacker in attackers:
                attacker.kill()
            for attacker in attackers:
                attacker.wait(120)
        print(f"{resolved} resolved")
        assert resolved > 50
    finally:
        users.host.check(f"for try in $(seq 100); do rmdir {group} && break; sleep 0.1; done; umount /tmp/cg", 60)


def test_the_guests_still_work(users):
    """After all cases above."""
    rping(*users.lab.guests)
