# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The points of the races, which only builds for tests have: the calls of t3_race_point() that tests/races/points has,
put into copies of the modules' sources.

A call shares a line with other code, or takes an empty one. So lines keep their numbers.
"""

import re
from pathlib import Path
from typing import NamedTuple

from . import paths
from .errors import LabError

LIST = paths.REPO / "tests/races/points"
DECLARATION = "void t3_race_point(const char *name); "
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.S)
FUNCTION = re.compile(r"^\{\n(.*?)^\}", re.M | re.S)


class Point(NamedTuple):
    """An entry: code before and after the point, whole lines of a function. One of the two may be empty."""

    file: str  # below the tree
    function: str
    name: str
    before: str
    after: str

    def fails(self, why: str) -> LabError:
        code = f"{self.before} @ {self.after}".strip()
        return LabError(f"{LIST.name}: {self.file}: {self.function}: {self.name}: {code}: {why}")


def parse(text: str) -> list[Point]:
    points: list[Point] = []
    file = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        if not line[0].isspace():
            file = line
            continue
        match = re.fullmatch(r"\s+(\w+): (\w+): (.*)", line)
        before, at, after = match[3].partition("@") if match else ("", "", "")
        if not match or not at or not file:
            raise LabError(f"{LIST.name}: line {number}: not FUNCTION: NAME: CODE, with @ in the code")
        point = Point(file, match[1], match[2], before.strip(), after.strip())
        if point.name in (other.name for other in points):
            raise point.fails("another point has this name")
        points.append(point)
    return points


def read() -> list[Point]:
    return parse(LIST.read_text())


def _code(text: str) -> str:
    """The same with spaces in the place of comments."""
    return COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else re.sub(r"[^\n]", " ", match[0]), text)


def _bodies(code: str) -> dict[str, list[tuple[int, int]]]:
    """Where the bodies of functions begin and end. A name may have two, for different kernels."""
    found: dict[str, list[tuple[int, int]]] = {}
    for match in FUNCTION.finditer(code):
        head = code[code.rfind("\n\n", 0, match.start()) + 1 : match.start()]
        for name in set(re.findall(r"\b(\w+)\(", head)):
            found.setdefault(name, []).append(match.span(1))
    return found


def _lines(code: str) -> str:
    """Matches code, whatever spaces and line breaks it has."""
    return r"\s+".join(map(re.escape, code.split()))


def _place(point: Point, code: str, bodies: dict[str, list[tuple[int, int]]]) -> int:
    """Where the call is put."""
    if point.function not in bodies:
        raise point.fails("the file has no such function")
    middle = r"[ \t]*\n\s*" if point.before and point.after else ""
    pattern = re.compile(rf"^[ \t]*{_lines(point.before)}(){middle}(){_lines(point.after)}[ \t]*$", re.M)
    found = [match for span in bodies[point.function] for match in pattern.finditer(code, *span)]
    if len(found) != 1:
        raise point.fails(
            f"the function has this code {len(found)} times" if found else "the function has no such code"
        )
    [match] = found
    previous = code[: match.end(1)].rstrip()
    # A call after `if (...)` would be all that the condition is about; one before `case` would never be made.
    if previous[-1] not in ";{}:" or re.match(r"(else|case|default)\b", point.after):
        raise point.fails("@ is not between two statements")
    if not point.after:
        return match.end(1)
    line = code.rfind("\n", 0, match.end(2))
    return line if code.endswith("\n", 0, line) else match.end(2)


def put(text: str, points: list[Point]) -> str:
    """A source with the calls of its points."""
    code = _code(text)
    bodies = _bodies(code)
    for at, name in sorted(((_place(point, code, bodies), point.name) for point in points), reverse=True):
        call = f't3_race_point("{name}");'
        if text[at - 1] == "\n":
            call = f"\t{call}"
        elif text[at - 1].isspace():
            call = f"{call} "
        else:
            call = f" {call}"
        text = text[:at] + call + text[at:]
    return DECLARATION + text


def sources(points: list[Point] | None = None, root: Path = paths.REPO) -> dict[str, str]:
    """The sources that have points, with the calls."""
    by_file: dict[str, list[Point]] = {}
    for point in read() if points is None else points:
        by_file.setdefault(point.file, []).append(point)
    made = {}
    for file, its in by_file.items():
        if not (root / file).is_file():
            raise its[0].fails("there is no such file")
        made[file] = put((root / file).read_text(), its)
    return made
