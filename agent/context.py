"""The context: what the model is shown at this step, a view of the transcript.

Knows how to put a request together, and what to leave out of one that is too long: old results are shortened first,
then the oldest turns go, then the older steps of this one. The person's current message always stays, and a call is
never parted from its result. Refuses to edit the transcript, and to know how a request looks on the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from agent.errors import ContextOverflow
from agent.events import Retrying
from agent.llm.model import Request, ToolSpec
from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from agent.tool import cut_middle

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session

SAFETY = 0.8
"""Tokens are not characters: aim below what the numbers say."""
OLD_RESULT_CHARS = 300
RESULT_CHARS = 1_500
QUOTE_CHARS = 160


def fit(session: Session, agent: Agent, may_call: bool = True) -> Request:
    """Everything said so far, as far as it fits, and the tools. `may_call=False` asks for an answer in words."""
    messages: Sequence[Message] = session.transcript.messages
    if session.context_chars is not None:
        messages = compacted(messages, session.context_chars)
    return Request(
        system=agent.system_prompt,
        messages=tuple(messages),
        tools=tuple(ToolSpec(tool.name, tool.description, tool.parameters) for tool in agent.toolbox),
        tool_choice="auto" if may_call else "none",
    )


def tighten(session: Session, request: Request, overflow: ContextOverflow, attempt: int) -> Retrying:
    """Remember how much fits, for this step and the following ones. Raises `overflow` where nothing can be left out."""
    before = size(request.messages)
    session.context_chars = int(before / max(overflow.times_too_long, 1.1) * SAFETY)
    if size(compacted(session.transcript.messages, session.context_chars)) >= before:
        raise overflow
    assert overflow.fault is not None
    return Retrying("context_overflow", overflow.fault.detail, 0.0, attempt)


def size(messages: Sequence[Message]) -> int:
    """Characters, by and large."""
    return sum(
        len(m.text)
        + (sum(len(c.arguments) + len(c.name) for c in m.tool_calls) if isinstance(m, AssistantMessage) else 0)
        for m in messages
    )


def compacted(messages: Sequence[Message], limit: int) -> list[Message]:
    """At most `limit` characters of the messages, or as near as makes sense. The messages stay as they are."""
    turns = _turns(messages)
    view = list(messages)
    stages: list[Callable[[], list[Message]]] = [
        lambda: _flat(_shortened(turn, OLD_RESULT_CHARS) for turn in turns[:-1]) + turns[-1],
        *(lambda n=n: _without(turns, n) for n in range(1, len(turns))),
        lambda: [*_left_out(turns[:-1]), *_shortened(turns[-1], RESULT_CHARS)],
        lambda: [*_left_out(turns[:-1]), *_recent_steps(_shortened(turns[-1], RESULT_CHARS), 3)],
        lambda: [*_left_out(turns[:-1]), *_recent_steps(_shortened(turns[-1], OLD_RESULT_CHARS), 1)],
    ]
    for stage in stages:
        if size(view) <= limit:
            break
        view = stage()
    return view


def _turns(messages: Sequence[Message]) -> list[list[Message]]:
    """Each from one message of the person up to the next."""
    turns: list[list[Message]] = [[]]
    for message in messages:
        if isinstance(message, UserMessage) and message.source == "person" and turns[-1]:
            turns.append([])
        turns[-1].append(message)
    return turns


def _without(turns: list[list[Message]], count: int) -> list[Message]:
    """All but the first `count` turns; of those, what the person said."""
    kept = [_shortened(turn, OLD_RESULT_CHARS) for turn in turns[count:-1]]
    return [*_left_out(turns[:count]), *_flat(kept), *turns[-1]]


def _left_out(turns: Sequence[list[Message]]) -> list[Message]:
    said = [m.text for turn in turns for m in turn if isinstance(m, UserMessage) and m.source == "person"]
    if not said:
        return []
    quotes = "\n".join(f"- {' '.join(text.split())[:QUOTE_CHARS]}" for text in said[-8:])
    note = (
        f"The earlier part of this conversation was left out, because it does not fit. The user said in it:\n{quotes}"
    )
    return [UserMessage(note, source="glassloop")]


def _shortened(turn: Sequence[Message], chars: int) -> list[Message]:
    note = "Call the tool again if you need it."
    return [
        replace(m, text=cut_middle(m.text, chars, note), images=()) if isinstance(m, ToolMessage) else m for m in turn
    ]


def _recent_steps(turn: Sequence[Message], count: int) -> list[Message]:
    """The person's message and the last steps of a turn."""
    starts = [at for at, m in enumerate(turn) if isinstance(m, AssistantMessage)]
    if len(starts) <= count:
        return list(turn)
    note = UserMessage(f"{len(starts) - count} earlier steps of this task were left out.", source="glassloop")
    return [*turn[: starts[0]], note, *turn[starts[-count] :]]


def _flat(turns: Iterable[Sequence[Message]]) -> list[Message]:
    return [message for turn in turns for message in turn]
