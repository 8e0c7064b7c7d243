# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Continued lines stay aligned with an open parenthesis after an edit that keeps the lines."""

import re

TAB = 8
TEXT = re.compile(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'|/\*.*?\*/')


def column(line: str) -> int:
    return len(line.expandtabs(TAB))


def _open(stack: list[int], line: str) -> list[int]:
    """The columns of the parentheses that are open at the end of a line."""
    code = TEXT.sub(lambda found: "x" * len(found[0]), line)
    stack = list(stack)
    for at, character in enumerate(code):
        if character == "(":
            stack.append(column(line[:at]))
        elif character == ")" and stack:
            stack.pop()
    return stack


def kept(old: str, new: str) -> str:
    """The new text, with its lines moved as their parentheses were."""
    before, after = old.split("\n"), new.split("\n")
    if len(before) != len(after):
        raise ValueError("the edit changes the number of lines")
    old_stack: list[int] = []
    new_stack: list[int] = []
    result = []
    for was, line in zip(before, after):
        indent = column(was[: len(was) - len(was.lstrip())])
        if old_stack and len(old_stack) == len(new_stack) and indent == old_stack[-1] + 1:
            width = new_stack[-1] + 1
            line = "\t" * (width // TAB) + " " * (width % TAB) + line.lstrip()
        if was.startswith(("\t}", "}", "#")):
            old_stack, new_stack = [], []
        old_stack, new_stack = _open(old_stack, was), _open(new_stack, line)
        result.append(line)
    return "\n".join(result)
