"""The requests of a session, kept without saying everything twice.

Each request repeats the one before it and adds a little. In the log only the rest is kept: so many leading messages are
those of the request before, then these. Knows how to shorten a request and how to write it out again. Refuses to know
what is in a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from agent.events import Event, RequestSent


class Requests:
    """The last request of a session: a fold of the log."""

    def __init__(self) -> None:
        self._messages: tuple[Mapping[str, Any], ...] = ()

    def shrink(self, event: RequestSent) -> RequestSent:
        """The same request, without the messages that the one before it had in the same places."""
        pairs = zip(self._messages, event.messages, strict=False)
        kept = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        return replace(event, kept=kept, messages=event.messages[kept:])

    def add(self, event: RequestSent) -> None:
        self._messages = (*self._messages[: event.kept], *event.messages)

    def body(self, event: RequestSent) -> dict[str, Any]:
        """The whole JSON body of the request that was added last."""
        return {**event.body, "messages": list(self._messages)}


def rebuild(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """The exact bodies of all requests in a log, in order. The key was never part of them."""
    requests = Requests()
    for event in events:
        if isinstance(event, RequestSent):
            requests.add(event)
            yield requests.body(event)
