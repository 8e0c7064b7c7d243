# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
import pytest
from labkit import klog

GOOD = """\
[    0.231403] rcu: srcu_init: Setting srcu_struct sizes based on contention.
[    1.000000] Warning: unable to open an initial console.
[    2.000000] cxgb3 0000:01:00.0: using PCI Express x8
[    3.000000] cxgb3 0000:01:00.0 eth0: link up, 10Gbps, full-duplex
[    3.000000] debugfs: kmemleak is a word, BUGGY another
"""


def test_a_log_without_errors():
    assert klog.trouble(GOOD) == ""


@pytest.mark.parametrize(
    "line",
    [
        "Kernel panic - not syncing: Attempted to kill init!",
        "BUG: kernel NULL pointer dereference, address: 0000000000000008",
        "Oops: 0000 [#1] PREEMPT SMP NOPTI",
        "WARNING: CPU: 0 PID: 7 at kernel/workqueue.c:1 f+0x1",
        "WARNING: possible circular locking dependency detected",
        "INFO: task rping:77 blocked for more than 30 seconds.",
        "BUG: KASAN: use-after-free in iwch_ep_put+0x1/0x2",
        "general protection fault, probably for non-canonical address",
        "refcount_t: underflow; use-after-free.",
        "watchdog: BUG: soft lockup - CPU#0 stuck for 26s! [rping:99]",
        "unregister_netdevice: waiting for eth0 to become free. Usage count = 2",
        "rping[123]: segfault at 0 ip 000055 sp 00007f error 4 in rping",
        "DMA-API: cxgb3 0000:01:00.0: device driver frees DMA memory with different size",
    ],
)
def test_errors_are_shown_with_the_following_lines(line):
    shown = klog.trouble(f"{GOOD}[    4.000000] {line}\n[    4.000001] Call Trace:\n")
    assert line in shown and "Call Trace" in shown
    assert "using PCI Express" not in shown


def test_known_warnings_of_the_nic_driver_are_ignored():
    log = "[ 9.0] WARNING: CPU: 0 PID: 1 at drivers/net/ethernet/chelsio/cxgb3/sge.c:3229 t3_sge_stop+0x1/0x2 [cxgb3]\n"
    assert klog.trouble(log) == ""


def test_a_test_may_allow_errors_that_it_provokes():
    log = "[ 9.0] rping[5]: segfault at 0 ip 0 sp 0 error 4\n"
    assert klog.trouble(log, [klog.Allowed("segfault at", "the test makes it")]) == ""


def race(first, second, deep=""):
    return f"""\
[    5.0] ==================================================================
[    5.0] BUG: KCSAN: data-race in {first} / {second}
[    5.0]
[    5.0] write to 0xffff88800123 of 4 bytes by task 77 on cpu 0:
[    5.0]  {first}+0x10/0x20
[    5.0]  caller+0x10/0x20
[    5.0]  its_caller+0x10/0x20
[    5.0]  {deep or "do_syscall_64"}
[    5.0]
[    5.0] read to 0xffff88800123 of 4 bytes by interrupt on cpu 1:
[    5.0]  {second}+0x10/0x20
[    5.0] ==================================================================
"""


def test_a_data_race_of_ours_is_an_error():
    assert "t3_poll_cq" in klog.trouble(GOOD + race("t3_poll_cq+0x1/0x2 [iw_cxgb3]", "xa_load"))
    assert "t3_poll_cq" in klog.trouble(GOOD + race("xa_load", "t3_poll_cq [iw_cxgb3]"))


def test_a_data_race_of_other_code_is_ignored():
    assert klog.trouble(GOOD + race("tick_sched_do_timer", "can_stop_full_tick")) == ""
    assert klog.trouble(GOOD + race("wakeup", "sched", "t3_poll_cq+0x1/0x2 [iw_cxgb3]")) == ""


def test_errors_after_a_data_race_of_other_code_are_found():
    assert "Oops" in klog.trouble(race("a", "b") + "[    6.0] Oops: 0000 [#1] PREEMPT SMP NOPTI\n")
