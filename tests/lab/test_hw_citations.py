# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/hw: its sections are numbered in order, and each citation of a section, in the tree and between chapters,
resolves.

The tree cites a section by path and number: "docs/hw/cq.md 10". A chapter cites one as a link of Markdown, "[cq 10]",
or "[section 10]" for one of its own; the targets of these links stand at the chapter's end. After changes of headings,
to write these targets anew: python3 -c "import test_hw_citations as t; t.write_targets()" in this folder.
"""

import re
import subprocess

import pytest
from labkit import paths

MANUAL = paths.REPO / "docs/hw"
CHAPTERS = {path.stem: path.read_text() for path in sorted(MANUAL.glob("*.md"))}
OWN_FILE = "tests/lab/test_hw_citations.py"
NUMBER = r"\d+(?:\.\d+)?"
TARGET = re.compile(r"^\[([\w-]+(?: [\d.]+)?)\]: (\S+)$", re.M)


def prose(text):
    """Without code blocks, whose brackets and hashes mean something else."""
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


def anchor(heading):
    """As GitHub makes it of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def sections(chapter, chapters=None):
    """Number of each section of a chapter -> anchor of its heading."""
    text = (chapters or CHAPTERS)[chapter]
    return {
        number: anchor(f"{number} {title}")
        for number, title in re.findall(rf"^##+ ({NUMBER}) (.+)$", prose(text), re.M)
    }


def wanted_targets(chapter):
    """The targets of all links "[cq 10]", "[section 10]", "[cq]" of a chapter; a target is None if there is no such
    section."""
    wanted = {}
    for label, name, number in re.findall(
        rf"\[((section|{'|'.join(CHAPTERS)})(?: ({NUMBER}))?)\](?!\(|: )", prose(CHAPTERS[chapter])
    ):
        file = "" if name == "section" else f"{name}.md"
        fragment = sections(chapter if name == "section" else name).get(number)
        wanted[label] = file if not number and file else f"{file}#{fragment}" if fragment else None
    return wanted


def write_targets():
    for chapter, text in CHAPTERS.items():
        wanted = wanted_targets(chapter)
        body = TARGET.sub("", text).rstrip() + "\n"
        targets = "".join(
            f"[{label}]: {target}\n" for label, target in sorted(wanted.items(), key=lambda item: _order(item[0]))
        )
        (MANUAL / f"{chapter}.md").write_text(body + ("\n" + targets if targets else ""))


def _order(label):
    name, _, number = label.partition(" ")
    return name != "section", name, [int(part) for part in number.split(".") if part]


def wrong_citations(name, text):
    """Lines "file: citation: what is wrong" of a file outside of the manual."""
    wrong = []
    for chapter, number in re.findall(rf"docs/hw/([\w-]+)\.md(?: ({NUMBER}))?", text):
        if chapter not in CHAPTERS:
            wrong.append(f"{name}: docs/hw/{chapter}.md: no such chapter")
        elif number and number not in sections(chapter):
            wrong.append(f"{name}: docs/hw/{chapter}.md {number}: no such section")
    for cited in re.findall(rf"docs/hw/[\w-]+\.md {NUMBER}(?:,? and |, |–){NUMBER}", text):
        wrong.append(f"{name}: {cited}: name the chapter before each number")
    for cited in re.findall(rf"docs/hw/[\w-]+\.md\n\W*{NUMBER}", text):
        wrong.append(f"{name}: {cited!r}: keep file and number on one line")
    for cited in re.findall(rf"\b(?:nic|offload|rdma)(?:\.md\b|(?: |\n *(?://+|#|\*) *){NUMBER}\b)", text):
        wrong.append(f"{name}: {cited!r}: docs/hw has other chapters")
    for file, fragment in re.findall(r"\]\((?:\.\./)*(?:docs/)?hw/([\w-]+)\.md#([^)]*)\)", text):
        if fragment not in sections(file).values():
            wrong.append(f"{name}: {file}.md#{fragment}: no such heading")
    return wrong


def tree():
    tracked = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=paths.REPO, capture_output=True, text=True, check=True
    )
    for name in tracked.stdout.splitlines():
        if name != OWN_FILE and not name.startswith(("docs/hw/", "LICENSES/")) and (paths.REPO / name).is_file():
            try:
                yield name, (paths.REPO / name).read_text()
            except UnicodeDecodeError:  # a binary file
                continue


def test_every_citation_in_the_tree_resolves():
    files = list(tree())
    assert sum(len(re.findall(rf"docs/hw/[\w-]+\.md {NUMBER}", text)) for _, text in files) > 40
    wrong = [line for name, text in files for line in wrong_citations(name, text)]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "text, problem",
    [
        ("// docs/hw/absent.md 1", "no such chapter"),
        ("(docs/hw/sge.md 99)", "no such section"),
        ("# docs/hw/board.md 7.99", "no such section"),
        ("docs/hw/sge.md 1, 2", "before each number"),
        ("see docs/hw/sge.md\n// 7", "on one line"),
        ("as rdma.md 11.10", "other chapters"),
        ("(offload 5.4)", "other chapters"),
        ("(rdma 4, 11.6)", "other chapters"),
        ("(rdma\n/// 4.14)", "other chapters"),
        ("nic.md", "other chapters"),
        ("[sge](hw/sge.md#7-absent)", "no such heading"),
    ],
)
def test_a_wrong_citation_is_found(text, problem):
    assert [line for line in wrong_citations("a file", text) if problem in line]


def test_a_right_citation_is_accepted():
    assert (
        wrong_citations(
            "a file", "docs/hw/sge.md 7, docs/hw/sge.md 8 and docs/hw/board.md 7.1, docs/hw/README.md; rdma_cm 1"
        )
        == []
    )


def misnumbered(text):
    """The first number of a section that is not the next one."""
    last = [0]
    for number in re.findall(rf"^##+ ({NUMBER}) ", prose(text), re.M):
        parts = [int(part) for part in number.split(".")]
        if parts not in ([last[0] + 1], [last[0], (last + [0])[1] + 1]):
            return number
        last = parts
    return None


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_sections_are_numbered_in_order(chapter):
    text = prose(CHAPTERS[chapter])
    assert misnumbered(text) is None
    assert re.match(r"# \S.*\n\n[^\n#|]", text), "a chapter begins with its title and what it is about"
    unnumbered = [line for line in re.findall(r"^##+ .*$", text, re.M) if not re.match(rf"##+ {NUMBER} \S", line)]
    assert not unnumbered
    assert len(set(sections(chapter).values())) == len(sections(chapter)) > 0


@pytest.mark.parametrize(
    "text, first",
    [
        ("## 1 A\n## 2 B\n### 2.1 C\n### 2.2 D\n## 3 E\n", None),
        ("## 2 A\n", "2"),
        ("## 1 A\n## 1 B\n", "1"),
        ("## 1 A\n### 2.1 B\n", "2.1"),
        ("## 1 A\n## 2 B\n### 2.2 C\n", "2.2"),
        ("## 1 A\n## 3 B\n", "3"),
    ],
)
def test_finds_a_number_out_of_order(text, first):
    assert misnumbered(text) == first


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_links_between_sections_resolve(chapter):
    wanted = wanted_targets(chapter)
    assert not [label for label, target in wanted.items() if not target], "no such section"
    assert dict(TARGET.findall(CHAPTERS[chapter])) == wanted, "see write_targets()"
    # Markdown takes a line that begins with "[unknown]: " for the target of a link, and hides it.
    assert [
        line for line in re.findall(r"^ *\[[^\]]+\]: .*$", prose(CHAPTERS[chapter]), re.M) if not TARGET.fullmatch(line)
    ] == []


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_sections_are_not_cited_without_a_link(chapter):
    """Numbers in other forms would not be found when a section moves."""
    text = re.sub(r"RFC \d+,? section \d+", "", TARGET.sub("", prose(CHAPTERS[chapter])))
    assert re.findall(r"(?<!\[)\bsections? \d[\d.]*|\b(?:nic|offload|rdma)\.md\b|\[\?\w+\]", text) == []


def test_the_readme_lists_every_chapter():
    table = re.search(r"^## 1 .*?^## 2 ", CHAPTERS["README"], re.M | re.S)[0]
    listed = set(re.findall(r"^\| \[([\w-]+)\] \|", table, re.M))
    assert listed == set(CHAPTERS) - {"README"}
