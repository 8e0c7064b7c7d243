#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Speaks the ABI of /dev/infiniband/rdma_cm without a library: every command, well and badly formed. Prints a JSON object per
command, so that two connection managers can be compared.

    ucm.py ADDRESS PEER      ADDRESS: of an RDMA device here; PEER: of one that answers ARP
"""

import ctypes
import errno
import json
import os
import select
import socket
import struct
import sys

DEVICE = "/dev/infiniband/rdma_cm"
COMMANDS = ("CREATE_ID DESTROY_ID BIND_IP RESOLVE_IP RESOLVE_ROUTE QUERY_ROUTE CONNECT LISTEN ACCEPT REJECT DISCONNECT INIT_QP_ATTR "
            "GET_EVENT GET_OPTION SET_OPTION NOTIFY JOIN_IP_MCAST LEAVE_MCAST MIGRATE_ID QUERY BIND RESOLVE_ADDR JOIN_MCAST").split()
NUMBER = {name: number for number, name in enumerate(COMMANDS)}
EVENTS = ("ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR CONNECT_REQUEST CONNECT_RESPONSE CONNECT_ERROR UNREACHABLE "
          "REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE TIMEWAIT_EXIT").split()
TCP, UDP, IPOIB, IB = 0x0106, 0x0111, 0x0002, 0x013F
AF_IB = 27
answer = ctypes.create_string_buffer(1024)
WHERE = ctypes.addressof(answer)


def say(what, number, **more):
    print(json.dumps({"what": what, "result": errno.errorcode[number] if number else "ok", **more}), flush=True)


def send(fd, command, payload=b"", out=0, length=None):
    """errno of a command; 0 if it was taken."""
    number = NUMBER[command] if isinstance(command, str) else command
    ctypes.memset(answer, 0, len(answer))
    try:
        os.write(fd, struct.pack("=IHH", number, len(payload) if length is None else length, out) + payload)
        return 0
    except OSError as error:
        return error.errno


def tell(what, fd, command, payload=b"", out=0, **more):
    number = send(fd, command, payload, out, more.pop("length", None))
    say(what, number, **more)
    return number


def inet(address, port=0, size=28):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    packed = socket.inet_pton(family, address)
    raw = struct.pack("=H", family) + struct.pack("!H", port) + (bytes(4) if ":" in address else b"") + packed
    return raw.ljust(size, b"\0")


def storage(address, port=0):
    return inet(address, port, 128)


def size_of(address):
    return 28 if ":" in address else 16


def create(fd, ps=TCP, uid=1):
    assert send(fd, "CREATE_ID", struct.pack("=QQHB5x", uid, WHERE, ps, 2), 4) == 0
    return struct.unpack("=I", answer.raw[:4])[0]


def destroy(what, fd, number):
    result = send(fd, "DESTROY_ID", struct.pack("=QII", WHERE, number, 0), 4)
    say(what, result, reported=struct.unpack("=I", answer.raw[:4])[0])


def bind(number, address, port=0):
    return struct.pack("=IHH", number, size_of(address), 0) + storage(address, port)


def resolve(number, address, timeout=2000, port=7000, src=None):
    return struct.pack("=IIHHI", number, timeout, size_of(src) if src else 0, size_of(address), 0) + \
        (storage(src) if src else bytes(128)) + storage(address, port)


def conn_param(qpn=0, valid=1):
    return struct.pack("=II256xBBBBBBBB", qpn, 0, 0, 0, 1, 1, 0, 7, 7, valid)


def option(number, level, name, value, length=None):
    keep = ctypes.create_string_buffer(value, len(value))
    option.keep = keep
    return struct.pack("=QIIII", ctypes.addressof(keep), number, level, name, len(value) if length is None else length)


def event(what, fd, timeout=10):
    ready, _, _ = select.select([fd], [], [], timeout)
    if not ready:
        return say(what, errno.ETIMEDOUT)
    result = send(fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)
    uid, _, kind, status = struct.unpack("=QIIi", answer.raw[:20])
    return say(what, result, event=EVENTS[kind], status=status, uid=uid)


def open_device():
    return os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK)


def frames(fd):
    """What is wrong before a command is looked at."""
    for name, raw in (("nothing", b""), ("half a header", bytes(4)), ("a number that is none", struct.pack("=IHH", 99, 0, 0)),
                      ("longer than it is", struct.pack("=IHH", 0, 24, 4) + bytes(23))):
        try:
            os.write(fd, raw)
            say(name, 0)
        except OSError as error:
            say(name, error.errno)
    tell("a command that is not there", fd, "GET_OPTION")
    tell("no room for the answer", fd, "CREATE_ID", struct.pack("=QQHB5x", 1, WHERE, TCP, 2), 3)
    tell("an answer to nowhere", fd, "CREATE_ID", struct.pack("=QQHB5x", 1, 8, TCP, 2), 4)
    tell("no event", fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)
    tell("no room for an event", fd, "GET_EVENT", struct.pack("=Q", WHERE), 323)


def spaces(fd):
    for ps in (TCP, UDP, IPOIB, IB, 0, 0x1234):
        if tell(f"port space {ps:#x}", fd, "CREATE_ID", struct.pack("=QQHB5x", 1, WHERE, ps, 2), 4) == 0:
            destroy("gone again", fd, struct.unpack("=I", answer.raw[:4])[0])


def every(number):
    """A well-formed command of each kind about an id."""
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


def strangers(fd, other):
    mine = create(fd)
    for name, payload, out in every(mine):
        tell(f"{name} through another file", other, name, payload, out)
    tell("DESTROY_ID through another file", other, "DESTROY_ID", struct.pack("=QII", WHERE, mine, 0), 4)
    for name, payload, out in every(4711):
        tell(f"{name} of no id", fd, name, payload, out)
    destroy("DESTROY_ID of no id", fd, 4711)
    destroy("gone", fd, mine)
    destroy("gone twice", fd, mine)


def fresh(fd):
    for name, payload, out in every(0):
        number = create(fd)
        payload = next(p for n, p, _ in every(number) if n == name)
        tell(f"{name} of a fresh id", fd, name, payload, out)
        destroy("gone", fd, number)


def binds(fd, here):
    number = create(fd)
    tell("the loopback address", fd, "BIND", bind(number, "127.0.0.1", 7599))
    destroy("gone", fd, number)
    number = create(fd)
    tell("family of no size", fd, "BIND", struct.pack("=IHH", number, 16, 0) + bytes(128))
    tell("another size", fd, "BIND", struct.pack("=IHH", number, 28, 0) + storage(here))
    tell("reserved bits", fd, "BIND", struct.pack("=IHH", number, 16, 1) + storage(here))
    tell("somebody else's address", fd, "BIND", bind(number, "10.9.9.9"))
    tell("here", fd, "BIND", bind(number, here, 7600))
    tell("here again", fd, "BIND", bind(number, here, 7601))
    query = send(fd, "QUERY", struct.pack("=QII", WHERE, number, 0), 280)
    say("what it says", query, answer=answer.raw[8:280].hex())
    query = send(fd, "QUERY_ROUTE", struct.pack("=QII", WHERE, number, 0), 208)
    say("what its route says", query, answer=answer.raw[8:208].hex())
    tell("its paths", fd, "QUERY", struct.pack("=QII", WHERE, number, 1), 200)
    query = send(fd, "QUERY", struct.pack("=QII", WHERE, number, 2), 280)
    say("its GIDs", query, answer=answer.raw[8:280].hex())
    tell("a question that is none", fd, "QUERY", struct.pack("=QII", WHERE, number, 9), 280)
    tell("no room", fd, "QUERY", struct.pack("=QII", WHERE, number, 0), 271)
    second = create(fd)
    tell("the same port", fd, "BIND", bind(second, here, 7600))
    tell("the same port of any address", fd, "BIND", bind(second, "0.0.0.0", 7600))
    tell("the same port of IPv6", fd, "BIND", bind(second, "::", 7600))
    third = create(fd)
    tell("reuse", fd, "SET_OPTION", option(third, 0, 1, struct.pack("=i", 1)))
    tell("one that does not share", fd, "BIND", bind(third, here, 7600))
    for left in (number, second, third):
        destroy("gone", fd, left)
    sharers = [create(fd), create(fd)]
    for sharer in sharers:
        tell("reuse", fd, "SET_OPTION", option(sharer, 0, 1, struct.pack("=i", 1)))
        tell("shared", fd, "BIND", bind(sharer, here, 7600))
    tell("no reuse for who has it", fd, "SET_OPTION", option(sharers[0], 0, 1, struct.pack("=i", 0)))
    tell("a listener shares with nobody", fd, "LISTEN", struct.pack("=II", sharers[0], 1))
    for left in sharers:
        destroy("gone", fd, left)
    probe = create(fd, IB)
    anything = (struct.pack("=HHI16x", AF_IB, 0, 0) + struct.pack("!QQQ", 0x0106 << 16, 0xffffffffffff0000, 0)).ljust(128, b"\0")
    tell("librdmacm's question", fd, "BIND", struct.pack("=IHH", probe, 48, 0) + anything)
    destroy("gone", fd, probe)
    probe = create(fd, IB)
    somebody = anything[:8] + b"\xfe" + anything[9:]
    tell("a GID that is nobody's", fd, "BIND", struct.pack("=IHH", probe, 48, 0) + somebody)
    destroy("gone", fd, probe)


def options(fd):
    number = create(fd)
    for level, name, value in ((0, 0, b"\x10"), (0, 0, bytes(4)), (0, 1, bytes(4)), (0, 1, bytes(1)), (0, 2, bytes(4)),
                               (0, 2, bytes(8)), (0, 3, b"\x05"), (0, 3, bytes(4)), (0, 9, bytes(4)), (7, 0, bytes(4)),
                               (1, 9, bytes(8)), (1, 1, bytes(72))):
        tell(f"option {level}.{name} of {len(value)} bytes", fd, "SET_OPTION", option(number, level, name, value))
    destroy("gone", fd, number)
    number = create(fd, UDP)
    tell("ACK timeout of a datagram", fd, "SET_OPTION", option(number, 0, 3, b"\x05"))
    destroy("gone", fd, number)


def ways(fd, here, peer):
    number = create(fd, uid=5)
    tell("no way there", fd, "RESOLVE_ADDR", resolve(number, "203.0.113.9"))
    destroy("gone", fd, number)
    number = create(fd, uid=5)
    tell("nobody answers", fd, "RESOLVE_ADDR", resolve(number, peer.rsplit(".", 1)[0] + ".99", 200))
    tell("a second time meanwhile", fd, "RESOLVE_ADDR", resolve(number, peer))
    event("error", fd)
    tell("then who answers", fd, "RESOLVE_ADDR", resolve(number, peer))
    event("found", fd)
    tell("a route at once", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 0))
    tell("a route", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 1000))
    event("found", fd)
    tell("a route again", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 1000))
    tell("parameters that are not valid", fd, "CONNECT", conn_param(valid=0) + struct.pack("=IIII", number, 0, 0, 0))
    for _ in range(2):
        tell("a QP that is not there", fd, "CONNECT", conn_param(0xbeef) + struct.pack("=IIII", number, 0, 0, 0))
    for state in range(8):
        result = send(fd, "INIT_QP_ATTR", struct.pack("=QII", WHERE, number, state), 144)
        say(f"attributes for state {state}", result, answer=answer.raw[:144].hex())
    tell("disconnect of what never was", fd, "DISCONNECT", struct.pack("=I", number))
    tell("accept of what never was", fd, "ACCEPT", struct.pack("=Q", 7) + conn_param() + struct.pack("=IIII", number, 0, 0, 0))
    tell("multicast", fd, "JOIN_MCAST", struct.pack("=QQIHH", WHERE, 1, number, 16, 0) + storage("224.0.0.9"), 4)
    destroy("gone", fd, number)
    number = create(fd)
    tell("from an address with a family of its own", fd, "RESOLVE_ADDR", resolve(number, peer, src="::"))
    destroy("gone", fd, number)
    number = create(fd)
    tell("from here", fd, "RESOLVE_ADDR", resolve(number, peer, src=here))
    event("found", fd)
    destroy("gone", fd, number)
    number = create(fd)
    tell("by the old command", fd, "RESOLVE_IP", inet("0.0.0.0") + inet(peer, 7000) + struct.pack("=II", number, 2000))
    event("found", fd)
    destroy("gone", fd, number)
    number = create(fd, UDP)
    tell("a datagram's", fd, "RESOLVE_ADDR", resolve(number, peer))
    event("found", fd)
    tell("multicast", fd, "JOIN_MCAST", struct.pack("=QQIHH", WHERE, 1, number, 16, 0) + storage("224.0.0.9"), 4)
    tell("leave", fd, "LEAVE_MCAST", struct.pack("=QII", WHERE, 77, 0), 4)
    destroy("gone", fd, number)
    number = create(fd, uid=6)
    tell("with an event that nobody takes", fd, "RESOLVE_ADDR", resolve(number, peer))
    select.select([fd], [], [], 10)
    destroy("gone", fd, number)
    tell("and with it the event", fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)


def listeners(fd, here):
    number = create(fd)
    tell("here", fd, "BIND", bind(number, here, 7610))
    tell("listen", fd, "LISTEN", struct.pack("=II", number, 0))
    tell("listen again", fd, "LISTEN", struct.pack("=II", number, 0))
    tell("disconnect", fd, "DISCONNECT", struct.pack("=I", number))
    tell("reject", fd, "REJECT", struct.pack("=IBB2x256x", number, 0, 0))
    tell("a reason that is not allowed", fd, "REJECT", struct.pack("=IBB2x256x", number, 0, 5))
    second = create(fd)
    tell("a second", fd, "BIND", bind(second, here, 7610))
    destroy("gone", fd, number)
    tell("after the first", fd, "BIND", bind(second, here, 7610))
    destroy("gone", fd, second)
    number = create(fd)
    tell("listen without an address", fd, "LISTEN", struct.pack("=II", number, 4))
    destroy("gone", fd, number)


def migrations(fd, other, peer):
    number = create(fd, uid=9)
    tell("with an event", fd, "RESOLVE_ADDR", resolve(number, peer))
    select.select([fd], [], [], 10)
    tell("from a file that is none", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, 1000), 4)
    pipe, _ = os.pipe()
    tell("from a file of another kind", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, pipe), 4)
    tell("of no id", other, "MIGRATE_ID", struct.pack("=QII", WHERE, 4711, fd), 4)
    tell("of an id that is elsewhere", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, other), 4)
    tell("well", other, "MIGRATE_ID", struct.pack("=QII", WHERE, number, fd), 4)
    tell("not here any more", fd, "RESOLVE_ROUTE", struct.pack("=II", number, 1000))
    tell("nor its event", fd, "GET_EVENT", struct.pack("=Q", WHERE), 336)
    event("but there", other)
    destroy("gone", other, number)


def main():
    here, peer = sys.argv[1:]
    fd, other = open_device(), open_device()
    frames(fd)
    spaces(fd)
    strangers(fd, other)
    fresh(fd)
    binds(fd, here)
    options(fd)
    ways(fd, here, peer)
    listeners(fd, here)
    migrations(fd, other, peer)
    for _ in range(3):  # left to the end of the process
        create(fd)


if __name__ == "__main__":
    main()
