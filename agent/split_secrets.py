"""Secrets that a stream has cut in two: each piece is innocent, together they are not.

Knows which pieces of a log belong together. Refuses to know what a secret looks like.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from agent.events import CallDelta, Event, OutputDelta, ReasoningDelta, Retrying, StepStarted, TextDelta
from agent.log import Entry


def without_split_secrets(entries: Sequence[Entry], scrub: Callable[[str], str]) -> Sequence[Entry]:
    """The same entries; where pieces together hold a secret, all of their text moves into the first one, scrubbed."""
    clean = list(entries)
    for places in _streams(entries):
        texts = [_text(entries[place].event) for place in places]
        whole = scrub("".join(texts))
        if whole != "".join(map(scrub, texts)):
            for place, text in zip(places, [whole] + [""] * len(places), strict=False):
                clean[place] = replace(clean[place], event=_with_text(clean[place].event, text))
    return clean


def _streams(entries: Sequence[Entry]) -> list[list[int]]:
    """The places of the pieces of each streamed text, in order."""
    streams: list[list[int]] = []
    open_streams: dict[Hashable, list[int]] = {}
    for place, entry in enumerate(entries):
        if isinstance(entry.event, (StepStarted, Retrying)):
            open_streams.clear()
        if key := _stream(entry.event):
            if key not in open_streams:
                open_streams[key] = []
                streams.append(open_streams[key])
            open_streams[key].append(place)
    return streams


def _stream(event: Event) -> Hashable:
    if isinstance(event, TextDelta):
        return "text"
    if isinstance(event, ReasoningDelta):
        return "reasoning"
    if isinstance(event, CallDelta):
        return "call", event.position
    return ("output", event.call_id) if isinstance(event, OutputDelta) else None


def _text(event: Event) -> str:
    if isinstance(event, CallDelta):
        return event.arguments
    assert isinstance(event, (TextDelta, ReasoningDelta, OutputDelta))
    return event.text


def _with_text(event: Event, text: str) -> Event:
    if isinstance(event, CallDelta):
        return replace(event, arguments=text)
    assert isinstance(event, (TextDelta, ReasoningDelta, OutputDelta))
    return replace(event, text=text)
