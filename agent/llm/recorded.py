"""A recording in the place of a model: it gives the replies that were given, in their order, whatever is asked.

    model = RecordedModel(import_lines(content, time.time()).entries)
    ... a session with this model and real tools ...
    assert model.divergences == [] and model.left == 0

What is asked is compared with what was asked then: the tools that are offered, and what was said since the reply before
(messages, tool results). A difference does not change the reply, and is never hidden: it is in `divergences`. Knows
logs. Refuses to guess a reply that was not recorded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from agent.errors import FAULT_CODES, ModelError
from agent.events import (
    CallDelta,
    Fault,
    ReasoningDelta,
    Replied,
    RequestSent,
    Retrying,
    StepStarted,
    TextDelta,
    TurnEnded,
)
from agent.llm.model import ModelEvent, Request, Window
from agent.llm.names import Names
from agent.llm.profile import Profile
from agent.llm.wire import Options, build_body
from agent.log import Entry
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.transcript import Transcript


@dataclass(frozen=True)
class Divergence:
    """Something that is other than when the recording was made."""

    reply: int
    """The reply that was asked for, from 1."""
    what: Literal["tools", "said", "end"]
    """The tools that were offered; what was said since the reply before; `end`: no such reply was recorded."""
    recorded: str
    now: str


@dataclass
class _Reply:
    """One model call of the recording."""

    said: list[str]
    tools: list[str] | None = None
    """Names on the wire; None where the request did not carry them, or is not in the recording."""
    events: list[ModelEvent] = field(default_factory=list)
    fault: Fault | None = None
    """Why it broke off, where it did by itself."""


class RecordedModel:
    """Implements `agent.llm.model.Model` for one conversation: it remembers how far that has come."""

    name = "recording"
    window = Window(1_000_000_000, "default")
    """Nothing is left out by itself: what was left out when the recording was made, it was."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._replies = list(_replies(entries))
        self._given = 0
        self.divergences: list[Divergence] = []

    @property
    def left(self) -> int:
        """Replies that nobody has asked for yet."""
        return len(self._replies) - self._given

    async def ask_window(self) -> None:
        """There is nobody to ask."""

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """The next reply, without its pauses. One that was stopped then waits to be stopped now.

        Raises ModelError where the recorded one failed, and behind the last one.
        """
        names = Names(request.tools)
        body = build_body(request, names, Profile(), Options(self.name))
        yield RequestSent(self.name, body, 0, tuple(body.pop("messages")))
        if not self.left:
            self.divergences.append(Divergence(self._given + 1, "end", "", _shown(_said(request.messages))))
            raise ModelError("incomplete_stream", "The recording is at its end: this reply was never recorded.")
        reply = self._replies[self._given]
        self._given += 1
        self._compare(reply, request.messages, names)
        for event in reply.events:
            await asyncio.sleep(0)
            yield event
        if reply.fault:
            code = reply.fault.code if reply.fault.code in FAULT_CODES else "provider_error"
            raise ModelError(code, reply.fault.message, reply.fault.detail)
        if not (reply.events and isinstance(reply.events[-1], Replied)):
            await asyncio.Event().wait()

    def _compare(self, reply: _Reply, messages: Sequence[Message], names: Names) -> None:
        offered = sorted(names.wire(name) for name in names.tools)
        if reply.tools is not None and reply.tools != offered:
            self.divergences.append(Divergence(self._given, "tools", ", ".join(reply.tools), ", ".join(offered)))
        said = _said(messages)
        if said != reply.said:
            others, now = ([text for text in a if text not in b] for a, b in ((reply.said, said), (said, reply.said)))
            self.divergences.append(Divergence(self._given, "said", _shown(others), _shown(now)))


def _replies(entries: Iterable[Entry]) -> Iterator[_Reply]:
    """The model calls of a log, each from its `StepStarted` to its reply or to the end of its turn."""
    transcript = Transcript()
    reply: _Reply | None = None
    for entry in entries:
        event = entry.event
        transcript.add(event)
        if isinstance(event, StepStarted):
            reply = _Reply(_said(transcript.messages))
        elif reply is None:
            continue
        elif isinstance(event, RequestSent):
            reply.tools = _tool_names(event.body)
        elif isinstance(event, Replied):
            reply.events.append(event)
            yield reply
            reply = None
        elif isinstance(event, Retrying) and event.code == "context_overflow":
            pass  # said by the loop, not by the model
        elif isinstance(event, (Retrying, TextDelta, ReasoningDelta, CallDelta)):
            reply.events.append(event)
        elif isinstance(event, TurnEnded):
            reply.fault = event.fault
            yield reply
            reply = None


def _tool_names(body: Mapping[str, object]) -> list[str] | None:
    tools = body.get("tools")
    if not isinstance(tools, (list, tuple)):
        return None
    functions = [tool.get("function") for tool in tools if isinstance(tool, Mapping)]
    return sorted(str(function.get("name")) for function in functions if isinstance(function, Mapping))


def _said(messages: Sequence[Message]) -> list[str]:
    """What was said since the model last spoke, a line each; sorted, for calls side by side end in any order."""
    lines: list[str] = []
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            break
        lines.append(_line(message))
    return sorted(lines)


def _line(message: UserMessage | ToolMessage) -> str:
    if isinstance(message, UserMessage):
        return f"{message.source}: {message.text}"
    return f"{message.call_id} {message.name} {'ok' if message.ok else 'failed'}: {message.text}"


def _shown(lines: Iterable[str]) -> str:
    return "\n".join(lines)
