# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Which pairs there are, which of them cannot be, and which are run.

The first operation of a pair is held at a place that it comes by when it runs alone; any operation may be the second. That is far more
than can be run. So each place meets one operation of each kind, in turn, so that each of a kind meets as many places as the next one, and all
that are about the same objects (`second` in operations.cc), or as many of those as the run may have. The seed says where the turn begins.
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
UNSTALLED = re.compile(r"^unstalled (\S+) (.+)$", re.MULTILINE)
FULL = re.compile(r"^full (\S+)$", re.MULTILINE)

BEGIN = re.compile(r"^begin (\S+)$", re.MULTILINE)
PAIR = re.compile(r"^pair (\S+): (.*)$", re.MULTILINE)
REPORT = re.compile(r"^report (\S+|the beginning): ((?:.*)(?:\n    .*|\n   and)*)$", re.MULTILINE)

UNSUPPORTED = ("Operation not supported", "Protocol not supported")

ATOMIC = "the first comes by with a spinlock held, or in an interrupt: it cannot be held there"
ENDS = "the first ends the process that the second would run in"
LATER = "a later passage of the same place by the same operation (the first three are taken, of user memory the first eight)"
CLOSED = "one of the two needs that no file of the modules is open, the other one's thread has them open"
NO_OBJECTS = "one of the two needs that no file of the modules is open, the other one is about an object of a file"


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
    """By name, which is all that a pair is known by."""
    found = OPERATION.findall(text)
    made = {name: Operation(name, place, frozenset(flags.split())) for name, place, flags in found}
    if len(made) != len(found):
        twice = [name for name, number in collections.Counter(name for name, *_ in found).items() if number > 1]
        raise ValueError(f"operations have the same name: {' '.join(twice)}")
    return made


def cause(first, second):
    """Why two operations cannot be a pair, wherever the first is held; None if they can."""
    if second.place == "subject" and ("ends_subject" in first.flags or first.place == "ends"):
        return ENDS
    for one, other in ((first, second), (second, first)):
        if "closed" in one.flags and other.place == "subject" and "bare" not in other.flags:
            return CLOSED
        if "closed" in one.flags and other.kind == "say":
            return NO_OBJECTS
    return None


class Space:
    """All pairs of the operations that ran alone with all operations."""

    def __init__(self, all_operations):
        self.operations = all_operations
        self.held = []
        self.later = collections.Counter()  # first: passages that are not taken
        self.ran_alone = []
        self.refused = {}
        self.remarks = []

    def add(self, text):
        """What the program printed when it ran operations alone."""
        self.ran_alone += ALONE.findall(text)
        for name, point, number, how in POINT.findall(text):
            self.held.append(Held(self.operations[name], point, int(number), how == "sleeps"))
        for name, _point, number in MORE.findall(text):
            self.later[name] += int(number)
        self.refused.update(REFUSED.findall(text))
        self.remarks += [f"{name}: its accesses to user memory cannot be held: {why}" for name, why in UNSTALLED.findall(text)]
        self.remarks += [f"{name}: passes more points than one recording holds" for name in FULL.findall(text)]

    @property
    def size(self):
        return (len(self.held) + sum(self.later.values())) * len(self.operations)

    def prevented(self):
        """(place, second, cause) of each pair that cannot be; later passages have no place."""
        for held in self.held:
            for second in self.operations.values():
                why = cause(held.first, second) or (None if held.sleeps else ATOMIC)
                if why:
                    yield held, second, why

    def causes(self):
        """How many pairs each cause prevents."""
        count = collections.Counter(why for _held, _second, why in self.prevented())
        if self.later:
            count[LATER] = sum(self.later.values()) * len(self.operations)
        return count

    def _same_objects(self, first, second):
        if "second" not in second.flags or self.refused.get(first.name) in UNSUPPORTED:
            return False
        return "connections" not in second.flags or "connections" in first.flags or first.place != "subject"

    def choose(self, seed, most=0):
        """The names of the pairs to run, in order. Of more than `most`, those with one second of each kind come before the rest of those
        about the same objects; if these are too many themselves they are half of all, as many places as can be."""
        turns = _Turns(self.operations.values(), seed)
        choose = random.Random(seed)
        each_kind, others = [], []
        for held in sorted(self.held, key=str):
            if not held.sleeps:
                continue
            possible = {second.name: second for second in self.operations.values() if not cause(held.first, second)}
            one_of_each = turns.take(possible)
            each_kind.append([f"{held}+{name}" for name in choose.sample(one_of_each, len(one_of_each))])
            others += [f"{held}+{name}" for name, second in possible.items()
                       if name not in one_of_each and self._same_objects(held.first, second)]
        # First one second of each place, then another one of each.
        choose.shuffle(each_kind)
        first = [place[turn] for turn in range(max(map(len, each_kind), default=0)) for place in each_kind if turn < len(place)]
        if not most or most >= len(first) + len(others):
            return first + others
        few = max(most - len(others), len(first) if most >= len(first) else (most + 1) // 2)
        return choose.sample(first[:few] + choose.sample(others, most - few), most)

    def silent(self):
        """Operations that come by nothing where they could be held."""
        come_by = {held.first.name for held in self.held}
        return [name for name in self.ran_alone if name not in come_by]


class _Turns:
    """One operation of each kind at a time, so that each comes as often as the others of its kind."""

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
                    names.append(names.pop(at))  # the last to come again
                    break
        return taken


def some_operations(names, sample, seed):
    """Those that run alone for a sample: to learn what each of them passes takes longer than a small sample of pairs."""
    names = list(names)
    few = max(sample // 5, 2)
    return random.Random(seed).sample(names, few) if sample and few < len(names) else names


def outcomes(text):
    """(pair, what came of it) of each pair that a program has begun."""
    ended = dict(PAIR.findall(text))
    return [(name, ended.get(name, "no end: the kernel stands still")) for name in BEGIN.findall(text)]


def rest(names, begun):
    """What is still to do of a list, in the order of which a program has begun some, and was broken off in the last."""
    begun = set(begun)
    return [name for name in names if name not in begun]
