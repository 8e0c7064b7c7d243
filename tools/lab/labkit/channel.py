# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""The host's side of the protocol of a guest's agent: commands and their handles."""

import collections
import re
import json
import shlex
import signal
import socket
import threading
import time
from typing import Callable, NamedTuple, Sequence

from .errors import CommandTimeout, GuestEnded, LabError
from .frames import CHUNK, Decoder, Frame, Kind, pack


class Result(NamedTuple):
    """How a command in a guest ended."""

    rc: int
    stdout: str
    stderr: str


def to_argv(command: str | Sequence[str]) -> list[str]:
    """A string is for a shell; a list is an argument vector."""
    return ["/bin/sh", "-c", command] if isinstance(command, str) else [str(word) for word in command]


class Command:
    """A command that runs, or ran, in a guest."""

    def __init__(self, channel: "Channel", number: int, name: str):
        self.name = name
        self.pid: int | None = None
        self.rc: int | None = None
        self._channel = channel
        self._number = number
        self._out = {Kind.STDOUT: bytearray(), Kind.STDERR: bytearray()}
        self._failure: LabError | None = None
        self._changed = threading.Condition()

    # frames of the guest

    def take(self, frame: Frame) -> None:
        with self._changed:
            if frame.kind in self._out:
                self._out[frame.kind] += frame.payload
            elif frame.kind == Kind.STARTED:
                self.pid = frame.json()["pid"]
            elif frame.kind == Kind.EXIT:
                self.rc = frame.json()["rc"]
            elif frame.kind == Kind.FAILED:
                self._failure = LabError(f"{self.name}: {frame.json()['why']}")
            self._changed.notify_all()

    def guest_ended(self, why: str) -> None:
        with self._changed:
            if self.rc is None:
                self._failure = GuestEnded(f"{why} (during: {self.name})")
            self._changed.notify_all()

    # for tests

    @property
    def running(self) -> bool:
        with self._changed:
            return self.rc is None and self._failure is None

    @property
    def stdout(self) -> str:
        with self._changed:
            return self._out[Kind.STDOUT].decode(errors="replace")

    @property
    def stderr(self) -> str:
        with self._changed:
            return self._out[Kind.STDERR].decode(errors="replace")

    @property
    def stdout_bytes(self) -> bytes:
        with self._changed:
            return bytes(self._out[Kind.STDOUT])

    @property
    def output(self) -> str:
        """Both streams, for searching and for messages."""
        return self.stdout + self.stderr

    def wait(self, timeout: float) -> Result:
        """Its result; kills it and raises CommandTimeout after the timeout."""
        if not self._wait(lambda: self.rc is not None, timeout):
            self.kill()
            raise CommandTimeout(
                f"{self.name}: not done after {timeout * self._channel.pace:g} s; its output:\n{self.output[-2000:]}"
            )
        return Result(self.rc, self.stdout, self.stderr)

    def ended(self, seconds: float) -> int | None:
        """Its status, if it ends within these seconds; raises if the guest ends."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self.rc is not None, seconds)
            if self._failure:
                raise self._failure
            return self.rc

    def expect(self, pattern: str, timeout: float) -> re.Match:
        """Waits until its output matches; raises if it ends or times out before."""
        wanted = re.compile(pattern, re.MULTILINE)
        self._wait(lambda: self.rc is not None or wanted.search(self.output), timeout)
        found = wanted.search(self.output)
        if found:
            return found
        state = f"ended with {self.rc}" if self.rc is not None else f"ran {timeout * self._channel.pace:g} s"
        raise CommandTimeout(f"{self.name}: {state} without printing {pattern!r}; its output:\n{self.output[-2000:]}")

    def write(self, data: bytes) -> None:
        for at in range(0, len(data), CHUNK):
            self._channel.send(self._number, Kind.STDIN, data[at : at + CHUNK])

    def end_input(self) -> None:
        self._channel.send(self._number, Kind.STDIN)

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Sends a signal to the command's process group."""
        self._channel.send(self._number, Kind.SIGNAL, {"number": int(number)})

    def _wait(self, condition: Callable[[], object], timeout: float) -> bool:
        with self._changed:
            met = self._changed.wait_for(lambda: self._failure or condition(), timeout * self._channel.pace)
            if self._failure:
                raise self._failure
            return bool(met)


class Channel:
    """All commands of one guest, over one socket. Frames of channels that another process uses (see control.py) are
    forwarded to it."""

    def __init__(
        self, name: str, on_kernel_log: Callable[[str], None], end_report: Callable[[], str], pace: float = 1.0
    ):
        self.name = name
        self.hello: dict | None = None
        self.pace = pace  # deadlines of commands grow with it
        self._on_kernel_log = on_kernel_log
        self._end_report = end_report
        self._socket: socket.socket | None = None
        self._send_lock = threading.Lock()
        self._state = threading.Condition()
        self._receivers: dict[int, Callable[[Frame], None]] = {}
        self._commands: "collections.OrderedDict[int, Command]" = collections.OrderedDict()
        self._next = 1
        self._lost: str | None = None

    def connect(self, path: str) -> bool:
        """False as long as the socket has no listener."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            sock.close()
            return False
        self.use(sock)
        return True

    def use(self, sock: socket.socket) -> None:
        """Starts with a socket that is connected to the agent."""
        self._socket = sock
        threading.Thread(target=self._receive, name=f"agent of {self.name}", daemon=True).start()

    def wait_ready(self, timeout: float) -> bool:
        with self._state:
            self._state.wait_for(lambda: self.hello is not None or self._lost, timeout)
            return self.hello is not None and not self._lost

    def start(
        self, command: str | Sequence[str], tty: tuple[int, int] | None = None, env: dict[str, str] | None = None
    ) -> Command:
        argv = to_argv(command)
        with self._state:
            number = self._new_number()
            handle = Command(self, number, f"{self.name}: {command if isinstance(command, str) else shlex.join(argv)}")
            self._commands[number] = handle

        def take(frame: Frame) -> None:
            if frame.kind in (Kind.EXIT, Kind.FAILED):
                self.close(number)
                self._commands.pop(number, None)
            handle.take(frame)

        self.open(number, take)
        self.send(number, Kind.SPAWN, {"argv": argv, "tty": tty, "env": env or {}})
        return handle

    def running(self) -> list[Command]:
        """Commands that were started and have not ended."""
        with self._state:
            return list(self._commands.values())

    def open(self, number: int | None, receiver: Callable[[Frame], None]) -> int:
        """Frames of this channel (a new one: None) go to the receiver."""
        with self._state:
            number = self._new_number() if number is None else number
            self._receivers[number] = receiver
            return number

    def close(self, number: int) -> None:
        with self._state:
            self._receivers.pop(number, None)

    def send(self, number: int, kind: Kind, payload=b"") -> None:
        with self._state:
            if self._lost:
                raise GuestEnded(self._lost)
        try:
            with self._send_lock:
                self._socket.sendall(pack(number, kind, payload))
        except OSError as error:
            self.lost(self._end_report())
            raise GuestEnded(self._lost) from error

    def lost(self, why: str) -> None:
        """Marks the guest as ended and reports the reason to all waiting commands."""
        with self._state:
            if self._lost:
                return
            self._lost = why
            receivers, self._receivers = self._receivers, {}
            commands, self._commands = self._commands, collections.OrderedDict()
            self._state.notify_all()
        for command in commands.values():
            command.guest_ended(why)
        for number, receiver in receivers.items():
            if number not in commands:
                receiver(Frame(number, Kind.FAILED, json.dumps({"why": why}).encode()))
        if self._socket:
            self._socket.close()

    def _new_number(self) -> int:
        self._next += 1
        return self._next - 1

    def _receive(self) -> None:
        decoder = Decoder()
        try:
            while data := self._read():
                for frame in decoder.feed(data):
                    self._dispatch(frame)
        except ValueError as error:
            self.lost(f"{self.name}: protocol error of its agent ({error})")
        self.lost(self._end_report())

    def _read(self) -> bytes:
        try:
            return self._socket.recv(CHUNK)
        except OSError:
            return b""  # reset: like end of file

    def _dispatch(self, frame: Frame) -> None:
        if frame.kind == Kind.KLOG:
            self._on_kernel_log(frame.payload.decode(errors="replace"))
        elif frame.kind == Kind.HELLO:
            with self._state:
                self.hello = frame.json()
                self._state.notify_all()
        else:
            with self._state:
                receiver = self._receivers.get(frame.channel)
            if receiver:
                receiver(frame)


def deadline(timeout: float) -> Callable[[], float]:
    """A function that returns the seconds left, never less than 0."""
    end = time.monotonic() + timeout
    return lambda: max(0.0, end - time.monotonic())
