# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Changes of a guest for the time of a test."""

import contextlib

PARAMETERS = "/sys/module/iw_cxgb3/parameters"
UNRESPONSIVE = "10.0.0.78"
UNRESPONSIVE_MAC = "02:00:00:00:00:78"


@contextlib.contextmanager
def parameters(guests, **values):
    """Sets parameters of iw_cxgb3."""
    before = [{name: guest.check(f"cat {PARAMETERS}/{name}").strip() for name in values} for guest in guests]
    try:
        for guest in guests:
            guest.check("\n".join(f"echo {value} > {PARAMETERS}/{name}" for name, value in values.items()))
        yield
    finally:
        for guest, old in zip(guests, before):
            # The module may have been reloaded since, and then it has its defaults.
            guest.check("\n".join(f"echo {value} > {PARAMETERS}/{name}" for name, value in old.items()))


@contextlib.contextmanager
def unresponsive_host(client, patience):
    """A host with a valid neighbour entry that does not exist: SYNs to it get no reply, and opens are given up after
    `patience` seconds. Yields its address."""
    port = client.interfaces[0]
    client.check(f"ip neigh replace {UNRESPONSIVE} lladdr {UNRESPONSIVE_MAC} dev {port} nud permanent")
    try:
        with parameters([client], ep_timeout_secs=patience):
            yield UNRESPONSIVE
    finally:
        client.check(f"ip neigh del {UNRESPONSIVE} dev {port}")


@contextlib.contextmanager
def unresponsive_host_appears(server):
    """The server takes the address of the unresponsive host, so that its TCP replies to the SYNs that the client's card
    repeats."""
    port = server.interfaces[0]
    own = server.check(f"cat /sys/class/net/{port}/address").strip()
    server.check(f"ip link set {port} address {UNRESPONSIVE_MAC}; ip addr add {UNRESPONSIVE}/32 dev {port}")
    try:
        yield
    finally:
        server.check(f"ip addr del {UNRESPONSIVE}/32 dev {port}; ip link set {port} address {own}")
