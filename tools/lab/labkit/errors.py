# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Errors with a message for the user."""


class LabError(Exception):
    """A failure whose message the command line prints without a traceback."""


class UsageError(LabError):
    """A wrong argument: no such guest, no lab of that name. The command line's status is 2."""


class GuestEnded(LabError):
    """The guest's QEMU ended, or its agent stopped answering."""


class CommandTimeout(LabError):
    """A command in a guest did not end by its deadline."""
