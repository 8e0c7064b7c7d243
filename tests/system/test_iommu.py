# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Cards behind an IOMMU of their guests: a card reaches only what its driver has mapped, by addresses that are not
those of the memory. A buffer that is used after its mapping has ended, or was never mapped, is an error of the card's
DMA.
"""

import pytest
from conftest import Keeper, lend
from labkit.machine import Machine
from stock import perftest, rdma_client, reload_driver, rping, ucmatose
from test_nic import send


@pytest.fixture(scope="module")
def _iommu_keeper(suite, kernel, pytestconfig, _appended):
    keeper = Keeper(
        guests=2,
        suite=suite,
        kernel=kernel,
        name="iommu",
        load=pytestconfig.getoption("--load"),
        machine=_appended(Machine(iommu=True)),
    )
    yield keeper
    keeper.drop()


@pytest.fixture
def pair(request, _iommu_keeper):
    lab = _iommu_keeper.get()
    yield from lend(_iommu_keeper, request, empty=True)
    # A mapping that the card refuses to end lets it reach memory that the guest uses for something else.
    logs = "\n".join((lab.artifacts / f"{guest.name}.qemu.log").read_text() for guest in lab.guests)
    refused = [line for line in logs.splitlines() if "vfio_container_dma" in line]
    assert not refused, refused


def test_the_card_has_an_address_space_of_its_own(pair):
    for guest in pair.guests:
        [card] = guest.check("ls -d /sys/bus/pci/drivers/cxgb3/0000:*").split()
        assert guest.check(f"cat {card}/iommu_group/type") == "DMA\n"


def test_programs(pair):
    for server, client in (pair.guests, reversed(pair.guests)):
        rping(server, client, "-C 20 -S 65535 -V")
        ucmatose(server, client, "-c 10 -C 10 -S 4000")
        rdma_client(server, client)


# Events with reads, not sends: perftest makes -r no larger than -n, and holds the last message back until the server's
# credits have come, which are RDMA writes. If they come while a client with -e sleeps, it sleeps for ever, as was seen
# with 7.2.
@pytest.mark.parametrize(
    "tool, options",
    [("ib_write_bw", "-s 1048576 -n 20"), ("ib_read_bw", "-s 65536 -n 50 -e"), ("ib_send_bw", "-s 64 -n 1000")],
)
def test_perftest(pair, tool, options):
    assert perftest(*pair.guests, tool, options)[0] == options.split()[1]


def test_ethernet(pair):
    """Each packet is mapped and unmapped, which takes a message to the card."""
    server, client = pair.guests
    send(client, server, megabytes=1)
    send(server, client, megabytes=1)


def test_the_driver_is_unloaded_and_loaded_again(pair):
    for guest in pair.guests:
        reload_driver(guest)
    rping(*pair.guests, "-C 5 -V")
