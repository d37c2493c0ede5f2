"""One tool call as a row of the conversation: folded to one line, opened to what went in and what came out.

Knows how a call looks at each moment of its life. Refuses to know any tool by name: the line is made from the call's
arguments and from the facts of its result, whichever tool gave them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from agent.events import CallFinished
from agent.messages import ToolCall
from agent.tool import cut_middle
from agent.undo import changed_files
from ui.acts import link
from ui.safe_text import fence, one_line, plain
from ui.texts import Words, duration, size

if TYPE_CHECKING:
    from ui.sub_agents import SubAgent

Shown = dict[str, Any]
"""A message as the chat component takes it."""

VIEW_CHARS = 4_000
"""What an opened row shows of one text at most; the panel with the exact messages has all of it."""

TAIL_CHARS = 4_000
"""What is kept of the output of a call that still runs."""

_FIRST_TEXT = re.compile(r'\{\s*"(?:[^"\\]|\\.){1,80}"\s*:\s*"((?:[^"\\]|\\.){0,200})')


@dataclass(eq=False)
class Row:
    """A call from its first streamed character to its result."""

    words: Words
    name: str = ""
    arguments: str = ""
    call: ToolCall | None = None
    state: str = "writing"
    """writing, ready, waiting, allowed, running, or a `CallStatus`."""
    request: int = 0
    """Which request of the session asked for it, from 1; 0 where that is not known."""
    why: str = ""
    changed: bool = False
    """The person changed the arguments."""
    by_rule: bool = False
    """A rule of the person's allowed it."""
    acts: bool = False
    """May the person do something with it here?"""
    undone_by: str = ""
    """The undo that took its changes to files back."""
    files_undone_by: dict[str, str] = field(default_factory=dict)
    """The same of single files, by path."""
    started: float | None = None
    seconds: float | None = None
    result: CallFinished | None = None
    seq: int = -1
    """The entry that brought the result: what was found there leads to this row."""
    output: str = ""
    inside: SubAgent | None = None
    """Who works inside the call."""
    _pieces: list[str] = field(default_factory=list)
    _shown: Shown | None = None

    def write(self, name: str, piece: str) -> None:
        """The model writes on."""
        self.name = name or self.name
        self._pieces.append(piece)
        self._shown = None

    def settle(self, call: ToolCall, request: int) -> None:
        """The call is whole."""
        self.call, self.name, self.arguments, self.request = call, call.name, call.arguments, request
        self._pieces.clear()
        self._become("ready")

    def ask(self, why: str) -> None:
        """A person has to agree first."""
        self.why = why
        self._become("waiting")

    def decide(self, allowed: bool, arguments: str | None) -> None:
        """The person has answered, and may have changed what is to run."""
        if arguments is not None:
            self.arguments, self.changed = arguments, True
        self._become("allowed" if allowed else "denied")

    def start(self, at: float, by_rule: bool) -> None:
        self.started, self.by_rule = at, by_rule
        self._become("running")

    def emit(self, text: str) -> None:
        """Output while it runs; only the end of it is kept."""
        self._pieces.append(text)
        self._shown = None

    def look_inside(self, inside: SubAgent) -> None:
        """The sub-agent has done something."""
        self.inside = inside
        self._shown = None

    def finish(self, result: CallFinished, at: float, seq: int) -> None:
        self.result, self.seq = result, seq
        self._pieces.clear()
        self.output = ""
        if self.started is not None:
            self.seconds = max(0.0, at - self.started)
        self._become(result.status)

    @property
    def has_changes(self) -> bool:
        """It changed files, and there are checkpoints of it."""
        inside = self.inside is not None and self.inside.has_changes
        return self.result is not None and (inside or "checkpoint" in self.result.details)

    def undo(self, undo_id: str, paths: Sequence[str] | None = None) -> None:
        """What it changed, or only `paths` of it, is not there any more by this undo, or is there again."""
        if paths is None:
            self.undone_by = "" if self.undone_by else undo_id
        for path in paths or ():
            if self.files_undone_by.pop(path, None) is None:
                self.files_undone_by[path] = undo_id
        self._shown = None

    def shown(self) -> Shown:
        """The row; the same object as long as nothing changed."""
        if self._shown is None:
            self._join()
            self._shown = {
                "role": "assistant",
                "content": self._body(),
                "metadata": {"title": self.title(), "status": "done"},
            }
        return self._shown

    def _become(self, state: str) -> None:
        self.state = state
        self._shown = None

    def _join(self) -> None:
        if self.call is None:
            self.arguments += "".join(self._pieces)
        else:
            self.output = (self.output + "".join(self._pieces))[-TAIL_CHARS:]
        self._pieces.clear()

    # ------------------------------------------------------------------ the folded line

    def brief(self) -> str:
        """The call in a few words, as text."""
        return f"{one_line(self.name, 60)} {glimpse(self.arguments)}".strip()

    def title(self) -> str:
        """The line, as markup."""
        state, seen = self.words[f"state_{self.state}"], glimpse(self.arguments)
        if self.inside is not None and self.result is None:
            seen = self.inside.line() or seen  # where it stands tells more than its task
        parts = [
            f'<span class="gl-mark gl-{self.state}{f" gl-at-{self.seq}" if self.result else ""}"></span>',
            f'<span class="gl-name">{plain(one_line(self.name, 60)) or "…"}</span>',
            f'<span class="gl-glimpse">{plain(seen)}</span>',
            f'<span class="gl-state gl-{self.state}">{plain(state)}</span>',
        ]
        details = self.result.details if self.result else {}
        facts = [*summary(self.words, details, seen), *changes(self.words, details, seen)]
        if self.call is not None and self.call.repairs:
            facts.append(self.words["repaired_short"])
        if self.undone_by:
            facts.insert(0, self.words["undone_short"])
        elif self.files_undone_by:
            facts.insert(0, self.words["undone_some"].format(count=len(self.files_undone_by)))
        if self.changed:
            facts.append(self.words["changed_short"])
        if self.by_rule:
            facts.append(self.words["by_rule"])
        if self.seconds is not None:
            facts.append(duration(self.words, self.seconds))
        if facts:
            parts.append(f'<span class="gl-facts">{plain(self.words["comma"].join(facts))}</span>')
        return " ".join(parts)

    # ------------------------------------------------------------------ the opened row

    def _body(self) -> str:
        blocks = []
        if self.call is not None and self.call.repairs:
            blocks.append(plain(self.words["repaired"].format(repairs="; ".join(self.call.repairs))))
        if self.why and self.state == "waiting":
            blocks.append(plain(self.words["asks_because"].format(why=self.why)))
        blocks.append(self._block("arguments", *pretty(self.arguments)))
        if self.inside is not None and (block := self.inside.block()):
            blocks.append(block)
        if self.state == "running" and self.output:
            blocks.append(self._block("output", self.output, "text"))
        if self.result is not None:
            diff = self.result.details.get("diff")
            if isinstance(diff, str) and diff.strip():
                blocks.append(self._block("changes", diff, "diff"))
            blocks.append(self._block("result", *pretty(self.result.text)))
        blocks.append(" · ".join(self._ways()))
        return "\n\n".join(blocks)

    def _ways(self) -> list[str]:
        """Links to what is behind the step."""
        ways = []
        if self.request:
            ways.append(f"[{self.words['exact_messages']}](#request-{self.request})")
        if self.acts and self.call is not None and self.has_changes:
            ways.append(link(self.words, "changes_of_step", "changes", self.call.id))
            undo, which = ("redo", self.undone_by) if self.undone_by else ("undo_step", self.call.id)
            ways.append(link(self.words, undo, undo, which))
        return ways

    def _block(self, title: str, text: str, language: str) -> str:
        note = self.words["cut_in_view"]
        return f"**{self.words[title]}**\n{fence(cut_middle(text, VIEW_CHARS, note), language)}"


def pretty(text: str) -> tuple[str, str]:
    """JSON laid out to be read, with its language; other text as it is."""
    if text.lstrip()[:1] in ("{", "["):
        try:
            return json.dumps(json.loads(text), ensure_ascii=False, indent=2), "json"
        except (ValueError, RecursionError):
            pass
    return text, "text"


def glimpse(arguments: str) -> str:
    """The first text among the arguments, whole or still being written: mostly the command, the path, the question."""
    found = _FIRST_TEXT.match(arguments[:400])
    if found is None:
        return ""
    try:
        return one_line(json.loads(f'"{found[1]}"'), 64)
    except ValueError:
        return one_line(found[1], 64)


def changes(words: Words, details: Mapping[str, Any], seen: str = "") -> list[str]:
    """The files that a call changed, in a few words: one by its name and lines, more by their number."""
    facts = changed_files(details)
    if len(facts) == 1:
        path = str(facts[0].get("path", ""))
        named = "" if path == seen else one_line(path, 40)
        what = line_counts(words, facts[0])
        return [f"{named} {what}".strip()]
    return [words["files_changed"].format(count=details.get("changed_total", len(facts)))] if facts else []


def line_counts(words: Words, fact: Mapping[str, Any]) -> str:
    """What happened to one file: `+3 −1`, or a word where lines do not count."""
    added, removed = fact.get("added"), fact.get("removed")
    if fact.get("change") == "modified" and isinstance(added, int) and isinstance(removed, int):
        return f"+{added} −{removed}"
    word = words.get(f"change_{fact.get('change')}", "")
    return f"{word} +{added}" if fact.get("change") == "added" and isinstance(added, int) else word


_COUNTS = ("lines", "entries", "matches", "replaced", "steps")
_SIZES = ("bytes", "size")
_VALUES = ("path", "value", "time", "pages")
_FLAGS = ("truncated", "killed")


def summary(words: Words, details: Mapping[str, Any], seen: str = "") -> list[str]:
    """The result's facts in a few words each, in the order a person would ask for them. `seen` stands there already."""
    facts = []
    if isinstance(code := details.get("exit_code"), int):
        facts.append(words["fact_exit_code"].format(value=code))
    if isinstance(limit := details.get("timeout_s"), (int, float)) and details.get("killed", True):
        facts.append(words["fact_timeout_s"].format(value=f"{limit:g}"))
    for key in _VALUES:
        if isinstance(value := details.get(key), (str, int, float)) and str(value) not in ("", seen):
            facts.append(one_line(str(value), 48))
    for key in _COUNTS:
        if isinstance(value := details.get(key), int) and not isinstance(value, bool):
            facts.append(words[f"fact_{key}" if value != 1 else f"fact_{key}_one"].format(value=f"{value:,}"))
    for key in _SIZES:
        if isinstance(value := details.get(key), int) and not isinstance(value, bool):
            facts.append(size(value))
        elif isinstance(value, str) and value:
            facts.append(one_line(value, 24))
    facts.extend(words[f"fact_{key}"] for key in _FLAGS if details.get(key) and "timeout_s" not in details)
    return facts
