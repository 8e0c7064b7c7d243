# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""Writes initramfs archives (cpio, "newc"), so that the host needs neither the cpio program nor root rights."""

import stat


class Archive:
    def __init__(self):
        self._parts: list[bytes] = []
        self._folders: set[str] = set()
        self._inode = 0

    def file(self, name: str, data: bytes, mode: int = 0o644) -> None:
        self._parents(name)
        self._member(name, stat.S_IFREG | mode, data)

    def folder(self, name: str) -> None:
        if name and name not in self._folders:
            self._parents(name)
            self._folders.add(name)
            self._member(name, stat.S_IFDIR | 0o755, b"")

    def node(self, name: str, major: int, minor: int) -> None:
        """A character device."""
        self._parents(name)
        self._member(name, stat.S_IFCHR | 0o600, b"", (major, minor))

    def data(self) -> bytes:
        trailer = self._entry("TRAILER!!!", 0, b"", 0, (0, 0))
        return b"".join([*self._parts, trailer])

    def _parents(self, name: str) -> None:
        self.folder(name.rpartition("/")[0])

    def _member(self, name: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
        self._inode += 1
        self._parts.append(self._entry(name, mode, data, self._inode, device))

    @staticmethod
    def _entry(name: str, mode: int, data: bytes, inode: int, device: tuple[int, int]) -> bytes:
        path = name.encode() + b"\0"
        fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, *device, len(path), 0)
        head = b"070701" + b"".join(b"%08X" % field for field in fields) + path
        return head + bytes(-len(head) % 4) + data + bytes(-len(data) % 4)
