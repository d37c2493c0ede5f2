"""May this call run? Judged by effect and arguments, never by a tool's name.

Knows verdicts and what a decision is bound to. Refuses to know how a person is asked and what a tool does.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.messages import ToolCall
from agent.tool import Effect, Tool

Answer = Literal["allow", "ask", "deny"]


@dataclass(frozen=True)
class Verdict:
    answer: Answer
    why: str = ""
    """For the person where the answer is ask, for the model where it is deny."""


@dataclass(frozen=True)
class Policy:
    """One rule an effect. What no rule names is allowed: the app names every effect it wants to hold back."""

    rules: Mapping[Effect, Verdict] = field(default_factory=dict)

    def judge(self, call: ToolCall, tool: Tool) -> Verdict:
        return self.rules.get(tool.effect, Verdict("allow"))


def arguments_hash(call: ToolCall) -> str:
    """What a decision is bound to: a call with other arguments needs a decision of its own."""
    return hashlib.sha256(f"{call.name}\0{call.arguments}".encode()).hexdigest()
