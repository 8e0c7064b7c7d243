# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The examples do what their README says."""

import pytest
from programs import BIN, SUM_PORT
from stock import address, wait_listening


@pytest.mark.parametrize("options", ["", "--events"], ids=["polling", "events"])
@pytest.mark.parametrize("first, second, total", [(123, 456, 579), (0, 0, 0), (4000000000, 294967295, 4294967295)])
def test_sum(pair, options, first, second, total):
    server, client = pair.guests
    serving = server.start(f"exec {BIN}/sum-server {options}")
    wait_listening(server, SUM_PORT)
    done = client.start(f"exec {BIN}/sum-client {options} {address(server)} {first} {second}").wait(30)
    assert (done.rc, done.stdout, done.stderr) == (0, f"{first} + {second} = {total}\n", "")
    served = serving.wait(20)
    assert (served.rc, served.stdout) == (0, f"{first} + {second} = {total}\n")


def test_sum_client_says_that_nobody_listens(pair):
    server, client = pair.guests
    done = client.run(f"{BIN}/sum-client {address(server)} 1 2", 40)
    assert done.rc == 1
    assert "RDMA_CM_EVENT_REJECTED" in done.stderr or "RDMA_CM_EVENT_UNREACHABLE" in done.stderr
