# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Processes are killed, cables are pulled, modules are unloaded."""

import re
import signal

import pytest
from conditions import unresponsive_host, unresponsive_host_appears
from labkit import stack
from stock import RPING_PORT, address, objects, rping, rping_client, rping_server, wait_no_objects


def exit_status(command, timeout=60):
    """The status of a command that must end because its peer ended."""
    return command.wait(timeout).rc


def in_traffic(pair):
    """A connection that is busy until one of its processes is killed."""
    server, client = pair.guests
    serving = rping_server(server, "-V")
    pinging = rping_client(client, server, "-v -V")
    pinging.expect("rdma-ping-50:", 60)
    return serving, pinging


@pytest.mark.parametrize("victim", ["server", "client"])
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["kill", "term"])
def test_a_killed_side_ends_the_other_and_leaves_no_objects(pair, victim, how):
    serving, pinging = in_traffic(pair)
    killed, survivor = (serving, pinging) if victim == "server" else (pinging, serving)
    killed.kill(how)
    assert exit_status(killed) == -how
    exit_status(survivor)
    for guest in pair.guests:
        wait_no_objects(guest)
    server, client = pair.guests
    rping(server, client)


def test_traffic_continues_after_the_carrier_returns(pair):
    server, client = pair.guests
    serving = rping_server(server, "-C 800 -V")
    pinging = rping_client(client, server, "-v -V -C 800")
    pinging.expect("rdma-ping-100:", 60)
    pair.sim.cable("p0", plugged=False)
    try:
        for guest in pair.guests:
            guest.check(stack.wait_carrier(guest.interfaces[0], up=False), 40)
        before = pinging.stdout.count("rdma-ping-")
        client.check("sleep 1")
        assert pinging.running and pinging.stdout.count("rdma-ping-") <= before + 1
        assert "DOWN" in client.check("rdma link show cxgb3_0/1")
    finally:
        pair.sim.cable("p0", plugged=True)
    for guest in pair.guests:
        guest.check(stack.wait_carrier(guest.interfaces[0]), 40)
    assert pinging.wait(120).rc == 0
    assert serving.wait(30).rc == 0


def test_the_gid_follows_the_mac_address(pair):
    """ib_core returns the GID of the current MAC address, not of the one at registration."""
    client = pair.guests[1]
    name = client.interfaces[0]
    mac = client.check(f"cat /sys/class/net/{name}/address").strip()
    other = mac[:-2] + ("00" if mac[-2:] != "00" else "01")
    try:
        for now in (other, mac):
            client.check(f"ip link set {name} address {now}")
            raw = now.replace(":", "")
            gid = f"{raw[:4]}:{raw[4:8]}:{raw[8:]}:0000"
            client.check(
                f"""for try in $(seq 100); do
                    grep -q '^{gid}:' /sys/class/infiniband/cxgb3_0/ports/1/gids/0 && exit 0
                    sleep 0.1
                done; cat /sys/class/infiniband/cxgb3_0/ports/1/gids/0; exit 1""",
                60,
            )
    finally:
        client.check(f"ip link set {name} address {mac}")


def test_rdma_resource_shows_the_drivers_attributes(pair):
    serving, pinging = in_traffic(pair)
    server, client = pair.guests
    regions, ids, listeners = (
        guest.check(f"rdma resource show {what} -dd")
        for guest, what in ((client, "mr"), (client, "cm_id"), (server, "cm_id"))
    )
    assert re.search(
        r"drv_stag_index \d+ drv_usable 1 drv_perms 0x[0-9a-f]+ drv_page_shift \d+ drv_pbl_index \d+", regions
    ), regions
    assert re.search(r"drv_ep_state fpdu drv_tid 0x[0-9a-f]+ drv_active 1", ids), ids
    assert re.search(r"drv_stid 0x[0-9a-f]+", listeners), listeners
    for end in (pinging, serving):
        end.kill()
        exit_status(end)


# E14
def test_unloading_is_refused_while_the_device_is_used(pair):
    server, client = pair.guests
    serving, pinging = in_traffic(pair)
    refused = client.run("rmmod iw_cxgb3", 60)
    assert refused.rc != 0 and "in use" in refused.stderr, refused
    pinging.expect(f"rdma-ping-{pinging.stdout.count('rdma-ping-') + 50}:", 60)
    for end in (pinging, serving):
        end.kill()
        exit_status(end)
    for guest in pair.guests:
        wait_no_objects(guest)
    for _ in range(3):
        client.check("rmmod iw_cxgb3", 60)
        assert "cxgb3_0" not in client.check("rdma dev show")
        client.check(stack.load_module("iw_cxgb3"), 60)
    rping(server, client)


def test_a_connect_without_a_listener_fails_at_once(pair):
    server, client = pair.guests
    done = rping_client(client, server, "-C 1", listen_port=7999).wait(30)
    assert done.rc != 0
    assert "RDMA_CM_EVENT_REJECTED, error -111" in done.stdout + done.stderr, done


def test_an_unused_address_does_not_resolve(pair):
    done = pair.guests[1].run("rping -c -a 10.0.0.77 -C 1", 60)
    assert done.rc != 0
    assert "RDMA_CM_EVENT_ADDR_ERROR" in done.stdout + done.stderr, done


# B15: cxgb3 returns the message.
def test_an_unresponsive_host_is_unreachable(pair):
    client = pair.guests[1]
    with unresponsive_host(client, patience=5) as host:
        done = client.run(f"rping -c -a {host} -C 1", 60)
    assert done.rc != 0
    assert "RDMA_CM_EVENT_UNREACHABLE" in done.stdout + done.stderr, done
    wait_no_objects(client)


# The card replies to an abandoned open after the module that sent it was unloaded and loaded again.
def test_a_late_open_reply_after_unloading_has_no_client(pair):
    server, client = pair.guests
    with unresponsive_host(client, patience=1) as host:
        done = client.run(f"rping -c -a {host} -C 1", 60)
        assert "RDMA_CM_EVENT_UNREACHABLE" in done.stdout + done.stderr, done
        assert "abandoned" in client.check("cat /sys/kernel/debug/iw_cxgb3/*/cm/endpoints")
        client.check("rmmod iw_cxgb3", 60)
        client.check(stack.load_module("iw_cxgb3"), 60)
        # Now the host has the address, and its TCP refuses the SYN that the card still repeats.
        with unresponsive_host_appears(server):
            client.check(
                """for try in $(seq 300); do
                    dmesg | grep -q 'clientless CPL command 0x' && exit 0
                    sleep 0.1
                done
                exit 1""",
                120,
            )
    rping(server, client)


# A19, B7: on the debug kernel DMA-API debugging checks every mapping.
def test_a_hundred_sequential_connections_leave_no_objects(pair):
    server, client = pair.guests
    before = [int(guest.check("awk '/^MemAvailable/ {print $2}' /proc/meminfo")) for guest in pair.guests]
    serving = rping_server(server, "-P")
    client.check(f"for n in $(seq 100); do rping -c -a {address(server)} -p {RPING_PORT} -C 1 -V || exit 1; done", 240)
    serving.kill()
    serving.wait(20)
    for guest, had in zip(pair.guests, before):
        wait_no_objects(guest)
        assert not any(objects(guest).values())
        assert int(guest.check("awk '/^MemAvailable/ {print $2}' /proc/meminfo")) > had - 20_000
