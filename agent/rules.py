"""Rules: what a person allowed beyond one call, and what they cover.

Knows how a rule is compared with a call. Refuses to know who grants rules and when (`agent/approval.py`), where they
are kept (`agent/workspace_rules.py`), and what the words of an atom mean (the tool that declares them does).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.errors import ToolError
from agent.events import Rule
from agent.messages import ToolCall
from agent.policy import arguments_hash
from agent.tool import Atom, Tool

logger = logging.getLogger(__name__)


def identified(rule: Rule) -> Rule:
    """The rule with its id."""
    facts = [rule.lasts, rule.tool, rule.effects, rule.words, rule.arguments_hash, rule.text]
    return replace(rule, id=hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16])


def parsed(tool: Tool | None, call: ToolCall) -> Mapping[str, Any] | None:
    """The call's arguments as the tool takes them; None for a call that cannot run."""
    if tool is None or call.fault:
        return None
    try:
        return tool.parse(call)
    except ToolError:
        return None


def reach(tool: Tool, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The call's effects, as a rule names them."""
    return tuple(sorted(effect.value for effect in tool.effects(arguments)))


def atoms(tool: Tool, arguments: Mapping[str, Any]) -> Sequence[Atom]:
    """All that the call does; empty where that cannot be told, so that no rule of words covers it."""
    if tool.atoms is None:
        return ()
    try:
        return tool.atoms(arguments) or ()
    except Exception:  # a tool's bug is ours, but the person can still be asked
        logger.exception("the atoms of a %s call could not be told", tool.name)
        return ()


def covering(rules: Iterable[Rule], tool: Tool, call: ToolCall, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the rules that cover this call; empty unless they cover all of it.

    A rule holds for one tool, and for calls that reach exactly as far as the one it was granted with.
    """
    effects = reach(tool, arguments)
    fitting = [rule for rule in rules if rule.tool == call.name and rule.effects == effects]
    exact = [rule.id for rule in fitting if not rule.words and rule.arguments_hash == arguments_hash(call)]
    if exact or not fitting:
        return tuple(exact[:1])
    used: list[str] = []
    for atom in atoms(tool, arguments):
        rule = next((rule for rule in fitting if _covers(rule, atom)), None)
        if rule is None:
            return ()
        used.append(rule.id)
    return tuple(dict.fromkeys(used))


def _covers(rule: Rule, atom: Atom) -> bool:
    length = len(rule.words)
    return length >= max(atom.stem, 1) and atom.words[:length] == rule.words
