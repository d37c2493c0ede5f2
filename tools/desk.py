"""The workspace as a person works in it: what is there, a look at a file, another name, away with it, and back again.

    listed            what is there
    looked_at         a copy of one file in the outbox, for the page to show: it does not change under the eye
    handle            the open file itself, to be saved
    renamed, added    a file or folder gets another name; a file comes in
    removed, restored what is removed is put aside outside, until the session goes

Implements `ui.browsing.Desk`. Its methods block, may be called from any thread, and raise Refused, worded for the
person. Knows one workspace at a time. Refuses to know who asks and how anything looks.
"""

from __future__ import annotations

import os
import secrets
import shutil
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from agent.errors import Refused, ToolError
from agent.events import File
from tools import preview
from tools.entries import Entry
from tools.handing import card, new_outbox_folder
from tools.intake import safe_name
from tools.names import shown
from tools.reading import LIBRARY_FOLDERS
from tools.workspace import UNLISTED, Workspace

MAX_LISTED = 1_000
MAX_DEPTH = 8
MAX_LOOK_BYTES = 50 << 20
MOST_REMOVED = 200
"""What can be restored; the oldest are forgotten first (their files stay put aside)."""

_UNSEEN = UNLISTED | {name for name in LIBRARY_FOLDERS if name.startswith(".")}
"""Not looked into: what is in them is not shown, and must not take the place of what is."""
_ASIDE = "removed"
"""In the outbox."""


@dataclass(frozen=True)
class Removed:
    workspace: Path
    path: str
    aside: Path


class Desk:
    """Of all workspaces."""

    def __init__(self, quota_bytes: int, quota_files: int) -> None:
        """How much a workspace may hold when a person puts a file in."""
        self._quota_bytes, self._quota_files = quota_bytes, quota_files
        self._removed: OrderedDict[str, Removed] = OrderedDict()
        self._lock = threading.Lock()

    def listed(self, workspace: Path) -> tuple[Sequence[Entry], bool]:
        """What is there, in the order of a tree, without hidden names; True where there is more."""
        with _worded():
            listing = Workspace(workspace).walk(depth=MAX_DEPTH, limit=MAX_LISTED, skip=_UNSEEN)
        seen = [entry for entry in listing.entries if not any(name.startswith(".") for name in entry.path.split("/"))]
        return [_nameable(entry) for entry in seen], listing.truncated

    def looked_at(self, workspace: Path, outbox: Path, path: str) -> tuple[File, dict[str, Any] | None]:
        """A copy to look at, and the facts of its preview."""
        with _worded():
            file = card(Workspace(workspace).copy_out(path, new_outbox_folder(outbox), MAX_LOOK_BYTES))
        return file, preview.of_file(Path(file.path), file.name, file.mime)

    def let_go(self, outbox: Path, file: File) -> None:
        """The copy is not looked at any more. Safe to call again."""
        copy = Path(file.path)
        if copy.parent.parent == outbox:
            copy.unlink(missing_ok=True)
            if copy.parent.is_dir():
                copy.parent.rmdir()

    def handle(self, workspace: Path, path: str) -> tuple[BinaryIO, int]:
        """The open file and its size in bytes. The caller closes it."""
        with _worded():
            file = Workspace(workspace).open_read(path)
        return file, os.fstat(file.fileno()).st_size

    def renamed(self, workspace: Path, path: str, name: str) -> str:
        """Another name in the same folder, or another place where `name` has slashes; return the new path."""
        folder, new = path.rpartition("/")[0], name.strip()
        if shown(new) != new:
            raise Refused(f"{shown(new)!r} holds signs that cannot be seen")
        if "/" not in new and folder:
            new = f"{folder}/{new}"
        with _worded():
            Workspace(workspace).rename(path, new)
        return new

    def added(self, workspace: Path, source: Path, folder: str, name: str) -> str:
        """A copy of a file from outside; return its path, whose name was made plain and may have got a number."""
        with _worded():
            room = Workspace(workspace)
            held = room.usage()
            if held.bytes + source.stat().st_size > self._quota_bytes or held.files >= self._quota_files:
                raise Refused("the workspace is full; remove something first")
            return room.copy_in(source, folder, safe_name(name))

    def removed(self, workspace: Path, outbox: Path, path: str) -> str:
        """Put it aside; return what `restored` takes."""
        with _worded():
            path = "/".join(Workspace(workspace).names(path))
        aside = outbox / _ASIDE / secrets.token_urlsafe(12)
        aside.mkdir(parents=True, mode=0o700)
        try:
            with _worded():
                Workspace(workspace).move_out(path, aside)
        except Refused:
            aside.rmdir()
            raise
        token = secrets.token_urlsafe(12)
        with self._lock:
            self._removed[token] = Removed(workspace, path, aside / path.rpartition("/")[2])
            while len(self._removed) > MOST_REMOVED:
                self._removed.popitem(last=False)
            self._let_oldest_go(outbox / _ASIDE)
        return token

    def restored(self, workspace: Path, token: str) -> str:
        """Back to where it was; return its path."""
        with self._lock:
            removed = self._removed.get(token)
        if removed is None or removed.workspace != workspace:
            raise Refused("it is not kept any more")
        with _worded():
            Workspace(workspace).move_in(removed.aside, removed.path)
        removed.aside.parent.rmdir()
        with self._lock:
            self._removed.pop(token, None)
        return removed.path

    def _let_oldest_go(self, folder: Path) -> None:
        """What is put aside may hold as much as a workspace; beyond that the oldest is lost, but never the latest."""
        asides = sorted(folder.iterdir(), key=lambda aside: aside.stat().st_mtime_ns)
        held = [Workspace(aside).usage() for aside in asides]
        for oldest in range(len(asides) - 1):
            files, size = sum(one.files for one in held[oldest:]), sum(one.bytes for one in held[oldest:])
            if size <= self._quota_bytes and files <= self._quota_files:
                return
            shutil.rmtree(asides[oldest], ignore_errors=True)


def _nameable(entry: Entry) -> Entry:
    """The entry, or where its name is no sound text (a package made in another encoding) one to be seen only."""
    try:
        entry.path.encode()
    except UnicodeEncodeError:
        return Entry(shown(entry.path), "other", 0, entry.modified)
    return entry


@contextmanager
def _worded() -> Iterator[None]:
    """What the workspace says to a model is plain enough for a person."""
    try:
        yield
    except ToolError as error:
        raise Refused(str(error).rstrip(".")) from None
    except UnicodeEncodeError as error:
        raise Refused(f"{shown(str(error.object))!r} cannot be a name") from None
