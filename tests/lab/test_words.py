# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Refuses words that this project replaced by terms of its field, in code, comments and documents.

docs/glossary.md explains the terms that are used instead. Identifiers are split: uv_door_write and DoorWrite both have
the word "door". To see all places of a word, also of one that is not enforced: python3 -c "import test_words as t;
print(*t.findings(t.WORDS), sep='\\n')" in this folder.
"""

import fnmatch
import re
import subprocess
from dataclasses import dataclass

import pytest
from labkit import paths

# Comments of the kernel fragments are part of the key of the built kernels: a change would build each anew.
NEVER = ("LICENSES/*", "tools/lab/kernels/*", "docs/upstream/*.patch", "tests/lab/test_words.py")


@dataclass(frozen=True)
class Word:
    forms: str  # separated by commas. A space stands for what separates words, "-" for a hyphen or a place inside of an identifier  # noqa: E501
    instead: str
    enforced: bool = True
    allowed: tuple[tuple[str, str], ...] = ()  # (pattern of a path, regular expression of the line)


WORDS = (
    Word(
        "door, doors", "write() path, ioctl path, ABI, entry point", allowed=(("*", r"(?i)back[ _-]?door"),)
    ),  # of the card's memories
    Word(
        "tell, tells, telling, told",
        "report, notify, return, send; as a flag: reported",
        allowed=(("*.py", r"\.tell\(\)"),),
    ),
    Word("say, says, saying, said", "return, report, state, print"),
    Word("room, rooms", "space, free slots, capacity, backlog left; 'no room': full"),
    Word("ear, ears", "per-device listener"),
    Word(
        "mirror, mirrors",
        "restrack entry, embedded rdma_cm_id",
        allowed=(
            # The servers of Debian packages have this name.
            ("tools/dev/*", ""),
            ("tools/kernel-headers/*", ""),
            ("tools/lab/*", ""),
            ("tests/lab/*", ""),
            ("*.md", r"apt|Debian"),
            ("*", r"build\.mirror\("),
        ),
    ),  # copies a tree
    Word("moment, moments", "time, now, when"),
    Word("embryo, embryos", "half-open connection"),
    Word("bury, buries, buried, grave, graves, graveyard", "free, release; ended connections"),
    Word("give-birth, gives birth, birth, born", "create, new_child"),
    Word("retire, retires, retired", "of a device: shut down; of requests: complete"),
    Word("silent, silence", "unresponsive, no reply, without a report"),
    Word("forbid, forbids", "deny, refuse"),
    Word("dies, died, lives", "fails, ends; exists, is stored"),
    Word(
        "nobody, somebody, anybody, everybody, someone, whoever, whom",
        "the object or actor: no listener, a process, the caller",
    ),
    Word("owe, owes, owed", "pending, outstanding"),
    Word("hear, hears, heard", "receive, get"),
    # A card that lies to its driver: `t3sim ctl lie`, docs/faults.md.
    Word(
        "lie, lies, lied",
        "is stored, is located; of a peer: sends invalid data",
        allowed=tuple(
            (path, "")
            for path in (
                "sim/card/*",
                "sim/rig/card_commands.cc",
                "sim/rig/commands.*",
                "tests/sim/nic/*",
                "tests/sim/rig/program_test.cc",
                "tests/hostile_card/*",
                "docs/faults.md",
                "docs/man/t3sim.1.scd",
            )
        ),
    ),
    Word("honest", "correct, checked"),
    Word("stranger, strangers", "peer of another implementation"),
    Word("ghost, ghosts", "the object that it is"),
    Word("witness, witnesses", "independent party, observer"),
    Word("hall, house", "the object that it is"),
    Word("strike, strikes", "fault counter; takes effect"),
    Word(
        "stall, stalls", "delayed write, wait", allowed=(("*", r"detected stall|cpu_stall"),)
    ),  # the kernel's reports about RCU
    Word("stand-in, stands in for, stood in for", "fake, replacement; replaces"),
    Word("on paper", "as data"),
    Word("befall, befalls", "happens to"),
    Word("ordered-context, ordered-contexts", "the runner of a connection"),
    Word("disown, disowned", "of a connection: without upcalls"),
    # Ordinary words. They are wrong as names, and where they make a person of a program; a reader has to decide.
    Word("note, notes", "as a name: pending event, record", enforced=False),
    Word("rest, rests", "remaining, remainder", enforced=False),
    Word("step, act, do", "as a name: fsm_apply, run_actions, handler", enforced=False),
    Word("agree, agrees, agreed", "of two ends: negotiate", enforced=False),
    Word("ask, asks, asked", "query, request", enforced=False),
    Word("answer, answers, answered", "reply, response; return value", enforced=False),
    Word("know, knows", "have, hold; depend on", enforced=False),
    Word("want, wants, wanted", "need, expect, request", enforced=False),
    Word("die, dying, dead, alive, life", "end, fail; lifetime ('dead device' is the kernel's)", enforced=False),
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def _pattern(form):
    """Of a form in a line whose words are written as _spaced() writes them."""
    return re.compile(r"(?<= )" + form.strip().replace("-", "[-+] ?").replace(" ", r"[-+]? ") + r"(?=[-+]? )")


def _spaced(line):
    """Each word in lower case between spaces; "+" before the space where two words are parts of one identifier, "-" for
    a hyphen."""
    spaced = " "
    end = 0
    for match in _WORD.finditer(line):
        between = line[end : match.start()]
        if end and between in ("", "_"):
            spaced = spaced[:-1] + "+ "
        elif end and between == "-":
            spaced = spaced[:-1] + "- "
        elif between.strip():
            spaced += ". "  # other punctuation: no phrase goes across it
        spaced += match[0].lower() + " "
        end = match.end()
    return spaced


def _files():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=paths.REPO, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for name in tracked:
        if any(fnmatch.fnmatch(name, pattern) for pattern in NEVER) or not (paths.REPO / name).is_file():
            continue
        try:
            yield name, (paths.REPO / name).read_text()
        except UnicodeDecodeError:  # a binary file
            continue


def findings(words):
    """Lines "file:line: word -> replacement"."""
    found = []
    forms = [(word, form.strip(), _pattern(form)) for word in words for form in word.forms.split(",")]
    # Most lines have none of the words: this finds them without their words being separated.
    candidate = re.compile(
        r"(?:(?<![A-Za-z])|(?=[A-Z]))(?i:%s)" % "|".join(sorted({re.split("[- ]", form)[0] for _, form, _ in forms}))
    )
    for name, text in _files():
        for number, line in enumerate(text.splitlines(), 1):
            if not candidate.search(line):
                continue
            spaced = _spaced(line)
            for word, form, pattern in forms:
                if pattern.search(spaced) and not any(
                    fnmatch.fnmatch(name, place) and re.search(regex, line) for place, regex in word.allowed
                ):
                    found.append(f"{name}:{number}: {form} -> {word.instead}")
    return found


@pytest.mark.parametrize(
    "word, line, is_there",
    [
        ("door", "uv_door_write(", True),
        ("door", "struct DoorWrite", True),
        ("door", "the DOOR_BELL", True),
        ("door", "ring the doorbell", False),
        ("stand-in", "class StandIn", True),
        ("stand-in", "a stand-in for", True),
        ("stand-in", "files stand in a row", False),
        ("on paper", "the card on paper", True),
        ("on paper", "turned on. Paper", False),
        ("told", "ep->told_end", True),
        ("lies", "families", False),
        ("stands in for", "memory stands in for the card", True),
        ("give-birth", "give_birth(id)", True),
    ],
)
def test_finds_words_in_text_and_in_identifiers(word, line, is_there):
    assert bool(_pattern(word).search(_spaced(line))) == is_there


def test_no_replaced_word_is_used():
    found = findings([word for word in WORDS if word.enforced])
    assert not found, "\n".join(["words with a plainer one:", *found])
