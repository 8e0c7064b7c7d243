#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs rdma-core's own Python tests, which Debian has in /usr/share/doc/rdma-core/tests, and prints the results as
JSON:

    pyverbs_tests.py alone FOLDER DEVICE          all tests of common verbs, as `run_tests.py --dev DEVICE` does
    pyverbs_tests.py passive FOLDER OWN PEER CASE  one case of test_rdmacm.py, its passive side
    pyverbs_tests.py active FOLDER OWN PEER CASE   the other side

test_rdmacm.py starts both sides on one machine, with one address, and a T3 cannot connect to its own address. So the
two sides run in two guests here, with rdma-core's classes for each. Its barrier and its queue become a TCP connection
between the sides.
"""

import collections
import functools
import importlib
import io
import json
import os
import pickle
import socket
import struct
import sys
import time
import unittest

# Tests of other vendors' cards, and of GPUs.
OTHER = ("test_mlx5", "test_efa", "test_mlx4", "test_hns", "test_cuda", "test_mana")
PORT = 7600
PATIENCE = 60  # seconds


class Listed(unittest.TextTestResult):
    """Also keeps the names of the tests that passed."""

    def __init__(self, *args):
        super().__init__(*args)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(name(test))


def name(test):
    return test.id().removeprefix("tests.")


def alone(folder, device):
    from args_parser import parser

    sys.argv[1:] = ["--dev", device]
    parser.parse_args()
    suite = unittest.TestSuite()
    for file in sorted(os.listdir(folder)):
        if file.startswith("test_") and file.endswith(".py") and not file.startswith(OTHER):
            suite.addTests(
                unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(f"tests.{file[:-3]}"))
            )
    result = unittest.TextTestRunner(stream=io.StringIO(), resultclass=Listed).run(suite)
    print(
        json.dumps(
            {
                "passed": result.passed,
                "skipped": {name(test): why for test, why in result.skipped},
                "failed": {name(test): trace for test, trace in result.failures + result.errors},
            }
        )
    )


class Peer:
    """The barrier and the queue of rdma-core's tests, over TCP."""

    def __init__(self, passive, own, peer):
        if passive:
            with socket.create_server((own, PORT)) as listener:
                listener.settimeout(PATIENCE)
                self.line = listener.accept()[0]
        else:
            end = time.monotonic() + PATIENCE
            while True:
                try:
                    self.line = socket.create_connection((peer, PORT))
                    break
                except ConnectionRefusedError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.1)
        self.line.settimeout(PATIENCE)
        self.arrived = {"wait": collections.deque(), "put": collections.deque()}

    def _send(self, *message):
        data = pickle.dumps(message)
        self.line.sendall(struct.pack("!I", len(data)) + data)

    def _exactly(self, length):
        data = b""
        while len(data) < length:
            part = self.line.recv(length - len(data))
            if not part:
                raise EOFError("the other side has ended")
            data += part
        return data

    def _receive(self, wanted):
        while not self.arrived[wanted]:
            kind, value = pickle.loads(self._exactly(struct.unpack("!I", self._exactly(4))[0]))
            self.arrived[kind].append(value)
        return self.arrived[wanted].popleft()

    def wait(self):
        self._send("wait", None)
        self._receive("wait")

    def put(self, value):
        self._send("put", value)

    def get(self):
        return self._receive("put")


# As CMTestCase in test_rdmacm.py has them: the class of the connection, the operation, and its options.
CASES = {
    "sync_traffic": ("CMSyncConnection", None, {}),
    "async_traffic": ("CMAsyncConnection", None, {}),
    "async_reject_traffic": ("CMAsyncConnection", None, {"reject_conn": True}),
    "async_traffic_external_qp": ("CMAsyncConnection", None, {"with_ext_qp": True}),
    "async_read": ("CMAsyncConnection", "read", {}),
    "async_write": ("CMAsyncConnection", "write", {}),
}


def receive_first(player):
    """The client's traffic over an external QP, as in rdmacm_utils.py. There it posts the receive for a reply when its
    Send has completed, which may be too late without the receiver-not-ready message of InfiniBand."""
    from tests import rdmacm_utils

    resources = player.cm_res
    player.syncer.wait()
    for _ in range(resources.num_msgs):
        resources.qp.post_recv(rdmacm_utils.get_recv_wr(resources))
        resources.qp.post_send(rdmacm_utils.get_send_elements(resources, resources.passive)[0])
        for _ in ("send", "receive"):
            rdmacm_utils.poll_cq(resources.cq)
        rdmacm_utils.validate(resources.mr.read(resources.msg_size, 0), resources.passive, resources.msg_size)


def side(passive, own, peer, case):
    from tests import base_rdmacm, rdmacm_utils

    made = base_rdmacm.AddrInfo

    def between(src, dst):
        """Of the test's one address, the connecting side needs both."""
        return (src, None) if dst is None else (own, peer)

    make = made
    if hasattr(made, "get_addrinfo"):  # of rdma-core 65, where the tests make it without an address

        class Resolved(made):
            def get_addrinfo(self, src=None, dst=None, *more, **options):
                return super().get_addrinfo(*between(src, dst), *more, **options)

        make = Resolved

    def at_once(src=None, dst=None, **options):
        src, dst = between(src, dst)
        return make(src=src, dst=dst, **options)

    base_rdmacm.AddrInfo = rdmacm_utils.AddrInfo = at_once
    connection, operation, options = CASES[case]
    line = Peer(passive, own, peer)
    remote = {"remote_op": operation} if operation else {}
    player = getattr(rdmacm_utils, connection)(
        ip_addr=own, syncer=line, notifier=line, passive=passive, **remote, **options
    )
    player._ext_qp_client_traffic = functools.partial(receive_first, player)
    player.establish_connection()
    if not options.get("reject_conn"):
        if operation:
            player.remote_traffic(passive=passive, remote_op=operation)
        else:
            player.rdmacm_traffic()
        player.disconnect()
    line.wait()
    print(json.dumps({"passed": [case]}))


what, folder = sys.argv[1:3]
sys.path[:0] = [folder, os.path.dirname(folder)]
if what == "alone":
    alone(folder, sys.argv[3])
else:
    side(what == "passive", *sys.argv[3:6])
