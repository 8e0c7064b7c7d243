# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The files, make targets and folders that the documents name exist, and lines have at most 120 columns."""

import re
import subprocess

import pytest
from labkit import paths

DOCUMENTS = sorted(
    path for path in paths.REPO.rglob("*.md") if not {"build", ".git"} & set(path.relative_to(paths.REPO).parts)
)
README = (paths.REPO / "README.md").read_text()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(paths.REPO)))
def test_links_refer_to_existing_files(document):
    for target in re.findall(
        r"\]\((?!https?:|mailto:|#)([^)#\s]+)",
        re.sub(r"`[^`]*`|^```.*?^```", "", document.read_text(), flags=re.M | re.S),
    ):
        assert (document.parent / target).exists(), target


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(paths.REPO)))
def test_prose_has_at_most_120_columns(document):
    """Tables and code may be wider."""
    prose = re.sub(r"^ *```.*?^ *```$|^ *\|.*?$", "", document.read_text(), flags=re.M | re.S)
    assert not [line for line in prose.splitlines() if len(line) > 120]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(paths.REPO)))
def test_a_line_of_a_quote_has_one_mark(document):
    """A text that was wrapped as if the marks were words has them in the middle of lines."""
    assert not re.findall(r"^> ?> .*|^>.* > .*", document.read_text(), re.M)


def test_make_targets_of_the_readme_exist():
    makefile = (paths.REPO / "Makefile").read_text()
    targets = {target for rule in re.findall(r"^([a-z -]+):", makefile, re.M) for target in rule.split()}
    named = {word for line in re.findall(r"(?:^|`|sudo |or: )make ([a-z -]+)", README, re.M) for word in line.split()}
    assert named and named <= targets, named - targets


def test_the_readme_names_every_part():
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=paths.REPO, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    parts = {name.split("/")[0] for name in tracked if "/" in name and not name.startswith((".", "LICENSES/"))}
    parts |= {f"kernel/{name.split('/')[1]}" for name in tracked if re.fullmatch(r"kernel/\w+/Kbuild", name)}
    for part in parts - {"kernel", "userspace", "include"}:
        assert (
            f"[`{part}`]({part})" in README or f"]({part}/" in README or part == "bench" and "make bench" in README
        ), part


def test_files_that_commands_of_the_readme_name_exist():
    for word in re.findall(r"^(?:sudo )?((?:tools|tests|packaging)/[\w/.-]+)", README, re.M):
        assert (paths.REPO / word).exists(), word


def test_functions_of_the_way_of_a_send_are_in_their_files():
    rows = re.findall(
        r"^\| (\d[^|]*) \| ([^|]*) \| ([^|]*) \|$", (paths.REPO / "docs/architecture.md").read_text(), re.M
    )
    assert len(rows) >= 9
    for step, functions, files in rows:
        texts = {file: (paths.REPO / file).read_text() for file in re.findall(r"`([^`]+)`", files)}
        names = re.findall(r"`([\w:]+)\(\)`", functions)
        assert names and texts, step
        defined = {
            name: [
                file
                for file, text in texts.items()
                if re.search(rf"(?<!\w){name.split('::')[-1] if file.endswith('.hh') else name}\(", text)
            ]
            for name in names
        }
        assert all(defined.values()), (step, defined)
        assert set(texts) == {file for found in defined.values() for file in found}, (step, defined)
