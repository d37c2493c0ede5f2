"""Which sessions are alive in this process, so that no other one writes them at the same time.

A process that opened the log of a turn that runs in another would take it for interrupted and end it there. So whoever
opens a session holds it: one locked byte in a file beside the database, at a place made from the session's id. The
system lets go of it when the process ends, however it ends, and commands that were started do not inherit it.

Holds on one machine; where the data folder does not lock (some network drives), nobody is kept out.
"""

from __future__ import annotations

import errno
import hashlib
import os
import sys
import threading
from pathlib import Path

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_PLACES = 1 << 30
"""Two sessions share a place, and then keep each other out, once in as many."""


class Holds:
    """The bytes that this process holds. Used from any thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._held: set[str] = set()
        self._lock = threading.Lock()

    def take(self, session_id: str) -> bool:
        """False where another process holds it. Taking it twice is taking it once."""
        with self._lock:
            if session_id in self._held or _lock_byte(self._opened(), _place(session_id)):
                self._held.add(session_id)
                return True
            return False

    def release(self, session_id: str) -> None:
        with self._lock:
            if session_id in self._held:
                self._held.discard(session_id)
                _unlock_byte(self._opened(), _place(session_id))

    def close(self) -> None:
        """Let go of all of them."""
        with self._lock:
            self._held.clear()
            if self._file is not None:
                os.close(self._file)
                self._file = None

    def _opened(self) -> int:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        return self._file


def _place(session_id: str) -> int:
    return int.from_bytes(hashlib.sha256(session_id.encode("utf-8", "surrogatepass")).digest()[:8], "big") % _PLACES


def _lock_byte(file: int, place: int) -> bool:
    try:
        if sys.platform == "win32":
            os.lseek(file, place, os.SEEK_SET)
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        else:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK)
    return True


def _unlock_byte(file: int, place: int) -> None:
    if sys.platform == "win32":
        os.lseek(file, place, os.SEEK_SET)
        msvcrt.locking(file, msvcrt.LK_UNLCK, 1)
    else:
        fcntl.lockf(file, fcntl.LOCK_UN, 1, place)
