# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Programs of other projects, unmodified from Debian: those that work move data, and those that a T3 refuses get a reason."""

import contextlib

import pytest


@contextlib.contextmanager
def debug_messages(guest, module="iw_cxgb3"):
    """The debug messages of a driver in this time, as lines."""
    control = "/proc/dynamic_debug/control"
    before = len(guest.dmesg())
    lines = []
    guest.check(f"echo 'module {module} +p' > {control}")
    try:
        yield lines
    finally:
        guest.check(f"echo 'module {module} -p' > {control}")
    lines += guest.dmesg()[before:].splitlines()


# The reasons of refusals

PYVERBS_REQUEST = """
import pyverbs.enums as e
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPCap, QPInitAttr
ctx = Context(name='cxgb3_0')
pd, cq = PD(ctx), CQ(ctx, 16)
def qp(**cap):
    return QP(pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(**{**dict(max_send_wr=1, max_recv_wr=1), **cap})))
"""


@pytest.mark.parametrize("request_, reason", [
    ("qp(max_send_wr=1024)", "1024 send WRs requested, at most 1023 are possible"),
    ("qp(max_recv_wr=1024)", "1024 receive WRs requested, at most 1023 are possible"),
    ("qp(max_send_sge=5)", "5 SGEs of a send WR requested, at most 4 are possible"),
    ("qp(max_recv_sge=5)", "5 SGEs of a receive WR requested, at most 4 are possible"),
    ("qp(max_inline_data=65)", "65 bytes of inline data requested, at most 64 are possible"),
    ("CQ(ctx, 40000)", "40000 CQ entries requested, at most 32752 are possible"),
    ("MR(pd, 1 << 32, e.IBV_ACCESS_LOCAL_WRITE, address=1 << 20)", "4294967296 bytes of a region requested, at most 4294967295 are possible"),
])
def test_the_kernel_log_names_the_limit_that_a_program_exceeds(pair, request_, reason):
    guest = pair.guests[0]
    with debug_messages(guest) as lines:
        done = guest.run(["python3", "-c", f"{PYVERBS_REQUEST}{request_}"])
    assert "Errno: 22, Invalid argument" in done.stderr, done
    assert any(line.endswith(reason) for line in lines), lines
