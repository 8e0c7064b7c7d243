# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Child processes that do not outlive their lab."""

import contextlib
import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Sequence

from .errors import LabError


class Child:
    """A process of the lab with its output in a file. The kernel kills it when the lab's process exits
    (PR_SET_PDEATHSIG, set by setpriv so that no Python runs between fork and exec)."""

    def __init__(
        self,
        name: str,
        argv: Sequence[str],
        log: Path,
        env: dict[str, str] | None = None,
        descriptors: Sequence[int] = (),
    ):
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "wb") as output:
            output.write(f"$ {shlex.join(map(str, argv))}\n".encode())
            output.flush()
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *map(str, argv)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=descriptors,
                env={**os.environ, **(env or {})},
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def status(self) -> int | None:
        """Exit status, or None while it runs; negative: killed by that signal."""
        return self._process.poll()

    def wait(self, timeout: float) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
        return self.status

    def end(self, grace: float = 5.0) -> None:
        """Terminates its process group, and kills it after the grace time."""
        for sig, seconds in ((signal.SIGTERM, grace), (signal.SIGKILL, 10.0)):
            if self.status is not None:
                return
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, sig)
            self.wait(seconds)

    def tail(self, lines: int = 40) -> str:
        return tail(self.log, lines)


def tail(path: Path, lines: int) -> str:
    """The last lines of a log, if it exists."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return "(no log)"
    return "\n".join(text.splitlines()[-lines:])


def run(argv: Sequence[str], log: Path | None = None, **options) -> str:
    """Runs a program of the host; returns its output, and raises with it if the program fails."""
    done = subprocess.run(
        [str(a) for a in argv],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
        **options,
    )
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(f"$ {shlex.join(map(str, argv))}\n{done.stdout}")
    if done.returncode:
        shown = "\n".join(done.stdout.splitlines()[-40:])
        raise LabError(
            f"{shlex.join(map(str, argv[:6]))}{' ...' if len(argv) > 6 else ''} "
            f"failed with status {done.returncode}:\n{shown}"
        )
    return done.stdout
