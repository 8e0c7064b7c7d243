#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A TCP peer of an iWARP endpoint that sends any bytes.

    stream.py connect ADDRESS PORT HEX [--pause SECONDS | --reply BYTES] [--then HEX]
    stream.py listen ADDRESS PORT [HEX] [--connections N] [--refuse-first {reset,close}] [--hold [--keep-open]]

connect sends the bytes, and then further ones after a pause or when so many bytes of a reply have come. listen accepts
connections one after the other, reads the MPA request of each, replies with the bytes and closes it. Both print what
each connection received and how it ended:
    {"end": "eof" | "eof, reset" | "reset" | "refused" | "timeout", "received": hex, "after": seconds}
"""

import argparse
import errno
import json
import select
import socket
import struct
import time

PATIENCE = 20
MPA_HEADER = 20


def read_to_the_end(connection):
    """The remaining stream, and how it ended."""
    received = b""
    try:
        while piece := connection.recv(4096):
            received += piece
        return received, "eof"
    except (ConnectionResetError, BrokenPipeError):
        return received, "reset"
    except TimeoutError:
        return received, "timeout"


def wait_for_reset(connection, patience):
    """The peer has closed its side. Keeps this side open. Return: the peer has reset the connection."""
    poll = select.poll()
    poll.register(connection, 0)  # POLLERR and POLLHUP
    return bool(poll.poll(patience * 1000)) and connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.EPIPE


def report(started, received, end):
    print(json.dumps({"end": end, "received": received.hex(), "after": time.monotonic() - started}), flush=True)


def connect(options):
    started = time.monotonic()
    try:
        connection = socket.create_connection((options.address, options.port), timeout=options.patience)
    except ConnectionRefusedError:
        report(started, b"", "refused")
        return
    with connection:
        connection.sendall(options.hex)

        reply = connection.recv(options.reply, socket.MSG_WAITALL) if options.reply else b""
        if options.then:
            time.sleep(options.pause)
            connection.sendall(options.then)
        remaining, end = read_to_the_end(connection)
        report(started, reply + remaining, end)


def read_request(connection):
    request = b""
    while len(request) < MPA_HEADER or len(request) < MPA_HEADER + int.from_bytes(request[18:20], "big"):
        piece = connection.recv(4096)
        if not piece:
            break
        request += piece
    return request


def listen(options):
    with socket.create_server((options.address, options.port)) as server:
        print(json.dumps({"listening": True}), flush=True)
        for number in range(options.connections):
            connection, _ = server.accept()
            with connection:
                connection.settimeout(options.patience)
                started = time.monotonic()
                request = read_request(connection)
                if options.refuse_first and not number:
                    if options.refuse_first == "reset":
                        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    report(started, request, "refused by test")
                    continue
                connection.sendall(options.hex)
                if options.hold:
                    more, end = read_to_the_end(connection)
                    if options.keep_open and wait_for_reset(connection, options.patience):
                        end += ", reset"
                    report(started, request + more, end)
                else:
                    report(started, request, "closed")


parser = argparse.ArgumentParser()
commands = parser.add_subparsers(required=True)
for name, function in (("connect", connect), ("listen", listen)):
    command = commands.add_parser(name)
    command.add_argument("address")
    command.add_argument("port", type=int)
    command.add_argument("hex", type=bytes.fromhex, nargs="?", default=b"")
    command.add_argument("--patience", type=float, default=PATIENCE)
    command.set_defaults(function=function)
    if name == "connect":
        command.add_argument("--pause", type=float, default=0)
        command.add_argument("--reply", type=int, default=0)
        command.add_argument("--then", type=bytes.fromhex, default=b"")
    else:
        command.add_argument("--connections", type=int, default=1)
        command.add_argument(
            "--refuse-first", choices=("reset", "close"), help="how to end the first connection, without a reply"
        )
        command.add_argument("--hold", action="store_true", help="read on until the peer ends the connection")
        command.add_argument("--keep-open", action="store_true", help="and close only if the peer resets it")
arguments = parser.parse_args()
arguments.function(arguments)
