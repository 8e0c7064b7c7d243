# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The guest kernel's own cxgb3.ko, unmodified, on modelled cards: its Ethernet functions."""

import re
import socket
import struct
import time

import pytest

from labkit import Lab, klog, qemu, stack
from labkit.machine import Machine
from labkit.sim import Wire
from stock import PERFTEST_PORT, wait_listening, wait_no_objects

MEGABYTES = 100
TCP_PORT = 5000
# With fewer than eight queue sets t3_sge_stop() flushes work items that were never initialised.
UNLOADS = pytest.mark.allow_log(
    r"WARNING: .*__flush_work", "cxgb3.ko warns when it is unloaded; the in-tree driver's own"
)
PROBE_NOISE = re.compile(r"firmware|microcode|[Ff]ail|[Ee]rror|timed out|warn|unable", re.ASCII)


def bring_up(guest):
    """Loads the driver, gives both ports their addresses and waits for their carriers."""
    guest.interfaces = guest.check(f"modprobe cxgb3 && {stack.LIST_INTERFACES}", 60).split()
    assert len(guest.interfaces) == 2, guest.dmesg()[-2000:]
    for port, name in enumerate(guest.interfaces):
        guest.check(f"ip addr replace {stack.address(port, guest.number)}/24 dev {name} && ip link set {name} up", 60)
    wait_carriers(guest)


def wait_carriers(guest, ports=(0, 1), up=True):
    for port in ports:
        guest.check(stack.wait_carrier(guest.interfaces[port], up=up), 40)


def driver_log(guest):
    return [line for line in guest.dmesg().splitlines() if "cxgb3" in line]


def ping(guest, peer, port=0, count=10, options="-i 0.002"):
    """Pings the peer's port; nothing may be lost. With -w, ping sends until it has all replies, which is more than
    COUNT requests if they are slow."""
    text = guest.check(f"ping -c {count} {options} -w 60 {stack.address(port, peer.number)}", 70)
    replies = [int(number) for number in re.findall(r"^\d+ bytes from .*: icmp_seq=(\d+) ", text, re.MULTILINE)]
    assert len(replies) >= count and replies == list(range(1, len(replies) + 1)), text
    return text


def register(guest, interface, offset):
    """A register as `ethtool -d` reads it."""
    guest.check(f"ethtool -d {interface} raw on > /tmp/registers")
    return struct.unpack_from("<I", guest.pull("/tmp/registers"), offset)[0]


def statistics(guest, interface):
    return {
        name: int(value)
        for name, value in re.findall(r"^\s*(\S+)\s*: (\d+)$", guest.check(f"ethtool -S {interface}"), re.MULTILINE)
    }


def send(source, target, port=0, megabytes=MEGABYTES):
    """One TCP connection that carries a file of random bytes; checks that the same bytes arrive."""
    source.check(
        (
            f"[ $(stat -c %s /tmp/random 2>/dev/null || echo 0) = {megabytes}000000 ] || "
            f"head -c {megabytes}000000 /dev/urandom > /tmp/random"
        ),
        60,
    )
    want = source.check("md5sum < /tmp/random", 60)
    sink = target.start(f"nc -l {stack.address(port, target.number)} {TCP_PORT} | md5sum")
    target.check(f"for try in $(seq 100); do ss -ltn | grep -q :{TCP_PORT} && exit 0; sleep 0.05; done; exit 1")
    started = time.monotonic()
    source.check(f"nc -N {stack.address(port, target.number)} {TCP_PORT} < /tmp/random", 120)
    got = sink.wait(60)
    print(f"{megabytes} MB in {time.monotonic() - started:.1f} s")
    assert got.stdout == want


@pytest.fixture(scope="module")
def _nics_lab(suite):
    with Lab(guests=2, suite=suite, load="nic", name="nic", machine=Machine(boot=True)) as lab:
        yield lab


@pytest.fixture
def nics(request, _nics_lab):
    """Two guests with the NIC driver up on both ports; every test leaves the kernel logs clean."""
    request.node.labs = [_nics_lab]
    yield _nics_lab
    trouble = _nics_lab.new_trouble([klog.Allowed(*mark.args) for mark in request.node.iter_markers("allow_log")])
    assert not trouble, trouble


def test_probe_describes_the_board_and_loads_no_firmware(nics):
    for guest in nics.guests:
        log = driver_log(guest)
        assert any("Chelsio T320 10GBASE-CX4 RNIC (rev 4) PCI Express x8 MSI-X" in line for line in log), log
        assert any("64MB CM, 64MB PMTX, 128MB PMRX" in line for line in log), log
        assert sum("link up, 10Gbps, full-duplex" in line for line in log) == 2, log
        assert not [line for line in guest.dmesg().splitlines() if "cxgb3" in line and PROBE_NOISE.search(line)]


def test_ethtool_names_driver_and_firmware(nics):
    guest = nics.guests[0]
    for name in guest.interfaces:
        text = guest.check(f"ethtool -i {name}")
        assert "driver: cxgb3\n" in text
        assert "firmware-version: T 7.12.0 TP 1.1.0\n" in text
        text = guest.check(f"ethtool {name}")
        assert "Speed: 10000Mb/s" in text and "Link detected: yes" in text


def test_parity_initialisation_completes(nics):
    """The driver sets all bits of TP_INT_ENABLE only after all 4113 replies of the control queue."""
    for guest in nics.guests:
        assert register(guest, guest.interfaces[0], 0x470) == 0x7FBFFFFF


def test_a_thousand_pings_on_each_port(nics):
    a, b = nics.guests
    for port in (0, 1):
        ping(a, b, port, count=1000)
        ping(b, a, port, count=100, options="-i 0.002 -s 1400")


def test_counters_agree_at_both_ends(nics):
    a, b = nics.guests
    before = statistics(a, a.interfaces[0]), statistics(b, b.interfaces[0])
    ping(a, b, count=200, options="-i 0.002 -s 1000")
    after = statistics(a, a.interfaces[0]), statistics(b, b.interfaces[0])
    sent = after[0]["TxFramesOK"] - before[0]["TxFramesOK"]
    got = after[1]["RxFramesOK"] - before[1]["RxFramesOK"]
    assert 200 <= got <= sent + 5 and sent >= 200
    assert after[0]["TxFrames1024To1518"] - before[0]["TxFrames1024To1518"] == 200
    errors = {
        name: value
        for name, value in after[1].items()
        if re.search("Err|Drop|Trunc|Jabber|Overrun|Underrun|ParityErr", name) and value
    }
    assert not errors


@pytest.mark.parametrize("mtu", (1500, 9000))
def test_tcp_in_both_directions(nics, mtu):
    a, b = nics.guests
    for guest in nics.guests:
        guest.check(f"ip link set {guest.interfaces[0]} mtu {mtu}")
    before = statistics(a, a.interfaces[0])
    send(a, b)
    send(b, a)
    after = statistics(a, a.interfaces[0])
    assert after["TSO"] > before["TSO"] and after["RxCsumGood"] > before["RxCsumGood"]
    for guest in nics.guests:
        guest.check(f"ip link set {guest.interfaces[0]} mtu 1500")


def test_tcp_without_offloads(nics):
    """The stack's own checksums equal those of the card."""
    a, b = nics.guests
    a.check(f"ethtool -K {a.interfaces[1]} tx off rx off tso off gro off", 20)
    send(a, b, port=1, megabytes=20)
    send(b, a, port=1, megabytes=20)
    a.check(f"ethtool -K {a.interfaces[1]} tx on rx on tso on gro on", 20)


def test_vlan_tags_in_both_directions(nics):
    for guest in nics.guests:
        guest.check(
            f"ip link add link {guest.interfaces[1]} name v7 type vlan id 7 && ip addr add 10.7.0.{guest.number + 1}/24"
            " dev v7 && ip link set v7 up"
        )
    text = nics.guests[0].check("ping -q -c 50 -i 0.002 -s 1472 -M do -w 20 10.7.0.2")
    assert "50 received" in text
    for guest in nics.guests:
        guest.check("ip link del v7")


def test_multicast_and_promiscuous_reception(nics):
    a, b = nics.guests
    # 40 groups: more than the exact-match filters hold, so that the hash is used.
    for number in range(40):
        b.check(f"ip maddr add 01:00:5e:01:02:{number:02x} dev {b.interfaces[1]}")
    assert "3 received" in a.check(f"ping -q -c 3 -i 0.2 -w 10 ff02::1%{a.interfaces[1]}")
    a.check(f"ip link set {a.interfaces[1]} promisc on && ip link set {a.interfaces[1]} promisc off")
    for number in range(40):
        b.check(f"ip maddr del 01:00:5e:01:02:{number:02x} dev {b.interfaces[1]}")
    ping(a, b, 1)


def test_cable_pulled_and_plugged(nics):
    a, b = nics.guests
    nics.sim.cable("p1", False)
    for guest in nics.guests:
        wait_carriers(guest, ports=[1], up=False)
    ping(a, b, 0)
    nics.sim.cable("p1", True)
    for guest in nics.guests:
        wait_carriers(guest)
    ping(a, b, 1)


def test_down_and_up(nics):
    a, b = nics.guests
    for _ in range(3):
        for name in a.interfaces:
            a.check(f"ip link set {name} down && ip link set {name} up")
        wait_carriers(a)
        ping(a, b, 0)
        ping(a, b, 1)


@UNLOADS
def test_unloaded_and_loaded_twenty_times(nics):
    a, b = nics.guests
    for turn in range(20):
        a.check("rmmod cxgb3", 30)
        if turn % 7 == 6:  # a full bring-up takes seconds: the TCAM has 32 K entries
            bring_up(a)
            ping(a, b, 0)
        else:
            a.check("modprobe cxgb3", 30)
    a.check("rmmod cxgb3", 30)
    bring_up(a)
    ping(a, b, 0, count=100)
    ping(a, b, 1, count=100)


def test_a_guest_boots_twice_with_the_same_card(nics):
    a, b = nics.guests
    b.power_cycle(qemu.command(b.image.arch))
    bring_up(b)
    ping(a, b, 0, count=100)
    ping(b, a, 1, count=100)
    send(a, b, megabytes=20)


@UNLOADS
@pytest.mark.parametrize("msi", (1, 0), ids=("msi", "intx"))
def test_without_msix(nics, msi):
    a, b = nics.guests
    a.check("rmmod cxgb3", 30)
    a.check(f"modprobe cxgb3 msi={msi}", 30)
    banner = [line for line in driver_log(a) if "PCI Express x8" in line][-1]
    assert banner.endswith("x8 MSI" if msi else "x8"), banner
    bring_up(a)
    ping(a, b, 0, count=200)
    send(b, a, megabytes=20)
    a.check("rmmod cxgb3", 30)
    bring_up(a)


def test_the_models_error_counters_are_zero(nics):
    """Runs last in this file: no other test caused an error in the card."""
    for card in (0, 1):
        counters = nics.sim.counters(card)
        wrong = {
            name: value
            for name, value in counters.items()
            if value and re.search("framing|bus_err|lost|malformed|unknown|bad_|overflow|refused|without_queue", name)
        }
        assert not wrong


def test_several_queue_sets(make_lab):
    """Two cores give each port two queue sets."""
    lab = make_lab(guests=2, load="nic", machine=Machine(cpus=2))
    a, b = lab.guests
    for guest in lab.guests:
        assert any("Port 1 using 2 queue sets" in line for line in driver_log(guest))
    for port in (0, 1):
        # While the address is resolved, the other core may overtake a packet that waits for it: one packet only.
        a.check(f"ping -c 1 -W 60 {stack.address(port, b.number)}", 70)
        ping(a, b, port, count=200)
    for _ in range(4):  # different source ports, different queues
        send(a, b, port=1, megabytes=5)


def ping_time(guest, peer, port):
    """The mean round trip, in milliseconds; nothing may be lost."""
    text = ping(guest, peer, port, count=20, options="-i 0.05")
    return float(re.search(r"= [\d.]+/([\d.]+)/", text)[1])


def tcp_rate(source, target, seconds=3):
    """MB/s of one TCP connection, as the receiver counts them."""
    to = f"{stack.address(0, target.number)} {TCP_PORT}"
    sink = target.start(f"nc -l {to} | wc -c")
    target.check(f"for try in $(seq 100); do ss -ltn | grep -q :{TCP_PORT} && exit 0; sleep 0.05; done; exit 1", 60)
    source.run(f"timeout {seconds} nc {to} < /dev/zero", 60)
    return int(sink.wait(60).stdout) / seconds / 1e6


def register_dump_time(guest):
    """Seconds of the fastest of some `ethtool -d`, which is 2,500 reads of registers."""

    def once():
        start = time.monotonic()
        guest.check(f"ethtool -d {guest.interfaces[0]} raw on > /dev/null", 60)
        return time.monotonic() - start

    return min(once() for _ in range(5))


def ethernet_figures(writer, target):
    """By name; ping and registers: less is better, TCP: more is better."""
    return {
        "ping, ms": ping_time(writer, target, 0),
        "ping back, ms": ping_time(target, writer, 0),
        "ping on the other port, ms": ping_time(writer, target, 1),
        "registers of the writer, s": register_dump_time(writer),
        "registers of the target, s": register_dump_time(target),
        "TCP, MB/s": tcp_rate(writer, target),
        "TCP back, MB/s": tcp_rate(target, writer),
    }


@pytest.mark.uncaptured
def test_ethernet_beside_a_stream_of_writes(pair):
    """128 outstanding RDMA writes do not starve the Ethernet side of their cards, nor the other ports, nor accesses to
    registers.

    The aims on an idle host with a core for each guest and for the model: a ping takes at most 20 ms, TCP has at least
    a quarter of its idle rate, registers take at most twice as long. The test compares with the same figures without
    the stream, and its limits are wide: a guest has one CPU, on which perftest polls, and its CPU, the other guest's
    and the model share the host's cores with whatever else runs there. A stream that starves others exceeds them by
    far: it made pings 400 times as long, registers 80 times, and TCP 5,000 times slower.
    """
    target, writer = pair.guests
    idle = ethernet_figures(writer, target)
    options = "-R -F -s 65536 -t 128 -D 600"
    serving = target.start(f"exec ib_write_bw {options}")
    wait_listening(target, PERFTEST_PORT)
    stream = writer.start(f"exec ib_write_bw {options} {stack.address(0, target.number)}")

    def written():
        return pair.sim.counters(writer.number)["rnic.fpdus_out"]

    start = written()
    for _ in range(300):
        if written() > start + 1000:
            break
        time.sleep(0.1)
    before = written()
    beside = ethernet_figures(writer, target)
    assert (
        stream.running and serving.running and written() > before > start + 1000
    ), "the stream did not run all the time"
    for command in (stream, serving):
        command.kill()
        command.wait(30)
    for guest in pair.guests:
        wait_no_objects(guest)
    for name, figure in beside.items():
        print(f"{name}: {idle[name]:.3g} idle, {figure:.3g} beside the stream")
    for name, figure in beside.items():
        slower = idle[name] / figure if "MB/s" in name else figure / idle[name]
        assert slower < (50 if "ping" in name else 30), (name, idle, beside)


def udp_ports(count):
    """UDP ports of the loopback interface that nothing uses."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def test_two_wires_that_udp_joins(make_lab):
    left, right = udp_ports(2)
    lab = make_lab(
        guests=2,
        kernel="uml",
        load="nic",
        wires=[
            Wire("left", ("c0.0", f"udp:{left}@127.0.0.1:{right}")),
            Wire("right", ("c1.0", f"udp:{right}@127.0.0.1:{left}")),
        ],
    )
    ping(*lab.guests, 0, count=100, options="-i 0.01 -s 1400")
