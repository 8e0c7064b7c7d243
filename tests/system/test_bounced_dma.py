# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""DMA through bounce buffers: with swiotlb=force, or in an encrypted guest, the card never reaches the memory that a
driver mapped, only a copy of it, which the mapping, a sync and the end of the mapping update. A missing sync, or a
buffer that is used while it is mapped, shows as wrong data.

Programs share memory with the card without syncs, so they cannot register any. Kernel users map theirs for each
request: `make test-long` runs the Ethernet tests and NFS over RDMA so. (NVMe's target of 6.1 lacks a sync: it maps a
buffer before it writes the data into it. NFS's server of 6.12 and 7.2 ends the mapping of an RDMA Read after it has
used the data, so files that were written over NFS differ there.)
"""

import errno

import pytest
from labkit.machine import Machine
from stock import address
from test_nic import send

REFUSAL = "no user memory can be registered: all DMA is bounced (swiotlb)"
USED = "cat /sys/kernel/debug/swiotlb/io_tlb_used"


@pytest.mark.allow_log("no user memory can be registered", "the answer to a registration")
def test_programs_are_refused_and_ethernet_works_over_bounce_buffers(make_lab):
    server, client = make_lab(machine=Machine(arguments="swiotlb=force")).guests
    before = int(client.check(USED))
    assert before > 0, "the NIC's buffers are bounced"
    for _ in range(2):
        done = client.run(f"rping -c -a {address(server)} -C 1 -v", 30)
        assert "reg_mr failed" in done.stderr and done.rc == errno.EOPNOTSUPP, done
    assert client.check("dmesg").count(REFUSAL) == 1, "once for all programs"
    assert "mr 0" in client.check("rdma resource show")
    send(client, server)
    send(server, client)
    assert int(client.check(USED)) <= before + 64, "mappings end"
