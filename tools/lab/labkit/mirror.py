# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The Debian mirror."""

import functools

from . import paths
from .process import run


@functools.cache
def debian() -> str:
    """The mirror of this machine's apt, or that in T3_MIRROR."""
    return run([paths.REPO / "tools/dev/mirror"]).strip()
