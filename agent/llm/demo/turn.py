"""What a request says: the person's words, and what this turn has called and got back so far.

Knows messages. Refuses to know what the words mean (`rules.py` does).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from agent.attached import own_words
from agent.llm.model import Request
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage

Language = Literal["en", "zh"]

CHECKLIST = "update_plan"
"""The tool that keeps a plan in sight; it does none of the work."""


@dataclass(frozen=True)
class Outcome:
    """A call of this turn and its one result."""

    call: ToolCall
    text: str
    ok: bool

    @property
    def arguments(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = json.loads(self.call.arguments)
        return found


@dataclass(frozen=True)
class Turn:
    """The last thing the person said and everything after it."""

    text: str
    language: Language
    steps: tuple[tuple[Outcome, ...], ...]
    """One entry for each earlier reply of this turn that asked for tools."""
    listed: Mapping[str, Any]
    """The checklist, as it was last given; empty where there is none."""
    told: str
    """What the loop itself said about a reply of this turn; empty where it said nothing, or nothing since."""
    documents: tuple[str, ...]
    """What came with the message, but for pictures."""
    tools: frozenset[str]
    may_call: bool
    last_path: str
    """The file that was last spoken of in a call before this turn: what "it" may mean; empty where there is none."""

    @classmethod
    def of(cls, request: Request) -> Turn:
        at = max((i for i, m in enumerate(request.messages) if _is_person(m)), default=None)
        before = request.messages[:at]
        spoken = request.messages[at] if at is not None else UserMessage("")
        assert isinstance(spoken, UserMessage)
        text = own_words(spoken.text) if spoken.files else spoken.text
        after = request.messages[at + 1 :] if at is not None else ()
        results = {m.call_id: m for m in after if isinstance(m, ToolMessage)}
        replies = [m for m in after if isinstance(m, AssistantMessage)]
        last = after[-1] if after else None
        told = [
            tuple(Outcome(c, results[c.id].text, results[c.id].ok) for c in reply.tool_calls if c.id in results)
            for reply in replies
        ]
        worked = (tuple(outcome for outcome in step if outcome.call.name != CHECKLIST) for step in told)
        listed = [outcome for step in told for outcome in step if outcome.call.name == CHECKLIST]
        return cls(
            text=text or ", ".join(file.name for file in spoken.files),
            language=language_of(text or spoken.text),
            documents=_documents(spoken),
            steps=tuple(step for step in worked if step),
            listed=listed[-1].arguments if listed else {},
            told=last.text if replies and isinstance(last, UserMessage) else "",
            tools=frozenset(tool.name for tool in request.tools),
            may_call=request.tool_choice == "auto",
            last_path=_last_path(before),
        )

    @property
    def outcomes(self) -> tuple[Outcome, ...]:
        return tuple(outcome for step in self.steps for outcome in step)

    @property
    def failed(self) -> bool:
        return any(not outcome.ok for outcome in self.outcomes)


def _documents(message: UserMessage) -> tuple[str, ...]:
    """The paths of what came with the message, but for pictures."""
    found = re.search(r"\[Attached: (.*)\]\Z", message.text, re.DOTALL) if message.files else None
    listed = found[1].split("; ") if found else ()
    return tuple(one.rpartition(" (")[0] for one in listed if " (image/" not in one)


def language_of(text: str) -> Language:
    return "zh" if re.search(r"[\u4e00-\u9fff]", text) else "en"


def _is_person(message: object) -> bool:
    return isinstance(message, UserMessage) and message.source != "glassloop"


def _last_path(messages: tuple[object, ...]) -> str:
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            for call in reversed(message.tool_calls):
                path = json.loads(call.arguments).get("path")
                if isinstance(path, str) and path:
                    return path
    return ""
