"""Undo: the files go back to what they were, and the conversation with them.

    FromTurn   this turn and all after it on the selected branch; the turn before becomes the last one
    OneCall    the changes of one call; the conversation stays, and the model is told
    OneUndo    an undo, which is how it is redone

What a call changed stands in its result's details, put there by whoever takes checkpoints. An undo is an event with the
same facts, so it can be undone like a call. What the person changed since is theirs: where it meets what is undone they
have to choose.

Knows the log and the conversation. Refuses to know how files are kept and put back: that is behind `Checkpoints`, which
the app hands in.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

from agent.branches import Branches
from agent.errors import Refused
from agent.events import (
    BranchSelected,
    CallFinished,
    Delegated,
    Event,
    FromTurn,
    Nudged,
    OneCall,
    OneUndo,
    TurnStarted,
    Undone,
    UndoTarget,
    id_within,
)

if TYPE_CHECKING:
    from agent.session import Session

T = TypeVar("T")

OnConflict = Literal["refuse", "keep_mine", "overwrite"]
"""Where somebody else's change would be undone too: do nothing at all, leave those files, or take them back as well."""

Span = tuple[str, str, bool]
"""The checkpoints before and after, and whether another session's call ran at the same time."""

Fact = Mapping[str, Any]
"""About one file: `path`, `change` ("added", "modified" or "deleted"), and more where it is known."""

_MAX_NAMED = 20


class Plan(Protocol):
    """What taking spans back would do."""

    @property
    def changes(self) -> Sequence[Fact]: ...
    @property
    def conflicts(self) -> Sequence[Fact]: ...
    @property
    def cannot(self) -> Sequence[str]: ...


class Checkpoints(Protocol):
    """Where the states of a workspace are kept. All methods raise Refused, worded for the person."""

    async def restore_preview(
        self, workspace: Path, spans: Sequence[Span], paths: Collection[str] | None = None
    ) -> Plan: ...

    async def restore(
        self,
        workspace: Path,
        spans: Sequence[Span],
        paths: Collection[str] | None = None,
        on_conflict: OnConflict = "refuse",
    ) -> Mapping[str, Any]:
        """Take spans back; what was done comes as facts: `before`, `checkpoint`, `changed`, and what was not done."""

    async def diff(self, workspace: Path, before: str, after: str, path: str) -> str: ...


@dataclass(frozen=True)
class Preview:
    """What an undo would do, for the person to look at before it is done."""

    turns: tuple[int, ...] = ()
    """The turns that would leave the conversation; empty where only files change, or come back."""
    changes: Sequence[Fact] = ()
    """What would happen to each file, conflicts among them."""
    conflicts: Sequence[Fact] = ()
    """The files that need a choice; `reason` is `edited` (by somebody else, after or between what is undone), `shared`
    (another session worked at the same time), `in_the_way` or `unstored` (too large: it would be gone for good)."""
    cannot: Sequence[str] = ()
    """Paths that cannot be brought back: what stood there was too large to be kept."""
    without_checkpoint: tuple[str, ...] = ()
    """Calls, by id, that ran without a checkpoint: what they changed stays."""


def changed_files(details: Mapping[str, Any]) -> Sequence[Fact]:
    """What a call or an undo changed, from its details; the list may be cut, `changed_total` is the number.

    Of an imported log they may say anything; what is no fact is left out."""
    listed = details.get("changed")
    return tuple(fact for fact in listed if isinstance(fact, Mapping)) if isinstance(listed, (list, tuple)) else ()


async def preview(session: Session, target: UndoTarget, paths: Collection[str] | None = None) -> Preview:
    """Look what `undo` would do. Raises Refused for a target that cannot be undone."""
    scope = _scope(session, target, paths)
    if not scope.spans:
        return Preview(scope.gone, without_checkpoint=scope.without_checkpoint)
    plan = await _checkpoints(session).restore_preview(session.workspace, scope.spans, paths)
    return Preview(scope.gone, plan.changes, plan.conflicts, plan.cannot, scope.without_checkpoint)


async def undo(
    session: Session, target: UndoTarget, paths: Collection[str] | None = None, on_conflict: OnConflict = "refuse"
) -> Undone:
    """Take changes back, all or only those of `paths`, and append what was done.

    The conversation moves where whole turns are undone; with `paths` only files do. Goes on to its end also when it is
    cancelled. Raises Refused, and then nothing has changed: for an unknown target, and for conflicts without a choice.
    """
    scope = _scope(session, target, paths)
    if not scope.moves and session.open_calls():
        raise Refused("a call waits for your decision; decide it first, then undo")
    details: dict[str, Any] = {}
    if scope.spans:
        restoring = _checkpoints(session).restore(session.workspace, scope.spans, paths, on_conflict)
        details = dict(await _to_the_end(restoring))
    if scope.without_checkpoint:
        details["without_checkpoint"] = list(scope.without_checkpoint)
    whole = scope.moves and not any(details.get(left) for left in ("kept", "cannot", "failed", "without_checkpoint"))
    leaf = session.transcript.branches.leaf
    gone = scope.gone if whole else ()
    only = None if paths is None else tuple(sorted(paths))
    done = Undone(secrets.token_hex(8), target, scope.moves, leaf, gone, scope.back, details, only)
    session.append(done)
    if scope.moves:
        session.append(BranchSelected(scope.leaf))
    elif changed_files(details) and scope.in_sight:
        session.append(Nudged("undone", _note(target, details)))
    return done


async def diff(session: Session, target: OneCall | OneUndo, path: str) -> str:
    """Unified diff of one file that a call or an undo changed. Raises Refused where it did not."""
    records = [record for record in _of(session, target) if record.span]
    named = [record for record in records if any(fact["path"] == path for fact in changed_files(record.event.details))]
    spans = [record.span for record in named or records if record.span]
    if not spans:
        raise Refused("this call changed no files, or there is no checkpoint of it")
    return await _checkpoints(session).diff(session.workspace, spans[0][0], spans[-1][1], path)


# ------------------------------------------------------------------ what the log says


@dataclass(frozen=True)
class _Record:
    """A call that has its result, or an undo."""

    event: CallFinished | Undone
    turns: frozenset[int]
    """The turn the call belongs to; the turns whose changes the undo took back or brought again."""
    calls: tuple[str, ...] = ()
    """The ids the call goes by: a sub-agent's is also a part of the call that ran the sub-agent."""

    @property
    def span(self) -> Span | None:
        details = self.event.details
        if "before" not in details or "checkpoint" not in details:
            return None
        return str(details["before"]), str(details["checkpoint"]), bool(details.get("shared"))

    def is_of(self, target: UndoTarget) -> bool:
        if isinstance(self.event, Undone):
            return isinstance(target, OneUndo) and target.undo_id == self.event.id
        return isinstance(target, OneCall) and target.call_id in self.calls


@dataclass(frozen=True)
class _Scope:
    """What an undo takes back, and where it leads."""

    records: Sequence[_Record]
    gone: tuple[int, ...] = ()
    back: tuple[int, ...] = ()
    """The turns whose changes are not there any more, and those whose changes are there again: see `Undone`."""
    moves: bool = False
    """Does the conversation move, and so to `leaf`?"""
    leaf: int | None = None
    in_sight: bool = True
    """Does the model see the calls that are undone?"""

    @property
    def spans(self) -> list[Span]:
        return [record.span for record in self.records if record.span]

    @property
    def without_checkpoint(self) -> tuple[str, ...]:
        calls = [record.event for record in self.records if "no_checkpoint" in record.event.details]
        return tuple(event.call_id for event in calls if isinstance(event, CallFinished))


def _records(session: Session) -> Iterator[_Record]:
    """The log's calls and undos, in the order in which they were done."""
    branches, known = Branches(), dict[str, frozenset[int]]()
    for entry in session.log.since(0):
        event = entry.event
        if isinstance(event, (TurnStarted, BranchSelected)):
            branches.add(event)
        elif (done := _finished(event)) and branches.leaf is not None:
            call, ids = done
            known.update(dict.fromkeys(ids, frozenset({branches.leaf})))
            yield _Record(call, known[ids[0]], ids)
        elif isinstance(event, Undone):
            target = event.target
            if isinstance(target, FromTurn):
                path = branches.path(event.leaf)
                known[event.id] = frozenset(path[path.index(target.turn) :])
            else:
                known[event.id] = known[target.call_id if isinstance(target, OneCall) else target.undo_id]
            yield _Record(event, known[event.id])


def _finished(event: Event) -> tuple[CallFinished, tuple[str, ...]] | None:
    """A call that has its result, of the agent or of a sub-agent, with the ids it goes by."""
    if isinstance(event, Delegated) and isinstance(event.event, CallFinished):
        return event.event, (id_within(event.call_id, event.event.call_id), event.call_id)
    return (event, (event.call_id,)) if isinstance(event, CallFinished) else None


def _of(session: Session, target: OneCall | OneUndo) -> list[_Record]:
    """What was done in this call, or by this undo. An id that comes again in another turn means the first one."""
    records = [record for record in _records(session) if record.is_of(target)]
    return [record for record in records if record.turns == records[0].turns]


def _scope(session: Session, target: UndoTarget, paths: Collection[str] | None) -> _Scope:
    """Raises Refused for a target that is not there, or not on the selected branch."""
    branches = session.transcript.branches
    path = branches.path(branches.leaf)
    if isinstance(target, FromTurn):
        if target.turn not in path:
            raise Refused("this turn is not on the branch that is shown")
        turns = path[path.index(target.turn) :]
        records = [record for record in _records(session) if record.turns & set(turns)]
        if paths is not None:
            return _Scope(records)
        undone = {turn for record in records if isinstance(record.event, Undone) for turn in record.turns}
        return _Scope(records, tuple(turns), tuple(undone - set(turns)), True, branches.parents[target.turn])
    records = _of(session, target)
    done = records[0].event if records else None
    if isinstance(done, Undone) and done.moved and paths is None:
        return _Scope(records, done.back, done.gone, True, done.leaf)
    if not any(record.span for record in records):
        raise Refused("this call changed no files, or there is no checkpoint of it")
    return _Scope(records, in_sight=bool(records[0].turns & set(path)))


def _checkpoints(session: Session) -> Checkpoints:
    if session.agent.checkpoints is None:
        raise Refused("checkpoints are switched off here, so files cannot be put back")
    return session.agent.checkpoints


def _note(target: UndoTarget, details: Mapping[str, Any]) -> str:
    """What the model is told of files that are no longer as its calls left them."""
    names = [str(fact["path"]) for fact in changed_files(details)]
    more = f" and {int(details.get('changed_total', 0)) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    what = "brought back changes to files that were undone" if isinstance(target, OneUndo) else "undid changes to files"
    return f"The user {what}: {', '.join(names[:_MAX_NAMED])}{more}. Read them again before you go on."


async def _to_the_end(work: Awaitable[T]) -> T:
    """Wait for it whatever happens: half an undo is worse than a late stop."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()
