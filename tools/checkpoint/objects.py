"""Where the contents of checkpoints are kept: a bare git repository of its own, outside the workspace.

A checkpoint is a git tree, and its id is the tree's: the same files are the same checkpoint, whenever it is taken.
Every checkpoint has a ref under `refs/checkpoints/<day>/`, so any git can look into the folder, and what is older than
KEEP_DAYS can be let go.

Knows blobs, trees and how two trees differ. Refuses to know the disk of the workspace, and what a difference is worth.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

from dulwich.file import FileLocked
from dulwich.gc import prune_unreachable_objects
from dulwich.objects import Blob, ObjectID, Tree, valid_hexsha
from dulwich.refs import Ref
from dulwich.repo import Repo

from agent.errors import Refused

KEEP_DAYS = 30
"""How long a checkpoint can be gone back to after it was taken."""

_GRACE_SECONDS = 24 * 3600
"""No object younger than this is removed: another process may be about to refer to it."""

NOTED = 0o160000
"""The mode of what is only noted: too large, or closed to us. Git keeps it for things that lie elsewhere."""

_LAST = "refs/heads/last"


class State(NamedTuple):
    """What stands at one path: equal states are equal files."""

    mode: int
    """As `stat` has it, kind and permissions; NOTED for what is not stored."""
    id: bytes
    """The content's git id; empty for a folder, whose content is told by other paths."""

    @property
    def noted(self) -> bool:
        return self.mode == NOTED

    @property
    def link(self) -> bool:
        return stat.S_ISLNK(self.mode)


FOLDER = State(stat.S_IFDIR, b"")


class Difference(NamedTuple):
    path: str
    """From the root, with '/' between the names. A folder's ends with '/', so it is never mistaken for a file's."""
    old: State | None
    new: State | None


class Objects:
    """One repository. Writing the same thing twice writes nothing."""

    def __init__(self, folder: Path) -> None:
        if not (folder / "HEAD").exists():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            Repo.init_bare(str(folder), default_branch=b"last").close()
        self._folder = folder
        self._kept = ("", "")
        self._repo = Repo(str(folder))
        self._store = self._repo.object_store
        self._store.loose_compression_level = 1  # a snapshot is waited for; level 6 takes twice as long for 5 % less

    def close(self) -> None:
        self._repo.close()

    # ------------------------------------------------------------------ writing

    def put(self, data: bytes) -> bytes:
        """Keep a file's bytes; return their id."""
        return self._add(Blob.from_string(data))

    def put_note(self, size: int, mtime_ns: int, why: str) -> State:
        """Keep a note in place of a file's bytes."""
        note = {"size": size, "mtime_ns": mtime_ns, "why": why}
        return State(NOTED, self.put(json.dumps(note).encode()))

    def put_tree(self, entries: list[tuple[bytes, int, bytes]]) -> bytes:
        """Keep a folder of (name, mode, id); return its id."""
        tree = Tree()
        for name, mode, id in entries:
            tree.add(name, mode, ObjectID(id))
        return self._add(tree)

    def _add(self, thing: Blob | Tree) -> bytes:
        try:
            self._store.add_object(thing)
        except FileLocked as error:  # a process died while it wrote exactly this
            os.unlink(error.lockfilename)
            self._store.add_object(thing)
        return bytes(thing.id)

    def keep(self, checkpoint: str) -> None:
        """Protect a checkpoint from being pruned, and remember it as the last one."""
        kept = (checkpoint, _day(time.time()))
        if kept != self._kept:
            self._refer(f"refs/checkpoints/{kept[1]}/{checkpoint}", checkpoint)
            self._refer(_LAST, checkpoint)
            self._kept = kept

    def _refer(self, ref: str, id: str) -> None:
        """Not with the library's own writer: the lock that it leaves when it is killed would keep us out for ever."""
        path = self._folder / ref
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        temporary.write_text(f"{id}\n")
        os.replace(temporary, path)

    def last(self) -> str | None:
        """The last checkpoint taken, by whatever process."""
        try:
            return self._repo.refs[Ref(_LAST.encode())].decode()
        except KeyError:
            return None

    def prune(self, now: float | None = None) -> int:
        """Let go of checkpoints older than KEEP_DAYS; return how many objects were removed. Takes seconds."""
        oldest = _day((time.time() if now is None else now) - KEEP_DAYS * 24 * 3600)
        for day in (self._folder / "refs" / "checkpoints").glob("*"):
            if day.name < oldest:
                shutil.rmtree(day)
        removed, _ = prune_unreachable_objects(self._store, self._repo.refs, _GRACE_SECONDS)
        return len(removed)

    @property
    def forgotten(self) -> bool:
        """Is no checkpoint left? The workspace was not used for KEEP_DAYS, or is gone."""
        return not any((self._folder / "refs" / "checkpoints").glob("*/*"))

    # ------------------------------------------------------------------ reading

    def get(self, state: State) -> bytes:
        """The bytes behind a state: a file's content, a link's target. Raises Refused where they are gone."""
        return self._blob(state.id)

    def note(self, state: State) -> tuple[int, str]:
        """Of what is only noted: its size in bytes, and why."""
        note = json.loads(self._blob(state.id))
        return int(note["size"]), str(note["why"])

    def differences(self, old: str, new: str) -> Iterator[Difference]:
        """How two checkpoints differ, by path. Equal folders are not opened. Raises Refused for unknown ids."""
        yield from self._compare(old.encode(), new.encode(), "")

    def _compare(self, old: bytes | None, new: bytes | None, prefix: str) -> Iterator[Difference]:
        if old == new:
            return
        before, after = self._entries(old), self._entries(new)
        for name in sorted(before.keys() | after.keys()):
            left, right = before.get(name), after.get(name)
            if left == right:
                continue
            path = prefix + os.fsdecode(name)
            old_folder, new_folder = _folder_id(left), _folder_id(right)
            old_file, new_file = (None if old_folder else left), (None if new_folder else right)
            if old_file != new_file:
                yield Difference(path, old_file, new_file)
            if (old_folder is None) != (new_folder is None):
                yield Difference(f"{path}/", FOLDER if old_folder else None, FOLDER if new_folder else None)
            yield from self._compare(old_folder, new_folder, f"{path}/")

    def _entries(self, id: bytes | None) -> dict[bytes, State]:
        if id is None:
            return {}
        try:
            tree = self._store[_checked(id)]
        except KeyError:
            raise Refused("this checkpoint is not kept any more") from None
        if not isinstance(tree, Tree):
            raise Refused("this is not a checkpoint")
        return {entry.path: State(entry.mode, bytes(entry.sha)) for entry in tree.iteritems()}

    def _blob(self, id: bytes) -> bytes:
        try:
            blob = self._store[_checked(id)]
        except KeyError:
            raise Refused("the content of this checkpoint is not kept any more") from None
        return blob.as_raw_string()


def _day(at: float) -> str:
    return datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%d")


def _folder_id(state: State | None) -> bytes | None:
    return state.id if state is not None and stat.S_ISDIR(state.mode) else None


def _checked(id: bytes) -> ObjectID:
    if not valid_hexsha(id):
        raise KeyError(id)
    return ObjectID(id)
