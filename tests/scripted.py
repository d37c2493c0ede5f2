"""A model that says what the test tells it to: the fake stands at the seam, everything else is real."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable, Iterable
from dataclasses import replace
from typing import Any, Union

from agent.events import CallDelta, ReasoningDelta, Replied, TextDelta, Usage
from agent.llm.model import ModelEvent, Request
from agent.messages import AssistantMessage, ToolCall


def call(name: str, id: str = "", **arguments: Any) -> ToolCall:
    return ToolCall(id, name, json.dumps(arguments))


class Hang:
    """The model says nothing more until it is cancelled."""


Reply = Union[str, ToolCall, list[ToolCall], AssistantMessage, Replied, Exception, list[ModelEvent], type[Hang]]


class ScriptedModel:
    """Gives the next reply of its script at each request, and keeps the requests for the test to read."""

    name = "scripted"

    def __init__(self, *script: Reply | Callable[[Request], Reply]) -> None:
        self.script = list(script)
        self.requests: list[Request] = []

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        self.requests.append(request)
        reply = self.script.pop(0) if self.script else "the script is at its end"
        if callable(reply) and not isinstance(reply, type):
            reply = reply(request)
        for event in self._events(reply):
            if event is Hang:
                await asyncio.Event().wait()
            elif isinstance(event, Exception):
                raise event
            else:
                await asyncio.sleep(0)
                yield event

    def _events(self, reply: Any) -> Iterable[Any]:
        if reply is Hang or isinstance(reply, Exception):
            return [reply]
        if isinstance(reply, list) and not all(isinstance(item, ToolCall) for item in reply):
            return [e for item in reply for e in (self._events(item) if isinstance(item, (str, ToolCall)) else [item])]
        if isinstance(reply, Replied):
            return [reply]
        return self._stream(self._message(reply))

    def _message(self, reply: str | ToolCall | list[ToolCall] | AssistantMessage) -> AssistantMessage:
        if isinstance(reply, str):
            return AssistantMessage(reply)
        if isinstance(reply, AssistantMessage):
            return reply
        calls = [reply] if isinstance(reply, ToolCall) else reply
        at = len(self.requests)
        named = tuple(replace(c, id=c.id or f"call_{at}_{i}") for i, c in enumerate(calls))
        return AssistantMessage(tool_calls=named)

    def _stream(self, message: AssistantMessage) -> Iterable[ModelEvent]:
        if message.reasoning:
            yield ReasoningDelta(message.reasoning)
        for start in range(0, len(message.text), 5):
            yield TextDelta(message.text[start : start + 5])
        for position, one in enumerate(message.tool_calls):
            yield CallDelta(position, one.name, one.arguments)
        yield Replied(message, "tool_calls" if message.tool_calls else "stop", Usage(10, 5))
