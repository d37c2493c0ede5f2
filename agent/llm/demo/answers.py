"""From results to words: only what stands in a result is told, and what failed or was not understood is said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from agent.llm.demo.facts import Ran, command_in, listing_in, size_of
from agent.llm.demo.plan import Plan
from agent.llm.demo.turn import Language, Outcome, Turn
from agent.llm.demo.words import Words

MAX_LINES = 24
MAX_CHARS = 1_500
"""Of a result in an answer: the whole stands in the step above it."""

GLIMPSE_CHARS = 80
"""Of what is quoted back."""

_QUIET = {"write_file", "append_file", "edit_file", "send_file", "generate_image", "draw_diagram", "draw_chart"}
"""Tools whose sentence says it all."""


def answer(turn: Turn, plan: Plan, missing: set[str], words: Words) -> str:
    """The answer that ends a turn, with the demo's mark as its last line."""
    parts = [part for outcome in turn.outcomes for part in _tell(outcome, turn.language, words)]
    tools = words.between.join(f"`{name}`" for name in sorted(turn.tools)) or "-"
    parts += [words.sayings[key].format(tools=tools) for key in plan.sayings]
    lost = plan.lost or ([] if parts or plan.steps else [turn.text])
    parts += [words.lost.format(clause=_glimpse(clause)) for clause in lost]
    if missing:
        parts.append(words.missing.format(names=words.between.join(f"`{name}`" for name in sorted(missing))))
    elif len(turn.steps) < len(plan.steps):
        parts.append(words.left_open)
    if turn.told:
        parts.append(words.told.format(text=_glimpse(turn.told)))
    return "\n\n".join([*parts, f"*{words.mark}*"])


def _tell(outcome: Outcome, language: Language, words: Words) -> Iterator[str]:
    name = outcome.call.name
    if name == "run_command" and (ran := command_in(outcome.text)):
        yield from _tell_command(outcome, ran, words)
    elif not outcome.ok:
        yield words.failed.format(reason=_reason(outcome.text))
    else:
        facts: dict[str, Any] = {"size": size_of(outcome.text, language), **outcome.arguments}
        yield words.results.get(name, f"`{name}`:").format(**facts)
        if name not in _QUIET and outcome.text.strip():
            yield fenced(_cut(outcome.text, words))


def _tell_command(outcome: Outcome, ran: Ran, words: Words) -> Iterator[str]:
    ended = words.exit_code.format(code=ran.exit_code) if ran.exit_code is not None else f"[{ran.ended}]"
    yield f"{words.results['run_command'].format(**outcome.arguments)} {ended}"
    if ran.output.strip():
        yield fenced(_cut(ran.output, words))
    if listing := listing_in(ran.output):
        shown = words.between.join(f"`{name}`" for name in (*listing.folders, *listing.files)[:12])
        names = words.names.format(names=shown) if shown else ""
        yield words.listing.format(files=len(listing.files), folders=len(listing.folders), names=names)
        if listing.largest:
            yield words.largest.format(name=listing.largest, size=listing.largest_bytes)


def _reason(text: str) -> str:
    """The reason in a failed result, which may be the toolbox's JSON."""
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return str(found.get("error", text)) if isinstance(found, dict) else text


def _glimpse(clause: str) -> str:
    line = " ".join(clause.split())
    return line if len(line) <= GLIMPSE_CHARS else line[:GLIMPSE_CHARS] + "…"


def _cut(text: str, words: Words) -> str:
    lines = text.strip("\n").splitlines()
    kept: list[str] = []
    for line in lines[:MAX_LINES]:
        if sum(map(len, kept)) + len(line) > MAX_CHARS and kept:
            break
        kept.append(line[:MAX_CHARS])
    left = len(lines) - len(kept)
    return "\n".join([*kept, words.cut.format(count=left)] if left else kept)


def fenced(text: str) -> str:
    """A code block that nothing in the text can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}text\n{text}\n{fence}"
