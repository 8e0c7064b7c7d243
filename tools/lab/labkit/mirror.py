# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Where Debian's packages come from."""

import functools

from . import paths
from .process import run


@functools.cache
def debian() -> str:
    """The mirror of this machine's apt, or what T3_MIRROR says."""
    return run([paths.REPO / "tools/dev/mirror"]).strip()
