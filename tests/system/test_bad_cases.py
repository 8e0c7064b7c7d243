# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Requests that must fail: access without rights, messages without a receive, connections that end without warning.

Each program checks what its side sees; the tests check that the case happened.
"""

import pytest
from labkit import wirecheck
from labkit.iwarp import Cause, Op, codes_for
from programs import run_pair
from stock import objects

pytestmark = pytest.mark.wire

REQUEST_ERROR = "invalid request local work queue error"  # what libibverbs calls IBV_EVENT_QP_REQ_ERR
ERROR_STATE = 6  # IBV_QPS_ERR


@pytest.fixture
def ends(pair):
    """Server and client; afterwards none of their objects is left."""
    yield pair.guests
    for guest in pair.guests:
        left = objects(guest)
        assert left and not any(left.values()), f"{guest.name} has {left}"


# X20: both programs query the QP's state.
@pytest.mark.parametrize("operation, message", [("write", Op.WRITE), ("read", Op.READ_REQUEST)], ids=["write", "read"])
@pytest.mark.parametrize(
    "case, cause",
    [
        pytest.param("wrong_rkey", Cause.STAG, id="wrong_rkey"),
        pytest.param("out_of_bounds", Cause.BOUNDS, id="out_of_bounds"),
        pytest.param("no_permission", Cause.ACCESS, id="no_permission"),
    ],
)
def test_remote_access_without_rights_is_refused(pair, ends, tmp_path, case, cause, operation, message):
    with pair.sim.capturing(tmp_path):
        server, client = run_pair(*ends, "bad_access", f"--case={case} --op={operation}")
    (code,) = wirecheck.check(tmp_path / "p0.pcapng").terminates
    assert code in codes_for(cause, message)
    assert server["memory_intact"] and client["memory_intact"]
    assert (server["async_event"], client["async_event"]) == (REQUEST_ERROR, REQUEST_ERROR)
    assert (server["qp_state"], client["qp_state"]) == (ERROR_STATE, ERROR_STATE)
    if operation == "read":
        assert client["status"] == "Work Request Flushed Error"


def test_send_without_a_receive(pair, ends, tmp_path):
    with pair.sim.capturing(tmp_path):
        server, client = run_pair(*ends, "rnr")
    (code,) = wirecheck.check(tmp_path / "p0.pcapng").terminates
    assert code in codes_for(Cause.NO_RECEIVE, Op.SEND)
    assert server["async_event"] == "local work queue catastrophic error"
    assert client["after"] == "Work Request Flushed Error", "work posted to a QP in error is flushed"


# A2: without --events the survivor only polls. B3: requests during a close. B8: modify QP races with destroy.
@pytest.mark.parametrize("waiting", ["", "--events"], ids=["polling-only", "events"])
@pytest.mark.parametrize("closer", ["client", "server"])
@pytest.mark.parametrize("how", ["disconnect", "kill", "error"])
def test_outstanding_requests_are_flushed_once(ends, how, closer, waiting):
    server, client = run_pair(*ends, "flush", f"--closer={closer} --how={how} {waiting}")
    survivor = client if closer == "server" else server
    assert survivor["recvs_flushed"] > 0, "receives were outstanding when the connection ended"
    for side in (server, client):
        if side:
            assert (side["sends_lost"], side["recvs_lost"], side["doubled"]) == (0, 0, False)
    if how != "kill":
        assert server and client


# E15
def test_a_cq_overrun_puts_the_qp_into_error(ends):
    _, client = run_pair(*ends, "small_cq")
    assert client["cqe"] == 8 and client["overflowed"]
    assert client["ok"] + client["flushed"] == 40


@pytest.mark.parametrize("reply", ["", "--reject"], ids=["accept", "reject"])
@pytest.mark.parametrize("length", [0, 1, 56, 196, 255])  # librdmacm takes 255 at most
def test_private_data(ends, length, reply):
    server, client = run_pair(*ends, "private_data", f"--length={length} {reply}")
    assert "refused" not in client
    assert server["got"] >= length and client["got"] >= length


# A8: inline of every length. --extended: by ibv_wr_*() and ibv_start_poll(), in a thread domain.
@pytest.mark.parametrize("calls", ["", "--extended"], ids=["old", "extended"])
def test_every_kind_of_work_request(ends, calls):
    server, client = run_pair(*ends, "verbs_smoke", calls)
    assert client["failed"] == []
    assert client["checks"] > 300 and server["served"] > 70
    assert client["memory_window"] == "bound"
    assert client["send_with_invalidate"] == "refused"
