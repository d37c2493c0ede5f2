"""The event log: append-only, in order, followed by any number of readers.

Knows entries, their order and who waits for the next one. Refuses to know what an event means, and where entries are
kept beyond this process: a `sink` is told of each entry before any reader is, and what it raises reaches the writer.
"""

from __future__ import annotations

import asyncio
import dataclasses
import re
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import TypeAdapter

from agent.events import Delegated, Event


@dataclass(frozen=True)
class Entry:
    """One event with its place and time."""

    seq: int
    """From 0, without gaps."""
    at: float
    """Seconds since the epoch."""
    event: Event


class EventLog:
    """One session's log. Lives in one event loop: append and follow from that loop only."""

    def __init__(
        self,
        entries: Sequence[Entry] = (),
        sink: Callable[[Entry], None] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._entries = list(entries)
        self._sink = sink
        self._clock = clock
        self._waiting: set[asyncio.Event] = set()

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def followed(self) -> bool:
        """Does any reader follow?"""
        return bool(self._waiting)

    def now(self) -> float:
        """The time that an entry appended now would get."""
        return self._clock()

    def since(self, seq: int) -> Sequence[Entry]:
        """The entries from `seq` on."""
        return self._entries[seq:]

    def append(self, event: Event) -> Entry:
        """Write first, then tell: a reader never knows more than the sink has kept."""
        entry = Entry(len(self._entries), self._clock(), event)
        if self._sink is not None:
            self._sink(entry)
        self._entries.append(entry)
        for bell in self._waiting:
            bell.set()
        return entry

    async def follow(self, seq: int = 0) -> AsyncGenerator[Sequence[Entry], None]:
        """Yield all entries from `seq` on, in batches, for ever: what is there at once, the rest as it is appended."""
        bell = asyncio.Event()
        self._waiting.add(bell)
        try:
            while True:
                bell.clear()
                batch = self.since(seq)
                if batch:
                    seq += len(batch)
                    yield batch
                else:
                    await bell.wait()
        finally:
            self._waiting.discard(bell)


_TYPES: Mapping[str, TypeAdapter[Any]] = {
    re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower(): TypeAdapter(cls) for cls in get_args(Event)
}
_NAMES = {cls: name for name, cls in zip(_TYPES, get_args(Event), strict=True)}


def dump_entry(entry: Entry) -> dict[str, Any]:
    """An entry as JSON data: `{"seq", "at", "type": "text_delta", ...the event's fields}`."""
    return {"seq": entry.seq, "at": entry.at, **_dump(entry.event)}


def load_entry(data: Mapping[str, Any]) -> Entry:
    """The way back. Raises `pydantic.ValidationError` or `KeyError` for data that `dump_entry` did not make."""
    fields = {key: value for key, value in data.items() if key not in ("seq", "at")}
    return Entry(int(data["seq"]), float(data["at"]), _load(fields))


def _dump(event: Event) -> dict[str, Any]:
    fields = dataclasses.asdict(event)
    if isinstance(event, Delegated):
        fields["event"] = _dump(event.event)  # with its type, which `asdict` leaves out
    return {"type": _NAMES[type(event)], **fields}


def _load(data: Mapping[str, Any]) -> Event:
    fields = {key: value for key, value in data.items() if key != "type"}
    if data["type"] == _NAMES[Delegated]:
        return Delegated(str(fields["call_id"]), _load(fields["event"]))
    event: Event = _TYPES[data["type"]].validate_python(fields)
    return event
