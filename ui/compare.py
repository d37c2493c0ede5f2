"""Two versions of a conversation side by side, from where they part, as HTML.

Pure functions from messages to markup. Refuses to know gradio, sessions and what a branch is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from agent.messages import AssistantMessage, Message, ToolMessage, UserMessage
from ui.markup import button
from ui.rows import glimpse
from ui.safe_text import one_line
from ui.texts import Words

MAX_CHARS = 8_000
"""Of one message."""


@dataclass(frozen=True)
class Version:
    """One side."""

    number: int
    """As the conversation counts them: 2 of 3."""
    turn: int
    """The turn in which it parts from the other."""
    messages: Sequence[Message]


def comparison(words: Words, shown: Version, other: Version) -> str:
    """The sheet over the page."""
    go_over = button(words["compare_open"], kind="gl-secondary", do="branch", value=str(other.turn))
    sides = (
        _side(words, words["compare_here"].format(number=shown.number), shown, ""),
        _side(words, words["compare_other"].format(number=other.number), other, go_over),
    )
    title = escape(words["compared"])
    return (
        f'<div class="gl-overlay"><section class="gl-compare" role="dialog" aria-modal="true" aria-label="{title}">'
        f'<header><h2>{title}</h2><span class="gl-space"></span>'
        f"{button(words['close'], icon_name='close', do='compare_close')}</header>"
        f'<div class="gl-sides">{"".join(sides)}</div></section></div>'
    )


def _side(words: Words, title: str, version: Version, way: str) -> str:
    said = "".join(_message(message) for message in version.messages)
    if len(version.messages) < 2:
        said += f'<p class="gl-small">{escape(words["compare_no_answer"])}</p>'
    return f'<div class="gl-side"><h3><span>{escape(title)}</span>{way}</h3>{said}</div>'


def _message(message: Message) -> str:
    if isinstance(message, UserMessage):
        kind = "gl-said-mine" if message.source != "glassloop" else "gl-said-quiet"
        return _text(kind, message.text)
    if isinstance(message, ToolMessage):
        name = escape(one_line(message.name, 60))
        return (
            f'<details class="gl-message"><summary><b class="gl-role">{name}</b>'
            f'<span class="gl-start">{escape(one_line(message.text, 120))}</span></summary>'
            f"<pre>{escape(message.text[:MAX_CHARS])}</pre></details>"
        )
    assert isinstance(message, AssistantMessage)
    calls = "".join(
        f'<p class="gl-said-call"><b>{escape(one_line(call.name, 60))}</b> '
        f'<span class="gl-glimpse">{escape(glimpse(call.arguments))}</span></p>'
        for call in message.tool_calls
    )
    return (_text("gl-said", message.text) if message.text.strip() else "") + calls


def _text(kind: str, text: str) -> str:
    cut = text[:MAX_CHARS]
    return f'<div class="{kind}">{escape(cut)}{"…" if len(cut) < len(text) else ""}</div>'
