"""Approval: what a person is asked, what they may answer, and what an answer is worth.

    judge      policy first; what it asks, a person's decision about this call or a rule of theirs answers
    questions  the calls that wait, each with the scopes a person can allow it with: what the page shows
    settle     decisions that came in become events, all of them or none

Nothing here waits: the turn ends, and goes on when nothing waits any more. Nothing here reads text for a yes or a no: a
decision comes from the person's side of the session, names a call and the hash of the arguments they saw, and is
compared with what the server knows. What a browser sends picks among scopes that were computed here.

Knows questions and decisions. Refuses to know any tool by name, and how a question looks on a screen.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent.errors import Refused, ToolError
from agent.events import CallDecided, Rule, RuleGranted
from agent.messages import ToolCall
from agent.policy import ALLOW, Verdict, arguments_hash
from agent.rules import covering, parsed, reach
from agent.scopes import ONCE, Scope, scopes
from agent.tool import Effect, Tool

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session


@dataclass(frozen=True)
class Decision:
    """One answer of a person."""

    call_id: str
    arguments_hash: str
    """Of the call as the person saw it (`Question.arguments_hash`)."""
    allowed: bool
    reason: str = ""
    """Why not, for the model to read."""
    scope: str = ONCE
    """The `Scope.key` that was chosen."""
    arguments: str | None = None
    """JSON text of what is to run instead, where the person changed it."""


@dataclass(frozen=True)
class Question:
    """A call that waits, with all that a person needs to decide about it."""

    call: ToolCall
    arguments_hash: str
    why: str
    effects: tuple[str, ...]
    """How far it reaches: values of `tool.Effect`."""
    scopes: tuple[Scope, ...]
    """`once` comes first."""


# ---------------------------------------------------------------------- judging


def judge(session: Session, agent: Agent, call: ToolCall) -> Verdict:
    """May this call run now? A refusal of policy stands whatever a person said before it.

    A call that cannot run is allowed: the toolbox answers it with what is wrong.
    """
    tool = agent.toolbox.get(call.name)
    arguments = parsed(tool, call)
    if tool is None or arguments is None:
        return ALLOW
    effects = tool.effects(arguments)
    verdict = agent.policy.judge(effects, session.voices.from_outside(agent.toolbox))
    if verdict.answer == "deny":
        return verdict
    if decided := session.decision(call):
        return decided
    if verdict.answer == "ask" and Effect.REMEMBER not in effects:  # no rule speaks for the person in that
        verdict = _by_rules(session, tool, call, arguments, verdict)
    return agent.policy.answered(verdict) if verdict.answer == "ask" else verdict


def _by_rules(session: Session, tool: Tool, call: ToolCall, arguments: Mapping[str, Any], asked: Verdict) -> Verdict:
    """What policy asks, after the rules had a look at it."""
    rules, trouble = rules_in_force(session)
    used = covering(rules, tool, call, arguments)
    if used:
        return Verdict("allow", rules=used)
    return replace(asked, why=f"{asked.why} ({trouble}.)".strip()) if trouble else asked


def rules_in_force(session: Session) -> tuple[tuple[Rule, ...], str]:
    """The rules that hold now, and why those of the workspace do not, where they cannot be used."""
    own = tuple(session.rules.values())
    if session.workspace_rules is None:
        return own, ""
    try:
        return (*own, *session.workspace_rules.of(session.workspace)), ""
    except Refused as error:
        return own, str(error)


# ---------------------------------------------------------------------- asking


def questions(session: Session) -> tuple[Question, ...]:
    """The calls that wait for a person, in the model's order; empty where the turn does not wait."""
    return tuple(_question(session, call) for call in session.waiting_calls()) if session.waiting else ()


def _question(session: Session, call: ToolCall) -> Question:
    tool = session.agent.toolbox.get(call.name)
    arguments = parsed(tool, call)
    effects = () if tool is None or arguments is None else reach(tool, arguments)
    return Question(call, arguments_hash(call), session.turn.waiting[call.id].why, effects, scopes(session, call))


# ---------------------------------------------------------------------- deciding


def settle(session: Session, decisions: Iterable[Decision]) -> list[RuleGranted | CallDecided]:
    """The events that these decisions are. Raises Refused, and then none of them counts, unless each names a call that
    waits and is undecided, with the arguments the person saw, and a scope and changed arguments that fit it."""
    events: list[RuleGranted | CallDecided] = []
    waiting = {call.id: call for call in session.waiting_calls()} if session.waiting and not session.running else {}
    for decision in decisions:
        call = waiting.pop(decision.call_id, None)
        if call is None:
            raise Refused("this call does not wait for a decision")
        if arguments_hash(call) != decision.arguments_hash:
            raise Refused("the decision is stale: the call's arguments are others")
        events += _settle_one(session, call, decision)
    return events


def _settle_one(session: Session, call: ToolCall, decision: Decision) -> list[RuleGranted | CallDecided]:
    if not decision.allowed and (decision.arguments is not None or decision.scope != ONCE):
        raise Refused("a call that is refused has no scope and no other arguments")
    running = call if decision.arguments is None else changed(session.agent, call, decision.arguments)
    scope = next((scope for scope in scopes(session, running) if scope.key == decision.scope), None)
    if scope is None:
        raise Refused("this scope was not offered for this call")
    edited = None if running.arguments == call.arguments else running.arguments
    decided = CallDecided(call.id, decision.arguments_hash, decision.allowed, decision.reason, edited)
    return [*(RuleGranted(rule, call.id) for rule in scope.rules), decided]


def changed(agent: Agent, call: ToolCall, arguments: str) -> ToolCall:
    """The call with other arguments; itself where they say the same.

    Raises Refused, worded for the person, for what is no JSON object, what the tool does not take, and what policy
    refuses: a person may change a call, not the policy.
    """
    tool = agent.toolbox.get(call.name)
    if tool is None:
        raise Refused(f"there is no tool {call.name} any more")
    try:
        values = json.loads(arguments, parse_constant=_no_number)
        text = json.dumps(values, ensure_ascii=False)
        text.encode()
    except (ValueError, RecursionError) as error:  # UnicodeEncodeError is a ValueError, too
        raise Refused(f"the changed arguments are not sound JSON: {error}") from None
    if not isinstance(values, dict):
        raise Refused("the changed arguments are not a JSON object")
    if text == json.dumps(json.loads(call.arguments), ensure_ascii=False):
        return call
    other = replace(call, arguments=text)
    try:
        verdict = agent.policy.judge(tool.effects(tool.parse(other)))
    except ToolError as error:
        raise Refused(f"the changed arguments do not fit: {error}") from None
    if verdict.answer == "deny":
        raise Refused(f"the changed call is not allowed here. {verdict.why}".strip())
    return other


def _no_number(name: str) -> None:
    raise ValueError(f"{name} is not a number in JSON")


def stands_for(decided: CallDecided, call: ToolCall) -> bool:
    """Is this decision about exactly this call, as it was or as the person changed it?"""
    if decided.arguments is not None:
        return decided.arguments == call.arguments
    return decided.arguments_hash == arguments_hash(call)
