# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""A t3sim of the script's own."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Sequence

from .control import T3simError
from .script import Script

READY = "t3sim: ready"


def program() -> str:
    """The variable T3SIM, or the installed program."""
    found = os.environ.get("T3SIM") or shutil.which("t3sim")
    if not found:
        raise T3simError("there is no program t3sim, and the variable T3SIM names none")
    return found


class Process(Script):
    """Cards in a process that ends with the context: Process(["a", "b"], "--wire", "a.0,b.0"). The socket of card a is
    socket("a"); the log is in log."""

    def __init__(self, cards: Sequence[str], *options: str, path: str | os.PathLike | None = None):
        self._folder = tempfile.TemporaryDirectory(prefix="t3sim-")
        self.folder = Path(self._folder.name)
        self.log = self.folder / "log"
        super().__init__(self.folder / "control")
        argv = [os.fspath(path or program()), "--control", str(self.control_socket)]
        for card in cards:
            argv += ["--card", f"{card}={self.socket(card)}"]
        with open(self.log, "wb") as output:
            self._process = subprocess.Popen(
                [*argv, *map(str, options)], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            self.wait(self._started, 30.0)
        except BaseException:
            self.end()
            raise

    def _started(self) -> bool:
        text = self.log.read_text(errors="replace")
        if self._process.poll() is not None:
            raise T3simError(f"t3sim ended with status {self._process.returncode}:\n{text}")
        return READY in text

    def socket(self, card: str) -> Path:
        """Where the guest of a card connects."""
        return self.folder / card

    def end(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._folder.cleanup()

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *error) -> None:
        self.end()
