"""One opened folder, on Linux and macOS. Everything goes through its descriptor, so no rename can slip in between.

Knows the system calls. Refuses to follow a link, to know paths (one name at a time), and to judge what it opened:
`workspace.py` does. The same interface for Windows, which has no such descriptors, is in `folder_windows.py`.
"""

from __future__ import annotations

import os
from pathlib import Path

_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
"""Do not follow a link, do not wait for a pipe's other end, do not take a terminal, do not leak into a child."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Folder:
    """An open folder. A context manager: leaving it closes it. All methods raise OSError."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    @classmethod
    def open(cls, path: Path) -> Folder:
        """The root of a walk: the operator chose it, so links on the way to it are theirs."""
        return cls(os.open(path, _FOLDER))

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._fd)

    def child(self, name: str) -> Folder:
        return Folder(os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=self._fd))

    def make_folder(self, name: str) -> None:
        os.mkdir(name, dir_fd=self._fd)

    def open_read(self, name: str) -> int:
        """A descriptor of whatever has this name."""
        return os.open(name, os.O_RDONLY | _SAFELY, dir_fd=self._fd)

    def open_append(self, name: str) -> int:
        """The same for appending; a file is made where nothing has the name."""
        return os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _SAFELY, 0o666, dir_fd=self._fd)

    def create(self, name: str, mode: int | None) -> int:
        """A descriptor of a new file; `mode` is its permissions, None for what the system gives new files."""
        fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _SAFELY, 0o666, dir_fd=self._fd)
        if mode is not None:
            os.fchmod(fd, mode)
        return fd

    def replace(self, name: str, target: Folder, target_name: str) -> None:
        """Rename, replacing what stands there. A link that stands there is replaced, not followed."""
        os.replace(name, target_name, src_dir_fd=self._fd, dst_dir_fd=target._fd)

    def remove(self, name: str) -> None:
        os.unlink(name, dir_fd=self._fd)

    def remove_folder(self, name: str) -> None:
        os.rmdir(name, dir_fd=self._fd)

    def stat(self, name: str) -> os.stat_result:
        """Of the thing itself: a link is not followed."""
        return os.stat(name, dir_fd=self._fd, follow_symlinks=False)

    def read_link(self, name: str) -> str:
        """Where a link says it leads; nothing is opened."""
        return os.readlink(name, dir_fd=self._fd)

    def make_link(self, name: str, target: str) -> None:
        os.symlink(target, name, dir_fd=self._fd)

    def scan(self) -> list[tuple[str, os.stat_result]]:
        """Everything in it, in no order. What vanishes meanwhile is left out."""
        found = []
        with os.scandir(self._fd) as entries:
            for entry in entries:
                try:
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
                except FileNotFoundError:
                    continue
        return found
