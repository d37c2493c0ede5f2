"""A session's log as the events that programs read: few, small, and named after what a chat shows.

    assistant_start    a model call begins; once more for the same step: what it has said so far is void
    message_delta      a piece of the answer (`text`) or of the reasoning before it (`reasoning`)
    tool_call_start    a call runs
    tool_call_result   its one result, also where it never ran
                       (both have `parent` where a sub-agent made the call: the id of the call that runs it)
    attachment         a file was handed over
    plan               the model's checklist, whole, as it is now
    proof              what was looked at when the model said that it is done: `verdict`, `checks`, `claims`
    error              the turn failed, and why
    steered            a message sent with `steer` entered the turn: what follows is said with it in view
    message_end        the turn is over: how it ended, the whole answer, what it took, the calls that wait for someone

Each has an id: the seq of its entry, and `seq-1`, `seq-2` ... for further events of the same entry. A reader who was
cut off names the last id it has seen and misses nothing. Knows events. Refuses to know HTTP and sessions.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from agent.events import (
    CallAwaiting,
    CallDecided,
    CallFinished,
    CallStarted,
    Delegated,
    Event,
    PlanChanged,
    Proved,
    ReasoningDelta,
    Replied,
    Retrying,
    Steered,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Usage,
)
from agent.log import Entry
from agent.messages import ToolCall

Place = tuple[int, int]
"""The seq of an entry, and which of its events."""

START: Place = (-1, 0)
"""Before the first event."""

Named = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True)
class ApiEvent:
    place: Place
    name: str
    data: Mapping[str, Any]

    def frame(self) -> bytes:
        """As server-sent events are written."""
        seq, part = self.place
        id = f"{seq}-{part}" if part else f"{seq}"
        return f"id: {id}\nevent: {self.name}\ndata: {json.dumps(self.data, default=str)}\n\n".encode()


def place_of(id: str) -> Place:
    """The way back from an event's id. Raises ValueError for what is none."""
    found = re.fullmatch(r"([0-9]{1,9})(?:-([0-9]{1,4}))?", id)
    if found is None:
        raise ValueError(f"{id[:40]!r} is no id of an event")
    return int(found[1]), int(found[2] or 0)


class ApiEvents:
    """The fold of one session's log. It has to see all of it: a late event speaks of early calls."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id
        self._turn = self._step = 0
        self._calls: dict[str, ToolCall] = {}
        self._waiting: dict[str, CallAwaiting] = {}
        self._said: list[str] = []
        self._usage = Usage()
        self._inner: dict[str, ApiEvents] = {}  # of the sub-agents, by the call that runs each

    def add(self, entry: Entry) -> list[ApiEvent]:
        """What this entry is to a program; mostly nothing or one event."""
        return [ApiEvent((entry.seq, n), *named) for n, named in enumerate(self._named(entry.event, entry.seq))]

    def _named(self, event: Event, seq: int) -> Iterator[Named]:
        if isinstance(event, TurnStarted):
            self._turn, self._usage = event.turn, Usage()
            self._said.clear()
        elif isinstance(event, (StepStarted, Retrying)):
            yield self._start(event)
        elif isinstance(event, Steered):
            yield "steered", {"turn": self._turn, "text": event.message.text}
        elif isinstance(event, TextDelta):
            self._said.append(event.text)
            yield "message_delta", {"text": event.text}
        elif isinstance(event, ReasoningDelta):
            yield "message_delta", {"reasoning": event.text}
        elif isinstance(event, Replied):
            self._reply(event)
        elif isinstance(event, (CallAwaiting, CallDecided, TurnResumed)):
            self._ask(event)
        elif isinstance(event, CallStarted):
            yield "tool_call_start", self._call(event.call_id)
        elif isinstance(event, CallFinished):
            yield from self._result(event, seq)
        elif isinstance(event, Delegated):
            yield from self._inside(event, seq)
        elif isinstance(event, PlanChanged):
            yield "plan", {"turn": self._turn, **asdict(event)}
        elif isinstance(event, Proved):
            yield "proof", {"turn": self._turn, **asdict(event)}
        elif isinstance(event, TurnEnded):
            if event.fault:
                yield "error", {"turn": event.turn, **asdict(event.fault)}
            yield "message_end", self._end(event)

    def _start(self, event: StepStarted | Retrying) -> Named:
        self._said.clear()
        if isinstance(event, StepStarted):
            self._step = event.step
        data = {"session": self._session_id, "turn": self._turn, "step": self._step}
        if isinstance(event, Retrying):
            data |= {"attempt": event.attempt, "because": event.code, "seconds": event.seconds}
        return "assistant_start", data

    def _reply(self, event: Replied) -> None:
        self._said[:] = [event.message.text]
        self._calls.update((call.id, call) for call in event.message.tool_calls)
        self._count(event)

    def _inside(self, event: Delegated, seq: int) -> Iterator[Named]:
        """A sub-agent's calls, and what it spends. What it says and hands over comes as the call's result."""
        inner = self._inner.setdefault(event.call_id, ApiEvents(self._session_id))
        for name, data in inner._named(event.event, seq):
            if name in ("tool_call_start", "tool_call_result"):
                yield name, {**data, "parent": event.call_id}
        if isinstance(event.event, Replied):
            self._count(event.event)

    def _count(self, event: Replied) -> None:
        if event.usage:
            both = zip(asdict(self._usage).values(), asdict(event.usage).values(), strict=True)
            self._usage = Usage(*(before + now for before, now in both))

    def _ask(self, event: CallAwaiting | CallDecided | TurnResumed) -> None:
        if isinstance(event, TurnResumed):
            self._waiting.clear()
        elif isinstance(event, CallAwaiting):
            self._waiting[event.call_id] = event
        else:
            self._waiting.pop(event.call_id, None)
            if event.arguments is not None:  # the person changed them, and these run
                self._calls[event.call_id] = replace(self._calls[event.call_id], arguments=event.arguments)

    def _call(self, call_id: str) -> dict[str, Any]:
        call = self._calls[call_id]
        return {"call_id": call.id, "name": call.name, "arguments": json.loads(call.arguments)}

    def _result(self, event: CallFinished, seq: int) -> Iterator[Named]:
        self._waiting.pop(event.call_id, None)
        facts = {"call_id": event.call_id, "name": event.name, "status": event.status}
        yield "tool_call_result", {**facts, "text": event.text, "details": event.details}
        for index, file in enumerate(event.files):
            id = file_id(self._session_id, seq, index)
            card = {"id": id, "url": f"/api/files/{id}", "name": file.name, "mime": file.mime, "size": file.size}
            yield "attachment", {"call_id": event.call_id, **card}

    def _end(self, event: TurnEnded) -> dict[str, Any]:
        waiting = [
            {**self._call(id), "arguments_hash": asked.arguments_hash, "why": asked.why}
            for id, asked in self._waiting.items()
        ]
        return {
            "session": self._session_id,
            "turn": event.turn,
            "reason": event.reason,
            "text": "".join(self._said),
            "usage": asdict(self._usage),
            "meter": asdict(event.meter) if event.meter else None,
            "budget": asdict(event.budget) if event.budget else None,
            "waiting": waiting,
        }


def file_id(session_id: str, seq: int, index: int) -> str:
    """A handed-over file among all sessions'."""
    return f"{session_id}.{seq}-{index}"


def split_file_id(id: str) -> tuple[str, str]:
    """The session and the file in it (`ui/downloads.py` says what that means)."""
    session_id, _, file = id.partition(".")
    return session_id, file
