# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Our connection manager over RoCE with programs that end, refuse and send anything at any time: storms and the fuzzer.

The guests run in User Mode Linux, whose kernel has KASAN, lockdep, kmemleak and KCOV; rxe is on the Ethernet of their
cards.
"""

import pytest
from conftest import Keeper, _keep, lend_made
from labkit import build
from labkit.machine import Machine
from programs import fuzz, storm
from roce import BOTH_WAYS, Ends, nothing_is_left
from stock import rping

# Random bytes are a command by chance only.
BY_CHANCE = {"garbage"}


@pytest.fixture(scope="module")
def _keeper(pytestconfig):
    if not pytestconfig.getoption("--no-build"):
        build.everything("bookworm", "uml")
    yield from _keep(
        Keeper(guests=2, load="nic", suite="bookworm", kernel="uml", name="roce-uml", machine=Machine(memory=1024))
    )


@pytest.fixture
def both(request, _keeper):
    yield from lend_made(_keeper, request, Ends)


@pytest.mark.parametrize("managers", BOTH_WAYS, ids="->".join)
@pytest.mark.parametrize("connections", [150, pytest.param(2000, marks=pytest.mark.long)])
def test_a_storm_leaves_no_objects(both, managers, connections):
    server, client = both.use(*reversed(managers))
    storm(server, client, connections, seed=connections, timeout=120 if connections < 1000 else 900)
    nothing_is_left(both.lab.guests)


@pytest.mark.parametrize("seconds", [30, pytest.param(600, marks=pytest.mark.long)])
def test_fuzz_of_the_commands(both, seconds):
    """A worker for each end of connections and of datagrams, and one that has no role."""
    both.use("ours", "ours")
    results = fuzz(both.lab, seconds, 5, "--roce")
    for result in results:
        assert result["kcov"] and result["killed"] > 0 and result["unkillable"] == 0
    # On one of the hosts is enough. Half a minute of a busy machine may be too short for what needs the other host.
    accepted_by_none = set.intersection(*(set(result["never_accepted"]) for result in results))
    assert not accepted_by_none - BY_CHANCE - ({"cm_notify", "cm_accept", "cm_reject"} if seconds < 60 else set())
    refused_by_none = set.intersection(*(set(result["never_refused"]) for result in results))
    assert not {name for name in refused_by_none if name.startswith("cm_")}
    nothing_is_left(both.lab.guests)
    rping(*both.lab.guests, "-C 10 -V")
