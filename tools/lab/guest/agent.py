# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Runs commands in a guest for the lab; it is also the guest's process 1.

One thread, one selector: the port to the host (virtio-serial, or a serial line of User Mode Linux), the pipes or the
terminal of each command, the kernel log, and a wake-up pipe for SIGCHLD.
"""

import contextlib
import errno
import fcntl
import os
import selectors
import signal
import struct
import sys
import termios
import time as clock
import tty

from frames import CHUNK, Decoder, Frame, Kind, pack

PORT_NAME = "t3.agent"
JOIN = "/run/t3lab/join"
RNDRESEEDCRNG = 0x5207


class Command:
    """A command that the host started."""

    def __init__(self, channel: int, pid: int):
        self.channel = channel
        self.pid = pid
        self.outputs: dict[int, Kind] = {}  # descriptor -> kind of frame
        self.stdin: int | None = None
        self.pending = bytearray()  # for stdin
        self.input_ended = False
        self.tty: int | None = None


class Agent:
    def __init__(self, port: int):
        self._port = port
        os.set_blocking(port, False)
        os.set_inheritable(port, False)  # a command that outlives the agent does not keep it open
        self._decoder = Decoder()
        self._outgoing = bytearray()
        self._commands: dict[int, Command] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(port, selectors.EVENT_READ, self._read_port)
        wake_out, wake_in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._wake = wake_out
        self._selector.register(wake_out, selectors.EVENT_READ, self._reap)
        with contextlib.suppress(OSError):  # not readable for an ordinary user, as in the agent's own tests
            self._kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            self._selector.register(self._kmsg, selectors.EVENT_READ, self._read_kmsg)

    def run(self) -> None:
        self._hello()
        while True:
            for key, events in self._selector.select():
                now = self._selector.get_map().get(key.fileobj)
                if not now or now.data != key.data:
                    continue  # closed on behalf of an earlier event of this round
                if key.fileobj == self._port and events & selectors.EVENT_WRITE:
                    self._flush()
                if key.fileobj != self._port or events & selectors.EVENT_READ:
                    key.data()

    def _hello(self) -> None:
        self._send(0, Kind.HELLO, {"release": os.uname().release})

    def _get_name(self, name: str, time: float, seed: str) -> None:
        """Becomes a guest of a lab, after a snapshot: with the time and random numbers of its own, and with the
        devices that the snapshot's machine does not have."""
        with open("/dev/urandom", "wb", buffering=0) as random:
            random.write(bytes.fromhex(seed))
            fcntl.ioctl(random, RNDRESEEDCRNG)
        clock.clock_settime(clock.CLOCK_REALTIME, time)
        with open("/sys/bus/pci/rescan", "w") as rescan:
            rescan.write("1")
        if os.waitpid(os.posix_spawn("/bin/sh", ["sh", JOIN, "", name], os.environ), 0)[1]:
            sys.exit(f"{JOIN} failed")
        self._hello()

    # the port

    def _send(self, channel: int, kind: Kind, payload=b"") -> None:
        self._outgoing += pack(channel, kind, payload)
        self._flush()

    def _flush(self) -> None:
        try:
            while self._outgoing:
                del self._outgoing[: os.write(self._port, self._outgoing[:CHUNK])]
        except BlockingIOError:
            pass
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outgoing else 0)
        self._selector.modify(self._port, events, self._read_port)

    def _read_port(self) -> None:
        try:
            data = os.read(self._port, CHUNK)
        except BlockingIOError:
            return
        if not data:  # the lab has ended
            sys.exit(0)
        for frame in self._decoder.feed(data):
            self._take(frame)

    def _take(self, frame: Frame) -> None:
        if frame.kind == Kind.NAME:
            self._get_name(**frame.json())
            return
        if frame.kind == Kind.SPAWN:
            try:
                self._spawn(frame.channel, **frame.json())
            except OSError as error:
                self._send(frame.channel, Kind.FAILED, {"why": str(error)})
            return
        command = self._commands.get(frame.channel)
        if not command:
            return  # it has just ended
        if frame.kind == Kind.STDIN:
            command.pending += frame.payload
            command.input_ended = command.input_ended or not frame.payload
            self._feed(command)
        elif frame.kind == Kind.SIGNAL:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(command.pid, frame.json()["number"])
        elif frame.kind == Kind.RESIZE and command.tty is not None:
            self._resize(command.tty, **frame.json())

    # commands

    def _spawn(self, channel: int, argv: list[str], tty: list[int] | None, env: dict[str, str]) -> None:
        keep: dict[int, Kind] = {}
        close_after = []
        if tty:
            master, slave = os.openpty()
            self._resize(master, *tty)
            path = os.ttyname(slave)
            # Opened by the new session's leader, it becomes the session's terminal.
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, path, os.O_RDWR, 0),
                (os.POSIX_SPAWN_DUP2, 0, 1),
                (os.POSIX_SPAWN_DUP2, 0, 2),
            ]
            keep[master] = Kind.STDOUT
            stdin, close_after = os.dup(master), [slave]
        else:
            child_in, stdin = os.pipe()
            out, child_out = os.pipe()
            err, child_err = os.pipe()
            actions = [(os.POSIX_SPAWN_DUP2, fd, at) for at, fd in enumerate((child_in, child_out, child_err))]
            keep = {out: Kind.STDOUT, err: Kind.STDERR}
            close_after = [child_in, child_out, child_err]
        try:
            pid = os.posix_spawnp(
                argv[0],
                argv,
                {**os.environ, **env},
                file_actions=actions,
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGCHLD],
            )
        except OSError:
            for fd in (*keep, stdin):
                os.close(fd)
            raise
        finally:
            for fd in close_after:
                os.close(fd)
        command = Command(channel, pid)
        command.outputs, command.stdin = keep, stdin
        command.tty = next(iter(keep)) if tty else None
        for fd in (*keep, stdin):
            os.set_blocking(fd, False)
        for fd in keep:
            self._selector.register(fd, selectors.EVENT_READ, lambda fd=fd: self._read_output(command, fd))
        self._commands[channel] = command
        self._send(channel, Kind.STARTED, {"pid": pid})

    def _read_output(self, command: Command, fd: int) -> bool:
        """Sends the output of a command; false if there is none."""
        try:
            data = os.read(fd, CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno != errno.EIO:  # a terminal whose last user has closed it
                raise
            data = b""
        if data:
            self._send(command.channel, command.outputs[fd], data)
            return True
        self._close_output(command, fd)
        return False

    def _close_output(self, command: Command, fd: int) -> None:
        self._selector.unregister(fd)
        del command.outputs[fd]
        os.close(fd)

    def _feed(self, command: Command) -> None:
        """Writes to a command's standard input; the remaining data wait until it can be written."""
        if command.stdin is None:
            return
        registered = command.stdin in self._selector.get_map()
        try:
            while command.pending:
                del command.pending[: os.write(command.stdin, command.pending[:CHUNK])]
        except BlockingIOError:
            if not registered:
                self._selector.register(command.stdin, selectors.EVENT_WRITE, lambda: self._feed(command))
            return
        except OSError:  # it closed its input, or has exited
            command.pending.clear()
            command.input_ended = True
        if registered:
            self._selector.unregister(command.stdin)
        if command.input_ended:
            os.close(command.stdin)
            command.stdin = None

    @staticmethod
    def _resize(tty: int, rows: int, columns: int) -> None:
        fcntl.ioctl(tty, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, CHUNK)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            for command in list(self._commands.values()):
                if command.pid == pid:
                    self._finish(command, os.waitstatus_to_exitcode(status))

    def _finish(self, command: Command, rc: int) -> None:
        """Sends the output from before its exit, and does not wait for output of its background children."""
        for fd in list(command.outputs):
            while self._read_output(command, fd):
                pass
            if fd in command.outputs:
                self._close_output(command, fd)
        if command.stdin is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(command.stdin)
            os.close(command.stdin)
        del self._commands[command.channel]
        self._send(command.channel, Kind.EXIT, {"rc": rc})

    # the kernel log

    def _read_kmsg(self) -> None:
        """Each read gives one record: level, number, microseconds, flags; text. Continuation lines are properties."""
        lines = []
        while len(lines) < 200:
            try:
                record = os.read(self._kmsg, 8192).decode(errors="replace")
            except BlockingIOError:
                break
            except BrokenPipeError:
                lines.append("(kernel log overrun: messages were lost)\n")
                continue
            head, _, text = record.partition(";")
            stamp = int(head.split(",")[2])
            lines.append(f"[{stamp / 1e6:12.6f}] {text.splitlines()[0] if text else ''}\n")
        if lines:
            self._send(0, Kind.KLOG, "".join(lines).encode())


def open_port() -> int:
    """The descriptor of the port to the host: the serial line that the kernel's command line names, or a virtio
    port."""
    with open("/proc/cmdline") as file:
        line = next((word.partition("=")[2] for word in file.read().split() if word.startswith("t3lab.line=")), "")
    port = os.open(line or virtio_port(), os.O_RDWR | os.O_CLOEXEC | os.O_NOCTTY)
    if line:
        tty.setraw(port)
    return port


def virtio_port() -> str:
    for name in os.listdir("/sys/class/virtio-ports"):
        with contextlib.suppress(OSError), open(f"/sys/class/virtio-ports/{name}/name") as file:
            if file.read().strip() == PORT_NAME:
                return f"/dev/{name}"
    raise SystemExit(f"no virtio port called {PORT_NAME}")


if __name__ == "__main__":
    os.environ.update(
        PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/t3/bin",
        HOME="/root",
        TERM="xterm",
        LC_ALL="C.UTF-8",
    )
    os.chdir("/root")
    Agent(open_port()).run()
