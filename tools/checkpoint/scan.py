"""A snapshot: what the workspace holds, as a tree of git objects.

    stored      plain files, with their permissions; links, as links; folders, empty ones too
    noted       files beyond the `Bounds`, and what may not be read: size and time, no content
    left out    what is named in IGNORED; pipes, sockets and devices

Knows how to walk without following a link, and which files need not be read again. Refuses to write to the workspace,
and to know what a snapshot is for.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agent.errors import Refused
from tools.checkpoint.objects import FOLDER, Objects, State
from tools.workspace import OWN_FOLDER

if sys.platform == "win32":
    from tools.folder_windows import Folder
else:
    from tools.folder import Folder

MAX_DEPTH = 64
"""Of folders; each takes a file descriptor while what is in it is read."""

IGNORED = frozenset(
    f"{OWN_FOLDER} .tmp .git .hg .svn node_modules __pycache__ .venv venv .tox .nox "
    ".mypy_cache .pytest_cache .ruff_cache .hypothesis".split()
)
"""Files and folders of these names are in no checkpoint: others keep them, or they can be made again. `.tmp` is the
commands' $TMPDIR."""

TEMPORARY = ".glassloop-undo-"
"""How the names of files begin that a restore has not finished; no checkpoint has them."""


Entries = tuple[tuple[bytes, int, bytes], ...]
"""What is in a folder: (name, mode, id) of each thing."""

Trees = dict[str, tuple[Entries, bytes]]
"""By path: what is in each folder, and the id of its tree."""


@dataclass(frozen=True)
class Bounds:
    """How much one snapshot holds."""

    file_bytes: int = 10_000_000
    """A larger file is only noted."""
    total_bytes: int = 500_000_000
    """Of all stored files together; what is new beyond it is only noted, what is stored stays so."""
    entries: int = 50_000
    """Files and folders. With more there is no checkpoint at all: the first look would take longer than the work."""


class Stamp(NamedTuple):
    """What changes when a file changes. A command can set a file's times, but not its ctime."""

    size: int
    mtime_ns: int
    inode: int
    ctime_ns: int
    mode: int

    @classmethod
    def of(cls, about: os.stat_result) -> Stamp:
        return cls(about.st_size, about.st_mtime_ns, about.st_ino, about.st_ctime_ns, about.st_mode)


@dataclass(frozen=True)
class Seen:
    """One file as it was found, and what it is."""

    stamp: Stamp
    state: State
    settled: bool
    """Older than the clock's grain when it was read, so that the next change must show in the stamp."""


@dataclass(frozen=True)
class Snapshot:
    """The workspace at one moment."""

    id: str
    """The checkpoint's."""
    seen: dict[str, Seen] = field(default_factory=dict)
    """All files, links and noted things, by path."""
    folders: frozenset[str] = frozenset()
    """All folders, each with a '/' at its end."""
    leftovers: tuple[str, ...] = ()
    """Files that a restore did not finish."""

    def state(self, path: str) -> State | None:
        """What stands at a path; a folder's path ends with '/'."""
        if path.endswith("/"):
            return FOLDER if path in self.folders else None
        return self.seen[path].state if path in self.seen else None


class Scanner:
    """Takes one workspace's snapshots, each with what the one before knew. One at a time: the caller sees to that."""

    def __init__(self, root: Path, objects: Objects, bounds: Bounds) -> None:
        self._root = root
        self._objects = objects
        self._bounds = bounds
        self._seen: dict[str, Seen] = {}
        self._trees: Trees = {}
        self._stored_bytes = 0

    def take(self) -> Snapshot:
        """Look at everything. Raises Refused where there is too much, OSError where the root or our disk fails."""
        known, self._seen = self._seen, {}  # nothing is known where this fails
        walk = _Walk(self._objects, self._bounds, known, self._trees, self._bounds.total_bytes - self._stored_bytes)
        with Folder.open(self._root) as root:
            if not known:  # all files would be read: first see that they are not too many
                _count(root, self._bounds.entries, 0)
            id = walk.folder(root, "", 0)
        self._seen, self._trees = walk.found, walk.trees
        self._stored_bytes = sum(seen.stamp.size for seen in walk.found.values() if not seen.state.noted)
        return Snapshot(id.decode(), walk.found, frozenset(walk.folders), tuple(walk.leftovers))


class _Walk:
    def __init__(self, objects: Objects, bounds: Bounds, known: dict[str, Seen], known_trees: Trees, room: int) -> None:
        self._objects = objects
        self._bounds = bounds
        self._known = known
        self._known_trees = known_trees
        self._room = room
        self.found: dict[str, Seen] = {}
        self.trees: Trees = {}
        self.folders: list[str] = []
        self.leftovers: list[str] = []

    def folder(self, folder: Folder, prefix: str, depth: int) -> bytes:
        """The tree of an open folder."""
        entries: list[tuple[bytes, int, bytes]] = []
        for name, about in folder.scan():
            if name.startswith(TEMPORARY):
                self.leftovers.append(prefix + name)
            elif name not in IGNORED and (entry := self._entry(folder, name, about, prefix, depth)):
                entries.append((os.fsencode(name), entry.mode, entry.id))
        known = self._known_trees.get(prefix)
        self.trees[prefix] = made = (
            known if known and known[0] == tuple(entries) else (tuple(entries), self._objects.put_tree(entries))
        )
        return made[1]

    def _entry(self, folder: Folder, name: str, about: os.stat_result, prefix: str, depth: int) -> State | None:
        path = prefix + name
        if len(self.found) + len(self.folders) >= self._bounds.entries:
            raise _too_many()
        if stat.S_ISDIR(about.st_mode):
            return self._subfolder(folder, name, about, path, depth)
        if not (stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
            return None
        known = self._known.get(path)
        if known is None or not known.settled or known.stamp != Stamp.of(about):
            known = self._look(folder, name, about, known)
        if known is None:
            return None
        self.found[path] = known
        return known.state

    def _subfolder(self, folder: Folder, name: str, about: os.stat_result, path: str, depth: int) -> State | None:
        if depth == MAX_DEPTH:
            return self._noted(path, about, "deeper than checkpoints go")
        try:
            child = folder.child(name)
        except FileNotFoundError:
            return None
        except OSError:
            return self._noted(path, about, "a folder that cannot be opened")
        with child:
            self.folders.append(f"{path}/")
            return State(stat.S_IFDIR, self.folder(child, f"{path}/", depth + 1))

    def _noted(self, path: str, about: os.stat_result, why: str) -> State:
        state = self._objects.put_note(0, about.st_mtime_ns, why)
        self.found[path] = Seen(Stamp.of(about), state, settled=True)
        return state

    def _look(self, folder: Folder, name: str, about: os.stat_result, known: Seen | None) -> Seen | None:
        """Read a file or a link that is new or may have changed; None where it is gone again."""
        now = time.time_ns()
        try:
            if stat.S_ISLNK(about.st_mode):
                data = os.fsencode(folder.read_link(name))
                return Seen(Stamp.of(about), State(stat.S_IFLNK, self._objects.put(data)), _settled(about, now))
            with os.fdopen(folder.open_read(name), "rb") as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    return None
                limit = self._bounds.file_bytes
                data = file.read(limit + 1) if about.st_size <= limit else b""
        except FileNotFoundError:
            return None
        except OSError:
            state = self._objects.put_note(about.st_size, about.st_mtime_ns, "a file that may not be read")
            return Seen(Stamp.of(about), state, settled=True)
        return Seen(Stamp.of(about), self._stored(about, data, known), _settled(about, now))

    def _stored(self, about: os.stat_result, data: bytes, known: Seen | None) -> State:
        if max(about.st_size, len(data)) > self._bounds.file_bytes:
            return self._objects.put_note(about.st_size, about.st_mtime_ns, "too large to be kept")
        room = self._room + (known.stamp.size if known and not known.state.noted else 0)
        if len(data) > room:
            why = "more than the checkpoints of one workspace may hold"
            return self._objects.put_note(about.st_size, about.st_mtime_ns, why)
        self._room = room - len(data)
        return State(stat.S_IFREG | stat.S_IMODE(about.st_mode) & 0o777, self._objects.put(data))


def _count(folder: Folder, left: int, depth: int) -> int:
    """Raises Refused where more than `left` things are found; returns how many more there could be."""
    for name, about in folder.scan():
        if name in IGNORED:
            continue
        left -= 1
        if stat.S_ISDIR(about.st_mode) and depth < MAX_DEPTH:
            with suppress(OSError), folder.child(name) as child:
                left = _count(child, left, depth + 1)
        if left < 0:
            raise _too_many()
    return left


def _too_many() -> Refused:
    return Refused("the workspace holds too many files for checkpoints")


def _settled(about: os.stat_result, now: int) -> bool:
    """Has the clock of the file system ticked since the file last changed? It ticks each 10 ms at most, where it counts
    whole seconds each 2 s at most. Until it has, another change of the same size could leave the same stamp."""
    grain = 2_100_000_000 if about.st_ctime_ns % 1_000_000_000 == 0 else 100_000_000
    return about.st_ctime_ns < now - grain
