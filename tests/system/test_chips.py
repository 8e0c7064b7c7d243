# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The other chip: cxgb3 initialises a T3B differently, and its RDMA device has another hw_rev."""

from stock import address, rping, wait_no_objects

TYPE = "/sys/class/infiniband/cxgb3_0/hw_rev"


def test_rping_between_t3b_and_t3c(make_lab):
    lab = make_lab(guests=2, name="chips", sim_options=["--chip", "c1=t3b"])
    newer, older = lab.guests
    for guest, device in ((newer, "0x0036"), (older, "0x0031")):
        assert guest.check(f"cat /sys/class/net/{guest.interfaces[0]}/device/device").strip() == device
    assert int(older.check(f"cat {TYPE}")) < int(newer.check(f"cat {TYPE}"))
    older.check(f"ping -q -c 50 -i 0.01 {address(newer)}", 30)
    for server, client in ((newer, older), (older, newer)):
        rping(server, client, "-C 50 -V -S 8192")
    for guest in lab.guests:
        wait_no_objects(guest)
