"""Carrying a plan out on the disk.

Each file is written beside its place and renamed into it, so at any moment it is the old one or the new one. The order
is: removals, then folders, then files. A crash in between leaves each file either as it was or as it shall be; the same
undo again does the rest, because it plans from what it finds. No link is followed on the way, and a hard link is
replaced, not written through.

Knows how to write. Refuses to know why, and to replace anything but what the plan saw.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from agent.errors import Refused
from tools.checkpoint.objects import FOLDER, State
from tools.checkpoint.plan import Step
from tools.checkpoint.scan import TEMPORARY, Snapshot, Stamp

if sys.platform == "win32":
    from tools.folder_windows import Folder
else:
    from tools.folder import Folder

Content = Callable[[State], bytes]

_CHANGED = "it was changed at the same time"


class PutBack:
    """One plan being carried out. What could not be done stands in `failed`, by path, in plain words."""

    def __init__(self, root: Path, now: Snapshot, content: Content) -> None:
        self._root = root
        self._now = now
        self._content = content
        self.failed: dict[str, str] = {}

    def run(self, steps: Iterable[Step]) -> None:
        """Do all steps that can be done, the others go to `failed`."""
        for leftover in self._now.leftovers:
            with suppress(OSError), self._parent(leftover) as (folder, name):
                folder.remove(name)
        doing = list(steps)
        going = {step.path for step in doing if step.want is None}
        going |= {path for step in doing for path in step.blockers}
        for path in sorted(going, key=_depth, reverse=True):  # what is in a folder goes before the folder
            self._remove_folder(path) if path.endswith("/") else self._try(path, self._remove)
        for step in sorted(doing, key=lambda step: _depth(step.path)):
            if step.want == FOLDER:
                self._try(step.path, self._make_folder)
            elif step.want is not None:
                self._try(step.path, self._write, step.want)

    def _try(self, path: str, do: Callable[..., None], *more: State) -> None:
        try:
            do(path, *more)
        except OSError as error:
            self.failed[path] = error.args[0] if error.errno is None else os.strerror(error.errno)
        except Refused as error:  # its old content was pruned since the plan was made
            self.failed[path] = str(error)

    # ------------------------------------------------------------------ one path

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError), self._parent(path) as (folder, name):
            self._check(folder, name, path)
            folder.remove(name)

    def _remove_folder(self, path: str) -> None:
        """A folder that is not empty stays: somebody has put something into it."""
        with suppress(OSError), self._parent(path.rstrip("/")) as (folder, name):
            folder.remove_folder(name)

    def _make_folder(self, path: str) -> None:
        with self._folder(path.rstrip("/").split("/")):
            pass

    def _write(self, path: str, want: State) -> None:
        temporary = TEMPORARY + secrets.token_hex(8)
        with self._parent(path, make=True) as (folder, name):
            try:
                if want.link:
                    folder.make_link(temporary, os.fsdecode(self._content(want)))
                else:
                    with os.fdopen(folder.create(temporary, stat.S_IMODE(want.mode)), "wb") as file:
                        file.write(self._content(want))
                self._clear(folder, name, path)
                folder.replace(temporary, folder, name)
            except BaseException:
                with suppress(OSError):
                    folder.remove(temporary)
                raise

    def _clear(self, folder: Folder, name: str, path: str) -> None:
        """Make sure that the name is free, or taken by what the plan saw. An empty folder makes room."""
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(folder.stat(name).st_mode):
                folder.remove_folder(name)
        self._check(folder, name, path)

    def _check(self, folder: Folder, name: str, path: str) -> None:
        """Raises OSError where anything else stands at the path than when the plan was made."""
        seen = self._now.seen.get(path)
        try:
            about = folder.stat(name)
        except FileNotFoundError:
            return
        if seen is None or seen.stamp != Stamp.of(about):
            raise OSError(_CHANGED)

    # ------------------------------------------------------------------ the walk

    @contextmanager
    def _parent(self, path: str, make: bool = False) -> Iterator[tuple[Folder, str]]:
        *folders, name = path.split("/")
        with self._folder(folders, make) as folder:
            yield folder, name

    @contextmanager
    def _folder(self, names: list[str], make: bool = True) -> Iterator[Folder]:
        """The folder at the end of `names`, each opened from the one before and none through a link."""
        with ExitStack() as opened:
            folder = opened.enter_context(Folder.open(self._root))
            for name in names:
                if make:
                    with suppress(FileExistsError):
                        folder.make_folder(name)
                folder = opened.enter_context(folder.child(name))
            yield folder


def _depth(path: str) -> tuple[int, str]:
    return path.rstrip("/").count("/"), path
