# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Scripts for a running t3sim: its cards, connections and QPs as objects. See docs/script.md."""

from .control import Control, T3simError
from .events import Event, Subscription
from .process import Process
from .script import Card, Connection, Qp, Script

__all__ = ["Card", "Connection", "Control", "Event", "Process", "Qp", "Script", "Subscription", "T3simError"]
