"""A server that says what the test tells it to, on real sockets: the replay server, fed from Python."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from agent.llm.client import ChatServer, OpenAIModel
from agent.llm.model import ModelEvent, Request, ToolSpec
from agent.messages import UserMessage
from tests.wire.serving import Replay

KEY = "sk-test-0123456789abcdef"

WEATHER = ToolSpec(
    "get_weather",
    "The weather in a town.",
    {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city"],
    },
)
WRITE = ToolSpec(
    "write_file",
    "Write a text file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
        "required": ["path", "content"],
    },
)
PING = ToolSpec("ping", "Say whether the station answers.", {"type": "object", "properties": {}})
TOOLS = (WEATHER, WRITE, PING)

DONE = "data: [DONE]\n\n"


def event(payload: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(payload)}\n\n"


def delta(finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """One chunk."""
    return {"model": "m-1", "choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call_delta(name: str | None = None, arguments: Any = None, **fields: Any) -> dict[str, Any]:
    """One chunk with a piece of a call. `fields`: index, id."""
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return delta(tool_calls=[{**fields, "function": function}])


def says(*texts: str, finish: str = "stop") -> dict[str, Any]:
    """An answer in words."""
    chunks = [*(event(delta(content=text)) for text in texts), event(delta(finish)), DONE]
    return {"stream": chunks}


def calls(name: str, arguments: str = "{}", id: str = "call_1") -> dict[str, Any]:
    """An answer that is one proper call."""
    chunks = [event(call_delta(name, arguments, index=0, id=id)), event(delta("tool_calls")), DONE]
    return {"stream": chunks}


def refuses(status: int, message: Any, headers: Mapping[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    """A refusal: a message with the fields of an error object beside it, or a whole body."""
    body = {"error": {"message": message, **fields}} if isinstance(message, str) else message
    return {"status": status, "body": body, "headers": dict(headers or {})}


def unless(answer: Mapping[str, Any], checks: list[Mapping[str, Any]], refusal: Mapping[str, Any]) -> dict[str, Any]:
    """The answer for a request that passes the checks, the refusal for another."""
    return {**answer, "require": checks, "else": refusal}


@asynccontextmanager
async def serving(
    tmp_path: Path, *answers: Mapping[str, Any], repeat: bool = False, **server: Any
) -> AsyncIterator[Any]:
    """The model in front of a server that gives these answers in order, and the server's log behind `requests`."""
    first, *others = answers
    case: dict[str, Any] = {"id": "case", "title": "t", "kind": "k", "source": ["a/b#1"], "expect": {"text": ""}}
    case |= {"response": dict(first), "then": [dict(answer) for answer in others]}
    if repeat:
        case["after"] = "repeat"
    (tmp_path / "case.json").write_text(json.dumps(case), encoding="utf-8")
    with Replay(tmp_path / "case.json") as replay:
        settings = {"first_token_timeout_s": 10.0, "idle_timeout_s": 10.0, **server}
        model = OpenAIModel(ChatServer(replay.url, KEY, "case", **settings))
        try:
            yield Served(model, replay)
        finally:
            await model.close()


class Served:
    """A model and what its server got."""

    def __init__(self, model: OpenAIModel, replay: Any) -> None:
        self.model = model
        self.replay = replay

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [entry["body"] for entry in self.replay.requests("case")]

    @property
    def requests(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = self.replay.requests("case")
        return entries

    async def ask(self, request: Request | str = "hi", tools: tuple[ToolSpec, ...] = TOOLS) -> list[ModelEvent]:
        """All events of one reply."""
        if isinstance(request, str):
            request = Request("", (UserMessage(request),), tools)
        return [event async for event in self.model.stream(request)]
