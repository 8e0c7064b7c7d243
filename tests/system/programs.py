# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs of tests/programs, and those of examples, as the tests start them."""

import json

from labkit.guest import Guest
from stock import address, wait_listening

BIN = "/t3/bin"
PORT = 7472
SUM_PORT = 7471


def run_pair(server: Guest, client: Guest, name: str, options: str = "", timeout: int = 60, network: int = 0) -> tuple[dict, dict]:
    """Runs a test program on both sides; returns the results of server and client. A side that prints nothing, such as one
    that is killed, has an empty result."""
    serving = server.start(f"exec {BIN}/t3-{name} server {options}")
    wait_listening(server, PORT)
    client_done = client.start(f"exec {BIN}/t3-{name} client {address(server, network)} {options}").wait(timeout)
    server_done = serving.wait(timeout)
    results = []
    for side, done in (("server", server_done), ("client", client_done)):
        result = json.loads(done.stdout) if done.stdout.strip() else {}
        assert done.rc == 0, f"{side} of {name} {options}: status {done.rc}, {done.stdout}{done.stderr}"
        results.append(result)
    return results[0], results[1]


def run_alone(guest: Guest, peer: Guest, name: str, options: str = "", timeout: int = 60) -> dict:
    """Runs a test program that needs only a device, which is that of the route to the peer's address."""
    done = guest.run(f"{BIN}/t3-{name} client {address(peer)} {options}", timeout)
    assert done.rc == 0, f"{name} {options}: status {done.rc}, {done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def ucm_differences(ours: str, in_tree: str) -> dict[str, tuple]:
    """What two outputs of guest/ucm.py differ in: the name of the command and both results."""
    mine, other = ([json.loads(line) for line in output.splitlines()] for output in (ours, in_tree))
    assert mine and [line["what"] for line in mine] == [line["what"] for line in other]
    return {line["what"]: (line, reference) for line, reference in zip(mine, other) if line != reference}
