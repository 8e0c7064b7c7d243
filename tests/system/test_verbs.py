# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Rules of the verbs for objects and processes."""

from programs import run_alone, run_pair
from stock import objects


def test_domains_and_device_queries(pair):
    server, client = pair.guests
    assert run_alone(client, server, "domains")["checks"] >= 30
    assert not any(objects(client).values())


def test_fork_while_sending(pair):
    server, client = run_pair(*pair.guests, "fork")
    for side in (server, client):
        assert side["children"] == 12
        assert side["mapped"] >= 4, "two CQ rings, a QP ring and a doorbell page, none of which a child has"
    for guest in pair.guests:
        assert not any(objects(guest).values())
