# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The list of points, which only builds for tests have; how tests/races chooses pairs and counts impossible ones."""

import collections
import re

import loading
import pytest
from labkit import LabError, paths, points

HOOK = "t3_race_point"


def test_each_point_has_its_place():
    listed = points.read()
    assert len(listed) > 150
    assert [point.file for point in listed] == sorted(point.file for point in listed)
    made = points.sources(listed)
    assert re.findall(r't3_race_point\("(\w+)"\)', "".join(made.values())) == [point.name for point in listed]


def test_calls_move_no_line():
    """Without them a source is the same as before."""
    for name, text in points.sources().items():
        assert text.startswith(points.DECLARATION)
        left = re.sub(r'[ \t]*t3_race_point\("\w+"\);', "", text.removeprefix(points.DECLARATION))
        code = (paths.REPO / name).read_text()
        assert [line.strip() for line in left.splitlines()] == [line.strip() for line in code.splitlines()]


def test_the_sources_have_no_points():
    assert not [path for path in (paths.REPO / "kernel").rglob("*.[ch]") if HOOK in path.read_text().lower()]


def test_no_module_built_for_use_has_the_hook():
    """Checks the modules of the last builds for guests."""
    for module in paths.guest_build("bookworm").parent.rglob("modules/*.ko"):
        assert HOOK.encode() not in module.read_bytes(), module


SOURCE = """// SPDX-License-Identifier: GPL-2.0
static int other(struct x *x)
{
	get(x);
	return 0;
}

DEFINE(one, two)

static int one(struct x *x)
{
	int ret;

	/* No code: put(x); */
	get(x); /* a comment; */
	if (ret)
		put(x);
	else
		ret = 1;
	if (ret) {
		get(x);
		use(x);
	}
	switch (ret) {
	case 1:
		use(x->a,
		    x->b);
		break;
	}

	if (!ret)
		use("/*", x);
	return ret;
}
"""


def put(code, function="one"):
    return points.put(SOURCE, points.parse(f"a.c\n\t{function}: here: {code}\n"))


@pytest.mark.parametrize(
    ("code", "line"),
    [
        ("@ int ret;", '\tt3_race_point("here"); int ret;'),
        ("int ret; @", '\tint ret; t3_race_point("here");'),
        ("int ret; @ get(x);", '\tt3_race_point("here"); get(x); /* a comment; */'),
        ("get(x); @ if (ret)", '\tt3_race_point("here"); if (ret)'),
        ("@ get(x); use(x);", '\t\tt3_race_point("here"); get(x);'),
        ("use(x); @", '\t\tuse(x); t3_race_point("here");'),
        ("use(x); @ }", '\tt3_race_point("here"); }'),
        ("@ use(x->a, x->b);", '\t\tt3_race_point("here"); use(x->a,'),
        ("use(x->a, x->b); @ break;", '\t\tt3_race_point("here"); break;'),
        ("@ if (!ret)", '\tt3_race_point("here");'),
        ('use("/*", x); @ return ret;', '\tt3_race_point("here"); return ret;'),
    ],
)
def test_where_a_call_is_put(code, line):
    made = put(code)
    assert made.splitlines().count(line) == 1, made
    assert made.count("\n") == SOURCE.count("\n")


def test_code_of_other_functions_does_not_count():
    assert '{\n\tt3_race_point("here"); get(x);\n\treturn 0;' in put("@ get(x);", "other")


@pytest.mark.parametrize(
    ("function", "code", "why"),
    [
        ("none", "@ get(x);", "the file has no such function"),
        ("DEFINE", "@ get(x);", "the file has no such function"),
        ("one", "@ get(y);", "the function has no such code"),
        ("one", "@ return 0;", "the function has no such code"),
        ("one", "@ put(x); */", "the function has no such code"),
        ("one", "@ if (ret", "the function has no such code"),
        ("one", "@ get(x);", "the function has this code 2 times"),
        ("one", "@ put(x);", "@ is not between two statements"),
        ("one", "@ else", "@ is not between two statements"),
        ("one", "@ ret = 1;", "@ is not between two statements"),
        ("one", "@ x->b);", "@ is not between two statements"),
        ("one", "@ case 1:", "@ is not between two statements"),
    ],
)
def test_a_point_without_its_place_is_an_error(function, code, why):
    with pytest.raises(LabError, match=f"^points: a.c: {function}: here: {re.escape(code)}: {re.escape(why)}$"):
        put(code, function)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.c\n\tone: here\n", "points: line 2: not FUNCTION: NAME: CODE, with @ in the code"),
        ("a.c\n\tone: here: get(x);\n", "points: line 2: not FUNCTION: NAME: CODE, with @ in the code"),
        ("# SPDX\n\tone: here: @ get(x);\n", "points: line 2: not FUNCTION: NAME: CODE, with @ in the code"),
        ("a.c\n\ta: b: @ c;\nd.c\n\tx: b: y; @\n", "points: d.c: x: b: y; @: another point has this name"),
    ],
)
def test_a_wrong_list_is_an_error(text, message):
    with pytest.raises(LabError, match=f"^{re.escape(message)}$"):
        points.parse(text)


def test_a_file_that_has_gone_is_an_error(tmp_path):
    with pytest.raises(LabError, match="^points: a.c: one: here: @ get.x.;: there is no such file$"):
        points.sources(points.parse("a.c\n\tone: here: @ get(x);\n"), tmp_path)


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
