# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every command of the verbs ABI, by write(), by ioctl() and by the ioctl INVOKE_WRITE, well formed and malformed, to
ib_uverbs and to t3_uverbs on the same device in the same guest: both must return the same results and have the same
effects, except for the differences listed here.

tests/programs/uverbs has the table of commands and derives the malformed ones."""

import json
import re
from typing import NamedTuple

import pytest

PROGRAM = "/t3/bin/t3-uverbs_conformance"
OURS, IN_TREE = "/dev/infiniband/t3uverbs0", "/dev/infiniband/uverbs0"


class Difference(NamedTuple):
    """Cases in which the dispatchers differ, by patterns of the case and of each result; docs/uverbs.md has the table
    of them."""

    why: str
    case: str
    in_tree: str
    ours: str
    same_result: bool = False

    def covers(self, case, ours, in_tree):
        return (
            re.search(self.case, case)
            and re.match(self.in_tree, in_tree)
            and re.match(self.ours, ours)
            and (not self.same_result or ours.split()[0] == in_tree.split()[0])
        )


REFUSED = r"(?!ok )\w+ "
# Commands that neither a T3 nor t3_uverbs has, and that no kernel has had.
NOT_THERE = "modify_ah|query_ah|reg_smr|query_mr|bind_mw|peek_cq|create_ah|destroy_ah|poll_cq|resize_cq"

DIFFERENCES = (
    Difference(
        "a failed ioctl writes no output: handles, values, marks",
        " by ioctl: ",
        REFUSED + ".*(created|marked|: [0-9a-f]{2})",
        REFUSED,
        same_result=True,
    ),
    Difference("a second GET_CONTEXT is refused before any output", "get_context", "EINVAL .*", "EINVAL .*nothing"),
    Difference("a second GET_CONTEXT is refused before any output", "^get_context again", "EFAULT ", "EINVAL "),
    Difference(
        "a second GET_CONTEXT is refused before any output",
        "^invoke_write by ioctl: attribute 2: 0$",
        "EINVAL .*marked",
        "EINVAL .*nothing",
    ),
    Difference(
        "an unknown SRQ is refused like any unknown object",
        "^create_qp(_ex)? .*: is_srq: |^create_qp with an SRQ by ioctl: ",
        "EINVAL ",
        "ENOENT ",
    ),
    Difference("several errors at once: another one is reported", ": all ones$", "E", "E"),
    Difference(
        "the lengths of an unimplemented command are not checked",
        rf"^({NOT_THERE}) by write: (bytes written|only|words of the request)",
        "EINVAL ",
        "EOPNOTSUPP ",
    ),
    Difference(
        "the attributes of an unimplemented method are not checked",
        "^(advise_mr|reg_dmabuf_mr) by ioctl: ",
        "",
        "EOPNOTSUPP ",
    ),
    Difference(
        "event files have no handles and are not listed",
        "^info_handles by ioctl: attribute 0: 2$",
        "ok 1: 01",
        "ok 1: 00",
    ),
    Difference(
        "the number of handles is optional, as the interface defines it",
        "^info_handles by ioctl: attribute 1: missing$",
        "ENOENT ",
        "ok ",
    ),
)


def results(guest, options, both=True, timeout=120):
    """{case: "result effect"} of ours and of in-tree, which run at the same time and share only the device."""
    running = [guest.start(f"exec {PROGRAM} {device} {options}") for device in (OURS, IN_TREE)[: 2 if both else 1]]
    found = []
    for command in running:
        done = command.wait(timeout)
        assert done.rc == 0, done
        lines = list(map(json.loads, done.stdout.splitlines()))
        found.append({line["case"]: f"{line['result']} {line['effect']}" for line in lines})
        assert len(found[-1]) == len(lines), "two cases have the same name"
    return found if both else found[0]


def unexpected(ours, in_tree):
    """The differences that are not listed."""
    assert ours.keys() == in_tree.keys()
    return {
        case: f"in-tree: {in_tree[case]}; ours: {ours[case]}"
        for case in ours
        if ours[case] != in_tree[case]
        and not any(other.covers(case, ours[case], in_tree[case]) for other in DIFFERENCES)
    }


# What a T3 has. Without this check a wrong table would compare refusals only.
WORKS = """get_context query_device query_device_ex query_port alloc_pd dealloc_pd reg_mr rereg_mr dereg_mr alloc_mw dealloc_mw create_comp_channel create_cq
    create_cq_ex destroy_cq req_notify_cq create_qp create_qp_ex query_qp modify_qp modify_qp_ex destroy_qp""".split()  # noqa: E501
WORKS_BY_IOCTL = """invoke_write info_handles query_port get_context query_context query_gid_table query_gid_entry destroy_pd create_cq destroy_cq create_qp destroy_qp
    destroy_mr query_mr destroy_mw alloc_async_event""".split()  # noqa: E501


def check_accepted(found):
    for name in [f"{name} {how}" for name in WORKS for how in ("by write", "by INVOKE_WRITE")] + [
        f"{name} by ioctl" for name in WORKS_BY_IOCTL
    ]:
        assert found[f"{name}: well formed"].startswith("ok "), name
        without = found.get(f"{name}: without a context", "EINVAL")
        assert (
            re.match("E(INVAL|NOENT|BADF)", without)
            or name == "info_handles by ioctl"
            or name.startswith("create_comp")
        ), (name, without)


@pytest.mark.long
# D19: by write(), by ioctl() and by INVOKE_WRITE.
def test_some_of_all_cases_agree(t3uverbs):
    """One case in 12, always the same ones, and every well-formed command."""
    ours, in_tree = results(t3uverbs.guests[0], "--part=12")
    assert len(ours) > 900
    check_accepted(in_tree)
    check_accepted(ours)
    assert unexpected(ours, in_tree) == {}


@pytest.mark.long
def test_all_cases_agree(t3uverbs):
    ours, in_tree = results(t3uverbs.guests[0], "", timeout=900)
    assert len(ours) > 9000
    check_accepted(ours)
    assert unexpected(ours, in_tree) == {}
    # Every listed difference occurs.
    for other in DIFFERENCES:
        assert any(
            ours[case] != in_tree[case] and other.covers(case, ours[case], in_tree[case]) for case in ours
        ), other


def test_D7_D11_one_of_several_destroyers_succeeds(t3uverbs):
    """Three threads destroy an object and one uses it, while netlink lists its kind: one of them succeeds."""
    guest = t3uverbs.guests[0]
    listing = guest.start(
        "while :; do for kind in qp cq mr pd ctx; do rdma resource show $kind; done > /dev/null; done"
    )
    found = results(guest, "--part=12 --only='destroyed concurrently'", both=False)
    listing.kill()
    listing.wait(20)
    assert len(found) == 10

    for case, result in found.items():
        assert result == "at most one succeeds, pd 2 cq 2 qp 1 mr 1 mw 1 files 9 ", (case, result)


def test_D7_objects_and_event_files_of_other_files_are_not_found(t3uverbs):
    found = results(t3uverbs.guests[0], "--only='of another file'", both=False)
    objects = {
        case: seen
        for case, seen in found.items()
        if re.match("(dealloc|dereg|destroy_(cq|qp)) ?", case) and "by write" in case
    }
    assert objects and all(seen.startswith("ENOENT ") for seen in objects.values()), objects
    channels = {
        case: seen
        for case, seen in found.items()
        if re.match("create_cq.*comp_channel|create_cq by ioctl: attribute [37]", case)
    }
    assert len(channels) == 6 and all(seen.startswith("EBADF ") for seen in channels.values()), channels


@pytest.mark.parametrize("how", ["by write", "by INVOKE_WRITE"])
def test_D2_D6_D16_lengths_of_zero_or_that_overflow_are_refused(t3uverbs, how):
    guest = t3uverbs.guests[0]
    regions = results(guest, f"--only='reg_mr {how}: '", both=False)
    for value in ("0", "the top bit", "all ones"):
        assert regions[f"reg_mr {how}: length: {value}"].startswith("EINVAL "), value
    queues = results(guest, f"--only='create_qp {how}: max_'", both=False)
    for member in ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data"):
        for value in ("the top bit", "all ones"):
            assert not queues[f"create_qp {how}: {member}: {value}"].startswith("ok "), (member, value)


def test_D4_unused_response_bytes_hold_no_kernel_data(t3uverbs):
    """64 bytes more than a response needs: afterwards they are zero or unchanged."""
    found = results(t3uverbs.guests[0], "--only='more response space'", both=False)
    written = {case: re.search(r"([0-9a-fx]{130,})", seen) for case, seen in found.items() if seen.startswith("ok ")}
    assert len(written) > 20
    for case, match in written.items():
        # The driver's part may also have unused bytes; then the core's part is checked.
        if match and not match[1].endswith("x"):
            assert re.fullmatch("(xx)*((00)+|(a5)+)", match[1][-128:]), (case, match[1])


def test_D5_an_entry_size_of_zero_is_refused(t3uverbs):
    found = results(t3uverbs.guests[0], "--only='query_gid_table by ioctl: attribute 0: '", both=False)
    assert found["query_gid_table by ioctl: attribute 0: 0"].startswith("EINVAL ")
    assert found["query_gid_table by ioctl: attribute 0: all ones"].startswith("EINVAL ")


def test_D19_a_response_length_that_the_library_understates(t3uverbs):
    """rdma-core 18 and 19 declare 16 bytes when they destroy a CQ and pass 24. The kernel reads 24, so a request of 16
    bytes at the end of a page fails with EFAULT."""
    found = results(t3uverbs.guests[0], "--only='destroy_cq by write: short: 8'", both=False)
    assert list(found.values()) == ["EFAULT response nothing"], found
