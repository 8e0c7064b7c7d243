#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A plain TCP peer of an iWARP listener, for what no iWARP peer would do.

    stream.py ADDRESS PORT HEX [--pause SECONDS --then HEX]

Connects, sends, and prints what became of it: {"end": "eof" | "reset" | "timeout", "received": hex, "after": seconds}.
"""

import argparse
import json
import socket
import time

parser = argparse.ArgumentParser()
parser.add_argument("address")
parser.add_argument("port", type=int)
parser.add_argument("hex", type=bytes.fromhex)
parser.add_argument("--pause", type=float, default=0)
parser.add_argument("--then", type=bytes.fromhex, default=b"")
parser.add_argument("--patience", type=float, default=20)
options = parser.parse_args()

started = time.monotonic()
received = b""
try:
    with socket.create_connection((options.address, options.port), timeout=options.patience) as connection:
        connection.sendall(options.hex)
        if options.then:
            time.sleep(options.pause)
            connection.sendall(options.then)
        while piece := connection.recv(4096):
            received += piece
    end = "eof"
except (ConnectionResetError, BrokenPipeError):
    end = "reset"
except ConnectionRefusedError:
    end = "refused"
except TimeoutError:
    end = "timeout"
print(json.dumps({"end": end, "received": received.hex(), "after": time.monotonic() - started}))
