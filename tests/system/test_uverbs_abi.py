# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every command of the verbs ABI, by write(), by ioctl and by write() carried in an ioctl, well formed and malformed, to ib_uverbs and to
t3_uverbs on the same device in the same guest: both must say and do the same, but for what is listed here.

tests/programs/uverbs holds the table of commands and makes the malformed ones from it."""

import json
import re
from typing import NamedTuple

import pytest

PROGRAM = "/t3/bin/t3-uverbs_conformance"
OURS, IN_TREE = "/dev/infiniband/t3uverbs0", "/dev/infiniband/uverbs0"


class Otherwise(NamedTuple):
    """Cases in which the dispatchers differ, by patterns of a case and of what each says; docs/uverbs.md has the table of them."""

    why: str
    case: str
    in_tree: str
    ours: str
    same_result: bool = False

    def covers(self, case, ours, in_tree):
        return (re.search(self.case, case) and re.match(self.in_tree, in_tree) and re.match(self.ours, ours) and
                (not self.same_result or ours.split()[0] == in_tree.split()[0]))


REFUSED = r"(?!ok )\w+ "
# What neither a T3 nor t3_uverbs has, and what no kernel ever had.
NOT_THERE = ("modify_ah|query_ah|reg_smr|query_mr|bind_mw|peek_cq|create_ah|destroy_ah|poll_cq|resize_cq|rereg_mr")

OTHERWISE = (
    Otherwise("the answers of a failed ioctl are not written: handles, values, marks",
              " by ioctl: ", REFUSED + ".*(created|marked|: [0-9a-f]{2})", REFUSED,
              same_result=True),
    Otherwise("a second GET_CONTEXT is refused before there is an answer", "get_context", "EINVAL .*", "EINVAL .*nothing"),
    Otherwise("a second GET_CONTEXT is refused before there is an answer", "^get_context again", "EFAULT ", "EINVAL "),
    Otherwise("a second GET_CONTEXT is refused before there is an answer", "^invoke_write by ioctl: attribute 2: 0$", "EINVAL .*marked", "EINVAL .*nothing"),
    Otherwise("an SRQ that is not there is like any object that is not there", "^create_qp(_ex)? .*: is_srq: |^create_qp with an SRQ by ioctl: ", "EINVAL ",
              "ENOENT "),
    Otherwise("several mistakes at once: another one is named", ": all ones$", "E", "E"),
    Otherwise("a command that is not there is not measured", rf"^({NOT_THERE}) by write: (bytes written|only|words of the request)", "EINVAL ", "EOPNOTSUPP "),
    Otherwise("a method that is not there is not measured", "^(advise_mr|reg_dmabuf_mr) by ioctl: ", "", "EOPNOTSUPP "),
    Otherwise("event files are not in the list of handles: they have none", "^info_handles by ioctl: attribute 0: 2$", "ok 1: 01", "ok 1: 00"),
    Otherwise("the number of handles may be left out, as the interface says", "^info_handles by ioctl: attribute 1: missing$", "ENOENT ", "ok "),
)


def answers(guest, options, both=True, timeout=120):
    """{case: "result effect"} of ours, and of in-tree: at the same time, they share nothing but the device."""
    running = [guest.start(f"exec {PROGRAM} {device} {options}") for device in (OURS, IN_TREE)[:2 if both else 1]]
    found = []
    for command in running:
        done = command.wait(timeout)
        assert done.rc == 0, done
        lines = list(map(json.loads, done.stdout.splitlines()))
        found.append({line["case"]: f"{line['result']} {line['effect']}" for line in lines})
        assert len(found[-1]) == len(lines), "two cases have the same name"
    return found if both else found[0]


def unexpected(ours, in_tree):
    """What differs and is not listed."""
    assert ours.keys() == in_tree.keys()
    return {case: f"in-tree: {in_tree[case]}; ours: {ours[case]}" for case in ours if ours[case] != in_tree[case] and
            not any(other.covers(case, ours[case], in_tree[case]) for other in OTHERWISE)}


# What a T3 has. A table that is wrong here would compare nothing but refusals.
WORKS = """get_context query_device query_device_ex query_port alloc_pd dealloc_pd reg_mr dereg_mr alloc_mw dealloc_mw create_comp_channel create_cq
    create_cq_ex destroy_cq req_notify_cq create_qp create_qp_ex query_qp modify_qp modify_qp_ex destroy_qp""".split()
WORKS_BY_IOCTL = """invoke_write info_handles query_port get_context query_gid_table query_gid_entry destroy_pd create_cq destroy_cq create_qp destroy_qp
    destroy_mr query_mr destroy_mw alloc_async_event""".split()


def check_that_it_worked(found):
    for name in [f"{name} {door}" for name in WORKS for door in ("by write", "carried")] + [f"{name} by ioctl" for name in WORKS_BY_IOCTL]:
        assert found[f"{name}: as it should be"].startswith("ok "), name
        without = found.get(f"{name}: without a context", "EINVAL")
        assert re.match("E(INVAL|NOENT|BADF)", without) or name == "info_handles by ioctl" or name.startswith("create_comp"), (name, without)


@pytest.mark.long
# D19: by both doors, and by one through the other.
def test_some_of_all_cases_agree(t3uverbs):
    """One case in 12, always the same ones, and every command as it should be."""
    ours, in_tree = answers(t3uverbs.guests[0], "--part=12")
    assert len(ours) > 900
    check_that_it_worked(in_tree)
    check_that_it_worked(ours)
    assert unexpected(ours, in_tree) == {}


@pytest.mark.long
def test_all_cases_agree(t3uverbs):
    ours, in_tree = answers(t3uverbs.guests[0], "", timeout=900)
    assert len(ours) > 9000
    check_that_it_worked(ours)
    assert unexpected(ours, in_tree) == {}
    # No line of the list is there in vain.
    for other in OTHERWISE:
        assert any(ours[case] != in_tree[case] and other.covers(case, ours[case], in_tree[case]) for case in ours), other


def test_D7_D11_one_of_many_destroys(t3uverbs):
    """Three threads destroy an object and one uses it, while its kind is listed by netlink: one of them wins."""
    guest = t3uverbs.guests[0]
    listing = guest.start("while :; do for kind in qp cq mr pd ctx; do rdma resource show $kind; done > /dev/null; done")
    found = answers(guest, "--part=12 --only='destroyed by many'", both=False)
    listing.kill()
    listing.wait(20)
    assert len(found) == 10
    for case, seen in found.items():
        assert seen == "at most one wins, pd 2 cq 2 qp 1 mr 1 mw 1 files 9 ", (case, seen)


def test_D7_objects_and_event_files_of_others_are_not_found(t3uverbs):
    found = answers(t3uverbs.guests[0], "--only='of another file'", both=False)
    objects = {case: seen for case, seen in found.items() if re.match("(dealloc|dereg|destroy_(cq|qp)) ?", case) and "by write" in case}
    assert objects and all(seen.startswith("ENOENT ") for seen in objects.values()), objects
    channels = {case: seen for case, seen in found.items() if re.match("create_cq.*comp_channel|create_cq by ioctl: attribute [37]", case)}
    assert len(channels) == 6 and all(seen.startswith("EBADF ") for seen in channels.values()), channels


@pytest.mark.parametrize("door", ["by write", "carried"])
def test_D2_D6_D16_lengths_that_wrap_or_are_nothing(t3uverbs, door):
    guest = t3uverbs.guests[0]
    regions = answers(guest, f"--only='reg_mr {door}: '", both=False)
    for value in ("0", "the top bit", "all ones"):
        assert regions[f"reg_mr {door}: length: {value}"].startswith("EINVAL "), value
    queues = answers(guest, f"--only='create_qp {door}: max_'", both=False)
    for member in ("max_send_wr", "max_recv_wr", "max_send_sge", "max_recv_sge", "max_inline_data"):
        for value in ("the top bit", "all ones"):
            assert not queues[f"create_qp {door}: {member}: {value}"].startswith("ok "), (member, value)


def test_D4_no_byte_of_the_kernel_in_room_that_is_left(t3uverbs):
    """64 bytes more than a response needs: they are zero afterwards, or still what the caller had there."""
    found = answers(t3uverbs.guests[0], "--only='more room'", both=False)
    written = {case: re.search(r"([0-9a-fx]{130,})", seen) for case, seen in found.items() if seen.startswith("ok ")}
    assert len(written) > 20
    for case, match in written.items():
        # The library's part may have room left, too; then the core's part is looked at.
        if match and not match[1].endswith("x"):
            assert re.fullmatch("(xx)*((00)+|(a5)+)", match[1][-128:]), (case, match[1])


def test_D5_sizes_that_something_is_divided_by(t3uverbs):
    found = answers(t3uverbs.guests[0], "--only='query_gid_table by ioctl: attribute 0: '", both=False)
    assert found["query_gid_table by ioctl: attribute 0: 0"].startswith("EINVAL ")
    assert found["query_gid_table by ioctl: attribute 0: all ones"].startswith("EINVAL ")


def test_D19_a_library_that_counts_wrong(t3uverbs):
    """rdma-core 18 and 19 say 16 bytes when they destroy a CQ and have 24: what they have is read, so here, where they have not, it is a fault."""
    found = answers(t3uverbs.guests[0], "--only='destroy_cq by write: short: 8'", both=False)
    assert list(found.values()) == ["EFAULT response nothing"], found
