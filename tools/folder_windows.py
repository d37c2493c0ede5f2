"""One folder on Windows, which has no folder descriptors to walk by: open first, then look where the handle leads.

The same interface as `folder.py`. UNTESTED: written from the documentation, no one has run it on Windows yet. Weaker
than `folder.py`: between a check and a rename another process may swap a folder for a junction. A workspace on Windows
is therefore for people who trust what runs in it.
"""

from __future__ import annotations

import sys

assert sys.platform == "win32"

import ctypes  # noqa: E402 (the assertion above tells the type checker which system it reads)
import errno  # noqa: E402
import msvcrt  # noqa: E402
import os  # noqa: E402
import stat  # noqa: E402
from pathlib import Path  # noqa: E402

_READ = os.O_RDONLY | os.O_BINARY | os.O_NOINHERIT
_WRITE = os.O_WRONLY | os.O_BINARY | os.O_NOINHERIT | os.O_CREAT


class Folder:
    """A folder by its path, below a root that no opened file may leave. All methods raise OSError."""

    def __init__(self, path: str, root: str) -> None:
        self._path = path
        self._root = root

    @classmethod
    def open(cls, path: Path) -> Folder:
        root = os.path.realpath(path)
        if not os.path.isdir(root):
            raise FileNotFoundError(errno.ENOENT, "no such folder", root)
        return cls(root, root)

    def __enter__(self) -> Folder:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing is held open."""

    def child(self, name: str) -> Folder:
        if not stat.S_ISDIR(self.stat(name).st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a folder", name)
        return Folder(os.path.join(self._path, name), self._root)

    def make_folder(self, name: str) -> None:
        os.mkdir(os.path.join(self._path, name))

    def open_read(self, name: str) -> int:
        return self._open(name, _READ)

    def open_append(self, name: str) -> int:
        return self._open(name, _WRITE | os.O_APPEND)

    def create(self, name: str, mode: int | None) -> int:
        return self._open(name, _WRITE | os.O_EXCL)

    def replace(self, name: str, target: Folder, target_name: str) -> None:
        os.replace(os.path.join(self._path, name), os.path.join(target._path, target_name))

    def remove(self, name: str) -> None:
        os.unlink(os.path.join(self._path, name))

    def remove_folder(self, name: str) -> None:
        os.rmdir(os.path.join(self._path, name))

    def stat(self, name: str) -> os.stat_result:
        """Of the thing itself. Links, junctions and every other reparse point are refused here."""
        found = os.lstat(os.path.join(self._path, name))
        if found.st_file_attributes & stat.FILE_ATTRIBUTE_REPARSE_POINT:
            raise OSError(errno.ELOOP, "a link", name)
        return found

    def read_link(self, name: str) -> str:
        raise OSError(errno.ELOOP, "a link", name)

    def make_link(self, name: str, target: str) -> None:
        raise OSError(errno.EPERM, "links are not made here", name)

    def scan(self) -> list[tuple[str, os.stat_result]]:
        with os.scandir(self._path) as entries:
            return [(entry.name, entry.stat(follow_symlinks=False)) for entry in entries]

    def _open(self, name: str, flags: int) -> int:
        path = os.path.join(self._path, name)
        if os.path.lexists(path):
            self.stat(name)
        fd = os.open(path, flags)
        try:
            if not _is_below(_final_path(fd), self._root):
                raise OSError(errno.ELOOP, "a link", name)
        except BaseException:
            os.close(fd)
            raise
        return fd


def _final_path(fd: int) -> str:
    """Where the open handle leads, as the system itself says."""
    buffer = ctypes.create_unicode_buffer(32_768)
    handle = ctypes.c_void_p(msvcrt.get_osfhandle(fd))
    length = ctypes.windll.kernel32.GetFinalPathNameByHandleW(handle, buffer, len(buffer), 0)
    if not 0 < length < len(buffer):
        raise ctypes.WinError()
    return buffer.value.removeprefix("\\\\?\\")


def _is_below(path: str, root: str) -> bool:
    inside = root.removeprefix("\\\\?\\").rstrip("\\") + "\\"
    return path.casefold().startswith(inside.casefold())
