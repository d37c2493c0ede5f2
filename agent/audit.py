"""The audit trail: one row for each tool call, chained by hashes, so that a row changed afterwards is noticed.

Each row holds the hash of the one before it; a row's own hash is the SHA-256 of all its other fields as canonical JSON
(keys sorted, no spaces, UTF-8). The rows are derived from the log as it is written and outlive their session. What the
chain cannot show is that somebody rewrote all of it: who needs that proof keeps the head's hash elsewhere.

Knows how events become rows and how rows are checked and exported. Refuses to know where they are kept.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

from agent.events import (
    BranchSelected,
    CallAwaiting,
    CallDecided,
    CallFinished,
    CallStarted,
    Delegated,
    Replied,
    TurnStarted,
    id_within,
)
from agent.log import Entry
from agent.messages import ToolCall
from agent.policy import arguments_hash
from agent.tool import cut_middle

MAX_ARGUMENTS = 4_000
"""Characters of a call's arguments that a row keeps; the hash is of all of them."""


VerdictWord = Literal["allow", "deny", "none"]
DecidedBy = Literal["policy", "person", "rule", ""]


@dataclass(frozen=True)
class AuditRow:
    """What became of one tool call."""

    at: float
    """When it was answered, in seconds since the epoch."""
    owner: str
    session_id: str
    turn: int
    call_id: str
    tool: str
    arguments: str
    """Without secrets, cut to MAX_ARGUMENTS."""
    arguments_hash: str
    """`policy.arguments_hash`: what a decision was bound to."""
    verdict: VerdictWord
    """none: answered before anybody judged it, such as by a stop."""
    decided_by: DecidedBy
    """rule: policy asked, and something the person had allowed before answered."""
    status: str
    """As `CallFinished.status`."""
    seconds: float | None
    """How long it ran; None where it did not run, or its end was not seen."""
    bytes: int | None
    """Sizes of the files it changed, together, as they were afterwards; None where the result does not say."""
    n: int = 0
    """Its place in the chain, from 1."""
    previous: str = ""
    """The hash of row n - 1; empty for the first."""
    hash: str = ""


@dataclass
class _Call:
    call: ToolCall
    awaited: bool = False
    decided: CallDecided | None = None
    started: float | None = None
    by_rule: bool = False


class Trail:
    """A fold of one session's log. `row` looks, `add` goes on: an entry that could not be kept leaves no trace."""

    def __init__(self, owner: str, session_id: str, scrub: Callable[[str], str]) -> None:
        self._owner, self._session_id, self._scrub = owner, session_id, scrub
        self._turn: int | None = None
        self._calls: dict[tuple[int | None, str], _Call] = {}  # a call id may come again in another turn
        self._inner: dict[str, Trail] = {}  # of the sub-agents at work, by the call that runs each

    def row(self, entry: Entry) -> AuditRow | None:
        """The row that this entry makes, without its place in the chain."""
        event = entry.event
        if isinstance(event, Delegated):
            return self._inner_row(event, entry)
        if not isinstance(event, CallFinished) or (known := self._calls.get((self._turn, event.call_id))) is None:
            return None
        verdict, decided_by = _judged(known, event)
        timed = known.started is not None and event.status != "interrupted"
        return AuditRow(
            at=entry.at,
            owner=self._owner,
            session_id=self._session_id,
            turn=self._turn or 0,
            call_id=event.call_id,
            tool=event.name,
            arguments=cut_middle(self._scrub(known.call.arguments), MAX_ARGUMENTS),
            arguments_hash=arguments_hash(known.call),
            verdict=verdict,
            decided_by=decided_by,
            status=event.status,
            seconds=round(entry.at - (known.started or 0), 3) if timed else None,
            bytes=_bytes_changed(event),
        )

    def _inner_row(self, event: Delegated, entry: Entry) -> AuditRow | None:
        """A sub-agent's call is a call of the turn that it works for."""
        trail = self._inner.get(event.call_id)
        row = trail.row(replace(entry, event=event.event)) if trail else None
        return row and replace(row, turn=self._turn or 0, call_id=id_within(event.call_id, row.call_id))

    def add(self, entry: Entry) -> None:
        event = entry.event
        if isinstance(event, Delegated):
            trail = self._inner.setdefault(event.call_id, Trail(self._owner, self._session_id, self._scrub))
            trail.add(replace(entry, event=event.event))
        elif isinstance(event, (TurnStarted, BranchSelected)):
            self._turn = event.turn
        elif isinstance(event, Replied):
            for call in event.message.tool_calls:
                self._calls[self._turn, call.id] = _Call(call)
        elif isinstance(event, CallFinished):
            self._calls.pop((self._turn, event.call_id), None)
            self._inner.pop(event.call_id, None)
        elif isinstance(event, CallAwaiting):
            self._calls[self._turn, event.call_id].awaited = True
        elif isinstance(event, CallDecided):
            known = self._calls[self._turn, event.call_id]
            known.decided = event
            if event.arguments is not None:  # the person changed them, and these run
                known.call = replace(known.call, arguments=event.arguments)
        elif isinstance(event, CallStarted):
            known = self._calls[self._turn, event.call_id]
            known.started = entry.at
            known.by_rule = bool(event.rules)


def _judged(known: _Call, event: CallFinished) -> tuple[VerdictWord, DecidedBy]:
    if known.decided is not None:
        return ("allow" if known.decided.allowed else "deny"), "person"
    if known.started is not None:
        return "allow", ("rule" if known.by_rule else "policy")
    if event.status == "denied" and not known.awaited:
        return "deny", "policy"
    return "none", ""


def _bytes_changed(event: CallFinished) -> int | None:
    """The sizes of the changed files that the result names, together."""
    changed = event.details.get("changed")
    if not isinstance(changed, (list, tuple)):
        return None
    sizes = [fact.get("bytes") for fact in changed if isinstance(fact, Mapping)]
    return sum(size for size in sizes if type(size) is int)


# ---------------------------------------------------------------------- the chain


def chained(row: AuditRow, n: int, previous: str) -> AuditRow:
    """The row at its place in the chain."""
    placed = replace(row, n=n, previous=previous)
    return replace(placed, hash=row_hash(placed))


def row_hash(row: AuditRow) -> str:
    fields = {name: value for name, value in dataclasses.asdict(row).items() if name != "hash"}
    canonical = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()


class AuditSource(Protocol):
    """Where rows are kept: the store."""

    def audit_rows(self) -> Iterable[AuditRow]: ...

    def audit_head(self) -> tuple[int, str]: ...


@dataclass(frozen=True)
class AuditReport:
    rows: int
    """Rows that are sound, counted from the first."""
    head: str
    """The hash of the last sound row: to be noted elsewhere."""
    broken: int | None = None
    """The first row that is not as it was written; None where all are."""
    why: str = ""

    @property
    def ok(self) -> bool:
        return self.broken is None


def verify(store: AuditSource) -> AuditReport:
    """Check the whole chain and name the first row that was edited, removed, added or moved."""
    count, head = store.audit_head()
    n, previous = 0, ""
    for row in store.audit_rows():
        if row.n != n + 1:
            return AuditReport(n, previous, n + 1, f"row {n + 1} is missing")
        if row.previous != previous:
            return AuditReport(n, previous, row.n, f"row {row.n} does not follow row {n}")
        if row.hash != row_hash(row):
            return AuditReport(n, previous, row.n, f"row {row.n} was changed")
        n, previous = row.n, row.hash
    if n < count:
        return AuditReport(n, previous, n + 1, f"row {n + 1} is missing")
    if (n, previous) != (count, head):
        return AuditReport(n, previous, count + 1, f"row {count + 1} was added, or the head was changed")
    return AuditReport(n, previous)


# ---------------------------------------------------------------------- export

FORMULA_STARTS = ("=", "+", "-", "@", "|", "%", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def as_json_lines(rows: Iterable[AuditRow]) -> Iterator[str]:
    """One JSON object a line, without line ends."""
    for row in rows:
        yield json.dumps(dataclasses.asdict(row), ensure_ascii=False)


def as_csv(rows: Iterable[AuditRow]) -> Iterator[str]:
    """Lines of CSV with a header, without line ends. No cell can be taken for a formula by a spreadsheet."""
    names = [field.name for field in dataclasses.fields(AuditRow)]
    yield _csv_line(names)
    for row in rows:
        yield _csv_line([_cell(getattr(row, name)) for name in names])


def _csv_line(cells: list[Any]) -> str:
    text = io.StringIO()
    csv.writer(text).writerow(cells)
    return text.getvalue().removesuffix("\r\n")


def _cell(value: Any) -> Any:
    """A quote in front of what a spreadsheet would run: a formula starts with one of these (OWASP, CSV injection)."""
    if isinstance(value, str) and value.lstrip("\0 ").startswith(FORMULA_STARTS):
        return "'" + value
    return value
