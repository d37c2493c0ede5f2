"""Small pieces of a report's markup. Every text of a person, a model or a tool goes through `text` or `markdown`.

Knows HTML. Refuses to know what a session is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from html import escape

from markdown_it import MarkdownIt

MAX_TEXT = 100_000
"""Characters of one text that are shown. All of it is in the log that the report carries."""

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What is no text: C0 and C1 without tab and newline, what turns the writing direction, half characters."""


def clean(value: str) -> str:
    """Text that can stand in a file and does not repaint what is around it."""
    return _CONTROL.sub("", value.replace("\r\n", "\n").replace("\r", "\n"))


def text(value: str) -> str:
    """Shown character by character."""
    return escape(clean(value))


def one_line(value: str, limit: int = 120) -> str:
    """The start of a text on one line."""
    line = " ".join(clean(value[: limit * 4]).split())
    return escape(line if len(line) <= limit else line[: limit - 1] + "…")


def pre(value: str, cut: str) -> str:
    """A block of text as it is. `cut` says that something is missing, and has a place for `{count}`."""
    return f"<pre>{text(value[:MAX_TEXT])}</pre>{_cut_note(value, cut)}"


def diff(value: str, cut: str) -> str:
    """A unified diff with its lines told apart."""
    lines = clean(value[:MAX_TEXT]).rstrip("\n").split("\n")
    shown = "".join(f"<span{_diff_class(line)}>{escape(line)}</span>" for line in lines)
    return f'<pre class="diff">{shown}</pre>{_cut_note(value, cut)}'


def markdown(value: str, cut: str) -> str:
    """A model's words, laid out. No HTML, no link and no picture comes through: they are shown as they were written."""
    renderer = _renderer()
    tokens = renderer.parse(clean(value[:MAX_TEXT]))
    for token in tokens:
        token.attrs.pop("style", None)  # the alignment of a table's cells, which the page's policy forbids
    return f'<div class="said">{renderer.renderer.render(tokens, renderer.options, {})}</div>{_cut_note(value, cut)}'


def folded(summary: str, body: str, kind: str = "", is_open: bool = False) -> str:
    """Something to open. `summary` and `body` are markup."""
    return f'<details class="{kind}"{" open" if is_open else ""}><summary>{summary}</summary>{body}</details>'


def note(markup: str) -> str:
    return f'<p class="note">{markup}</p>'


@dataclass(frozen=True)
class Span:
    """A stretch of time on a bar."""

    kind: str
    """model or tool."""
    start: float
    end: float


def bar(spans: Iterable[Span], start: float, end: float, label: str) -> str:
    """The spans from left to right, drawn without any style of their own: a strict policy forbids those."""
    total = max(end - start, 0.001)
    drawn = []
    for span in spans:
        left = min(max((span.start - start) / total, 0.0), 1.0)
        right = min(max((span.end - start) / total, left), 1.0)
        width = max(right - left, 0.003)
        drawn.append(f'<rect class="{span.kind}" x="{left:.2%}" width="{width:.2%}" height="100%"/>')
    return f'<svg class="bar" role="img" aria-label="{text(label)}">{"".join(drawn)}</svg>'


@cache
def _renderer() -> MarkdownIt:
    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    return renderer.disable(["image", "link", "autolink", "reference", "html_block", "html_inline"])


def _cut_note(value: str, cut: str) -> str:
    return note(escape(cut.format(count=f"{len(value) - MAX_TEXT:,}"))) if len(value) > MAX_TEXT else ""


def _diff_class(line: str) -> str:
    if line.startswith(("+++", "---", "@@")):
        return ' class="place"'
    return ' class="plus"' if line.startswith("+") else ' class="minus"' if line.startswith("-") else ""
