"""The pieces a turn is shown in: lines that never change, text that grows, rows of calls, and the step that makes them.

Knows how a model call becomes pieces while it streams, and what of them stays. Refuses to know turns, branches and
sessions (`ui/render.py` does).
"""

from __future__ import annotations

from typing import Union

from agent.events import CallDelta, ReasoningDelta, Replied, TextDelta
from ui.acts import under_message
from ui.rows import Row, Shown
from ui.safe_text import SafeText, plain
from ui.texts import Words, duration


class Line:
    """Something that is said once and never changes; with a title, folded to it."""

    def __init__(self, text: str, role: str = "assistant", title: str = "") -> None:
        self._shown: Shown = {"role": role, "content": text}
        if title:
            self._shown["metadata"] = {"title": title, "status": "done"}

    def shown(self) -> Shown:
        return self._shown


class Asked:
    """A message of the person, and what can be done with it."""

    def __init__(self, words: Words, text: str, turn: int, acts: bool, attached: str = "") -> None:
        """`attached`: the files that came with it, as markup."""
        self._words, self._text, self._turn, self._acts = words, plain(text) + attached, turn, acts
        self._versions: tuple[int, ...] = ()
        self._shown: Shown | None = None

    def stand_with(self, versions: tuple[int, ...]) -> None:
        """The turns that stand in each other's place, this one among them."""
        if versions != self._versions:
            self._versions, self._shown = versions, None

    def shown(self) -> Shown:
        if self._shown is None:
            acts = under_message(self._words, self._turn, self._versions) if self._acts else ""
            self._shown = {"role": "user", "content": self._text + acts}
        return self._shown


class Said:
    """Text of the model, or its reasoning (a folded row)."""

    def __init__(self, title: str = "") -> None:
        self._title = title
        self._text = SafeText()
        self._shown: Shown | None = None

    def add(self, piece: str) -> None:
        self._text.add(piece)
        self._shown = None

    def retitle(self, title: str) -> None:
        self._title = title
        self._shown = None

    def settle(self, text: str) -> None:
        """The whole text, as assembled."""
        self._text = SafeText()
        self.add(text)

    def shown(self) -> Shown:
        if self._shown is None:
            self._shown = {"role": "assistant", "content": self._text.view()}
            if self._title:
                self._shown["metadata"] = {"title": self._title, "status": "done"}
        return self._shown


Part = Union[Line, Asked, Said, Row]


class Step:
    """The parts of one model call while it streams. `Replied` settles them, `Retrying` drops them."""

    def __init__(self, words: Words, parts: list[Part]) -> None:
        self._words = words
        self._parts = parts
        self._text: Said | None = None
        self._reasoning: Said | None = None
        self._reasoning_since = 0.0
        self._drafts: dict[int, Row] = {}
        self._settled = False

    @property
    def silent(self) -> bool:
        """Nothing has come of this call yet."""
        return not (self._settled or self._text or self._reasoning or self._drafts)

    def add(self, event: TextDelta | ReasoningDelta | CallDelta, at: float) -> None:
        if isinstance(event, TextDelta):
            self._say().add(event.text)
        elif isinstance(event, ReasoningDelta):
            if self._reasoning is None:
                self._reasoning_since = at
            self._reason().add(event.text)
        else:
            self._draft(event.position).write(event.name, event.arguments)
        if self._reasoning and self._reasoning_since and not isinstance(event, ReasoningDelta):
            self._thought(at)

    def settle(self, event: Replied, at: float, request: int) -> dict[str, Row]:
        """The rows of the reply's calls by call id."""
        message = event.message
        if message.reasoning:
            self._reason().settle(message.reasoning)
            if self._reasoning_since:
                self._thought(at)
        if message.text.strip():
            self._say().settle(message.text)
        elif self._text:
            self._remove(self._text)
        rows = {}
        for position, call in enumerate(message.tool_calls):
            row = self._draft(position)
            row.settle(call, request)
            rows[call.id] = row
        for position, row in self._drafts.items():
            if position >= len(message.tool_calls):
                self._remove(row)
        self._drafts.clear()
        self._settled = True
        return rows

    def drop(self, text_too: bool) -> None:
        """Drafts of calls never became calls; after a failed attempt, its words were never said either."""
        for row in self._drafts.values():
            self._remove(row)
        self._drafts.clear()
        if text_too:
            for part in (self._text, self._reasoning):
                if part:
                    self._remove(part)
            self._text = self._reasoning = None

    def _say(self) -> Said:
        if self._text is None:
            self._text = Said()
            self._parts.append(self._text)
        return self._text

    def _reason(self) -> Said:
        if self._reasoning is None:
            self._reasoning = Said(title_of("running", self._words["thinking"]))
            self._parts.append(self._reasoning)
        return self._reasoning

    def _draft(self, position: int) -> Row:
        """The row of a call, in the model's order, whichever was begun first."""
        if position not in self._drafts:
            after = [other for other in self._drafts if other > position]
            index = self._parts.index(self._drafts[min(after)]) if after else len(self._parts)
            self._drafts[position] = Row(self._words)
            self._parts.insert(index, self._drafts[position])
        return self._drafts[position]

    def _thought(self, at: float) -> None:
        spent = duration(self._words, max(0.0, at - self._reasoning_since))
        self._reason().retitle(title_of("thought", self._words["thought"].format(duration=spent)))
        self._reasoning_since = 0.0

    def _remove(self, part: Part) -> None:
        self._parts.remove(part)


def title_of(state: str, text: str) -> str:
    """The folded line of a row that is no call."""
    return f'<span class="gl-mark gl-{state}"></span> <span class="gl-thought">{plain(text)}</span>'
