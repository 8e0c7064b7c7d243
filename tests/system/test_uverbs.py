# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""t3_uverbs instead of ib_uverbs: the same programs run and print the same.

Both dispatchers are loaded, ours first, so that libibverbs uses it. To compare, a guest's modules are loaded in the
other order. All tests of this folder run over t3_uverbs with `--load rdma-t3uverbs`."""

import re

import pytest
from labkit import stack
from programs import run_alone, run_pair
from stock import rping, rping_client, rping_server

OURS = "rdma-t3uverbs"


@pytest.fixture
def pair(t3uverbs):
    """Two guests with a card each, whose programs go through t3_uverbs."""
    return t3uverbs


def calls(guest, device="t3uverbs0"):
    """How often each command was called and refused: {(path, name): (calls, refused)}."""
    lines = guest.check(
        "mountpoint -q /sys/kernel/debug || mount -t debugfs debugfs /sys/kernel/debug; "
        f"cat /sys/kernel/debug/t3_uverbs/{device}"
    ).splitlines()
    return {tuple(words[:2]): tuple(map(int, words[2:])) for words in map(str.split, lines)}


def load_in_order(guest, modules):
    stack.unload_access([guest])
    stack.load_access([guest], modules)


def test_libibverbs_uses_t3_uverbs(pair):
    guest = pair.guests[0]
    before = calls(guest)
    assert "cxgb3_0" in guest.check("ibv_devinfo")
    after = calls(guest)
    for command in (
        ("ioctl", "get_context"),
        ("ioctl", "async_event_alloc"),
        ("write_ex", "query_device"),
        ("ioctl", "query_port"),
    ):
        assert after[command][0] > before.get(command, (0, 0))[0], command
    assert after["ioctl", "query_port"][1] == 0


def test_rping_with_verified_data(pair):
    server, client = pair.guests
    rping(server, client, "-C 100 -S 4096 -V", timeout=120)
    counted = calls(client)
    for command in (
        ("write", "alloc_pd"),
        ("write", "reg_mr"),
        ("ioctl", "create_cq"),
        ("ioctl", "create_qp"),
        ("write", "modify_qp"),
        ("ioctl", "destroy_qp"),
    ):
        assert counted[command][0] and not counted[command][1], (command, counted)


def test_every_kind_of_work_request(pair):
    server, client = pair.guests
    _, result = run_pair(server, client, "verbs_smoke", timeout=120)
    assert result["ok"], result


def test_unsupported_verbs_are_refused(pair):
    assert run_alone(*pair.guests, "unsupported")["ok"]


def test_a_region_moves_to_another_domain(pair):
    run_pair(*pair.guests, "rereg", "--last=other_domain")


def test_objects_of_another_process(pair):
    run_alone(*pair.guests, "import")


def test_objects_destroyed_at_any_time(pair):
    assert run_alone(*pair.guests, "lifetimes")["ok"]


def test_resources_are_listed_with_their_process(pair):
    server, client = pair.guests
    serving = rping_server(server, "-P")
    running = rping_client(client, server, "-C 100000")
    client.check(
        "for try in $(seq 200); do rdma resource show qp | grep -q 'state RTS' && exit 0; sleep 0.1; done; exit 1", 60
    )
    for kind in ("qp", "cq", "mr", "pd", "ctx"):
        lines = client.check(f"rdma resource show {kind}").splitlines()
        assert any("comm rping" in line for line in lines), (kind, lines)
    running.kill()
    running.wait(10)
    # D7, D11: a killed program leaves no objects, on its side at once and on the peer's after the connection ends.
    for guest in pair.guests:
        guest.check(
            "for try in $(seq 200); do rdma resource show | grep -q ' qp 0 ' && exit 0; sleep 0.1; done; exit 1", 60
        )
    serving.kill()
    serving.wait(10)


def test_both_dispatchers_print_the_same(pair):
    guest = pair.guests[0]
    shown = {}
    for name, order in (
        ("ours", stack.LEVELS[OURS].access),
        ("in-tree", stack.LEVELS["rdma"].access),
        ("again", stack.LEVELS[OURS].access),
    ):
        load_in_order(guest, order)
        devinfo = guest.check("ibv_devinfo -v")
        # Only the name of the character device may differ, and ibv_devinfo does not print it.
        shown[name] = (
            devinfo,
            guest.check("ibv_devices"),
            guest.check("rdma dev show -d"),
            guest.check("rdma link show -d"),
        )
        used = guest.run("grep . /sys/kernel/debug/t3_uverbs/t3uverbs0").rc == 0
        assert used == (name != "in-tree")
    assert shown["ours"] == shown["in-tree"]
    assert shown["ours"] == shown["again"]


def test_rping_over_t3_uverbs_and_t3_rdma_cm_alone(pair):
    for guest in pair.guests:
        load_in_order(guest, stack.LEVELS["rdma-t3"].access)
        loaded = guest.check("lsmod")
        assert "t3_rdma_cm" in loaded and not re.search(r"^(ib_uverbs|rdma_cm|rdma_ucm|iw_cm) ", loaded, re.MULTILINE)
        assert "uverbs0" in guest.check("ls /dev/infiniband").split()
    server, client = pair.guests
    rping(server, client, "-C 100 -S 4096 -V", timeout=120)
    for guest in pair.guests:
        assert calls(guest, "uverbs0")["ioctl", "create_qp"][0]
        load_in_order(guest, stack.LEVELS[OURS].access)


@pytest.mark.parametrize("drivers, served", [("siw", False), ("siw,cxgb3", True)])
def test_only_allowed_drivers_are_served(pair, drivers, served):
    guest = pair.guests[1]
    ours, *others = stack.LEVELS[OURS].access
    load_in_order(guest, (f"{ours} drivers={drivers}", *others))
    assert ("t3uverbs0" in guest.check("ls /dev/infiniband")) == served
    assert "cxgb3_0" in guest.check("ibv_devinfo"), "the other dispatcher serves the drivers that ours does not"


@pytest.mark.allow_log(r"t3_uverbs: drivers=: xyz is not one of cxgb3, siw, rxe", "the message under test")
def test_an_unknown_driver_name_is_refused(pair):
    guest = pair.guests[1]
    guest.check("rmmod t3_uverbs")
    done = guest.run(f"insmod {stack.MODULES}/t3_uverbs.ko drivers=xyz")
    assert done.rc != 0
    assert re.search("drivers=: xyz is not one of", guest.dmesg())
    guest.check(stack.load_module(*stack.T3_UVERBS_BESIDE.split(" ", 1)))
