# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Debian's programs of rdma-core and iproute2, unmodified."""

import json
import re

from stock import objects, rcopy, rdma_client, rping, ucmatose


def test_ibv_devices_lists_the_card(pair):
    for guest in pair.guests:
        assert re.search(r"^\s+cxgb3_0\s+[0-9a-f]{16}$", guest.check("ibv_devices"), re.MULTILINE)


def test_ibv_devinfo_describes_the_card_and_both_ports(pair):
    text = pair.guests[0].check("ibv_devinfo -v -d cxgb3_0")
    fields = dict(re.findall(r"^\s*(\w+):\s+(.*?)\s*$", text, re.MULTILINE))
    assert fields["hca_id"] == "cxgb3_0"
    assert fields["transport"] == "iWARP (1)"
    assert fields["vendor_id"] == "0x1425"
    assert fields["phys_port_cnt"] == "2"
    assert int(fields["max_qp"]) > 0 and int(fields["max_mr"]) > 0
    assert text.count("PORT_ACTIVE (4)") == 2
    assert text.count("Ethernet") == 2


def test_rdma_dev_and_link_name_the_interfaces(pair):
    for guest in pair.guests:
        assert "cxgb3_0" in guest.check("rdma dev show")
        links = json.loads(guest.check("rdma -j link show"))
        assert [(link["ifname"], link["port"], link["state"], link["netdev"]) for link in links] == [
            ("cxgb3_0", port + 1, "ACTIVE", guest.interfaces[port]) for port in (0, 1)
        ]


def statistics(guest):
    """The counters of port 1. Debian 12's rdma prints them in one line, Debian 13's each in a line of its own."""
    [text] = re.findall(r"^link cxgb3_0/1((?:\s+\w+ \d+)+)", guest.check("rdma statistic show"), re.MULTILINE)
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", text)}


def test_rdma_statistic_counts(pair):
    guest = pair.guests[0]
    before = statistics(guest)
    rping(*pair.guests)
    after = statistics(guest)
    assert after["tcpPassiveOpens"] > before["tcpPassiveOpens"], (before, after)
    assert after["tcpInSegs"] > before["tcpInSegs"] and after["ipInReceives"] > before["ipInReceives"], (before, after)


def test_ucmatose_with_ten_connections(pair):
    ucmatose(*pair.guests, "-c 10 -C 100", 120)


def test_rdma_client_reaches_rdma_server(pair):
    rdma_client(*pair.guests)


def test_rcopy_moves_ten_megabytes_unchanged(pair):
    rcopy(*pair.guests, 10_000_000, 120)


def test_the_tools_leave_no_object(pair):
    """Runs last in this file, so it covers all tests above."""
    for guest in pair.guests:
        left = objects(guest)
        assert left and not any(left.values()), f"{guest.name} has {left}"
