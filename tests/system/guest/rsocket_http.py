#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Python's http.server and http.client over rsockets, with librspreload.so in LD_PRELOAD:
rsocket_http.py serve ADDRESS PORT FOLDER; rsocket_http.py get ADDRESS PORT NAME FILE.

librspreload of rdma-core before 65 replaces socket() with plain types and accept(), and leaves all others to TCP.
Python opens sockets with SOCK_CLOEXEC and accepts with accept4(). So this opens and accepts as older programs do. All
else is that of http.server and http.client.
"""

import ctypes
import functools
import http.client
import http.server
import os
import pathlib
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)  # includes preloaded libraries


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Socket(socket.socket):
    def __init__(self, descriptor=None):
        if descriptor is None:
            descriptor = checked(libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0))
        super().__init__(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)

    def accept(self):
        made = Socket(checked(libc.accept(self.fileno(), None, None)))
        return made, made.getpeername()


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, address, handler):
        super().__init__(address, handler, bind_and_activate=False)
        self.socket.close()
        self.socket = Socket()
        self.server_bind()
        self.server_activate()


def serve(address, port, folder):
    Server(
        (address, int(port)), functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    ).serve_forever()


def get(address, port, name, file):
    connection = http.client.HTTPConnection(address, int(port))
    connection.sock = Socket()
    connection.sock.connect((address, int(port)))
    connection.request("GET", f"/{name}")
    response = connection.getresponse()
    print(response.status)
    pathlib.Path(file).write_bytes(response.read())
    connection.close()


{"serve": serve, "get": get}[sys.argv[1]](*sys.argv[2:])
