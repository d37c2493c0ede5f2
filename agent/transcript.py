"""The transcript: what was said, as a fold of the log.

At any instant it is valid for a model: each call is followed by exactly one result before anything else is said, once
`act` has answered the open ones. Knows how events become messages; refuses to know what is shown or sent.
"""

from __future__ import annotations

from collections.abc import Iterable

from agent.events import (
    CallFinished,
    Event,
    Nudged,
    Replied,
    Retrying,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


class Transcript:
    """Grows with the log. `messages` is append-only; `open_calls` are the calls that still need their result."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.messages: list[Message] = []
        self.open_calls: dict[str, ToolCall] = {}
        self._said: list[str] = []  # deltas of a reply that is not finished
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._said.append(event.text)
        elif isinstance(event, (StepStarted, Retrying)):
            self._said.clear()
        elif isinstance(event, Replied):
            self._said.clear()
            self.messages.append(event.message)
            self.open_calls = {call.id: call for call in event.message.tool_calls}
        elif isinstance(event, CallFinished):
            self.open_calls.pop(event.call_id)
            ok = event.status == "done"
            self.messages.append(ToolMessage(event.call_id, event.name, event.text, ok))
        elif isinstance(event, Nudged):
            self.messages.append(UserMessage(event.text, source="glassloop"))
        elif isinstance(event, TurnStarted):
            self.messages.append(event.message)
        elif isinstance(event, TurnEnded):
            self._keep_partial()

    def _keep_partial(self) -> None:
        """What a reply had said when its turn ended under it was said, and the next turn builds on it."""
        if text := "".join(self._said).strip():
            self.messages.append(AssistantMessage(text))
        self._said.clear()
