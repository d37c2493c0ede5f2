"""Scopes: the ways in which a person may allow a call that waits, and what each of them would cover.

Knows how to say what a rule means before it is granted. Refuses to grant anything, and to take a scope from anyone: a
decision names one of those that are computed here, at the moment it comes in.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from agent.events import Rule
from agent.messages import AssistantMessage, ToolCall
from agent.policy import arguments_hash
from agent.rules import atoms, covering, identified, parsed, reach
from agent.tool import Effect

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session

ONCE = "once"
"""The key of the scope that grants nothing beyond the call."""


@dataclass(frozen=True)
class Scope:
    """One way to allow a call: how long, and what else it would cover."""

    key: str
    """For `Decision.scope`. Bound to what the scope grants: it does not fit a call that was changed meanwhile."""
    lasts: Literal["once", "session", "workspace"]
    prefixes: tuple[str, ...]
    """Covers calls all of whose parts begin with one of these; empty: covers exactly this call."""
    says: str
    """The same in a plain English sentence."""
    rules: tuple[Rule, ...] = ()
    past: tuple[ToolCall, ...] = ()
    """Earlier calls of this conversation that it would have covered, oldest first."""


def scopes(session: Session, call: ToolCall) -> tuple[Scope, ...]:
    """The ways to allow this call, `once` first. For a call that the person changed, ask with `approval.changed`."""
    tool = session.agent.toolbox.get(call.name)
    values = parsed(tool, call)
    once = Scope(ONCE, "once", (), "This call only.")
    if tool is None or values is None or Effect.REMEMBER in tool.effects(values):
        return (once,)
    exact = Rule("", "session", call.name, reach(tool, values), (), arguments_hash(call), call.arguments[:200])
    stems = dict.fromkeys(atom.words[: max(atom.stem, 1)] for atom in atoms(tool, values))
    by_words = [replace(exact, words=stem, arguments_hash="", text=_shown(stem)) for stem in stems]
    kinds = [[exact], by_words] if by_words else [[exact]]
    lasting: list[Literal["session", "workspace"]] = ["session"]
    if session.workspace_rules is not None:
        lasting.append("workspace")
    return (once, *(_scope(session, call, lasts, rules) for lasts in lasting for rules in kinds))


def _scope(session: Session, call: ToolCall, lasts: Literal["session", "workspace"], drafts: Sequence[Rule]) -> Scope:
    rules = tuple(identified(replace(draft, lasts=lasts)) for draft in drafts)
    prefixes = tuple(rule.text for rule in rules if rule.words)
    digest = hashlib.sha256(" ".join(rule.id for rule in rules).encode()).hexdigest()[:16]
    past = tuple(other for other in _earlier(session, call) if _would_cover(session.agent, rules, other))
    return Scope(f"{lasts}:{digest}", lasts, prefixes, _sentence(lasts, prefixes, rules[0]), rules, past)


def _shown(words: Sequence[str]) -> str:
    return " ".join(word if word.split() == [word] else shlex.quote(word) for word in words)


def _sentence(lasts: str, prefixes: Sequence[str], rule: Rule) -> str:
    until = "until this session ends" if lasts == "session" else "in this workspace, in later sessions too"
    if not prefixes:
        return f"Exactly this call, as often as it comes, {until}."
    begins = " or ".join(f"`{prefix}`" for prefix in prefixes)
    return (
        f"Every {rule.tool} call whose every part begins with {begins}, {until}. Any options and arguments may follow, "
        f"and a program may do what the files it reads tell it to. Only with the same reach: {', '.join(rule.effects)}."
    )


def _earlier(session: Session, call: ToolCall) -> Iterable[ToolCall]:
    for message in session.transcript.messages:
        if isinstance(message, AssistantMessage):
            yield from (other for other in message.tool_calls if other.name == call.name and other.id != call.id)


def _would_cover(agent: Agent, rules: Sequence[Rule], call: ToolCall) -> bool:
    tool = agent.toolbox.get(call.name)
    arguments = parsed(tool, call)
    if tool is None or arguments is None:
        return False
    return bool(covering(rules, tool, call, arguments))
