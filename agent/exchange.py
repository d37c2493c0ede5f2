"""A session as one file: JSON lines, a header first, then the log's entries in order. A page can carry the lines, too.

What goes out has the secrets taken out of every text, and the header says so; handed-over files stay behind, only their
names go. What comes in is somebody's file and nothing in it is believed: it is small enough, every line is an entry,
the entries make a conversation, and then it is the history of a new session in which nothing is under way and nothing
is allowed.

Knows the format. Refuses to know who may export and where an import is kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from agent.errors import FAULT_CODES, Refused
from agent.events import (
    BranchSelected,
    CallAwaiting,
    CallDecided,
    CallDelta,
    CallFinished,
    CallStarted,
    Compacted,
    Delegated,
    Event,
    File,
    FinishRequested,
    Nudged,
    OutputDelta,
    PlanChanged,
    Proved,
    ReasoningDelta,
    Recalled,
    Replied,
    RequestSent,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from agent.log import Entry, dump_entry, load_entry
from agent.split_secrets import without_split_secrets
from agent.transcript import Transcript

FORMAT = "glassloop-session"
VERSION = 1

MAX_BYTES = 64 << 20
MAX_LINE = 8 << 20
MAX_ENTRIES = 200_000
"""An import larger than any of these is refused; a session of 10,000 events takes 2 MB."""
MAX_AT = 253_402_300_799
"""The last second of the year 9999: no calendar goes further."""
MAX_NUMBER = 1 << 64
"""Nothing that an event counts is more, and budgets and pages have to reckon with it."""

HISTORY = (
    TurnStarted,
    Steered,
    Recalled,
    BranchSelected,
    StepStarted,
    RequestSent,
    TextDelta,
    ReasoningDelta,
    CallDelta,
    Retrying,
    Replied,
    CallAwaiting,
    CallDecided,
    TurnResumed,
    CallStarted,
    OutputDelta,
    CallFinished,
    Delegated,
    Nudged,
    PlanChanged,
    Proved,
    Compacted,
    FinishRequested,
    TurnEnded,
)
"""What an import takes over. Everything else stays out: what waits to be sent, what a person allowed, what can be
undone holds where it happened and nowhere else."""


class Header(BaseModel):
    """The first line."""

    model_config = ConfigDict(extra="ignore")
    format: str = Field(pattern=f"^{FORMAT}$")
    version: int = Field(ge=1)
    title: str = Field(default="", max_length=1_000)
    entries: int = Field(ge=0)
    scrubbed: bool = False


def export_lines(title: str, entries: Sequence[Entry], scrub: Callable[[str], str]) -> Iterator[str]:
    """The file's lines, each with its line end. `scrub` takes the secrets out of a text."""
    header = Header(format=FORMAT, version=VERSION, title=scrub(title), entries=len(entries), scrubbed=True)
    yield header.model_dump_json() + "\n"
    for entry in without_split_secrets(entries, scrub):
        event = _files_replaced(entry.event, lambda file: replace(file, path=""))
        data = _strings(dump_entry(replace(entry, event=event)), scrub)
        yield json.dumps(data, default=str) + "\n"


_CARRIER, _CARRIER_END = '<script type="application/json" id="glassloop-session">', "</script>"


def carrier(lines: Iterable[str]) -> str:
    """The lines as an element of an HTML page that does nothing and shows nothing: `import_lines` reads such a page."""
    return _CARRIER + "\n" + "".join(lines).replace("<", "\\u003c") + _CARRIER_END


def _carried(content: bytes) -> bytes:
    """The lines that a page carries; content that is no page as it is."""
    if not content.lstrip().startswith(b"<"):
        return content
    lines = content.partition(_CARRIER.encode())[2]
    return lines.partition(_CARRIER_END.encode())[0].strip()


@dataclass(frozen=True)
class Imported:
    title: str
    entries: list[Entry]


def import_lines(content: bytes, at: float, file_names: bool = False) -> Imported:
    """Read such a file, or a page that carries one; what had to be added to bring it to rest gets the time `at`.

    `file_names`: the cards of handed-over files come along, for a reader who gives nothing out. Their place never does.
    Raises Refused with the line that is wrong.
    """
    content = _carried(content)
    if len(content) > MAX_BYTES:
        raise Refused(f"the file is larger than {MAX_BYTES >> 20} MB")
    first, *lines = content.splitlines()[: MAX_ENTRIES + 2] or [b""]
    header = read_header(first)
    if len(lines) != header.entries or len(lines) > MAX_ENTRIES:
        raise Refused("the file is cut off, or has too many lines")
    if not lines:
        raise Refused("there is nothing in the file")
    events: list[tuple[float, Event]] = []
    history = _History()
    for number, line in enumerate(lines, start=2):
        entry = _entry(number, line)
        if _is_taken(entry.event):
            try:
                event = history.add(_disarmed(entry.event, file_names))
            except (KeyError, ValueError):
                raise Refused(f"line {number} does not follow from the lines before it") from None
            events.append((entry.at, event))
    events += [(at, event) for event in history.rest()]
    return Imported(header.title, [Entry(seq, at, event) for seq, (at, event) in enumerate(events)])


# ---------------------------------------------------------------------- one line


def read_header(line: bytes) -> Header:
    """The header from a file's first line. Raises Refused for what is none, and for a newer format."""
    try:
        header = Header.model_validate_json(line)
    except ValidationError:
        raise Refused("the file is no exported session") from None
    if header.version > VERSION:
        raise Refused(f"the file was made by a newer version of this app (its format is {header.version})")
    return header


def _entry(number: int, line: bytes) -> Entry:
    if len(line) > MAX_LINE:
        raise Refused(f"line {number} is too long")
    try:
        entry = load_entry(json.loads(line))
        sound = _is_sound(entry.event)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused(f"line {number} is no entry of a log") from None
    if not 0 <= entry.at <= MAX_AT:
        raise Refused(f"line {number} has no time")
    if not sound:
        raise Refused(f"line {number} holds a number that cannot be")
    return entry


def _is_sound(value: Any, least: int = 0) -> bool:
    """Can every number in it be reckoned with? What an event counts is never below zero; facts beside it may be."""
    if isinstance(value, (int, float)):
        return least <= value <= MAX_NUMBER  # which not-a-number is not
    if isinstance(value, Mapping):
        return all(_is_sound(one, -MAX_NUMBER) for one in value.values())
    if isinstance(value, (list, tuple)):
        return all(_is_sound(one, least) for one in value)
    return not is_dataclass(value) or all(_is_sound(getattr(value, f.name), least) for f in fields(value))


def _is_taken(event: Event) -> bool:
    """Of a sub-agent's events the same are taken; a sub-agent has none of its own."""
    if isinstance(event, Delegated):
        return isinstance(event.event, HISTORY) and not isinstance(event.event, Delegated)
    return isinstance(event, HISTORY)


def _disarmed(event: Event, file_names: bool) -> Event:
    """Without files and without fields that would go to a model's server unread; faults are ones we have words for.
    What somebody else's messages expect is no wish of whoever goes on here: a line of it may be a command."""
    if isinstance(event, Delegated):
        return replace(event, event=_disarmed(event.event, file_names))
    event = _files_replaced(event, lambda file: replace(file, path="") if file_names else None)
    if isinstance(event, (TurnStarted, Steered)) and not file_names:
        return replace(event, message=replace(event.message, expects=()))
    if isinstance(event, TurnEnded) and event.fault is not None and event.fault.code not in FAULT_CODES:
        return replace(event, fault=replace(event.fault, code="provider_error"))
    if isinstance(event, Replied):
        calls = tuple(replace(call, extra={}) for call in event.message.tool_calls)
        return replace(event, message=replace(event.message, tool_calls=calls, extra={}))
    return event


def _files_replaced(value: Any, change: Callable[[File], File | None]) -> Any:
    """The same event with each handed-over file changed, or left out for None."""
    if isinstance(value, tuple) and any(isinstance(item, File) for item in value):
        return tuple(kept for item in value if (kept := change(item)) is not None)
    if not is_dataclass(value) or isinstance(value, type):
        return value
    return replace(value, **{f.name: _files_replaced(getattr(value, f.name), change) for f in fields(value)})


def _strings(value: Any, change: Callable[[str], str]) -> Any:
    """JSON data with every text in it changed, the names in objects too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, (list, tuple)):
        return [_strings(item, change) for item in value]
    if isinstance(value, dict):
        return {_strings(key, change): _strings(item, change) for key, item in value.items()}
    return value


# ---------------------------------------------------------------------- the lines together


class _History:
    """Events that make a conversation, checked one by one. Raises KeyError or ValueError for one that does not."""

    def __init__(self) -> None:
        self._transcript = Transcript()
        self._sent = 0  # messages in the last request
        self._running = False
        self._used_up = False  # did the turn end so that it can go on without a decision about a call?
        self._inner: dict[str, _History] = {}  # of the sub-agents at work, by the call that runs each

    def add(self, event: Event) -> Event:
        transcript = self._transcript
        if isinstance(event, (TurnStarted, BranchSelected)):
            _check(not self._running)
            follows = event.parent if isinstance(event, TurnStarted) else None
            _check(follows is None or not transcript.open_in(follows))
        elif isinstance(event, TurnResumed):
            _check(not self._running and event.turn == transcript.branches.leaf)
            _check(self._used_up or bool(transcript.open_calls))
        elif isinstance(event, (CallAwaiting, CallDecided, CallStarted, CallFinished, Delegated)):
            _check(event.call_id in transcript.open_calls)
        elif isinstance(event, TurnEnded):
            _check(event.turn == transcript.branches.leaf)
        else:
            _check(transcript.branches.leaf is not None and (self._running or isinstance(event, _AT_REST)))
        if isinstance(event, (StepStarted, Replied, Nudged, Recalled, Steered)):
            _check(not transcript.open_calls)
        if isinstance(event, Replied):
            _check_calls(event)
        if isinstance(event, Delegated):
            self._inner.setdefault(event.call_id, _History()).add(event.event)
        elif isinstance(event, CallFinished):
            self._inner.pop(event.call_id, None)
        if isinstance(event, RequestSent):
            _check(0 <= event.kept <= self._sent)
            self._sent = event.kept + len(event.messages)
        if isinstance(event, TurnEnded):
            self._used_up = event.reason in ("budget", "step_limit")
        transcript.add(event)
        self._running = self._running if not isinstance(event, _TURNING) else not isinstance(event, TurnEnded)
        return event

    def rest(self) -> Iterator[Event]:
        """What brings the conversation to rest: every call answered, every turn ended."""
        branches = self._transcript.branches
        leaf = branches.leaf
        for turn in list(branches.parents):
            calls = list(self._transcript.open_in(turn).values())
            if not calls and not (self._running and turn == leaf):
                continue
            if branches.leaf != turn:
                yield self._added(BranchSelected(turn))
            for call in calls:
                yield self._added(CallFinished(call.id, call.name, "interrupted", "Not run: the session was imported."))
            yield self._added(TurnEnded(turn, "interrupted"))
        if branches.leaf != leaf:
            yield self._added(BranchSelected(leaf))

    def _added(self, event: Event) -> Event:
        self._transcript.add(event)
        return event


_TURNING = (TurnStarted, TurnResumed, TurnEnded)
_AT_REST = (Nudged, FinishRequested)


def _check(holds: bool) -> None:
    if not holds:
        raise ValueError("this cannot follow here")


def _check_calls(event: Replied) -> None:
    """What the rest of the app takes for granted of a call."""
    calls = event.message.tool_calls
    _check(len({call.id for call in calls}) == len(calls))
    for call in calls:
        _check(bool(call.id) and isinstance(json.loads(call.arguments), dict))
