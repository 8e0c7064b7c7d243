# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs the commands of docs/tutorial.md in order and compiles its program.

A command whose comment begins with "stays" runs in a terminal of its own; one with "fails" must fail. Each line of a
text block must be in the output since the text block before it; "..." matches anything.
"""

import os
import re
import subprocess
import time

import pytest
from labkit.paths import REPO

TUTORIAL = (REPO / "docs/tutorial.md").read_text()
BLOCKS = [(match[1], match[2]) for match in re.finditer(r"^```(\w+)\n(.*?)^```$", TUTORIAL, re.M | re.S)]
LINK = re.compile(r"\]\(([^)#]+)")


def test_the_program_of_the_tutorial_is_the_example():
    pieces = [text for kind, text in BLOCKS if kind == "c"]
    assert "\n".join(pieces) == (REPO / "examples/first-write/first-write.c").read_text()


class Reader:
    """The terminals of a reader. output: all output since the last text block."""

    # The folders of the tutorial are those of a reader, who has no T3LAB_AREA.
    ENVIRONMENT = {name: value for name, value in os.environ.items() if name != "T3LAB_AREA"}

    def __init__(self, folder):
        self._folder = folder
        self._terminals = []  # (process, output file, how much was read)
        self.output = ""

    def run(self, line):
        command, _, remark = map(str.strip, line.partition("  #"))
        if remark.startswith("stays"):
            self._open_terminal(command)
            return
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=REPO,
            env=self.ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=900,
            check=False,
        )
        self.output += done.stdout
        assert (done.returncode != 0) == remark.startswith(
            "fails"
        ), f"{command}: status {done.returncode}\n{self.output}"

    def _open_terminal(self, command):
        path = self._folder / f"terminal{len(self._terminals)}"
        with open(path, "wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=REPO,
                env=self.ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._terminals.append([process, path, 0])
        guest = re.match(r"tools/lab/t3lab exec (\d) ", command)
        if guest:  # a server: it is ready when it listens
            self._wait(
                lambda: "LISTEN"
                in subprocess.run(
                    [REPO / "tools/lab/t3lab", "exec", guest[1], "rdma resource show cm_id"],
                    env=self.ENVIRONMENT,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                ).stdout
            )

    def _wait(self, condition, timeout=120.0):
        end = time.monotonic() + timeout
        while not condition():
            self._read()
            assert time.monotonic() < end, self.output
            time.sleep(0.2)

    def _read(self):
        for terminal in self._terminals:
            text = terminal[1].read_text(errors="replace")
            self.output += text[terminal[2] :]
            terminal[2] = len(text)

    def expect(self, text):
        for line in text.splitlines():
            pattern = re.compile(
                r"\s+".join(".*".join(map(re.escape, word.split("..."))) for word in line.split()).replace(
                    r"\s+.*\s+", ".*"
                )
            )
            self._wait(lambda pattern=pattern: self._read() or pattern.search(self.output))
        self.output = ""

    def leave(self):
        for process, _, _ in self._terminals:
            process.terminate()
            process.wait(60)


@pytest.fixture
def reader(suite, tmp_path):
    made = Reader(tmp_path)
    yield made
    made.leave()


def test_commands_print_what_the_tutorial_shows(reader):
    for kind, text in BLOCKS:
        if kind == "sh":
            for line in text.splitlines():
                reader.run(line)
        elif kind == "text":
            reader.expect(text)


def test_links_of_the_tutorial_exist():
    targets = LINK.findall(TUTORIAL)
    assert targets and all((REPO / "docs" / target).exists() for target in targets), targets
