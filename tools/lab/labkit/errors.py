# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""What can go wrong in a way that a person can act on."""


class LabError(Exception):
    """A failure with a message for people; the command line prints it without a traceback."""


class UsageError(LabError):
    """Something was asked for that cannot be: no such guest, no lab of that name. The command line's status is 2."""


class GuestDied(LabError):
    """The guest's QEMU ended, or its agent stopped answering."""


class CommandTimeout(LabError):
    """A command in a guest did not end by its deadline."""
