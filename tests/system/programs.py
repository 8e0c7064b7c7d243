# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The programs of tests/programs, and those of examples, as the tests start them."""

import json
import signal

from labkit.guest import Guest
from stock import address, wait_listening

BIN = "/t3/bin"
PORT = 7472
SUM_PORT = 7471


def run_pair(
    server: Guest, client: Guest, name: str, options: str = "", timeout: int = 60, network: int = 0
) -> tuple[dict, dict]:
    """Runs a test program on both sides; returns the results of server and client. A side that prints nothing, such as
    one that is killed, has an empty result."""
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


def storm(server: Guest, client: Guest, connections: int, seed: int = 1, timeout: int = 120) -> tuple[dict, dict]:
    """Processes on both sides open, refuse, close, abort, migrate and forget connections, and are killed, at random;
    returns the counts of client and server."""
    patience = round(
        timeout * client.image.pace
    )  # run() and wait() scale with the pace, the programs' watchdogs do not
    serving = server.start(f"exec {BIN}/t3-cm_storm server --seed={seed} --timeout={patience + 30}")
    wait_listening(server, PORT)
    done = client.run(
        f"{BIN}/t3-cm_storm client {address(server)} --connections={connections} --seed={seed} --timeout={patience}",
        timeout + 20,
    )
    serving.kill(signal.SIGTERM)
    served = serving.wait(30)
    opened, answered = (json.loads(side.stdout or "{}") for side in (done, served))
    print(f"seed {seed}: {opened}, {answered}")
    assert done.rc == 0 and served.rc == 0, (done, served)
    # On a slow kernel a killed server is absent for longer, and more requests are refused.
    assert opened["attempts"] == connections and opened["established"] > connections / 8
    assert answered["rejected"] and opened["migrated"] and opened["killed"] + answered["killed"]
    return opened, answered


def fuzz(lab, seconds: int, workers: int, options: str = "") -> list[dict]:
    """Runs the fuzzer on both hosts of a lab and returns their results."""
    running = []
    for guest, peer in zip(lab.guests, reversed(lab.guests)):
        guest.check("ls /dev/infiniband/uverbs0 /dev/infiniband/rdma_cm")
        running.append(
            guest.start(
                f"exec {BIN}/t3-fuzz client {address(peer)} --own={address(guest)} --seconds={seconds} "
                f"--workers={workers} --seed={guest.number + 1} --patience={60 * guest.image.pace:g} "
                f"--timeout={seconds + 300 * guest.image.pace:g} {options}"
            )
        )
    results = []
    for guest, command in zip(lab.guests, running):
        done = command.wait(seconds + 300)
        assert done.rc == 0, (guest.name, done)
        results.append(json.loads(done.stdout))
        print(guest.name, results[-1])
    return results


def ucm_differences(ours: str, in_tree: str) -> dict[str, tuple]:
    """What two outputs of guest/ucm.py differ in: the name of the command and both results."""
    mine, other = ([json.loads(line) for line in output.splitlines()] for output in (ours, in_tree))
    assert mine and [line["what"] for line in mine] == [line["what"] for line in other]
    return {line["what"]: (line, reference) for line, reference in zip(mine, other) if line != reference}
