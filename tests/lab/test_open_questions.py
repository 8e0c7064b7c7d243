# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Every open question about the card has a probe and another answer of the model, or a reason why no program can
observe it."""

import re

from labkit import guesses, paths

PAGE = paths.REPO / "docs/hw/open-questions.md"


def questions():
    """The numbers of section 1."""
    return re.findall(r"^\| (\d+) \|(?:(?:[^|\\]|\\.)*\|){4}$", PAGE.read_text().split("\n## 2 ")[0], re.MULTILINE)


def observations():
    """Section 5: what the probe observes, and why there is none, by number."""
    rows = re.findall(r"^\| (\d+) \|([^|]*)\|([^|]*)\|$", PAGE.read_text().split("\n## 5 ")[1], re.MULTILINE)
    assert len({number for number, _, _ in rows}) == len(rows)
    return {number: (probe.strip(), reason.strip()) for number, probe, reason in rows}


def test_each_question_has_a_probe_or_a_reason():
    assert len(questions()) > 50
    assert list(observations()) == questions()
    for number, (probe, reason) in observations().items():
        assert bool(probe) != bool(reason), f"G{number}: one of the columns, not both"


def test_probes_and_other_answers_are_those_of_the_table():
    probed = {f"G{number}" for number, (probe, _) in observations().items() if probe}
    assert set(guesses.with_probe()) == probed
    # The driver must be safe under another answer that no program can observe, too.
    assert set(guesses.with_knob()) - probed == {"G55"}
    assert probed <= set(guesses.with_knob())


def test_no_name_comes_twice():
    for names in (guesses.with_probe(), guesses.with_knob(), [name for _, name in guesses.names()]):
        assert names and len(set(names)) == len(names)


def test_the_table_has_the_numbers_in_order():
    """guesses.names() finds each row."""
    numbers = [int(number[1:]) for number in guesses.with_knob()]
    assert numbers == sorted(numbers)
    assert len(numbers) == len(re.findall(r"^T3_GUESS", guesses.TABLE.read_text(), re.MULTILINE))


def test_the_engines_use_each_other_answer_where_it_is_marked():
    """The mark is in the same file, so a reader of the name finds the question."""
    numbers = {name: number for number, name in guesses.names()}
    used = set()
    for path in (paths.REPO / "sim/card").rglob("*.cc"):
        source = path.read_text()
        marked = set(re.findall(r"G\d+", " ".join(re.findall(r"\[guess[^\]]*\]", source))))
        here = {numbers[name] for name in re.findall(r"\bother\(\s*Guess::(\w+)\)", source)}
        assert here <= marked, path
        used |= here
    assert used == set(guesses.with_knob())


def test_each_mark_in_the_code_is_a_question():
    marked = {
        number
        for path in (paths.REPO / "sim").rglob("*.[ch]*")
        for marks in re.findall(r"\[guess ([G\d,\s/]+)\]", path.read_text())
        for number in re.findall(r"G(\d+)", marks)
    }
    assert marked <= set(questions())
