# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What a test changes in a guest for a while, and puts back."""

import contextlib

PARAMETERS = "/sys/module/iw_cxgb3/parameters"
SILENT = "10.0.0.78"
SILENT_MAC = "02:00:00:00:00:78"


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
            # The module may have been loaded anew, and then it has its defaults.
            guest.check("\n".join(f"echo {value} > {PARAMETERS}/{name}" for name, value in old.items()))


@contextlib.contextmanager
def unresponsive_host(client, patience):
    """A neighbour that everybody knows and nobody hears: SYNs go out to it, and opens are given up after `patience` seconds. Yields its
    address."""
    port = client.interfaces[0]
    client.check(f"ip neigh replace {SILENT} lladdr {SILENT_MAC} dev {port} nud permanent")
    try:
        with parameters([client], ep_timeout_secs=patience):
            yield SILENT
    finally:
        client.check(f"ip neigh del {SILENT} dev {port}")


@contextlib.contextmanager
def unresponsive_host_appears(server):
    """The server is the silent host from here on, as well as itself: its TCP answers what the client's card still repeats."""
    port = server.interfaces[0]
    own = server.check(f"cat /sys/class/net/{port}/address").strip()
    server.check(f"ip link set {port} address {SILENT_MAC}; ip addr add {SILENT}/32 dev {port}")
    try:
        yield
    finally:
        server.check(f"ip addr del {SILENT}/32 dev {port}; ip link set {port} address {own}")
