"""Reasoning that comes inside the text, between tags.

Knows the tags of many models, also when one of them is cut between two pieces or the opening one never came. Refuses
to look into code: a tag in a fence or in backticks is what the answer is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

Kind = Literal["text", "reasoning", "misplaced"]
"""`misplaced`: the opening tag never came, all that was given as text so far is reasoning."""
Part = tuple[Kind, str]

_PAIRS = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<seed:think>": "</seed:think>",
    "<mm:think>": "</mm:think>",
    "[THINK]": "[/THINK]",
    "◁think▷": "◁/think▷",
    "<|START_THINKING|>": "<|END_THINKING|>",
    "<|channel|>analysis<|message|>": "<|end|>",
    "<|channel>thought": "<channel|>",
}
_OPENING = re.compile("|".join(map(re.escape, _PAIRS)))
_CLOSING = re.compile(r"</(?:think|thinking|seed:think|mm:think)>|\[/THINK\]|◁/think▷")
"""Closing tags that are believed without an opening one: some servers' templates swallow it."""
_MEANS_NOTHING = (
    "<|start|>assistant<|channel|>final<|message|>",
    "<|channel|>final<|message|>",
    "]<]minimax[>[",
)
"""Tokens that only say that text, or a tag, follows."""
_STARTS = frozenset("<[]◁")


def partial_end(text: str, literals: Iterable[str]) -> int:
    """How many characters at the end of the text may be the beginning of one of the literals."""
    longest = 0
    for literal in literals:
        for length in range(min(len(literal) - 1, len(text)), longest, -1):
            if text.endswith(literal[:length]):
                longest = length
                break
    return longest


def in_code(text: str) -> bool:
    """Does the text end inside a fence or inside backticks?"""
    if text.count("```") % 2:
        return True
    return text.rpartition("\n")[2].replace("```", "").count("`") % 2 == 1


class ThinkSplitter:
    """Tells reasoning from text in pieces of content."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._held = ""
        self._closing = ""
        self._opened = False
        self._after_reasoning = False

    def feed(self, piece: str) -> Sequence[Part]:
        if self._after_reasoning:  # the white space between the two belongs to neither
            piece = piece.lstrip()
            self._after_reasoning = not piece
        if not self._held and not self._closing and _STARTS.isdisjoint(piece):
            self._text.append(piece)
            return (("text", piece),) if piece else ()
        self._held += piece
        parts: list[Part] = []
        while self._step(parts):
            pass
        return parts

    def close(self) -> Sequence[Part]:
        """What was held back."""
        held, self._held = self._held, ""
        return ((("reasoning" if self._closing else "text"), held),) if held else ()

    def _step(self, parts: list[Part]) -> bool:
        """Take one stretch off what is held; False where the rest has to wait."""
        return self._in_reasoning(parts) if self._closing else self._in_text(parts)

    def _in_reasoning(self, parts: list[Part]) -> bool:
        before, tag, after = self._held.partition(self._closing)
        if tag:
            self._give(parts, "reasoning", before)
            self._closing, self._held = "", _plain(after.lstrip())
            self._after_reasoning = not self._held
            return bool(self._held)
        wait = partial_end(self._held, [self._closing])
        self._give(parts, "reasoning", self._held[: len(self._held) - wait])
        self._held = self._held[len(self._held) - wait :]
        return False

    def _in_text(self, parts: list[Part]) -> bool:
        held = self._held = _plain(self._held)
        opening, closing = _OPENING.search(held), _CLOSING.search(held)
        first = min((m for m in (opening, closing) if m), key=lambda m: m.start(), default=None)
        if first is None:
            wait = partial_end(held, [*_PAIRS, "</think>", "</thinking>", "</seed:think>", "[/THINK]", *_MEANS_NOTHING])
            self._give(parts, "text", held[: len(held) - wait])
            self._held = held[len(held) - wait :]
            return False
        self._give(parts, "text", held[: first.start()])
        self._held = held[first.end() :]
        before = "".join(self._text)
        quoted = in_code(before) or before.endswith(('"', "'", "“", "「"))
        if first is closing and not self._opened and not quoted:
            parts.append(("misplaced", ""))
            self._text.clear()
            self._held = self._held.lstrip()
            self._after_reasoning = not self._held
        elif first is opening and not quoted and (not before.strip() or before.endswith("\n")):
            self._opened = True
            self._closing = _PAIRS[first.group()]
            self._held = self._held.lstrip()
        else:
            self._give(parts, "text", first.group())
        return bool(self._held)

    def _give(self, parts: list[Part], kind: Kind, text: str) -> None:
        if text:
            parts.append((kind, text))
            if kind == "text":
                self._text.append(text)


def _plain(text: str) -> str:
    for token in _MEANS_NOTHING:
        text = text.replace(token, "")
    return text
