# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/limits.md: each limit of the card has a row, and its figure is the constant in the sources."""

import re

import pytest
from labkit import paths

PAGE = (paths.REPO / "docs/limits.md").read_text()


def constant(name, folders=("include/hw", "kernel/iw_cxgb3")):
    for folder in folders:
        for path in sorted((paths.REPO / folder).rglob("*.h")):
            found = re.search(rf"^#define {name}\s+(\d+)\b", path.read_text(), re.M)
            if found:
                return int(found[1])
    raise AssertionError(f"no #define of {name}")


def row(head):
    """The cells of the row whose first cell begins with head."""
    found = [line for line in PAGE.splitlines() if line.startswith(f"| {head}")]
    assert len(found) == 1, f"{len(found)} rows begin with {head!r}"
    return [cell.strip() for cell in found[0].strip("|").split("|")]


def contexts(kilobytes):
    """How many doorbell pages of this size programs can have: 32 QP ids share one of 4 KB, and the lowest ids are not
    for QPs."""
    ids = 32 * kilobytes // 4
    return (constant("T3_MAX_ID") + 1) // ids - -(-constant("T3_MIN_QP_ID") // ids)


@pytest.mark.parametrize(
    "head, figure",
    [
        ("Work requests (WRs)", lambda: f"{constant('T3_MAX_RQ_ENTRIES') - 1:,} sends"),
        ("SGEs", lambda: f"{constant('T3_MAX_SGE')}; {constant('T3_MAX_READ_SGE')} of an RDMA READ"),
        ("Inline data", lambda: f"{constant('T3_MAX_INLINE')} bytes"),
        ("Entries (CQEs)", lambda: f"{constant('T3_MAX_CQ_ENTRIES') - constant('T3_CQ_SPARE'):,}"),
        ("Outstanding RDMA READs (IRD, ORD)", lambda: f"{constant('T3_MAX_RD_ATOM')} in each direction"),
        ("Contexts", lambda: f"{contexts(4):,}; with system pages of 16 KB {contexts(16)}, of 64 KB {contexts(64)}."),
        ("Pages of a fast-registered region", lambda: f"{constant('T3_MAX_FASTREG_PAGES')} "),
    ],
)
def test_figure_of_a_row_is_the_constant(head, figure):
    _, limit, error = row(head)
    assert limit.startswith(figure()), limit
    assert error


def test_spare_entries_of_a_cq_are_the_constant():
    assert f"at least {constant('T3_CQ_SPARE')} spare" in " ".join(PAGE.split())


@pytest.mark.parametrize("subject", ["SRQ", "atomics", "IPv6", "UD", "immediate data", "REMOTE_ATOMIC"])
def test_missing_feature_is_named(subject):
    assert re.search(rf"\b{subject}\b", PAGE, re.I)


def test_remote_atomic_is_accepted_and_no_atomic_is_announced():
    """What the page states of REMOTE_ATOMIC, in the driver: libfabric registers with it on every device."""
    flags = re.search(r"IB_ACCESS_LOCAL_WRITE.*?\)", (paths.REPO / "kernel/iw_cxgb3/verbs/mr.c").read_text(), re.S)
    assert flags and "IB_ACCESS_REMOTE_ATOMIC" in flags[0]
    assert "atomic_cap = IB_ATOMIC_NONE" in (paths.REPO / "kernel/iw_cxgb3/verbs/verbs.c").read_text()
