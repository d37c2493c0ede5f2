"""The JSON action protocol as a model's stream: decide, then act or answer.

Knows the order of the requests and gives the same events as a server with tool calls would, so that every layer above
is unchanged. Refuses to know connections: requests go out through the `exchange` it is given.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any

from agent.events import CallDelta, Replied, Retrying, TextDelta, Usage
from agent.llm.actions import MOST_REMINDERS, Action, answer, decision, is_plain_answer, read_action, reminded, repeats
from agent.llm.arguments import read_arguments
from agent.llm.ids import fresh_id
from agent.llm.model import ModelEvent, Request
from agent.llm.names import Names
from agent.llm.profile import Profile
from agent.messages import AssistantMessage, ToolCall

Question = Callable[[Profile], tuple[Request, Mapping[str, Any]]]
"""What to ask a server of this profile, and further parameters: built anew for each attempt."""
Exchange = Callable[[Names, Question], AsyncGenerator[ModelEvent, None]]
"""One request to the server, as often as it takes; the last event is `Replied`."""


class Deciding:
    """One reply by the JSON protocol."""

    def __init__(self, exchange: Exchange, strict: bool) -> None:
        """`strict`: a reply in plain words is no action either, and the model is told."""
        self._exchange = exchange
        self._strict = strict
        self._usage: Usage | None = None
        self._reply: Replied | None = None

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """See `Model.stream`."""
        names = Names(request.tools)
        action: Action | None = None
        if request.tool_choice != "none":
            async for event in self._decide(request, names):
                yield event
            action = self._action(request, names)
        if action is not None and action.kind == "tool":
            for event in self._call(action, request, names):
                yield event
        elif action is not None and action.text.strip():
            said = self._said()
            yield TextDelta(action.text)
            yield replace(said, message=replace(said.message, text=action.text.strip()), usage=self._usage)
        else:
            async for event in self._exchange(Names(()), lambda profile: answer(request, profile)):
                yield self._counted(event) if isinstance(event, Replied) else event

    async def _decide(self, request: Request, names: Names) -> AsyncGenerator[ModelEvent, None]:
        """Ask until the reply is an action, or patience ends. What is written is for us and not for the person."""
        wrong: list[str] = []

        def question(profile: Profile) -> tuple[Request, Mapping[str, Any]]:
            ask, parameters = decision(request, names, profile)
            return reminded(ask, wrong, profile), parameters

        while True:
            async for event in self._exchange(Names(()), question):
                if isinstance(event, Replied):
                    self._reply = self._counted(event)
                elif not isinstance(event, TextDelta):
                    yield event
            text = self._said().message.text
            if not text.strip() or self._read(names) is not None or len(wrong) == MOST_REMINDERS:
                return
            wrong.append(text)
            yield Retrying("malformed_response", "the reply was not an action", 0.0, len(wrong) + 1)

    def _action(self, request: Request, names: Names) -> Action | None:
        """What the last reply comes to; None where the model is to answer in words now."""
        action = self._read(names) or Action("final", text=self._said().message.text)
        return None if action.kind == "tool" and repeats(action.call, request.messages, names) else action

    def _said(self) -> Replied:
        assert self._reply is not None, "an exchange ends with Replied"
        return self._reply

    def _read(self, names: Names) -> Action | None:
        said = self._said()
        text = said.message.text
        action = read_action(text, names, cut=said.finish == "length")
        if action is None and not self._strict and is_plain_answer(text, names):
            return Action("final", text=text)
        return action

    def _call(self, action: Action, request: Request, names: Names) -> list[ModelEvent]:
        taken = {c.id for m in request.messages if isinstance(m, AssistantMessage) for c in m.tool_calls}
        read = read_arguments(action.call.arguments)
        name = names.real(action.call.name) or action.call.name
        call = ToolCall(fresh_id(taken), name, read.text, action.repairs + read.repairs, read.fault or None)
        said = self._said()
        message = AssistantMessage(action.text, said.message.reasoning, (call,), said.message.extra)
        return [CallDelta(0, name, read.text), Replied(message, "tool_calls", self._usage, said.model)]

    def _counted(self, reply: Replied) -> Replied:
        """The reply with the tokens of all requests that led to it."""
        if (one := reply.usage) is not None:
            sofar = self._usage or Usage()
            self._usage = Usage(
                sofar.input_tokens + one.input_tokens,
                sofar.output_tokens + one.output_tokens,
                sofar.cached_tokens + one.cached_tokens,
                sofar.reasoning_tokens + one.reasoning_tokens,
            )
        return replace(reply, usage=self._usage)
