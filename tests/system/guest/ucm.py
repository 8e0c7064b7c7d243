#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Uses the ABI of /dev/infiniband/rdma_cm without a library: every command, well formed and malformed. Prints a JSON
object per command, so that two connection managers can be compared.

    ucm.py ADDRESS PEER [DEVICE] ADDRESS: of a local RDMA device; PEER: of a host that replies to ARP;
                                                    DEVICE: of the manager, below /dev/infiniband
    ucm.py --places ADDRESS PEER INTERFACE [DEVICE] who may have which address. INTERFACE: the one with ADDRESS
"""

import ctypes
import errno
import json
import os
import select
import socket
import struct
import subprocess
import sys

DEVICES = "/dev/infiniband"
COMMANDS = (
    "CREATE_ID DESTROY_ID BIND_IP RESOLVE_IP RESOLVE_ROUTE QUERY_ROUTE CONNECT LISTEN ACCEPT REJECT DISCONNECT"
    " INIT_QP_ATTR GET_EVENT GET_OPTION SET_OPTION NOTIFY JOIN_IP_MCAST LEAVE_MCAST MIGRATE_ID QUERY BIND RESOLVE_ADDR"
    " JOIN_MCAST"
).split()
NUMBER = {name: number for number, name in enumerate(COMMANDS)}
EVENTS = (
    "ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR CONNECT_REQUEST CONNECT_RESPONSE CONNECT_ERROR UNREACHABLE "
    "REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE TIMEWAIT_EXIT"
).split()
TCP, UDP, IPOIB, IB = 0x0106, 0x0111, 0x0002, 0x013F
AF_IB = 27
response = ctypes.create_string_buffer(1024)
WHERE = ctypes.addressof(response)


def report(what, number, **more):
    print(json.dumps({"what": what, "result": errno.errorcode[number] if number else "ok", **more}), flush=True)


def send(fd, command, payload=b"", out=0, length=None):
    """Sends a command; returns its errno, or 0."""
    number = NUMBER[command] if isinstance(command, str) else command
    ctypes.memset(response, 0, len(response))
    try:
        os.write(fd, struct.pack("=IHH", number, len(payload) if length is None else length, out) + payload)
        return 0
    except OSError as error:
        return error.errno


def run(what, fd, command, payload=b"", out=0, **more):
    number = send(fd, command, payload, out, more.pop("length", None))
    report(what, number, **more)
    return number


def inet(address, port=0, size=28):
    """ADDRESS or ADDRESS%INTERFACE."""
    address, _, scope = address.partition("%")
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    raw = struct.pack("=H", family) + struct.pack("!H", port) + (bytes(4) if ":" in address else b"") + packed
    return (raw + struct.pack("=I", socket.if_nametoindex(scope) if scope else 0)).ljust(size, b"\0")


def storage(address, port=0):
    return inet(address, port, 128)


def size_of(address):
    return 28 if ":" in address else 16


def create(fd, ps=TCP, uid=1):
    assert send(fd, "CREATE_ID", struct.pack("=QQHB5x", uid, WHERE, ps, 2), 4) == 0
    return struct.unpack("=I", response.raw[:4])[0]


def destroy(what, fd, number):
    result = send(fd, "DESTROY_ID", struct.pack("=QII", WHERE, number, 0), 4)
    report(what, result, reported=struct.unpack("=I", response.raw[:4])[0])


def bind(number, address, port=0):
    return struct.pack("=IHH", number, size_of(address), 0) + storage(address, port)


def resolve(number, address, timeout=2000, port=7000, src=None):
    return (
        struct.pack("=IIHHI", number, timeout, size_of(src) if src else 0, size_of(address), 0)
        + (storage(src) if src else bytes(128))
        + storage(address, port)
    )


def conn_param(qpn=0, valid=1):
    return struct.pack("=II256xBBBBBBBB", qpn, 0, 0, 0, 1, 1, 0, 7, 7, valid)


def option(number, level, name, value, length=None):
    keep = ctypes.create_string_buffer(value, len(value))
    option.keep = keep
    return struct.pack("=QIIII", ctypes.addressof(keep), number, level, name, len(value) if length is None else length)


def event(what, fd, timeout=10):
    ready, _, _ = select.select([fd], [], [], timeout)
    if not ready:
        return report(what, errno.ETIMEDOUT)
    result = send(fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)
    uid, _, kind, status = struct.unpack("=QIIi", response.raw[:20])
    return report(what, result, event=EVENTS[kind], status=status, uid=uid)


def device_of(index):
    """The name of the device with this index. The index itself is another one each time the device is added."""
    [number] = struct.unpack("=I", index)
    shown = json.loads(subprocess.run(["rdma", "-j", "dev"], check=True, capture_output=True, text=True).stdout)
    return next((device["ifname"] for device in shown if device["ifindex"] == number), f"none: {number}")


def open_device(name="rdma_cm"):
    return os.open(f"{DEVICES}/{name}", os.O_RDWR | os.O_NONBLOCK)


def frames(fd):
    """Malformed headers."""
    for name, raw in (
        ("nothing", b""),
        ("half a header", bytes(4)),
        ("an unknown command", struct.pack("=IHH", 99, 0, 0)),
        ("a length above that of the write", struct.pack("=IHH", 0, 24, 4) + bytes(23)),
    ):
        try:
            os.write(fd, raw)
            report(name, 0)
        except OSError as error:
            report(name, error.errno)
    run("an unimplemented command", fd, "GET_OPTION")
    run("too little response space", fd, "CREATE_ID", struct.pack("=QQHB5x", 1, WHERE, TCP, 2), 3)
    run("an invalid response address", fd, "CREATE_ID", struct.pack("=QQHB5x", 1, 8, TCP, 2), 4)
    run("no event", fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)
    run("too little space for an event", fd, "GET_EVENT", struct.pack("=Q", WHERE), 323)


def spaces(fd):
    for ps in (TCP, UDP, IPOIB, IB, 0, 0x1234):
        if run(f"port space {ps:#x}", fd, "CREATE_ID", struct.pack("=QQHB5x", 1, WHERE, ps, 2), 4) == 0:
            destroy("destroy", fd, struct.unpack("=I", response.raw[:4])[0])


def every(number):
    """A well-formed command of each kind on an id."""
    yield "BIND_IP", struct.pack("=Q", 0) + inet("0.0.0.0") + struct.pack("=I", number), 0
    yield "RESOLVE_ROUTE", struct.pack("=II", number, 1000), 0
    yield "CONNECT", conn_param() + struct.pack("=IIII", number, 0, 0, 0), 0
    yield "ACCEPT", struct.pack("=Q", 7) + conn_param() + struct.pack("=IIII", number, 0, 0, 0), 0
    yield "REJECT", struct.pack("=IBB2x256x", number, 0, 0), 0
    yield "DISCONNECT", struct.pack("=I", number), 0
    yield "INIT_QP_ATTR", struct.pack("=QII", WHERE, number, 1), 144
    yield "NOTIFY", struct.pack("=II", number, 4), 0
    yield "SET_OPTION", option(number, 0, 1, struct.pack("=i", 1)), 0
    yield "QUERY", struct.pack("=QII", WHERE, number, 0), 280
    yield "QUERY_ROUTE", struct.pack("=QII", WHERE, number, 0), 208


def other_files(fd, other):
    own = create(fd)
    for name, payload, out in every(own):
        run(f"{name} through another file", other, name, payload, out)
    run("DESTROY_ID through another file", other, "DESTROY_ID", struct.pack("=QII", WHERE, own, 0), 4)
    for name, payload, out in every(4711):
        run(f"{name} of an unknown id", fd, name, payload, out)
    destroy("DESTROY_ID of an unknown id", fd, 4711)
    destroy("destroy", fd, own)
    destroy("destroy again", fd, own)


def fresh(fd):
    for name, payload, out in every(0):
        number = create(fd)
        payload = next(p for n, p, _ in every(number) if n == name)
        run(f"{name} of a new id", fd, name, payload, out)
        destroy("destroy", fd, number)


def binds(fd, here):
    number = create(fd)
    run("the loopback address", fd, "BIND", bind(number, "127.0.0.1", 7599))
    destroy("destroy", fd, number)
    number = create(fd)
    run("an address without a family", fd, "BIND", struct.pack("=IHH", number, 16, 0) + bytes(128))
    run("a wrong address size", fd, "BIND", struct.pack("=IHH", number, 28, 0) + storage(here))
    run("reserved bits", fd, "BIND", struct.pack("=IHH", number, 16, 1) + storage(here))
    run("an address of no interface", fd, "BIND", bind(number, "10.9.9.9"))
    run("a local address", fd, "BIND", bind(number, here, 7600))
    run("a second address", fd, "BIND", bind(number, here, 7601))
    query = send(fd, "QUERY", struct.pack("=QII", WHERE, number, 0), 280)
    report("query of the addresses", query, response=response.raw[8:272].hex(), device=device_of(response.raw[272:276]))
    query = send(fd, "QUERY_ROUTE", struct.pack("=QII", WHERE, number, 0), 208)
    report("query of the route", query, response=response.raw[8:200].hex(), device=device_of(response.raw[200:204]))
    run("query of the paths", fd, "QUERY", struct.pack("=QII", WHERE, number, 1), 200)
    query = send(fd, "QUERY", struct.pack("=QII", WHERE, number, 2), 280)
    report("query of the GIDs", query, response=response.raw[8:272].hex(), device=device_of(response.raw[272:276]))
    run("an unknown query", fd, "QUERY", struct.pack("=QII", WHERE, number, 9), 280)
    run("too little space for a query", fd, "QUERY", struct.pack("=QII", WHERE, number, 0), 271)
    second = create(fd)
    run("the same port", fd, "BIND", bind(second, here, 7600))
    run("the same port of the wildcard address", fd, "BIND", bind(second, "0.0.0.0", 7600))
    run("the same port of the IPv6 wildcard address", fd, "BIND", bind(second, "::", 7600))
    third = create(fd)
    run("reuse", fd, "SET_OPTION", option(third, 0, 1, struct.pack("=i", 1)))
    run("a port that is not shared", fd, "BIND", bind(third, here, 7600))
    for left in (number, second, third):
        destroy("destroy", fd, left)
    sharers = [create(fd), create(fd)]
    for sharer in sharers:
        run("reuse", fd, "SET_OPTION", option(sharer, 0, 1, struct.pack("=i", 1)))
        run("shared", fd, "BIND", bind(sharer, here, 7600))
    run("reuse off after bind", fd, "SET_OPTION", option(sharers[0], 0, 1, struct.pack("=i", 0)))
    run("listen on a shared port", fd, "LISTEN", struct.pack("=II", sharers[0], 1))
    for left in sharers:
        destroy("destroy", fd, left)
    probe = create(fd, IB)
    anything = (struct.pack("=HHI16x", AF_IB, 0, 0) + struct.pack("!QQQ", 0x0106 << 16, 0xFFFFFFFFFFFF0000, 0)).ljust(
        128, b"\0"
    )
    run("librdmacm's AF_IB probe", fd, "BIND", struct.pack("=IHH", probe, 48, 0) + anything)
    destroy("destroy", fd, probe)
    probe = create(fd, IB)
    unused_gid = anything[:8] + b"\xfe" + anything[9:]
    run("an unused GID", fd, "BIND", struct.pack("=IHH", probe, 48, 0) + unused_gid)
    destroy("destroy", fd, probe)


def options(fd):
    number = create(fd)
    for level, name, value in (
        (0, 0, b"\x10"),
        (0, 0, bytes(4)),
        (0, 1, bytes(4)),
        (0, 1, bytes(1)),
        (0, 2, bytes(4)),
        (0, 2, bytes(8)),
        (0, 3, b"\x05"),
        (0, 3, bytes(4)),
        (0, 9, bytes(4)),
        (7, 0, bytes(4)),
        (1, 9, bytes(8)),
        (1, 1, bytes(72)),
    ):
        run(f"option {level}.{name} of {len(value)} bytes", fd, "SET_OPTION", option(number, level, name, value))
    destroy("destroy", fd, number)
    number = create(fd, UDP)
    run("ACK timeout of a datagram", fd, "SET_OPTION", option(number, 0, 3, b"\x05"))
    destroy("destroy", fd, number)


def routes(fd, here, peer):
    number = create(fd, uid=5)
    run("no route", fd, "RESOLVE_ADDR", resolve(number, "203.0.113.9"))
    destroy("destroy", fd, number)
    number = create(fd, uid=5)
    run("an unused address", fd, "RESOLVE_ADDR", resolve(number, peer.rsplit(".", 1)[0] + ".99", 200))
    run("a second resolution at a time", fd, "RESOLVE_ADDR", resolve(number, peer))
    event("error", fd)
    run("an address that resolves", fd, "RESOLVE_ADDR", resolve(number, peer))
    event("found", fd)
    run("a route with timeout 0", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 0))
    run("a route", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 1000))
    event("found", fd)
    run("a route again", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 1000))
    run("invalid parameters", fd, "CONNECT", conn_param(valid=0) + struct.pack("=IIII", number, 0, 0, 0))
    for _ in range(2):
        # iWARP refuses it; RoCE sends the request, which the peer rejects.
        if not run("an unknown QP", fd, "CONNECT", conn_param(0xBEEF) + struct.pack("=IIII", number, 0, 0, 0)):
            event("its end", fd)
    for state in range(8):
        result = send(fd, "INIT_QP_ATTR", struct.pack("=QII", WHERE, number, state), 144)
        report(f"attributes for state {state}", result, response=response.raw[:144].hex())
    run("disconnect without a connection", fd, "DISCONNECT", struct.pack("=I", number))
    run(
        "accept without a request",
        fd,
        "ACCEPT",
        struct.pack("=Q", 7) + conn_param() + struct.pack("=IIII", number, 0, 0, 0),
    )
    run("multicast", fd, "JOIN_MCAST", struct.pack("=QQIHH", WHERE, 1, number, 16, 0) + storage("224.0.0.9"), 4)
    destroy("destroy", fd, number)
    number = create(fd)
    run("from an address of another family", fd, "RESOLVE_ADDR", resolve(number, peer, src="::"))
    destroy("destroy", fd, number)
    number = create(fd)
    run("from a local address", fd, "RESOLVE_ADDR", resolve(number, peer, src=here))
    event("found", fd)
    destroy("destroy", fd, number)
    number = create(fd)
    run("by RESOLVE_IP", fd, "RESOLVE_IP", inet("0.0.0.0") + inet(peer, 7000) + struct.pack("=II", number, 2000))
    event("found", fd)
    destroy("destroy", fd, number)
    number = create(fd, UDP)
    run("of a UDP id", fd, "RESOLVE_ADDR", resolve(number, peer))
    event("found", fd)
    run("multicast", fd, "JOIN_MCAST", struct.pack("=QQIHH", WHERE, 1, number, 16, 0) + storage("224.0.0.9"), 4)
    run("leave", fd, "LEAVE_MCAST", struct.pack("=QII", WHERE, 77, 0), 4)
    destroy("destroy", fd, number)
    number = create(fd, uid=6)
    run("with an unread event", fd, "RESOLVE_ADDR", resolve(number, peer))
    select.select([fd], [], [], 10)
    destroy("destroy", fd, number)
    run("no event of a destroyed id", fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)


def listeners(fd, here):
    number = create(fd)
    run("a local address", fd, "BIND", bind(number, here, 7610))
    run("listen", fd, "LISTEN", struct.pack("=II", number, 0))
    run("listen again", fd, "LISTEN", struct.pack("=II", number, 0))
    run("disconnect", fd, "DISCONNECT", struct.pack("=I", number))
    run("reject", fd, "REJECT", struct.pack("=IBB2x256x", number, 0, 0))
    run("an invalid reason", fd, "REJECT", struct.pack("=IBB2x256x", number, 0, 5))
    second = create(fd)
    run("a second bind of the port", fd, "BIND", bind(second, here, 7610))
    destroy("destroy", fd, number)
    run("the port after the first id", fd, "BIND", bind(second, here, 7610))
    destroy("destroy", fd, second)
    number = create(fd)
    run("listen without an address", fd, "LISTEN", struct.pack("=II", number, 4))
    destroy("destroy", fd, number)


def migrations(fd, other, peer):
    number = create(fd, uid=9)
    run("with an event", fd, "RESOLVE_ADDR", resolve(number, peer))
    select.select([fd], [], [], 10)
    run("from a closed descriptor", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, 1000), 4)
    pipe, _ = os.pipe()
    run("from a file of another kind", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, pipe), 4)
    run("of an unknown id", other, "MIGRATE_ID", struct.pack("=QII", WHERE, 4711, fd), 4)
    run("from the wrong file", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, other), 4)
    run("from its file", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, fd), 4)
    run("by the old file", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 1000))
    run("its event by the old file", fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)
    event("its event by the new file", other)
    destroy("destroy", other, number)


def shell(script):
    return subprocess.run(["sh", "-ec", script], check=True, capture_output=True, text=True).stdout


def named(number):
    return errno.errorcode[number] if number else "ok"


def found_on(fd, number):
    """The device and the port of an id."""
    if send(fd, "QUERY", struct.pack("=QII", WHERE, number, 0), 280):
        return None
    port = response.raw[8]
    return f"{device_of(response.raw[272:276])}/{port}" if port else None


def at(what, fd, address, port=7650):
    """Binds to an address, and listens."""
    number = create(fd)
    bound = send(fd, "BIND", bind(number, address, port))
    device = None if bound else found_on(fd, number)
    listen = None if bound else named(send(fd, "LISTEN", struct.pack("=II", number, 1)))
    report(f"at {what}", bound, device=device, listen=listen)
    send(fd, "DESTROY_ID", struct.pack("=QII", WHERE, number, 0), 4)


def outcome(fd):
    """The next event and its status."""
    if not select.select([fd], [], [], 10)[0]:
        return "no event"
    assert send(fd, "GET_EVENT", struct.pack("=Q", WHERE), 336) == 0
    _, _, kind, status = struct.unpack("=QIIi", response.raw[:20])
    return f"{EVENTS[kind]} {status}"


def to(what, fd, address, src=None):
    """Resolves an address, and its route."""
    number = create(fd)
    result = send(fd, "RESOLVE_ADDR", resolve(number, address, 500, src=src))
    found = None if result else outcome(fd)
    route = named(send(fd, "RESOLVE_ROUTE", struct.pack("=II", number, 1000))) if found == "ADDR_RESOLVED 0" else None
    report(
        f"to {what}", result, address=found, device=found_on(fd, number), route=outcome(fd) if route == "ok" else route
    )
    send(fd, "DESTROY_ID", struct.pack("=QII", WHERE, number, 0), 4)


def loopback(fd, here):
    for what, address in (
        ("loopback", "127.0.0.1"),
        ("another address of loopback", "127.0.0.2"),
        ("loopback of IPv6", "::1"),
        ("the wildcard", "0.0.0.0"),
        ("the wildcard of IPv6", "::"),
        ("a mapped address", f"::ffff:{here}"),
        ("multicast", "224.0.0.9"),
        ("broadcast", "255.255.255.255"),
    ):
        at(what, fd, address)
        to(what, fd, address)
    to("itself", fd, here)
    to("itself from loopback", fd, here, "127.0.0.1")
    first, second = create(fd), create(fd)
    run("a port of loopback", fd, "BIND", bind(first, "127.0.0.1", 7651))
    run("the same port of loopback", fd, "BIND", bind(second, "127.0.0.2", 7651))
    run("the same port of an address", fd, "BIND", bind(second, here, 7651))
    destroy("destroy", fd, first)
    destroy("destroy", fd, second)


def link_local(fd, interface):
    """Each link has its own link-local addresses: the scope is the interface."""
    own = shell(f"ip -o -6 addr show dev {interface} scope link").split()[3].partition("/")[0]
    for what, address in (
        ("a link-local address", f"{own}%{interface}"),
        ("a link-local address without scope", own),
        ("a link-local address of another link", f"{own}%lo"),
        ("an unused link-local address", f"fe80::1234%{interface}"),
    ):
        at(what, fd, address)
        to(what, fd, address)


def vlans(fd, interface):
    """Two VLANs have the MAC address of the port."""
    for number in (5, 6):
        shell(
            f"ip link add v{number} link {interface} type vlan id {number}; ip addr add 10.77.{number}.1/24 dev"
            f" v{number}; ip link set v{number} up"
        )
        at(f"VLAN {number}", fd, f"10.77.{number}.1")
        to(f"an unused address in VLAN {number}", fd, f"10.77.{number}.9")
    to("one VLAN from another", fd, "10.77.6.1", "10.77.5.1")
    shell("ip link del v5; ip link del v6")


def elsewhere(fd, here, interface):
    """A dummy in another namespace, with the addresses of the port. Any user can make one in a namespace of its own."""
    shell(
        f"""modprobe dummy; ip netns add elsewhere; ip -n elsewhere link set lo up; ip -n elsewhere link add same type dummy
        ip -n elsewhere link set same address $(cat /sys/class/net/{interface}/address) up; ip -n elsewhere addr add {here}/24 dev same"""  # noqa: E501
    )  # noqa: E501
    host = os.open("/proc/self/ns/net", os.O_RDONLY)
    there = os.open("/run/netns/elsewhere", os.O_RDONLY)
    libc = ctypes.CDLL(None)
    assert libc.setns(there, 0) == 0
    at("an address of the port, on a dummy elsewhere", fd, here)
    at("the wildcard elsewhere", fd, "0.0.0.0")
    to("a neighbour of the dummy", fd, here.rsplit(".", 1)[0] + ".77", here)
    number = create(fd)
    run("a port elsewhere", fd, "BIND", bind(number, "0.0.0.0", 7652))
    run("listen elsewhere", fd, "LISTEN", struct.pack("=II", number, 1))
    assert libc.setns(host, 0) == 0
    second = create(fd)
    run("the same port here", fd, "BIND", bind(second, "0.0.0.0", 7652))
    run("listen on it here", fd, "LISTEN", struct.pack("=II", second, 1))
    destroy("destroy", fd, number)
    destroy("destroy", fd, second)
    os.close(there)
    os.close(host)
    shell("ip netns del elsewhere")


def places(here, peer, interface, device="rdma_cm"):
    fd = open_device(device)
    loopback(fd, here)
    link_local(fd, interface)
    vlans(fd, interface)
    elsewhere(fd, here, interface)
    to("the peer", fd, peer)


def main(here, peer, device="rdma_cm"):
    fd, other = open_device(device), open_device(device)
    frames(fd)
    spaces(fd)
    other_files(fd, other)
    fresh(fd)
    binds(fd, here)
    options(fd)
    routes(fd, here, peer)
    listeners(fd, here)
    migrations(fd, other, peer)
    for _ in range(3):  # left for the exit of the process
        create(fd)


if __name__ == "__main__":
    if sys.argv[1] == "--places":
        places(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
