"""The checkpoints of one workspace, one after another.

Knows the order of things: a snapshot, then what it is compared with or what is carried out, and nothing in between.
Refuses to know calls and threads (`checkpoints.py`). Every method blocks, and waits while another one is at work.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from agent.errors import Refused
from tools.checkpoint import facts
from tools.checkpoint.objects import Objects
from tools.checkpoint.plan import Plan, Span, Step, make_plan
from tools.checkpoint.put_back import PutBack
from tools.checkpoint.scan import Bounds, Scanner, Snapshot

logger = logging.getLogger(__name__)

OnConflict = Literal["refuse", "keep_mine", "overwrite"]
"""Where somebody else's change would be undone too: do nothing at all, leave those files, or take them back as well."""


Facts = dict[str, Any]
"""What is told of a call: `Checkpoints.around` says which there are."""


class Timeline:
    """One workspace's, in a folder of its own."""

    def __init__(self, root: Path, folder: Path, bounds: Bounds, lock: threading.Lock) -> None:
        """`lock` is held while anything is done in `folder`."""
        self._root = root
        self._folder = folder
        self._bounds = bounds
        self._lock = lock
        self._objects: Objects | None = None
        self._scanner: Scanner | None = None

    def before(self, alone: bool) -> Facts:
        """Take the checkpoint before a call. `alone`: no other call can have changed anything since the last one."""

        def facts_before() -> Facts:
            last, now = self._open().last(), self._snapshot()
            if not alone or last in (None, now.id):
                return {"before": now.id}
            return {"before": now.id, "yours": self._changes(last, now.id)}

        return self._or_why_not(facts_before)

    def after(self, before: Facts, shared: bool) -> Facts:
        """The facts of a call that is over; `before` is what its beginning gave."""
        if "before" not in before:
            return before

        def facts_after() -> Facts:
            now = self._snapshot()
            if now.id == before["before"] and "yours" not in before:
                return {}
            found = before | {"checkpoint": now.id} | self._changes(before["before"], now.id)
            return found | {"shared": True} if shared else found

        return self._or_why_not(facts_after)

    def diff(self, before: str, after: str, path: str) -> str:
        """Unified diff of one path, as `facts.told` writes it. Raises Refused where it did not change."""
        with self._lock:
            objects = self._open()
            for name, old, new in objects.differences(before, after):
                if facts.told(name) == path and not name.endswith("/"):
                    return facts.difference(objects, name, old, new)
        raise Refused("this file did not change there")

    def plan(self, spans: Sequence[Span], paths: Collection[str] | None) -> Plan:
        with self._lock, _explained("nothing was looked at"):
            return make_plan(self._open(), self._snapshot(), spans, paths)

    def restore(self, spans: Sequence[Span], paths: Collection[str] | None, on_conflict: OnConflict) -> Facts:
        """Carry a plan out that is made at this moment. Raises Refused as `Checkpoints.restore` says."""
        with self._lock:
            with _explained("nothing was undone"):
                objects, now = self._open(), self._snapshot()
                plan = make_plan(objects, now, spans, paths)
            disputed = [step for step in plan.steps if step.reason]
            if disputed and on_conflict == "refuse":
                raise Refused(_conflict_text(disputed))
            steps = [step for step in plan.steps if not step.reason or on_conflict == "overwrite"]
            work = PutBack(self._root, now, objects.get)
            work.run(steps)
            with _explained("what was put back cannot be told"):
                after = self._snapshot()
                done = {"before": now.id, "checkpoint": after.id} | self._changes(now.id, after.id)
        left = {
            "kept": plan.conflicts if on_conflict == "keep_mine" else [],
            "cannot": plan.cannot,
            "failed": [{"path": facts.told(path), "why": why} for path, why in work.failed.items()],
        }
        return done | {name: value for name, value in left.items() if value}

    def close(self) -> None:
        with self._lock:
            if self._objects is not None:
                self._objects.close()
                self._objects = None

    # ------------------------------------------------------------------ inside, with the lock held

    def _open(self) -> Objects:
        if self._objects is None:
            self._objects = Objects(self._folder)
            self._scanner = Scanner(self._root, self._objects, self._bounds)
        return self._objects

    def _snapshot(self) -> Snapshot:
        objects = self._open()
        assert self._scanner is not None
        snapshot = self._scanner.take()
        objects.keep(snapshot.id)
        return snapshot

    def _changes(self, before: str, after: str) -> Facts:
        return facts.changed(self._open(), self._open().differences(before, after))

    def _or_why_not(self, work: Callable[[], Facts]) -> Facts:
        """No checkpoint must not mean no work: what goes wrong becomes a fact."""
        with self._lock:
            try:
                return work()
            except Refused as error:
                return {"no_checkpoint": str(error)}
            except Exception as error:
                logger.exception("no checkpoint of %s", self._root)
                self._objects = None  # opened anew next time: the disk may have come back
                why = getattr(error, "strerror", None) or type(error).__name__
                return {"no_checkpoint": f"no checkpoint could be taken ({why})"}


@contextmanager
def _explained(so: str) -> Iterator[None]:
    """What our own disk, or the workspace's root, makes impossible is told to the person."""
    try:
        yield
    except OSError as error:
        raise Refused(f"no checkpoint could be taken ({error.strerror}), so {so}") from error


_WHY = {
    "edited": "changed since, by you or another call",
    "shared": "may have been changed by another session at the same time",
    "in_the_way": "something else stands in their place",
    "unstored": "too large to be kept, so they would be gone for good",
}


def _conflict_text(steps: Iterable[Step]) -> str:
    by_reason: dict[str, list[str]] = {}
    for step in steps:
        by_reason.setdefault(step.reason or "", []).append(step.path)
    parts = [f"{_WHY[reason]}: {facts.listed(paths)}" for reason, paths in by_reason.items()]
    return "nothing was undone, because it would take back more than was asked. " + "; ".join(parts)
