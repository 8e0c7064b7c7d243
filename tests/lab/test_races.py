# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Only one build has the points of kernel/include/t3_race_point.h; how tests/races chooses pairs and counts the
impossible ones."""

import collections
import re
import subprocess

import loading
import pytest
from labkit import paths

POINT = re.compile(r"\bT3_RACE_POINT\((\w+)\)")
HOOK = "t3_race_point"


def sources():
    return [path for path in (paths.REPO / "kernel").rglob("*.[ch]") if path.name != "t3_race_point.h"]


def test_names_of_points_are_unique():
    names = [name for path in sources() for name in POINT.findall(path.read_text())]
    assert len(names) > 150
    assert sorted(names) == sorted(set(names))


def test_only_one_build_has_points():
    tracked = subprocess.run(
        ["git", "grep", "-l", "DT3_RACE_POINTS"], cwd=paths.REPO, capture_output=True, text=True, check=True
    ).stdout.split()
    code = {name for name in tracked if not name.endswith((".md", ".h", ".c"))}
    assert code - {"tests/lab/test_races.py"} == {"tools/lab/labkit/build.py"}


def test_no_module_built_for_use_has_the_hook():
    """Checks the modules of the last builds for guests."""
    for module in paths.guest_build("bookworm").parent.rglob("modules/*.ko"):
        assert HOOK.encode() not in module.read_bytes(), module


@pytest.fixture(scope="module")
def choice():
    return loading.program("tests/races/pairs.py")


OPERATIONS = """
operation write.a subject second
operation write.b subject
operation invoke_write.a subject
operation invoke_write.b subject
operation cm.a subject connections second
operation cm.b subject connections
operation exit subject connections ends_subject
operation open subject second bare
operation event.a outside connections second
operation unplug outside second
operation kill ends second
operation unload outside second closed
"""
ALONE = """
alone write.a
point write.a p 1 sleeps
point write.a p 2 sleeps
point write.a q 1 atomic
more write.a p 4
alone cm.a
point cm.a user_memory 1 sleeps
refused cm.a Invalid argument
alone invoke_write.b
point invoke_write.b p 1 sleeps
refused invoke_write.b Operation not supported
alone exit
point exit r 1 sleeps
alone unload
point unload u 1 sleeps
alone open
"""


@pytest.fixture
def space(choice):
    made = choice.Space(choice.operations(OPERATIONS))
    made.add(ALONE)
    return made


def test_every_pair_is_chosen_not_chosen_or_has_a_cause(choice, space):
    held, operations = 7, 12
    assert space.size == (held + 4) * operations
    causes = space.causes()
    # ATOMIC excludes all pairs of the atomic point but that with unload; ENDS those of exit whose second is in its
    # process.
    assert causes == {
        choice.LATER: 4 * operations,
        choice.ATOMIC: operations - 1,
        choice.ENDS: 8,
        choice.CLOSED: 6 + 7,
        choice.NO_OBJECTS: 1,
    }
    chosen = space.choose(1)
    assert len(chosen) == len(set(chosen)) <= space.size - sum(causes.values())
    assert not set(chosen) & {f"{held}+{second.name}" for held, second, _why in space.prevented()}
    assert space.without_places() == ["open"]


def test_each_place_is_paired_with_the_same_objects_and_every_kind(space):
    seconds = collections.defaultdict(set)
    for name in space.choose(1):
        held, second = name.split("+")
        seconds[held].add(second)
    assert {"write.a", "open", "event.a", "unplug", "kill"} <= seconds["write.a@p#1"]
    kinds = {name: operation.kind for name, operation in space.operations.items()}
    assert {kinds[name] for name in seconds["write.a@p#1"]} == set(kinds.values())
    # An operation that the device does not support is paired with one of each kind only.
    assert len(seconds["invoke_write.b@p#1"]) == len(set(kinds.values()))
    assert {"unplug", "open"} <= seconds["unload@u#1"] and "write.a" not in seconds["unload@u#1"]


def test_every_operation_is_chosen_as_a_second(choice):
    """Eight operations of one kind, none with the same objects, and eight places: each place is paired with another
    one."""
    operations = {f"ioctl.{number}": choice.Operation(f"ioctl.{number}", "subject", frozenset()) for number in range(8)}
    made = choice.Space(operations)
    made.add("".join(f"alone ioctl.{number}\npoint ioctl.{number} p 1 sleeps\n" for number in range(8)))
    chosen = made.choose(3)
    assert sorted(name.split("+")[1] for name in chosen) == sorted(operations)
    assert made.choose(3) == chosen
    assert made.choose(4) != chosen
    assert len(made.choose(3, 5)) == 5 and set(made.choose(3, 5)) <= set(chosen)


def test_a_limited_run_has_one_of_each_kind_at_each_place_first(space):
    kinds = {name: operation.kind for name, operation in space.operations.items()}

    def kinds_by_place(names):
        met = collections.defaultdict(set)
        for name in names:
            held, second = name.split("+")
            met[held].add(kinds[second])
        return met

    all_pairs = space.choose(1)
    minimum = sum(len(met) for met in kinds_by_place(all_pairs).values())
    for most in range(1, len(all_pairs) + 2):
        chosen = space.choose(1, most)
        assert len(chosen) == len(set(chosen)) == min(most, len(all_pairs)) and set(chosen) <= set(all_pairs)
        # Half of a small run is for as many places as possible.
        assert len(kinds_by_place(chosen)) >= min(len(kinds_by_place(all_pairs)), (most + 1) // 2)
        if most >= minimum:
            assert kinds_by_place(chosen) == kinds_by_place(all_pairs)


def test_the_next_guest_continues_after_the_pairs_begun(choice):
    """By name: the positions of pairs in a list differ if the operations pass other points in another guest."""
    assert choice.remaining(["a+b", "a+c", "b+a", "b+c"], ["a+b", "a+c"]) == ["b+a", "b+c"]
    assert choice.remaining(["a+b"], ["a+b"]) == []


def test_a_small_sample_runs_few_operations_alone(choice):
    names = [f"write.{number}" for number in range(200)]
    assert len(choice.some_operations(names, 40, 1)) == 8 == len(set(choice.some_operations(names, 40, 1)))
    assert choice.some_operations(names, 0, 1) == names == choice.some_operations(names, 5000, 1)


def test_a_pair_that_does_not_end_is_a_report_and_has_an_outcome(choice):
    text = """begin write.a@p#1+unplug
pair write.a@p#1+unplug: ran
begin write.a@p#2+unplug
report write.a@p#2+unplug: it does not end:
    [<0>] t3_race_point+0x1
   and
    [<0>] wait_for_completion+0x1
pair write.a@p#2+unplug: waits
begin write.a@p#3+unplug
"""
    assert choice.outcomes(text) == [
        ("write.a@p#1+unplug", "ran"),
        ("write.a@p#2+unplug", "waits"),
        ("write.a@p#3+unplug", "no end: the kernel hangs"),
    ]
    ((pair, what),) = choice.REPORT.findall(text)
    assert pair == "write.a@p#2+unplug" and what.endswith("wait_for_completion+0x1")


def test_the_program_prints_reports_at_the_start_of_a_line():
    """Reports of a pair are printed while it runs and must not follow an unfinished line."""
    source = (paths.REPO / "tests/programs/races/main.cc").read_text()
    prints = re.findall(r'printf\(\s*"((?:[^"\\]|\\.)*)"', source)
    assert "report %s: %s\\n" in prints
    assert [text for text in prints if not text.endswith("\\n")] == []


def test_two_operations_of_the_same_name_are_refused(choice):
    with pytest.raises(ValueError, match="same name: write.a$"):
        choice.operations(OPERATIONS + "operation write.a subject\n")
