"""One wire case through the real product: server, client, session and loop; only the tools are made up.

Knows how a case's history, tools and script become a session. Judging what came of it is `judging.py`.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.errors import ToolError
from agent.events import CallFinished, CallStarted, Event, Nudged, Replied, StepStarted, TurnEnded, TurnStarted
from agent.limits import Limits
from agent.llm.arguments import read_arguments
from agent.llm.client import OpenAIModel
from agent.llm.connection import ChatServer
from agent.llm.images import ImageServer, OpenAIImages
from agent.log import Entry, EventLog
from agent.messages import AssistantMessage, File, ToolCall, UserMessage
from agent.session import Session
from agent.tool import Effect, Tool, Toolbox, ToolContext, ToolResult

Case = Mapping[str, Any]

KEY = "sk-wire-0123456789abcdef"
PATIENCE_S = 90.0
"""For one whole case; the longest waits a few seconds."""


@dataclass
class Played:
    """What came of a case."""

    events: list[Event] = field(default_factory=list)
    """Of the new turns, in order."""
    messages: list[Any] = field(default_factory=list)
    executed: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What the server had to say."""


async def play(server: Any, case: Case, folder: Path, tag: str = "run") -> Played:
    """Run a case to its end. The server must serve it; `tag` keeps its state apart from other runs."""
    name = f"{case['id']}@{tag}"
    played = Played()
    if case.get("endpoint") == "images":
        await _draw(server, case, name)
    else:
        await asyncio.wait_for(_talk(server, case, name, folder, played), PATIENCE_S)
    played.requests = server.requests(name)
    played.problems = server.problems(name)
    if any(KEY in repr(event) for event in played.events):
        played.problems.append("the key is in an event")
    return played


async def _draw(server: Any, case: Case, name: str) -> None:
    images = OpenAIImages(ImageServer(server.url, KEY, name))
    try:
        [picture] = await images.draw(case["prompt"], quality=case.get("settings", {}).get("quality"))
        assert picture.data
    except ToolError:
        return  # what the requests looked like is what the case is about


async def _talk(server: Any, case: Case, name: str, folder: Path, played: Played) -> None:
    settings = case.get("settings", {})
    model = OpenAIModel(
        ChatServer(
            server.url,
            KEY,
            name,
            temperature=settings.get("temperature"),
            max_output_tokens=settings.get("max_output_tokens"),
            first_token_timeout_s=settings.get("first_token_timeout_s", 20),
            idle_timeout_s=settings.get("idle_timeout_s", 20),
        )
    )
    history = list(case.get("history", ()))
    system = history.pop(0)["content"] if history and history[0]["role"] in ("system", "developer") else ""
    tools = _Tools(case, folder, played)
    limits = Limits(max_steps=settings["max_steps"]) if "max_steps" in settings else Limits()
    agent = Agent(model, Toolbox(tools.all()), system_prompt=system, limits=limits)
    log = EventLog([Entry(seq, 0.0, event) for seq, event in enumerate(as_events(history))])
    session = Session(agent, folder, folder, log=log)
    session.recover()
    start = len(session.log)
    try:
        for action in case.get("script") or [{"say": case["prompt"]}]:
            if "say" in action:
                await session.wait()
                session.send(action["say"])
            else:
                await _started(session, action["cancel_when_tool_starts"])
                await session.stop()
        await session.wait()
    finally:
        await session.stop()
        await model.close()
    played.events = [entry.event for entry in session.log.since(start)]
    played.messages = list(session.transcript.messages)


async def _started(session: Session, tool: str) -> None:
    names: dict[str, str] = {}
    async for batch in session.log.follow():
        for entry in batch:
            if isinstance(entry.event, Replied):
                names.update((call.id, call.name) for call in entry.event.message.tool_calls)
            elif isinstance(entry.event, CallStarted) and names.get(entry.event.call_id) == tool:
                return


class _Tools:
    """Tools that say what the case wants and write down that they ran."""

    def __init__(self, case: Case, folder: Path, played: Played) -> None:
        self._case = case
        self._folder = folder
        self._played = played
        self._results = {k: list(v) if isinstance(v, list) else v for k, v in case.get("tool_results", {}).items()}

    def all(self) -> list[Tool]:
        return [self._tool(entry["function"]) for entry in self._case.get("tools", ())]

    def _tool(self, function: Mapping[str, Any]) -> Tool:
        name = function["name"]

        async def run(context: ToolContext, **arguments: Any) -> ToolResult:
            self._played.executed.append({"name": name, "arguments": arguments})
            return await self._result(name)

        return Tool.from_schema(name, function.get("description", ""), function["parameters"], Effect.WRITE, run)

    async def _result(self, name: str) -> ToolResult:
        said = self._results.get(name, "ok")
        if isinstance(said, list):
            said = said.pop(0) if len(said) > 1 else said[0]
        if isinstance(said, str):
            return ToolResult(said)
        if "sleep_s" in said:
            await asyncio.sleep(said["sleep_s"])
            return ToolResult("slept")
        path = self._folder / f"{name}.png"
        path.write_bytes(base64.b64decode(said["image_png_base64"]))
        return ToolResult("a picture", images=(File(str(path), path.name, "image/png", path.stat().st_size),))


def as_events(history: list[Mapping[str, Any]]) -> list[Event]:
    """A history in wire form as the log of a session that held it."""
    events: list[Event] = []
    open_calls: dict[str, str] = {}
    turn = step = 0
    for message in history:
        text = _text(message.get("content"))
        role = message["role"]
        if role == "user":
            if turn:
                events.append(TurnEnded(turn, "answered"))
            turn, step, open_calls = turn + 1, 0, {}
            events.append(TurnStarted(turn, UserMessage(text), parent=turn - 1 or None))
        elif role in ("system", "developer"):
            events.append(Nudged("history", text))
        elif role == "assistant":
            step += 1
            reply = _assistant(message, text)
            open_calls = {call.id: call.name for call in reply.tool_calls}
            events += [StepStarted(step), Replied(reply, "tool_calls" if reply.tool_calls else "stop")]
        elif message.get("tool_call_id") in open_calls:
            call_id = message["tool_call_id"]
            events.append(CallFinished(call_id, open_calls.pop(call_id), "done", text))
    if turn and not open_calls:
        events.append(TurnEnded(turn, "answered"))
    return events


def _assistant(message: Mapping[str, Any], text: str) -> AssistantMessage:
    calls: dict[str, ToolCall] = {}
    for entry in message.get("tool_calls") or ():
        function = entry["function"]
        call_id = entry.get("id") or f"made-up-{len(calls)}"
        arguments = read_arguments(function.get("arguments") or "").text
        extra = {k: v for k, v in entry.items() if k not in ("id", "type", "function", "index")}
        calls[call_id] = ToolCall(call_id, function["name"], arguments, extra=extra)
    field_name = next((k for k in ("reasoning_content", "reasoning") if message.get(k)), None)
    extra = {"reasoning_field": field_name} if field_name else {}
    return AssistantMessage(text, message[field_name] if field_name else "", tuple(calls.values()), extra)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""
