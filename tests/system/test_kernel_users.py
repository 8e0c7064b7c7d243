# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Kernel users of the verbs: NVMe over Fabrics, whose two sides together use most of the kernel's verbs.

The host registers memory with REG_MR, which SEND_WITH_INV invalidates; the target receives through the local DMA key,
reads into registered memory (which iWARP requires), writes without it, and both drain their queues at the end.
"""

from contextlib import contextmanager

import pytest
from labkit import stack
from stock import address, objects, wait_listening

NVME_PORT = 4420
NAME = "t3"  # of the subsystem
DISK_MB = 8
DISK = "/dev/nvme0n1"
CONFIG = "/sys/kernel/config/nvmet"
SUBSYSTEM = f"{CONFIG}/subsystems/{NAME}"


@contextmanager
def target(guest):
    """An NVMe target whose namespace is a RAM disk."""
    guest.check(
        f"""set -e
        modprobe brd rd_nr=1 rd_size={DISK_MB * 1024}
        modprobe nvmet-rdma
        mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
        mkdir -p {SUBSYSTEM}/namespaces/1 {CONFIG}/ports/1
        echo 1 > {SUBSYSTEM}/attr_allow_any_host
        echo /dev/ram0 > {SUBSYSTEM}/namespaces/1/device_path
        echo 1 > {SUBSYSTEM}/namespaces/1/enable
        cd {CONFIG}/ports/1
        echo rdma > addr_trtype
        echo ipv4 > addr_adrfam
        echo {address(guest)} > addr_traddr
        echo {NVME_PORT} > addr_trsvcid
        ln -s {SUBSYSTEM} subsystems/{NAME}""",
        60,
    )
    try:
        wait_listening(guest, NVME_PORT)
        yield
    finally:
        guest.check(
            f"""set -e
            rm {CONFIG}/ports/1/subsystems/{NAME}
            rmdir {CONFIG}/ports/1 {SUBSYSTEM}/namespaces/1 {SUBSYSTEM}
            modprobe -r nvmet-rdma brd""",
            60,
        )


@contextmanager
def host(guest, server, register_always="Y"):
    """A connection to the target, with one I/O queue, and its disk."""
    options = f"transport=rdma,traddr={address(server)},trsvcid={NVME_PORT},nqn={NAME},nr_io_queues=1,queue_size=16"
    guest.check(
        f"""set -e
        modprobe nvme-rdma register_always={register_always}
        echo '{options}' > /dev/nvme-fabrics
        for try in $(seq 200); do [ -b {DISK} ] && exit 0; sleep 0.1; done
        echo 'no {DISK}'; exit 1""",
        120,
    )
    try:
        yield DISK
    finally:
        guest.check(
            """set -e
            [ ! -e /sys/class/nvme/nvme0 ] || echo 1 > /sys/class/nvme/nvme0/delete_controller
            modprobe -r nvme-rdma""",
            60,
        )


@pytest.fixture(autouse=True)
def reload_driver(pair):
    """ib_core keeps its pool of CQs until the device is removed, which later tests would report as leaked."""
    yield
    for guest in pair.guests:
        guest.check(f"rmmod iw_cxgb3\n{stack.load_module('iw_cxgb3')}", 60)


def wait_gone(guest, kinds="pd|qp|cm_id|mr"):
    """Returns when the guest has none of these objects."""
    guest.check(
        f"""for try in $(seq 200); do
            rdma resource show | grep -qE ' ({kinds}) [1-9]' || exit 0
            sleep 0.1
        done
        rdma resource show; rdma resource show qp; exit 1""",
        60,
    )


# By default each request registers its memory; with N a request with one segment uses the global DMA key.
@pytest.mark.parametrize("register_always", ["Y", "N"], ids=["fast-registration", "global-key"])
def test_a_disk_over_nvme_keeps_its_data(pair, register_always):
    server, client = pair.guests
    with target(server):
        with host(client, server, register_always) as disk:
            client.check(f"head -c {DISK_MB}M /dev/urandom > /tmp/data")
            written = client.check("sha256sum < /tmp/data")
            # From one sector, which is sent with the command, to several requests.
            for size, count in (("1M", DISK_MB), ("4k", 64), ("512", 64)):
                client.check(f"dd if=/tmp/data of={disk} bs={size} count={count} oflag=direct conv=notrunc", 120)
            assert server.check("sha256sum < /dev/ram0", 60) == written
            for size in ("1M", "4k"):
                assert client.check(f"dd if={disk} bs={size} iflag=direct | sha256sum", 120) == written
            used = objects(client)
            assert used["qp"] == 2 and used["mr"], used  # queues: admin and I/O
    for guest in pair.guests:
        wait_gone(guest)


def test_the_driver_is_unloaded_while_a_disk_is_read(pair):
    server, client = pair.guests
    with target(server):
        with host(client, server) as disk:
            reading = client.start(f"while dd if={disk} of=/dev/null bs=64k iflag=direct; do echo again; done")
            reading.expect("again", 60)
            client.check("rmmod iw_cxgb3", 60)
            reading.wait(60)
            client.check("[ ! -e /sys/class/nvme/nvme0 ]")
            wait_gone(server, "qp|mr")
            client.check(stack.load_module("iw_cxgb3"), 60)
        with host(client, server) as disk:
            client.check(f"dd if={disk} of=/dev/null bs=64k count=16 iflag=direct", 60)
    for guest in pair.guests:
        wait_gone(guest)
