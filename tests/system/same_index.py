# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Two VLANs on a port whose interfaces have the same index, in the guest's namespace and in another one, where a
process connects without a reply.

cxgb3 looks up its L2 entries by next hop, port and interface index: see docs/limits.md."""

import contextlib

NAMESPACE, OWN, OTHER, INDEX = "same", "v7", "v8", 77
SERVER, CLIENT, THERE, ABSENT = "10.7.0.1", "10.7.0.2", "10.7.0.3", "02:00:00:00:00:78"


@contextlib.contextmanager
def vlans(client, server):
    """The guests reach each other over the VLAN OWN of their first ports."""
    client.check(
        f"""modprobe 8021q; ip netns add {NAMESPACE}
        ip link add link {client.interfaces[0]} name {OTHER} index {INDEX} type vlan id 8; ip link set {OTHER} netns {NAMESPACE}
        [ $(ip netns exec {NAMESPACE} cat /sys/class/net/{OTHER}/ifindex) = {INDEX} ]
        ip -n {NAMESPACE} addr add {THERE}/24 dev {OTHER}; ip -n {NAMESPACE} link set {OTHER} up
        ip -n {NAMESPACE} neigh replace {SERVER} lladdr {ABSENT} dev {OTHER} nud permanent"""  # noqa: E501
    )  # noqa: E501
    for guest, index, address in ((client, f"index {INDEX}", CLIENT), (server, "", SERVER)):
        guest.check(
            f"""modprobe 8021q; ip link add link {guest.interfaces[0]} name {OWN} {index} type vlan id 7
            ip addr add {address}/24 dev {OWN}; ip link set {OWN} up"""
        )
    try:
        yield
    finally:
        for guest in (client, server):
            guest.check(f"ip link del {OWN}")
        client.check(f"ip netns del {NAMESPACE}")


@contextlib.contextmanager
def connecting(client, port):
    """While it lasts, the other namespace has the L2 entry of the server's address. Needs /tmp/cm.py."""
    process = client.start(f"exec ip netns exec {NAMESPACE} /tmp/cm.py connect {SERVER} {port}")
    process.expect("ROUTE_RESOLVED", 20)
    client.check(
        (
            "for try in $(seq 100); do grep -q connecting /sys/kernel/debug/iw_cxgb3/*/cm/endpoints && exit; sleep 0.1;"
            " done; exit 1"
        ),
        30,
    )
    yield
    process.kill()
    process.wait(20)
