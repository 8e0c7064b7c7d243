# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""docs/tutorial.md, as a reader would go through it: its commands are run and its program is compiled, all as they stand there.

A command whose remark begins with "stays" has a terminal of its own, and one with "fails" is to fail. What a block of text shows has to
be in what was said since the block before it, line by line; "..." stands for anything.
"""

import re
import subprocess
import time

import pytest
from labkit.paths import REPO

TUTORIAL = (REPO / "docs/tutorial.md").read_text()
BLOCKS = [(match[1], match[2]) for match in re.finditer(r"^```(\w+)\n(.*?)^```$", TUTORIAL, re.M | re.S)]
LINK = re.compile(r"\]\(([^)#]+)")


def test_the_program_is_the_example():
    pieces = [text for kind, text in BLOCKS if kind == "c"]
    assert "\n".join(pieces) == (REPO / "examples/first-write/first-write.c").read_text()


class Reader:
    """Somebody with some terminals. said: what he saw since he compared it last."""

    def __init__(self, folder):
        self._folder = folder
        self._terminals = []  # (process, output file, how much was read)
        self.said = ""

    def run(self, line):
        command, _, remark = map(str.strip, line.partition("  #"))
        if remark.startswith("stays"):
            self._open_terminal(command)
            return
        done = subprocess.run(["bash", "-c", command], cwd=REPO, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=900, check=False)
        self.said += done.stdout
        assert (done.returncode != 0) == remark.startswith("fails"), f"{command}: status {done.returncode}\n{self.said}"

    def _open_terminal(self, command):
        path = self._folder / f"terminal{len(self._terminals)}"
        with open(path, "wb") as output:
            process = subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=REPO, stdin=subprocess.DEVNULL, stdout=output,
                                       stderr=subprocess.STDOUT)
        self._terminals.append([process, path, 0])
        guest = re.match(r"tools/lab/t3lab exec (\d) ", command)
        if guest:  # a server: it is there when it listens
            self._wait(lambda: "LISTEN" in subprocess.run([REPO / "tools/lab/t3lab", "exec", guest[1], "rdma resource show cm_id"],
                                                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False).stdout)

    def _wait(self, condition, timeout=120.0):
        end = time.monotonic() + timeout
        while not condition():
            self._look()
            assert time.monotonic() < end, self.said
            time.sleep(0.2)

    def _look(self):
        for terminal in self._terminals:
            text = terminal[1].read_text(errors="replace")
            self.said += text[terminal[2]:]
            terminal[2] = len(text)

    def expect(self, text):
        for line in text.splitlines():
            pattern = re.compile(r"\s+".join(".*".join(map(re.escape, word.split("..."))) for word in line.split()).replace(r"\s+.*\s+", ".*"))
            self._wait(lambda pattern=pattern: self._look() or pattern.search(self.said))
        self.said = ""

    def leave(self):
        for process, _, _ in self._terminals:
            process.terminate()
            process.wait(60)


@pytest.fixture
def reader(suite, tmp_path):
    made = Reader(tmp_path)
    yield made
    made.leave()


def test_its_commands_do_what_it_says(reader):
    for kind, text in BLOCKS:
        if kind == "sh":
            for line in text.splitlines():
                reader.run(line)
        elif kind == "text":
            reader.expect(text)


def test_its_links_lead_somewhere():
    targets = LINK.findall(TUTORIAL)
    assert targets and all((REPO / "docs" / target).exists() for target in targets), targets
