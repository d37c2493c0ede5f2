"""What an undo would do, file by file, before anything is done.

An undo takes back *spans*: what the workspace was before and after each call that is undone, in their order. A file
goes back to what it was before the first span that changed it. Whether somebody else changed it shows by itself: a span
starts from something that the span before did not leave, or what stands there now is not what the last one left. That
is a conflict, and a person decides. Files that no span changed are never touched.

Knows checkpoints and the rules. Refuses to touch a disk, and to know calls, turns and sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from tools.checkpoint.facts import told
from tools.checkpoint.objects import FOLDER, Objects, State
from tools.checkpoint.scan import Snapshot

Reason = Literal[
    "edited",  # somebody changed the file after, or between, what is undone
    "shared",  # another session worked in the workspace at the same time: the change may be its
    "in_the_way",  # something else stands where the file has to go
    "unstored",  # what stands there is too large to be kept, so it would be gone for good
]

Span = tuple[str, str, bool]
"""The checkpoints before and after a call, and whether another session's call ran beside it."""


@dataclass(frozen=True)
class Step:
    """One path that has to change."""

    path: str
    want: State | None
    have: State | None
    reason: Reason | None = None
    """Why a person must agree; None where nobody else is concerned."""
    blockers: tuple[str, ...] = ()
    """Other files that would have to go: the file's parent, or what is in a folder of its name."""


@dataclass(frozen=True)
class Plan:
    """What would change, seen from one snapshot: carrying it out changes nothing else."""

    now: Snapshot
    steps: tuple[Step, ...]
    lost: tuple[str, ...]
    """Paths that cannot be brought back: their old content was too large to be kept."""

    @property
    def changes(self) -> list[dict[str, Any]]:
        """`[{"path", "change": "added"|"modified"|"deleted"}, ...]`: what undoing does to each file."""
        return [_described(step) for step in self.steps if not step.path.endswith("/")]

    @property
    def conflicts(self) -> list[dict[str, Any]]:
        """The changes that need a choice: the same, with `reason`."""
        return [_described(step) | {"reason": step.reason} for step in self.steps if step.reason]

    @property
    def cannot(self) -> list[str]:
        """The paths that stay as they are, because their old content was not kept."""
        return [told(path) for path in self.lost]


def make_plan(objects: Objects, now: Snapshot, spans: Sequence[Span], paths: Collection[str] | None = None) -> Plan:
    """Plan to take `spans` back, all or only `paths` (as `told`). Raises Refused for checkpoints that are gone."""
    history = _History()
    for before, after, shared in spans:
        for path, old, new in objects.differences(before, after):
            history.add(path, old, new, shared)
    steps, lost = [], []
    for path, want in history.first.items():
        have = now.state(path)
        if have == want or want == history.last[path] or not _is_wanted(path, paths):
            continue
        if want is not None and want.noted:
            lost.append(path)
        else:
            steps.append(Step(path, want, have, history.reason(path, have)))
    going = {step.path for step in steps if step.want is None}
    return Plan(now, tuple(_with_blockers(step, now, going) for step in sorted(steps, key=_by_path)), tuple(lost))


class _History:
    """What the spans did to each path, one after another."""

    def __init__(self) -> None:
        self.first: dict[str, State | None] = {}
        self.last: dict[str, State | None] = {}
        self._reasons: dict[str, Reason] = {}

    def add(self, path: str, old: State | None, new: State | None, shared: bool) -> None:
        if self.last.get(path, old) != old:
            self._reasons[path] = "edited"
        elif shared:
            self._reasons.setdefault(path, "shared")
        self.first.setdefault(path, old)
        self.last[path] = new

    def reason(self, path: str, have: State | None) -> Reason | None:
        if path.endswith("/"):
            return None  # a folder goes only when it is empty, and comes where nothing is in its way
        if path in self._reasons or have != self.last[path]:
            return self._reasons.get(path, "edited")
        return "unstored" if have is not None and have.noted else None


def _is_wanted(path: str, paths: Collection[str] | None) -> bool:
    """Is the path among the chosen ones, or a folder around one of them?"""
    if paths is None:
        return True
    name = told(path)
    return any(chosen.startswith(name) for chosen in paths) if path.endswith("/") else name in paths


def _with_blockers(step: Step, now: Snapshot, going: set[str]) -> Step:
    if step.want is None or step.want == FOLDER:
        return step
    blockers = tuple(path for path in _in_the_way(step.path, now) if path not in going)
    if not blockers:
        return step
    reason: Reason = "unstored" if any(now.seen[path].state.noted for path in blockers) else "in_the_way"
    return replace(step, reason=step.reason or reason, blockers=blockers)


def _in_the_way(path: str, now: Snapshot) -> Iterator[str]:
    names = path.split("/")
    for depth in range(1, len(names)):
        if (parent := "/".join(names[:depth])) in now.seen:
            yield parent
    if f"{path}/" in now.folders:
        yield from (other for other in now.seen if other.startswith(f"{path}/"))


def _described(step: Step) -> dict[str, Any]:
    change = "deleted" if step.want is None else "added" if step.have is None else "modified"
    return {"path": told(step.path), "change": change}


def _by_path(step: Step) -> list[str]:
    return step.path.split("/")
