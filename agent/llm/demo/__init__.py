"""The demo model: fixed rules behind the same interface as a real model. The tools it calls are real.

    turn.py      what the request says: who asked what, and what came back so far
    plan.py      from a message to steps; rules.py: the table of what leads to which calls. Read this one
    language.py  how clauses, names of files and expressions look; zones.py: which places it knows
    attached.py  files that came with a message
    checklist.py the plan in sight, for what takes more than one clause
    answers.py   from results to words; facts.py: what can be counted in a result and copied out of it
    words.py     its sentences, in English and Chinese

Knows only the request it is given, so it serves every session at once. Refuses to pass for a language model: each of
its answers ends with a line that says what it is.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Iterator

from agent.events import CallDelta, Replied, RequestSent, TextDelta
from agent.llm.demo.answers import answer
from agent.llm.demo.attached import with_documents
from agent.llm.demo.checklist import checklist
from agent.llm.demo.plan import Want, next_step, plan_for
from agent.llm.demo.rules import RULES
from agent.llm.demo.turn import Turn
from agent.llm.demo.words import WORDS
from agent.llm.model import ModelEvent, Request
from agent.llm.names import Names
from agent.llm.profile import Profile
from agent.llm.wire import Options, build_body
from agent.messages import AssistantMessage, ToolCall

PAUSE_S = 1 / 30
"""Between two pieces: slow enough to watch a reply being written, and to press Stop in the middle of it."""

PIECES = 90
"""A long reply comes in larger pieces, not in more: three seconds at most."""


class DemoModel:
    """Implements `agent.llm.model.Model` without a network, a key or a download."""

    name = "demo"

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        """`pause_s`: seconds between two pieces of a reply."""
        self._pause_s = pause_s

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """One reply, in pieces. Never raises ModelError. The request is told as a server would have got it."""
        body = build_body(request, Names(request.tools), Profile(), Options(self.name))
        messages = tuple(body.pop("messages"))
        yield RequestSent(self.name, body, 0, messages)
        message = reply_to(request)
        for delta in _deltas(message):
            await asyncio.sleep(self._pause_s)
            yield delta
        yield Replied(message, "tool_calls" if message.tool_calls else "stop", model=self.name)


def reply_to(request: Request) -> AssistantMessage:
    """The whole reply: the next calls of the plan while there are any, else the answer with the demo's mark."""
    turn = Turn.of(request)
    words = WORDS[turn.language]
    plan = with_documents(plan_for(turn.text, turn.last_path, RULES), turn.text, turn.documents)
    wants = next_step(plan, turn)
    missing = {want.tool for want in wants} - turn.tools
    listed = checklist(plan, turn, words.closing) if turn.may_call and not turn.told else ()
    wants = (*listed, *(wants if not missing else ()))
    if not wants:
        return AssistantMessage(answer(turn, plan, missing, words))
    names = words.between.join(dict.fromkeys(f"`{want.tool}`" for want in wants))
    return AssistantMessage(words.calling.format(names=names), tool_calls=tuple(_call(want) for want in wants))


def _call(want: Want) -> ToolCall:
    return ToolCall(f"demo_{secrets.token_hex(8)}", want.tool, json.dumps(want.arguments, ensure_ascii=False))


def _deltas(message: AssistantMessage) -> Iterator[ModelEvent]:
    for piece in _pieces(message.text, smallest=4):
        yield TextDelta(piece)
    for position, call in enumerate(message.tool_calls):
        for piece in _pieces(call.arguments, smallest=8):
            yield CallDelta(position, call.name, piece)


def _pieces(text: str, smallest: int) -> Iterator[str]:
    size = max(smallest, -(-len(text) // PIECES))
    return (text[start : start + size] for start in range(0, len(text), size))
