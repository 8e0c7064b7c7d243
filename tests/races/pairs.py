# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which pairs exist, which of them are impossible, and which are run.

The first operation of a pair is held at a place that it passes when it runs alone; any operation can be the second.
These are far more pairs than can be run. So each place is paired with one operation of each kind, round robin, so that
the operations of a kind are used equally often, and with all that use the same objects (`second` in operations.cc), or
as many of those as the limit allows. The seed shuffles the order.
"""

import collections
import dataclasses
import random
import re

OPERATION = re.compile(r"^operation (\S+) (\S+)(.*)$", re.MULTILINE)
ALONE = re.compile(r"^alone (\S+)$", re.MULTILINE)
POINT = re.compile(r"^point (\S+) (\S+) (\d+) (sleeps|atomic)$", re.MULTILINE)
MORE = re.compile(r"^more (\S+) (\S+) (\d+)$", re.MULTILINE)
REFUSED = re.compile(r"^refused (\S+) (.+)$", re.MULTILINE)
NOT_DELAYED = re.compile(r"^not_delayed (\S+) (.+)$", re.MULTILINE)
FULL = re.compile(r"^full (\S+)$", re.MULTILINE)

BEGIN = re.compile(r"^begin (\S+)$", re.MULTILINE)
PAIR = re.compile(r"^pair (\S+): (.*)$", re.MULTILINE)
REPORT = re.compile(r"^report (\S+|the beginning): ((?:.*)(?:\n    .*|\n   and)*)$", re.MULTILINE)

UNSUPPORTED = ("Operation not supported", "Protocol not supported")

ATOMIC = "the first passes the point with a spinlock held, or in an interrupt: it cannot be held there"
ENDS = "the first ends the process in which the second would run"
LATER = (
    "a later passage of the same place by the same operation (the first three are taken, of user memory the first"
    " eight)"
)
CLOSED = "one operation needs all files of the modules closed, the other one's process has them open"
NO_OBJECTS = "one operation needs all files of the modules closed, the other one uses an object of a file"


@dataclasses.dataclass(frozen=True)
class Operation:
    name: str
    place: str  # subject, outside or ends
    flags: frozenset

    @property
    def kind(self):
        if "." in self.name:
            return self.name.split(".")[0]
        return "file" if self.place == "subject" else "machine"


@dataclasses.dataclass(frozen=True)
class Held:
    """A place where the first operation is held."""

    first: Operation
    point: str
    number: int
    sleeps: bool

    def __str__(self):
        return f"{self.first.name}@{self.point}#{self.number}"


def operations(text):
    """The operations by name."""
    found = OPERATION.findall(text)
    made = {name: Operation(name, place, frozenset(flags.split())) for name, place, flags in found}
    if len(made) != len(found):
        duplicates = [name for name, number in collections.Counter(name for name, *_ in found).items() if number > 1]
        raise ValueError(f"operations have the same name: {' '.join(duplicates)}")
    return made


def cause(first, second):
    """Why two operations are impossible as a pair, wherever the first is held; None if they are possible."""
    if second.place == "subject" and ("ends_subject" in first.flags or first.place == "ends"):
        return ENDS
    for one, other in ((first, second), (second, first)):
        if "closed" in one.flags and other.place == "subject" and "bare" not in other.flags:
            return CLOSED
        if "closed" in one.flags and other.kind == "event":
            return NO_OBJECTS
    return None


class Space:
    """All pairs of the operations that ran alone with all operations."""

    def __init__(self, all_operations):
        self.operations = all_operations
        self.held = []
        self.later = collections.Counter()  # first: passages that are not used
        self.ran_alone = []
        self.refused = {}
        self.remarks = []

    def add(self, text):
        """Adds what the program printed when it ran operations alone."""
        self.ran_alone += ALONE.findall(text)
        for name, point, number, how in POINT.findall(text):
            self.held.append(Held(self.operations[name], point, int(number), how == "sleeps"))
        for name, _point, number in MORE.findall(text):
            self.later[name] += int(number)
        self.refused.update(REFUSED.findall(text))
        self.remarks += [
            f"{name}: its accesses to user memory cannot be held: {why}" for name, why in NOT_DELAYED.findall(text)
        ]
        self.remarks += [f"{name}: passes more points than fit in a recording" for name in FULL.findall(text)]

    @property
    def size(self):
        return (len(self.held) + sum(self.later.values())) * len(self.operations)

    def prevented(self):
        """(place, second, cause) of each impossible pair; later passages have no place."""
        for held in self.held:
            for second in self.operations.values():
                why = cause(held.first, second) or (None if held.sleeps else ATOMIC)
                if why:
                    yield held, second, why

    def causes(self):
        """How many pairs each cause excludes."""
        count = collections.Counter(why for _held, _second, why in self.prevented())
        if self.later:
            count[LATER] = sum(self.later.values()) * len(self.operations)
        return count

    def _same_objects(self, first, second):
        if "second" not in second.flags or self.refused.get(first.name) in UNSUPPORTED:
            return False
        return "connections" not in second.flags or "connections" in first.flags or first.place != "subject"

    def choose(self, seed, most=0):
        """The names of the pairs to run, in order. If there are more than `most`, pairs with one second of each kind
        come before other pairs with the same objects; if these alone are too many they get half of the run, with as
        many places as possible."""
        rounds = _RoundRobin(self.operations.values(), seed)
        choose = random.Random(seed)
        each_kind, others = [], []
        for held in sorted(self.held, key=str):
            if not held.sleeps:
                continue
            possible = {second.name: second for second in self.operations.values() if not cause(held.first, second)}
            one_of_each = rounds.take(possible)
            each_kind.append([f"{held}+{name}" for name in choose.sample(one_of_each, len(one_of_each))])
            others += [
                f"{held}+{name}"
                for name, second in possible.items()
                if name not in one_of_each and self._same_objects(held.first, second)
            ]
        # First one second of each place, then another one of each.
        choose.shuffle(each_kind)
        first = [
            place[round_]
            for round_ in range(max(map(len, each_kind), default=0))
            for place in each_kind
            if round_ < len(place)
        ]
        if not most or most >= len(first) + len(others):
            return first + others
        few = max(most - len(others), len(first) if most >= len(first) else (most + 1) // 2)
        return choose.sample(first[:few] + choose.sample(others, most - few), most)

    def without_places(self):
        """Operations that pass no place where they could be held."""
        with_places = {held.first.name for held in self.held}
        return [name for name in self.ran_alone if name not in with_places]


class _RoundRobin:
    """Takes one operation of each kind at a time, each as often as the others of its kind."""

    def __init__(self, all_operations, seed):
        self._kinds = collections.defaultdict(list)
        for operation in all_operations:
            self._kinds[operation.kind].append(operation.name)
        for names in self._kinds.values():
            random.Random(seed).shuffle(names)

    def take(self, allowed):
        taken = []
        for names in self._kinds.values():
            for at, name in enumerate(names):
                if name in allowed:
                    taken.append(name)
                    names.append(names.pop(at))  # used last in the next rounds
                    break
        return taken


def some_operations(names, sample, seed):
    """The operations that run alone for a sample: running all of them would take longer than a small sample of
    pairs."""
    names = list(names)
    few = max(sample // 5, 2)
    return random.Random(seed).sample(names, few) if sample and few < len(names) else names


def outcomes(text):
    """(pair, outcome) of each pair that a program has begun."""
    ended = dict(PAIR.findall(text))
    return [(name, ended.get(name, "no end: the kernel hangs")) for name in BEGIN.findall(text)]


def remaining(names, begun):
    """The names of a list that a program has not begun."""
    begun = set(begun)
    return [name for name in names if name not in begun]
