"""Checkpoints for all workspaces: taken around calls, compared, and gone back to.

Knows whose turn it is: one snapshot or restore at a time in a workspace, in a thread, and which calls run beside each
other. Refuses to know sessions and turns (`agent/undo.py`), and how anything is stored, found or written.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import threading
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import Refused
from agent.tool import ToolContext
from tools.checkpoint.objects import Objects
from tools.checkpoint.plan import Plan, Span
from tools.checkpoint.scan import Bounds
from tools.checkpoint.timeline import OnConflict, Timeline


@dataclass(eq=False)
class _RunningCall:
    shared: bool = False
    """Another call ran in the workspace at the same time: what changed may be its doing."""


class Checkpoints:
    """The checkpoints of this app, kept under `folder`. All async methods belong to one event loop."""

    def __init__(self, folder: Path, bounds: Bounds = Bounds()) -> None:  # noqa: B008 - it is frozen
        self._folder = folder
        self._bounds = bounds
        self._timelines: dict[Path, Timeline] = {}
        self._locks: dict[Path, threading.Lock] = {}
        """By the folder in which a workspace's checkpoints are kept."""
        self._calls: dict[Timeline, set[_RunningCall]] = {}

    # ------------------------------------------------------------------ around a call

    @asynccontextmanager
    async def around(self, context: ToolContext) -> AsyncIterator[None]:
        """Snapshot before and after, however the call ends; the facts go into `context.facts`.

        `before` and `checkpoint` are ids; `changed` and `changed_total` what is between them (see `facts.changed`);
        `yours` is the same of what was changed since the last checkpoint and by no call; `shared` is there where
        another session's call ran at the same time. No facts where nothing changed. `no_checkpoint` says why there is
        none: the call runs all the same.
        """
        timeline = self._of(context.workspace)
        with self._running(timeline) as call:
            before = await asyncio.to_thread(timeline.before, not call.shared)

            def after() -> None:
                context.facts.update(timeline.after(before, call.shared))

            try:
                yield
            finally:
                await _to_the_end(after)

    @contextmanager
    def _running(self, timeline: Timeline) -> Iterator[_RunningCall]:
        call, others = _RunningCall(), self._calls.setdefault(timeline, set())
        call.shared = bool(others)
        for other in others:
            other.shared = True
        others.add(call)
        try:
            yield call
        finally:
            others.discard(call)

    # ------------------------------------------------------------------ what the session asks for

    async def diff(self, workspace: Path, before: str, after: str, path: str) -> str:
        """Unified diff of one file between two checkpoints. Raises Refused where it did not change."""
        return await asyncio.to_thread(self._of(workspace).diff, before, after, path)

    async def restore_preview(
        self, workspace: Path, spans: Sequence[Span], paths: Collection[str] | None = None
    ) -> Plan:
        """What taking `spans` back would do now: see `plan.py`."""
        return await asyncio.to_thread(self._of(workspace).plan, spans, paths)

    async def restore(
        self,
        workspace: Path,
        spans: Sequence[Span],
        paths: Collection[str] | None = None,
        on_conflict: OnConflict = "refuse",
    ) -> Mapping[str, Any]:
        """Take `spans` back, all of it or only `paths`; return the facts, as around a call.

        `kept` lists the conflicts that were left alone, `cannot` the paths whose content was not stored, `failed` what
        the disk refused: `[{"path", "why"}, ...]`. Raises Refused, and nothing is touched, where there are conflicts
        and no choice, where a call runs in the workspace, and where there can be no checkpoint.
        """
        timeline = self._of(workspace)
        if self._calls.get(timeline):
            raise Refused("a tool is at work in this workspace; wait until it is done, or stop it")
        return await asyncio.to_thread(timeline.restore, spans, paths, on_conflict)

    def prune(self) -> int:
        """Let go of what is too old in all workspaces; blocks for seconds, so call it in a thread.

        A workspace that is just being looked through waits for its turn, as calls do.
        """
        folders = [folder for folder in self._folder.iterdir() if folder.is_dir()] if self._folder.is_dir() else []
        removed = 0
        for folder in folders:
            with self._locks.setdefault(folder, threading.Lock()):
                removed += _pruned(folder)
        return removed

    def forget(self, workspace: Path) -> None:
        """Remove all checkpoints of a workspace that is gone; blocks. Raises OSError."""
        timeline = self._of(workspace)
        timeline.close()
        del self._timelines[workspace.resolve()]
        folder = self._kept_in(workspace.resolve())
        with self._locks[folder]:
            if folder.is_dir():
                shutil.rmtree(folder)

    def close(self) -> None:
        for timeline in self._timelines.values():
            timeline.close()
        self._timelines.clear()

    def _of(self, root: Path) -> Timeline:
        root = root.resolve()
        if root not in self._timelines:
            if self._folder.resolve().is_relative_to(root):
                raise ValueError(f"checkpoints must be kept outside the workspace, not in {self._folder}")
            folder = self._kept_in(root)
            lock = self._locks.setdefault(folder, threading.Lock())
            self._timelines[root] = Timeline(root, folder, self._bounds, lock)
        return self._timelines[root]

    def _kept_in(self, root: Path) -> Path:
        return self._folder / hashlib.sha256(str(root).encode("utf-8", "surrogateescape")).hexdigest()[:24]


async def _to_the_end(work: Callable[[], None]) -> None:
    """Run `work` in a thread and wait for it also when cancelled; the cancellation goes on afterwards."""
    task = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _pruned(folder: Path) -> int:
    objects = Objects(folder)
    try:
        removed = objects.prune()
    finally:
        objects.close()
    if objects.forgotten:
        shutil.rmtree(folder)
    return removed
