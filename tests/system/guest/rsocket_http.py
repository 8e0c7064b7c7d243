#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Python's http.server over rsockets: rsocket_http.py ADDRESS PORT FOLDER, with librspreload.so in LD_PRELOAD.

librspreload replaces socket() with plain types and accept(), and leaves all others to TCP. Python opens sockets with SOCK_CLOEXEC and
accepts with accept4(). So this opens and accepts as older programs do. All else is that of http.server.
"""

import ctypes
import functools
import http.server
import os
import socket
import sys

libc = ctypes.CDLL(None, use_errno=True)  # includes preloaded libraries


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


class Socket(socket.socket):
    def __init__(self, descriptor):
        super().__init__(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)

    def accept(self):
        made = Socket(checked(libc.accept(self.fileno(), None, None)))
        return made, made.getpeername()


class Server(http.server.ThreadingHTTPServer):
    def __init__(self, address, handler):
        super().__init__(address, handler, bind_and_activate=False)
        self.socket.close()
        self.socket = Socket(checked(libc.socket(socket.AF_INET, socket.SOCK_STREAM, 0)))
        self.server_bind()
        self.server_activate()


handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[3])
Server((sys.argv[1], int(sys.argv[2])), handler).serve_forever()
