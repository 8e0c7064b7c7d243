# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Rules of the verbs that are about objects and processes rather than about messages."""

from programs import run_alone, run_pair
from stock import objects


def test_domains_and_both_queries_of_the_device(pair):
    server, client = pair.guests
    assert run_alone(client, server, "domains")["checks"] >= 30
    assert not any(objects(client).values())


def test_programs_that_fork_while_they_send(pair):
    server, client = run_pair(*pair.guests, "fork")
    for side in (server, client):
        assert side["children"] == 12
        assert side["mapped"] >= 4, "two CQ rings, a QP ring and a doorbell page, of which no child has one"
    for guest in pair.guests:
        assert not any(objects(guest).values())
