# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""`t3sim ctl` shows the objects of a running program as the guests' kernels know them, and resets a card."""

import json
import os
import subprocess
import time

import pytest
from labkit import sim
from labkit.sim import Wire
from stock import RPING_PORT, address, assert_complete, rping_client, rping_server

DEADLINE = 60


def ctl(lab, *words):
    done = subprocess.run(
        [sim.program(), "ctl", *words],
        env={**os.environ, "T3SIM_CONTROL": str(lab.sim.control_socket)},
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout


def table(lab, name, *card):
    return json.loads(ctl(lab, name, *card, "--json"))


def until(condition, left=lambda: None):
    """The first true value of the condition; left() shows why there is none."""
    end = time.monotonic() + DEADLINE
    while not (value := condition()):
        assert time.monotonic() < end, left()
        time.sleep(0.1)
    return value


def test_tables_show_what_the_kernels_know(pair):
    def key(connection):
        return connection["card"], connection["local"], connection["peer"]

    def connected():
        return table(pair, "qps") + [row for row in table(pair, "connections") if key(row) not in earlier]

    server, client = pair.guests
    # An active open of an earlier test, which repeats its SYN for minutes: a T3 cannot abort it before the peer
    # answers.
    earlier = {key(row) for row in table(pair, "connections")}
    until(lambda: not connected(), connected)
    before = {name: len(table(pair, name)) for name in ("qps", "cqs", "regions", "rings")}
    serving = rping_server(server, "-C 1000000 -S 1234")
    asking = rping_client(client, server, "-C 1000000 -S 1234")
    qps = until(lambda: [row for row in table(pair, "qps") if row["state"] == "running"][1:] and table(pair, "qps"))
    assert len(qps) == 2

    for number, (guest, peer) in enumerate([(server, client), (client, server)]):
        card = f"c{number}"
        (known,) = [
            qp
            for qp in json.loads(guest.check("rdma -j resource show qp"))
            if qp.get("lqpn", 0) > 1 and qp["type"] == "RC"
        ]
        (row,) = table(pair, "qps", card)
        assert row["card"] == card and row["qp"] == known["lqpn"]
        (connection,) = [line for line in table(pair, "connections", card) if line["tid"] == row["tid"]]
        assert connection["rdma"] and connection["state"] == "ESTABLISHED"
        ends = [connection["local"], connection["peer"]]
        assert [end.split(":")[0] for end in ends] == [address(guest), address(peer)]
        assert ends[number].endswith(f":{RPING_PORT}")
        assert {row["send_cq"], row["receive_cq"]} <= {cq["cq"] for cq in table(pair, "cqs", card)}
        assert row["qp"] in {ring["id"] for ring in table(pair, "rings", card) if ring["type"] == "QP"}
        lengths = [region["length"] for region in table(pair, "regions", card) if region["valid"]]
        # The client registers its source and its sink, the server one buffer for both.
        assert lengths.count(1234) == number + 1 and len(lengths) == number + 3
    assert ctl(pair, "qps").splitlines()[0].split()[:3] == ["card", "qp", "state"]

    for command in (serving, asking):
        command.kill()
        command.wait(DEADLINE)
    until(lambda: not connected(), connected)
    after = {name: len(table(pair, name)) for name in before}
    assert after == before, "nothing remains"


@pytest.mark.allow_log(r"WARNING: .*__flush_work", "cxgb3.ko warns when it is unloaded; the in-tree driver's own")
def test_a_reset_card_is_as_after_power_on(make_lab):
    """The guest has no driver, and finds the card as it was before: without it, rings of an earlier driver would
    stay."""
    lab = make_lab(guests=1, load="nic", wires=[Wire("p", ("c0.0", "c0.1"))])
    (guest,) = lab.guests
    assert [ring for ring in table(lab, "rings") if ring["type"] == "Ethernet"]
    guest.check("rmmod cxgb3", 120)
    ctl(lab, "reset", "c0")
    assert table(lab, "rings") == [] and ctl(lab, "rings") == "no rings\n"
    command = guest.check(
        "for device in /sys/bus/pci/devices/*; do [ $(cat $device/vendor) = 0x1425 ] && od -An -tx2 -j4 -N2"
        " $device/config; done"
    )
    assert not int(command, 16) & 4, "bus mastering is off"
    guest.check("modprobe cxgb3")
    guest.check("ip link set $(ls /sys/bus/pci/drivers/cxgb3/0*/net | grep -v : | head -n 1) up", 120)
    assert [ring for ring in table(lab, "rings") if ring["type"] == "Ethernet"]


def test_a_connection_survives_a_pause_of_its_cards(pair):
    server, client = pair.guests
    serving = rping_server(server, "-C 3000 -S 1234 -V")
    asking = rping_client(client, server, "-C 3000 -S 1234 -V")

    def completions():
        return sum(pair.sim.counters(number)["sge.cqes"] for number in (0, 1))

    before = completions()
    pair.sim.wait(lambda: completions() > before + 100, DEADLINE)
    card = pair.sim.card(1)
    card.pause()
    try:
        before = completions()
        time.sleep(5)  # longer than TCP waits for an ACK
        assert completions() <= before + 8, "only the receives that a doorbell finds"
        assert card.step() <= card.step()
    finally:
        card.run()
    assert_complete(asking.wait(DEADLINE))
    assert serving.wait(DEADLINE).rc == 0


def test_a_card_that_takes_time_carries_rping(pair):
    server, client = pair.guests
    card = pair.sim.card(1)
    assert card.time("t3", "jitter=200us", "seed=7").endswith("jitter=200000ns seed=7")
    try:
        serving = rping_server(server, "-C 100 -S 65535 -V")
        assert_complete(rping_client(client, server, "-C 100 -S 65535 -V").wait(DEADLINE))
        assert serving.wait(DEADLINE).rc == 0
        assert pair.sim.counters(1)["sge.context_commands_while_busy"] == 0
    finally:
        card.time("instant")
