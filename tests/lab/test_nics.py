# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Ordinary NICs on the wires of cards, and siw's source for them."""

import pathlib

import pytest
from labkit import Lab, siw
from labkit.errors import UsageError
from labkit.sim import Wire

SOCKETS = pathlib.Path("/s")


def test_an_end_nG_becomes_a_socket_and_a_nic_in_the_network_of_its_wire():
    lab = Lab(guests=2, wires=[Wire("p0", ("c0.0", "n1")), Wire("p1", ("n0", "n1"))])
    wires, nics = lab._with_nics(SOCKETS)
    assert [str(wire) for wire in wires] == ["p0=c0.0,qemu:/s/g1.nic0", "p1=qemu:/s/g0.nic0,qemu:/s/g1.nic1"]
    assert [[(nic.socket.name, nic.network) for nic in own] for own in nics] == [
        [("g0.nic0", 1)],
        [("g1.nic0", 0), ("g1.nic1", 1)],
    ]
    assert lab.has_nics


def test_guests_may_have_different_numbers_of_cards():
    lab = Lab(guests=3, cards=(1, 0, 2), wires=[Wire("p0", ("c0.1", "c2.0", "n1"))])
    assert [lab.wired(0, port) for port in range(2)] == [False, True]
    assert [lab.wired(2, port) for port in range(4)] == [False, False, True, False]


@pytest.mark.parametrize(
    "options, wrong",
    [
        ({"guests": 2, "cards": (1,)}, "not 2 with"),
        ({"guests": 1, "wires": [Wire("p0", ("c0.0", "n1"))]}, "has a NIC of guest 1, and the lab has 1 guests"),
    ],
)
def test_impossible_labs_are_refused(options, wrong):
    with pytest.raises(UsageError, match=wrong):
        Lab(**options)


def test_only_the_settings_of_siw_change():
    header = "extern const bool mpa_crc_required;\nextern const bool zcopy_tx;\nextern u_char mpa_version;\n"
    assert siw.with_parameters(header, main=False) == header.replace("const bool mpa_crc", "bool mpa_crc")
    main = siw.with_parameters("const bool peer_to_peer;\n", main=True)
    assert main.startswith("bool peer_to_peer = true;\nmodule_param(")
    assert main.count("module_param(") == len(siw.PARAMETERS)
