# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""write() and ioctl() of t3_uverbs and write() of t3_rdma_cm, fuzzed by two hosts that connect to each other
(tests/programs/fuzz).

On Debian's kernel for half a minute, guided by results only; on the debug kernel for ten minutes, guided by KCOV, with
KASAN, lockdep and kmemleak. Building that kernel takes too long for `make test`."""

import pytest
from programs import fuzz
from stock import rping

# Commands that no device here supports.
NEVER = set(
    "resize_cq attach_mcast detach_mcast create_srq destroy_srq create_srq_i destroy_srq_i create_ah destroy_ah"
    " destroy_ah_i open_xrcd create_flow advise_mr_i modify_cq cm_join_ip cm_join cm_leave"
    " post_send post_recv poll_cq".split()
)
# Commands that are valid by chance only, or after what the other host does.
RARE = {"garbage", "cm_notify", "cm_reject"}
# Needs a request of the other host, for which half a minute of a busy machine may be too short.
NEEDS_PEER = {"cm_accept"}


def check(lab, results, not_reached, not_refused):
    """Every command was accepted, nearly all were also refused, and afterwards both hosts and cards still work."""
    for result in results:
        assert result["killed"] > 0 and result["unkillable"] == 0
    # On one of the hosts is enough.
    accepted_by_none, refused_by_none = (
        set.intersection(*(set(result[what]) for result in results)) for what in ("never_accepted", "never_refused")
    )
    assert not accepted_by_none - NEVER - not_reached
    assert len(refused_by_none) < not_refused, "too few commands were malformed"
    server, client = lab.guests
    for guest in lab.guests:
        guest.check(
            (
                "for try in $(seq 300); do rdma resource show | grep -q 'qp 0 cm_id 0 ' && exit 0; sleep 0.1; done; "
                "rdma resource show; exit 1"
            ),
            60,
        )
    rping(server, client, "-C 10 -V")


def test_fuzz_for_half_a_minute(make_lab):
    lab = make_lab(guests=2, load="rdma-t3")
    check(lab, fuzz(lab, 30, 3), RARE | NEEDS_PEER, not_refused=40)


@pytest.mark.debug
def test_fuzz_for_ten_minutes(make_lab):
    lab = make_lab(guests=2, load="rdma-t3")
    results = fuzz(lab, 600, 3)
    assert all(result["kcov"] for result in results)
    check(lab, results, RARE, not_refused=15)
    for guest in lab.guests:
        assert guest.leaks() == ""
