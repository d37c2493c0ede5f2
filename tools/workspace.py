"""The workspace: the only way tools touch files, and paths that cannot escape it.

    names.py        what a path may look like
    entries.py      what was found, as values
    folder.py       one opened folder, one name at a time (folder_windows.py for Windows)
    this file       the walk from the root, and what may stand at its end

A path is walked name by name, each folder opened relative to the one before and never through a link. What stands at
the end is judged by its open descriptor: a plain file with one name only, since a second name could lie outside. So
there is no moment between a check and its use, and a command that renames things meanwhile gains nothing.

Knows files, folders and limits. Refuses to know tools, text and encodings. Errors are ToolErrors, worded for the model.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from typing import BinaryIO, Literal

from agent.errors import ToolError
from tools.entries import Entry, Listing, Usage, entry_of, kind_of, size_text
from tools.names import MAX_DEPTH, shown, split

if sys.platform == "win32":
    from tools.folder_windows import Folder
else:
    from tools.folder import Folder

MAX_FILE_BYTES = 16 << 20
"""What is read into memory or written by one call at most."""
MAX_COPY_BYTES = 200 << 20
"""What is copied out for a person at most."""
MAX_SAME_NAMES = 1_000
MAX_ENTRIES = 200_000
"""What one walk looks at most at."""

OWN_FOLDER = ".glassloop"
"""Where the app itself keeps things in the workspace."""
UNLISTED = frozenset({OWN_FOLDER, ".tmp"})
"""What nobody asks for, at the root: the app's own folder, and the one that is commands' $TMPDIR."""


class Workspace:
    """The files below one folder. Holds nothing open between two calls, so it may be made and dropped freely."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()

    # ------------------------------------------------------------------ reading

    def open_read(self, path: str) -> BinaryIO:
        """An open plain file. The caller closes it."""
        *folders, name = self._names_of_a_file(path)
        with self._explained(path), self._folder(folders) as folder:
            return _plain_file(folder.open_read(name), path, "rb")

    def read_bytes(self, path: str, limit: int = MAX_FILE_BYTES) -> bytes:
        """The whole file. Raises ToolError when it is longer than `limit` bytes."""
        with self.open_read(path) as file, self._explained(path):
            data = file.read(limit + 1)
        if len(data) > limit:
            raise ToolError(f"{shown(path)!r} is larger than {size_text(limit)}, too large to be read in one piece")
        return data

    def stat(self, path: str) -> Entry:
        """What stands at the path. A link is a link here, wherever it leads."""
        names = self.names(path)
        if not names:
            return Entry(".", "folder", 0, 0)
        with self._explained(path), self._folder(names[:-1]) as folder:
            return entry_of("/".join(names), folder.stat(names[-1]))

    def walk(
        self, path: str = ".", depth: int = 1, limit: int = MAX_ENTRIES, skip: frozenset[str] = frozenset()
    ) -> Listing:
        """What is in a folder and `depth` - 1 levels of folders below it; links are listed and never followed.

        Folders named in `skip` are listed and not opened. The nearest come first into the limit.
        """
        start = self.names(path)
        if self.stat(path).kind == "file":
            raise ToolError(f"{shown(path)!r} is a file, not a folder")
        with self._explained(path), self._folder(start):
            pass  # whatever is wrong with the path is said before anything is listed
        entries: list[Entry] = []
        closed, too_deep, waiting = 0, False, deque([start])
        while waiting and len(entries) < limit:
            names = waiting.popleft()
            try:
                with self._folder(names) as folder:
                    found = sorted(folder.scan())
            except OSError:  # removed, swapped or locked since it was seen
                closed += 1
                continue
            for name, about in found:
                entry = entry_of("/".join((*names, name)), about)
                entries.append(entry)
                if entry.kind == "folder" and name not in skip and len(names) + 1 - len(start) < depth:
                    if len(names) + 1 < MAX_DEPTH:
                        waiting.append((*names, name))
                    else:
                        too_deep = True
        truncated = too_deep or bool(waiting) or len(entries) > limit
        return Listing(tuple(sorted(entries[:limit], key=lambda entry: entry.path.split("/"))), truncated, closed)

    def usage(self) -> Usage:
        """What the whole workspace holds, the app's own corner included."""
        entries = self.walk(depth=MAX_DEPTH).entries
        return Usage(sum(entry.size for entry in entries), len(entries))

    def copy_out(self, path: str, folder: Path, limit: int = MAX_COPY_BYTES) -> Path:
        """Copy a file's bytes to a new file of the same name in a new `folder` outside; return where it is.

        The bytes are those of the file that was checked, whatever happens to its name meanwhile.
        """
        with self.open_read(path) as source, self._explained(path):
            left = os.fstat(source.fileno()).st_size
            if left > limit:
                raise ToolError(f"{shown(path)!r} is larger than {size_text(limit)}, too large to be handed over")
            folder.mkdir(parents=True, mode=0o700)
            copy = folder / self.names(path)[-1]
            with copy.open("xb") as target:
                while left > 0 and (piece := source.read(min(left, 1 << 20))):  # a file that grows meanwhile is no trap
                    left -= target.write(piece)
        return copy

    # ------------------------------------------------------------------ writing

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file at once or not at all, making its folders; an old file's permissions are kept."""
        if len(data) > MAX_FILE_BYTES:
            raise ToolError(f"more than {size_text(MAX_FILE_BYTES)} cannot be written at once")
        *folders, name = self._names_of_a_file(path)
        temporary = f".tmp-{secrets.token_hex(8)}"
        with self._explained(path), self._folder(folders, make=True) as folder:
            mode = _mode_of_the_old_file(folder, name, path)
            try:
                with os.fdopen(folder.create(temporary, mode), "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                folder.replace(temporary, folder, name)
            except BaseException:
                with suppress(OSError):
                    folder.remove(temporary)
                raise

    def copy_in(self, source: Path, folder: str, name: str) -> str:
        """Copy a file from outside to a new file in `folder`, which is made; return its path.

        Where something has the name already, a number is added to it. Nothing is ever replaced.
        """
        names = self.names(folder)
        with self._explained(folder), source.open("rb") as data, self._folder(names, make=True) as opened:
            fd, free = _create_new(opened, name)
            try:
                with os.fdopen(fd, "wb") as file:
                    shutil.copyfileobj(data, file, 1 << 20)
            except BaseException:
                with suppress(OSError):
                    opened.remove(free)
                raise
        return "/".join((*names, free))

    def append(self, path: str, data: bytes) -> None:
        """Write at the end of a file, making it and its folders where they are missing."""
        *folders, name = self._names_of_a_file(path)
        with (
            self._explained(path),
            self._folder(folders, make=True) as folder,
            _plain_file(folder.open_append(name), path, "ab") as file,
        ):
            if os.fstat(file.fileno()).st_size + len(data) > MAX_FILE_BYTES:
                raise ToolError(f"{shown(path)!r} would grow beyond {size_text(MAX_FILE_BYTES)}")
            file.write(data)

    def remove(self, path: str) -> None:
        """Remove a file, a link (not what it leads to) or an empty folder."""
        *folders, name = self._names_of_a_file(path)
        with self._explained(path), self._folder(folders) as folder:
            if stat.S_ISDIR(folder.stat(name).st_mode):
                folder.remove_folder(name)
            else:
                folder.remove(name)

    def rename(self, path: str, new_path: str) -> None:
        """Move a file or folder, making the new path's folders. Refuses to replace what stands there."""
        *folders, name = self._names_of_a_file(path)
        *new_folders, new_name = self._names_of_a_file(new_path)
        with (
            self._explained(path),
            self._folder(folders) as folder,
            self._folder(new_folders, make=True) as new_folder,
        ):
            folder.stat(name)
            with suppress(FileNotFoundError):
                new_folder.stat(new_name)
                raise ToolError(f"{shown(new_path)!r} exists already")
            folder.replace(name, new_folder, new_name)

    def move_out(self, path: str, folder: Path) -> None:
        """Move a file, a link or a whole folder into `folder`, which lies outside; its name stays."""
        *folders, name = self._names_of_a_file(path)
        with self._explained(path), self._folder(folders) as here, Folder.open(folder) as there:
            here.stat(name)
            here.replace(name, there, name)

    def move_in(self, source: Path, path: str) -> None:
        """Move what `move_out` has taken back to its path, making its folders. Refuses to replace what stands there."""
        *folders, name = self._names_of_a_file(path)
        with (
            self._explained(path),
            Folder.open(source.parent) as there,
            self._folder(folders, make=True) as here,
        ):
            with suppress(FileNotFoundError):
                here.stat(name)
                raise ToolError(f"{shown(path)!r} exists already")
            there.replace(source.name, here, name)

    # ------------------------------------------------------------------ the walk

    def names(self, path: str) -> tuple[str, ...]:
        """The names from the root to the path; see `names.split`."""
        return split(path, self.root)

    def _names_of_a_file(self, path: str) -> tuple[str, ...]:
        names = self.names(path)
        if not names:
            raise ToolError("the path names the workspace itself, not a file in it")
        return names

    @contextmanager
    def _folder(self, names: list[str] | tuple[str, ...], make: bool = False) -> Iterator[Folder]:
        """The folder at the end of `names`, open. Raises OSError; ELOOP or ENOTDIR where a link stands in the way."""
        with ExitStack() as opened:
            folder = opened.enter_context(Folder.open(self.root))
            for name in names:
                if make:
                    with suppress(FileExistsError):
                        folder.make_folder(name)
                folder = opened.enter_context(folder.child(name))
            yield folder

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Turn the system's errors into words for the model."""
        try:
            yield
        except FileNotFoundError:
            raise ToolError(f"{shown(path)!r} does not exist. {self._near(path)}".strip()) from None
        except OSError as error:
            reason = _REASONS.get(error.errno or 0, os.strerror(error.errno or 0))
            raise ToolError(f"{shown(path)!r}: {reason}") from None

    def _near(self, path: str) -> str:
        """What the model may have meant: the nearest names beside the missing one."""
        names = self.names(path)
        for known in range(len(names) - 1, -1, -1):
            with suppress(OSError), self._folder(names[:known]) as folder:
                there = [name for name, _ in folder.scan() if name not in UNLISTED]
                near = get_close_matches(names[known], there, n=3) or sorted(there)[:10]
                where = shown("/".join(names[:known])) or "the workspace"
                return (
                    f"In {where} there is: {', '.join(map(shown, near))}." if near else f"In {where} there is nothing."
                )
        return ""


_REASONS = {
    errno.ELOOP: "there is a symbolic link in this path, and links are not followed; name the real file",
    errno.ENOTDIR: "a part of this path is not a folder (or is a symbolic link, and links are not followed)",
    errno.EISDIR: "this is a folder, not a file",
    errno.ENXIO: "this is a pipe or a socket, not a file",
    errno.EACCES: "the file system does not permit it",
    errno.EPERM: "the file system does not permit it",
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EROFS: "the file system is read-only",
    errno.ENOTEMPTY: "the folder is not empty",
    errno.EXDEV: "it lies on another disk than the app's own folder",
    errno.ENAMETOOLONG: "the name is too long for this file system",
}


def _create_new(folder: Folder, name: str) -> tuple[int, str]:
    """A new file's descriptor and its name: `name`, or the same with the first number that is free."""
    stem, dot, suffix = name.rpartition(".") if "." in name[1:] else (name, "", "")
    for number in range(2, MAX_SAME_NAMES):
        with suppress(FileExistsError):
            return folder.create(name, None), name
        name = f"{stem}-{number}{dot}{suffix}"
    raise ToolError(f"there are {MAX_SAME_NAMES} files of the name {shown(name)!r} already")


def _plain_file(fd: int, path: str, mode: Literal["rb", "ab"]) -> BinaryIO:
    """The open file behind a descriptor, if it is a plain one with one name. Closes the descriptor if not."""
    try:
        about = os.fstat(fd)
        if stat.S_ISDIR(about.st_mode):
            raise ToolError(f"{shown(path)!r} is a folder, not a file")
        if not stat.S_ISREG(about.st_mode):
            raise ToolError(f"{shown(path)!r} is a pipe, a socket or a device, not a file")
        if about.st_nlink != 1:
            raise ToolError(
                f"{shown(path)!r} has {about.st_nlink} names (hard links), and another one may lie outside the "
                "workspace. A copy made by a command (cp) can be used"
            )
    except BaseException:
        os.close(fd)
        raise
    return os.fdopen(fd, mode)


def _mode_of_the_old_file(folder: Folder, name: str, path: str) -> int | None:
    """The permissions a new version has to keep; None where there is no old one. Raises ToolError for no plain file."""
    try:
        about = folder.stat(name)
    except FileNotFoundError:
        return None
    kind = kind_of(about)
    if kind != "file":
        thing = {"folder": "a folder", "link": "a symbolic link, and links are not followed"}.get(kind, "not a file")
        raise ToolError(f"{shown(path)!r} is {thing}")
    return stat.S_IMODE(about.st_mode) & 0o777
