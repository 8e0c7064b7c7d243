# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Guests, cards and wires for t3rdma: boots Debian guests in QEMU with modelled T3 cards in them."""

from .errors import LabError
from .lab import Lab

__all__ = ["Lab", "LabError"]
