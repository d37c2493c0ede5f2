"""Approval, as HTML: the calls that wait for a person, the rules in force, what was decided.

Pure functions from facts to markup. What a scope covers is said in the page's language, made from its facts. Refuses to
know gradio, where facts come from, and what a decision does.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from agent.approval import Question
from agent.events import Rule
from agent.messages import ToolCall
from agent.scopes import ONCE, Scope
from ui.decisions import Decided, Decisions
from ui.markup import button, none_yet, when
from ui.rows import glimpse, pretty
from ui.safe_text import one_line
from ui.texts import Words

MOST_PAST = 3
"""Earlier calls that a scope names; of more, their number is told."""
MOST_DECIDED = 100

WHYS: Mapping[str, str] = {
    "It runs a command, and the fence around commands is not complete on this machine.": "why_unfenced",
    "It runs a command.": "why_execute",
    "It asks for the network, outside the fence.": "why_network",
    "It costs money.": "why_spend",
    "Something from outside was read in this conversation, and it may be what asks for this.": "why_hearsay",
}
"""What `agent/policy.py` says when it asks, and the page's words for it. Whatever else is said stays as it is."""

ARGUMENT = "argument:"
"""What the name of a field begins with that holds a changed argument; the argument's name follows."""


# ---------------------------------------------------------------------- what waits


def card(words: Words, questions: Sequence[Question]) -> str:
    """All calls that wait; empty where none does."""
    if not questions:
        return ""
    title = escape(words["approval"])
    count = escape(words["approval_count"].format(count=len(questions))) if len(questions) > 1 else ""
    every = (
        f'<div class="gl-answer gl-every">{button(words["allow_all"], kind="gl-primary", do="allow_all", all="")}'
        f"{button(words['deny_all'], kind='gl-secondary', do='deny_all', all='')}</div>"
        if len(questions) > 1
        else ""
    )
    waiting = "".join(_question(words, question, compact=len(questions) > 1) for question in questions)
    return (
        f'<section class="gl-approval" aria-label="{title}"><header><h2>{title}</h2>'
        f'<span class="gl-small">{count}</span>{every}</header>'
        f"<p>{escape(words['approval_more'])}</p>{waiting}</section>"
    )


def _question(words: Words, question: Question, compact: bool) -> str:
    """What would run, word for word, from the server's side. The form carries the call's id and arguments' hash."""
    call, key = question.call, question.arguments_hash[:16] + question.call.id
    kind = " gl-compact" if compact else ""
    reason = escape(words["deny_reason"])
    why = escape(said_why(words, question.why))
    more = [scope for scope in question.scopes if scope.key != ONCE]
    return (
        f'<article class="gl-question{kind}" data-form data-id="{escape(call.id)}" '
        f'data-hash="{escape(question.arguments_hash)}" aria-label="{escape(call.name)}">'
        f"<h3>{escape(call.name)}{_effects(words, question.effects)}</h3>"
        f"{f'<p class=gl-why>{why}</p>' if why else ''}{_arguments(call)}"
        f'<div class="gl-answer">{button(words["allow_once"], kind="gl-primary", do="allow", scope=ONCE)}'
        f"{button(words['deny'], kind='gl-secondary', do='deny')}"
        f'<input type="text" name="reason" class="gl-reason" maxlength="500" data-keep="reason-{escape(key)}" '
        f'placeholder="{reason}" aria-label="{reason}"></div>'
        f'<div class="gl-ways">{_edit(words, call, key)}{_scopes(words, more, key)}</div></article>'
    )


def said_why(words: Words, why: str) -> str:
    """Why a call is asked about, in the page's language as far as it is known."""
    for sentence, key in WHYS.items():
        why = why.replace(sentence, words[key])
    return why


def _effects(words: Words, effects: Iterable[str]) -> str:
    return "".join(f' <span class="gl-tag">{escape(words[f"effect_{effect}"])}</span>' for effect in effects)


def values_of(call: ToolCall) -> dict[str, Any] | None:
    """The call's arguments by name; None where they cannot be told apart."""
    try:
        values = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) and values else None


def as_text(value: Any) -> str:
    """An argument as it is shown and edited: a text as it is (a command with its line breaks), else its JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)


def _arguments(call: ToolCall) -> str:
    values = values_of(call)
    if values is None:
        return f"<pre>{escape(pretty(call.arguments)[0])}</pre>"
    if len(values) == 1 and isinstance(only := next(iter(values.values())), str):
        return f"<pre>{escape(only)}</pre>"
    rows = (f"<dt>{escape(name)}</dt><dd><pre>{escape(as_text(value))}</pre></dd>" for name, value in values.items())
    return f"<dl>{''.join(rows)}</dl>"


def _edit(words: Words, call: ToolCall, key: str) -> str:
    """The arguments to be changed, each in a field of its own; what is not an object as JSON. Only what was changed is
    sent, so what the person left alone stays as the model wrote it to the letter."""
    values = values_of(call)
    fields = {"": pretty(call.arguments)[0]} if values is None else {n: as_text(v) for n, v in values.items()}
    shown = "".join(_field(words, name, text, key) for name, text in fields.items())
    return (
        f'<details class="gl-more" data-keep="edit-{escape(key)}"><summary>{escape(words["change_call"])}</summary>'
        f'<div class="gl-fields">{shown}<p class="gl-small">{escape(words["change_call_more"])}</p></div></details>'
    )


def _field(words: Words, name: str, text: str, key: str) -> str:
    label = escape(name or words["arguments"])
    lines = min(max(text.count("\n") + 1, len(text) // 70 + 1), 12)
    return (  # a line break right after the tag is not part of the text
        f'<label><span>{label}</span><textarea name="{ARGUMENT}{escape(name)}" rows="{lines}" data-changed '
        f'data-keep="argument-{escape(key)}-{escape(name)}" spellcheck="false" autocomplete="off">\n{escape(text)}'
        f"</textarea></label>"
    )


# ---------------------------------------------------------------------- scopes and rules


def _scopes(words: Words, scopes: Sequence[Scope], key: str) -> str:
    if not scopes:
        return ""
    ways = "".join(_scope(words, scope) for scope in scopes)
    return (
        f'<details class="gl-more gl-scopes" data-keep="scopes-{escape(key)}"><summary>{escape(words["allow_more"])}'
        f"</summary>{ways}</details>"
    )


def _scope(words: Words, scope: Scope) -> str:
    """One way to allow it for longer: a button, and below it what else it would let run."""
    said = covers(words, scope.prefixes, scope.lasts)
    more = [words["scope_any"]] if scope.prefixes else []
    if scope.past:
        more.append(_past(words, scope.past))
    return (
        f'<button class="gl-scope" data-do="allow" data-scope="{escape(scope.key)}"><b>{escape(said)}</b>'
        f"<span>{escape(' '.join(more))}</span></button>"
    )


def _past(words: Words, past: Sequence[ToolCall]) -> str:
    names = list(dict.fromkeys(glimpse(call.arguments) or one_line(call.arguments, 40) for call in past))
    shown = words["comma"].join(names[:MOST_PAST]) + ("…" if len(names) > MOST_PAST else "")
    return words["scope_past_one" if len(past) == 1 else "scope_past"].format(count=len(past), calls=shown)


def covers(words: Words, prefixes: Sequence[str], lasts: str) -> str:
    """What a rule lets run, and for how long."""
    until = words[f"lasts_{lasts}"]
    if not prefixes:
        return words["covers_exactly"].format(until=until)
    begins = words["or"].join(f"“{one_line(prefix, 60)}”" for prefix in prefixes)
    return words["covers_prefix"].format(prefix=begins, until=until)


# ---------------------------------------------------------------------- the panel


def panel(words: Words, rules: Sequence[Rule], trouble: str, decisions: Decisions, may_revoke: bool) -> str:
    """The rules in force with the way to take them back, then what was decided in this session, the latest first."""
    listed = "".join(_rule(words, rule, decisions.uses[rule.id], may_revoke) for rule in rules)
    made = "".join(_decided(words, one) for one in reversed(decisions.made[-MOST_DECIDED:]))
    warned = f'<p class="gl-small gl-warn">{escape(trouble)}</p>' if trouble else ""
    return (
        f"<h2>{escape(words['rules'])}</h2>{warned}"
        f"{f'<ul class=gl-rules>{listed}</ul>' if listed else none_yet(words['rules_none'])}"
        f"<h2>{escape(words['decisions'])}</h2>"
        f"{f'<ul class=gl-rules>{made}</ul>' if made else none_yet(words['decisions_none'])}"
    )


def _rule(words: Words, rule: Rule, uses: int, may_revoke: bool) -> str:
    prefixes = (rule.text,) if rule.words else ()
    shown = "" if rule.words else f"<code>{escape(glimpse(rule.text) or one_line(rule.text, 64))}</code>"
    facts = [words["comma"].join(words[f"effect_{effect}"] for effect in rule.effects)]
    if uses:
        facts.append(words["rule_used_one" if uses == 1 else "rule_used"].format(count=uses))
    revoke = button(words["revoke"], kind="gl-secondary", do="revoke", id=rule.id) if may_revoke else ""
    return (
        f"<li><div>{escape(covers(words, prefixes, rule.lasts))}{shown}"
        f'<p class="gl-small"><b>{escape(rule.tool)}</b> {escape(words["comma"].join(facts))}</p></div>{revoke}</li>'
    )


def _decided(words: Words, one: Decided) -> str:
    allowed = one.decision.allowed
    state = "allowed" if allowed else "denied"
    facts = [one.decision.reason] if one.decision.reason else []
    if one.decision.arguments is not None:
        facts.append(words["changed_short"])
    facts += [covers(words, (r.text,) if r.words else (), r.lasts) for r in one.rules]
    more = f'<p class="gl-small">{escape(words["comma"].join(facts))}</p>' if facts else ""
    arguments = one.call.arguments if one.decision.arguments is None else one.decision.arguments
    return (
        f'<li><div><span class="gl-verdict gl-{state}">{escape(words[f"state_{state}"])}</span> '
        f"<b>{escape(one.call.name)}</b> <code>{escape(glimpse(arguments))}</code>{more}</div>{when(one.at)}</li>"
    )
