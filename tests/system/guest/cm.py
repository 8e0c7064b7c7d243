#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One end of an RDMA connection, for tests that stock programs cannot run: private data of any length, rejects, delays.
Uses librdmacm through ctypes. Prints one JSON object per line: each event, and each failed call.

    cm.py listen ADDRESS PORT [--space tcp|ib] [--timewait] [--reject | --notify END] [--data N] [--depths IRD,ORD]
    [--count N] [--wait SECONDS] cm.py connect ADDRESS PORT [--space tcp|ib] [--timewait] [--data N] [--depths IRD,ORD]
    [--hold SECONDS | --watch | --times N] [--ports] [--own-qp] cm.py bind ADDRESS PORT
"""

import argparse
import ctypes
import json
import os
import socket
import struct
import sys
import time

EVENTS = (
    "ADDR_RESOLVED ADDR_ERROR ROUTE_RESOLVED ROUTE_ERROR CONNECT_REQUEST CONNECT_RESPONSE CONNECT_ERROR UNREACHABLE "
    "REJECTED ESTABLISHED DISCONNECTED DEVICE_REMOVAL MULTICAST_JOIN MULTICAST_ERROR ADDR_CHANGE TIMEWAIT_EXIT"
).split()
SPACES = {"tcp": 0x0106, "ib": 0x013F}  # RDMA_PS_TCP, RDMA_PS_IB
QPT_RC = 2
COMM_EST = 4

rdma = ctypes.CDLL("librdmacm.so.1", use_errno=True)
rdma.rdma_create_event_channel.restype = ctypes.c_void_p
rdma.rdma_get_src_port.restype = ctypes.c_uint16


class ConnParam(ctypes.Structure):
    _fields_ = [
        ("private_data", ctypes.c_void_p),
        ("private_data_len", ctypes.c_uint8),
        ("responder_resources", ctypes.c_uint8),
        ("initiator_depth", ctypes.c_uint8),
        ("flow_control", ctypes.c_uint8),
        ("retry_count", ctypes.c_uint8),
        ("rnr_retry_count", ctypes.c_uint8),
        ("srq", ctypes.c_uint8),
        ("qp_num", ctypes.c_uint32),
    ]


class Event(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_void_p),
        ("listen_id", ctypes.c_void_p),
        ("event", ctypes.c_int),
        ("status", ctypes.c_int),
        ("conn", ConnParam),
        ("more", ctypes.c_uint8 * 64),
    ]


class QpInitAttr(ctypes.Structure):
    _fields_ = [
        ("context", ctypes.c_void_p),
        ("send_cq", ctypes.c_void_p),
        ("recv_cq", ctypes.c_void_p),
        ("srq", ctypes.c_void_p),
        ("max_send_wr", ctypes.c_uint32),
        ("max_recv_wr", ctypes.c_uint32),
        ("max_send_sge", ctypes.c_uint32),
        ("max_recv_sge", ctypes.c_uint32),
        ("max_inline", ctypes.c_uint32),
        ("qp_type", ctypes.c_int),
        ("sq_sig_all", ctypes.c_int),
        ("more", ctypes.c_uint8 * 64),
    ]


def report(**what):
    print(json.dumps(what), flush=True)


def call(name, *args):
    if getattr(rdma, name)(*args) == 0:
        return
    report(call=name, errno=ctypes.get_errno(), error=os.strerror(ctypes.get_errno()))
    sys.exit(1)


def sockaddr(address, port):
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(address) + bytes(8)


def pattern(length):
    """Private data in which a byte at a wrong offset is detected."""
    return bytes(7 * i % 251 for i in range(length))


def depths(text):
    ird, ord_ = map(int, text.split(","))
    return ird, ord_


def conn_param(length, depths, qpn=0):
    data = pattern(length)
    keep = ctypes.create_string_buffer(data, len(data) or 1)
    param = ConnParam(ctypes.cast(keep, ctypes.c_void_p) if length else None, length, *depths, 0, 7, 7, 0, qpn)
    param.keep = keep
    return param


def create_qp(cm_id):
    attr = QpInitAttr(max_send_wr=4, max_recv_wr=4, max_send_sge=1, max_recv_sge=1, qp_type=QPT_RC)
    call("rdma_create_qp", cm_id, None, ctypes.byref(attr))


def notify(channel, cm_id, then):
    """Reports data before the RTU. Then waits for ESTABLISHED, or ends the connection before any other thread of this
    CPU runs."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    call("rdma_notify", cm_id, COMM_EST)
    if then == "wait":
        channel.until("ESTABLISHED")
    if then != "destroy":
        call("rdma_disconnect", cm_id)
    started = time.monotonic()
    call("rdma_destroy_id", cm_id)
    report(destroyed_in=time.monotonic() - started)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))


class Channel:
    def __init__(self, space):
        self.space = SPACES[space]
        self.handle = ctypes.c_void_p(rdma.rdma_create_event_channel())

    def create_id(self):
        cm_id = ctypes.c_void_p()
        call("rdma_create_id", self.handle, ctypes.byref(cm_id), None, self.space)
        return cm_id

    def event(self):
        pointer = ctypes.POINTER(Event)()
        call("rdma_get_cm_event", self.handle, ctypes.byref(pointer))
        event = pointer.contents
        name = EVENTS[event.event]
        length = event.conn.private_data_len if event.conn.private_data else 0
        data = ctypes.string_at(event.conn.private_data, length) if length else b""
        report(
            event=name,
            status=event.status,
            length=length,
            intact=data == pattern(length),
            responder_resources=event.conn.responder_resources,
            initiator_depth=event.conn.initiator_depth,
        )
        cm_id = ctypes.c_void_p(event.id)
        call("rdma_ack_cm_event", pointer)
        return name, cm_id

    def until(self, *names):
        while True:
            name, cm_id = self.event()
            if name in names:
                return cm_id
            if name in ("REJECTED", "UNREACHABLE", "CONNECT_ERROR", "ADDR_ERROR", "ROUTE_ERROR", "DISCONNECTED"):
                sys.exit(2)

    def watch(self):
        while True:
            self.event()

    def timewait(self, wanted):
        if wanted:
            self.until("TIMEWAIT_EXIT")


def listen(options):
    channel = Channel(options.space)
    listener = channel.create_id()
    call("rdma_bind_addr", listener, sockaddr(options.address, options.port))
    call("rdma_listen", listener, options.backlog)
    report(listening=True)
    left = options.count
    while left:
        name, cm_id = channel.event()
        if name == "CONNECT_REQUEST":
            time.sleep(options.wait)
            param = conn_param(options.data, options.depths)
            if options.reject:
                call("rdma_reject", cm_id, param.keep, ctypes.c_uint8(options.data))
                call("rdma_destroy_id", cm_id)
                left -= 1
            elif options.notify:
                param.qp_num = os.getpid()
                call("rdma_accept", cm_id, ctypes.byref(param))
                notify(channel, cm_id, options.notify)
                left -= 1
            else:
                create_qp(cm_id)
                call("rdma_accept", cm_id, ctypes.byref(param))
        elif name == "DEVICE_REMOVAL" and cm_id.value == listener.value:
            break
        elif name == "DISCONNECTED":
            rdma.rdma_disconnect(cm_id)  # -EINVAL if the close is complete already
            channel.timewait(options.timewait)
            rdma.rdma_destroy_qp(cm_id)
            call("rdma_destroy_id", cm_id)
            left -= 1
    call("rdma_destroy_id", listener)
    report(destroyed=True)


def bind(options):
    """Prints all events of an id that is bound, until the process is killed."""
    channel = Channel(options.space)
    cm_id = channel.create_id()
    call("rdma_bind_addr", cm_id, sockaddr(options.address, options.port))
    report(bound=True)
    channel.watch()


def many(channel, options):
    """Connects the rest of --times ids, and waits until all connections have ended."""
    for _ in range(options.times - 1):
        cm_id = channel.create_id()
        call("rdma_resolve_addr", cm_id, None, sockaddr(options.address, options.port), 2000)
        channel.until("ADDR_RESOLVED")
        call("rdma_resolve_route", cm_id, 2000)
        channel.until("ROUTE_RESOLVED")
        create_qp(cm_id)
        call("rdma_connect", cm_id, ctypes.byref(conn_param(options.data, options.depths)))
        channel.until("ESTABLISHED")
    report(connected=options.times)
    for _ in range(options.times):
        channel.until("DISCONNECTED")


def connect(options):
    channel = Channel(options.space)
    cm_id = channel.create_id()
    call("rdma_resolve_addr", cm_id, None, sockaddr(options.address, options.port), 2000)
    channel.until("ADDR_RESOLVED")
    if options.ports:
        report(source_port=socket.ntohs(rdma.rdma_get_src_port(cm_id)))
    call("rdma_resolve_route", cm_id, 2000)
    channel.until("ROUTE_RESOLVED")
    if not options.own_qp:
        create_qp(cm_id)
    call("rdma_connect", cm_id, ctypes.byref(conn_param(options.data, options.depths, os.getpid())))
    if options.own_qp:
        channel.until("CONNECT_RESPONSE")
        time.sleep(options.hold)
        call("rdma_destroy_id", cm_id)
        return
    channel.until("ESTABLISHED")
    if options.times:
        many(channel, options)
        return
    if options.watch:
        channel.watch()
    time.sleep(options.hold)
    call("rdma_disconnect", cm_id)
    if not options.destroy_at_once:
        channel.until("DISCONNECTED")
        channel.timewait(options.timewait)
    started = time.monotonic()
    rdma.rdma_destroy_qp(cm_id)
    report(qp_destroyed_in=time.monotonic() - started)
    call("rdma_destroy_id", cm_id)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(required=True)
    for name, function in (("listen", listen), ("connect", connect), ("bind", bind)):
        command = commands.add_parser(name)
        command.add_argument("address")
        command.add_argument("port", type=int)
        command.add_argument("--data", type=int, default=0, help="length of the private data")
        command.add_argument(
            "--depths", type=depths, default=(4, 4), help="reads that the peer, and that we may have outstanding"
        )
        command.add_argument("--space", choices=SPACES, default="tcp", help="port space")
        command.add_argument(
            "--timewait",
            action="store_true",
            help="wait for TIMEWAIT_EXIT, which there is over RoCE, at the end of a connection",
        )
        command.set_defaults(function=function)
        if name == "listen":
            command.add_argument("--reject", action="store_true")
            command.add_argument(
                "--notify",
                choices=("wait", "disconnect", "destroy"),
                help=(
                    "accept without a QP, report data, and end the connection: once it is established, at once, or with"
                    " the id"
                ),
            )
            command.add_argument("--count", type=int, default=1, help="connections to serve")
            command.add_argument("--wait", type=float, default=0, help="seconds between a request and the reply to it")
            command.add_argument("--backlog", type=int, default=8)
        if name == "connect":
            command.add_argument(
                "--watch", action="store_true", help="stay connected, and print all events until the process is killed"
            )
            command.add_argument("--times", type=int, help="connections, which stay until they are ended")
            command.add_argument("--ports", action="store_true", help="print the source port")
            command.add_argument("--own-qp", action="store_true", help="have no QP, and do not establish")
            command.add_argument("--hold", type=float, default=0, help="seconds to stay connected")
            command.add_argument(
                "--destroy-at-once", action="store_true", help="do not wait for the end of the connection"
            )
    options = parser.parse_args()
    options.function(options)


main()
