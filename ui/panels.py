"""The frame around the conversation, as HTML: header, empty page, and what stands above the message box.

Pure functions from facts to markup. Refuses to know gradio and where facts come from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from agent.approval import Question
from agent.messages import ToolCall
from ui.markup import LOGO, button
from ui.rows import pretty
from ui.texts import EXAMPLES, Language, Words


@dataclass(frozen=True)
class Status:
    """What the page says about the app it belongs to."""

    model_name: str
    demo: bool
    """A stand-in answers instead of a model."""
    boundary_line: str
    """One sentence on what holds commands and files; the model is told the same."""
    boundary_strength: str
    """strong, partial or none: the badge."""
    exposure: str
    """Who can reach the page: local, share or space."""


# ---------------------------------------------------------------------- header

_TONES = {"strong": "good", "partial": "warn", "none": "bad"}


def header(words: Words, language: Language, status: Status) -> str:
    badges = []
    if status.demo:
        badges.append(_badge("warn", words["demo"], words["demo_more"]))
    strength = status.boundary_strength if status.boundary_strength in _TONES else "none"
    badges.append(_badge(_TONES[strength], words[f"boundary_{strength}"], status.boundary_line, words["boundary"]))
    if status.exposure in ("share", "space"):
        exposed = f"exposed_{status.exposure}"
        badges.append(_badge("warn", words[exposed], words[f"{exposed}_more"]))
    other = "zh" if language == "en" else "en"
    return "".join(
        [
            '<div class="gl-bar">',
            button(words["sessions"], icon_name="menu", kind="gl-flat gl-narrow", sheet="left"),
            f'{LOGO}<span class="gl-brand">Glassloop</span>',
            f'<span class="gl-model" title="{escape(words["model"])}">{escape(status.model_name)}</span>',
            *badges,
            '<span class="gl-space"></span>',
            button(words["other_language"], kind="gl-flat gl-word", do="language", value=other),
            button(words["theme"], icon_name="theme", theme=""),
            button(words["panel"], icon_name="panel", sheet="right"),
            "</div>",
        ]
    )


def _badge(tone: str, text: str, more: str, kind: str = "") -> str:
    label = f"{kind}: {text}" if kind else text
    return (
        f'<details class="gl-badge gl-{tone}"><summary title="{escape(more)}" aria-label="{escape(label)}">'
        f"<span>{escape(text)}</span></summary><p><b>{escape(label)}</b><br>{escape(more)}</p></details>"
    )


def welcome(words: Words, language: Language) -> str:
    """What an empty conversation says."""
    examples = "".join(button(text, kind="gl-example", do="send", text=text) for text in EXAMPLES[language])
    return (
        f'<div class="gl-welcome">{LOGO}<h1>{escape(words["welcome"])}</h1><p>{escape(words["welcome_more"])}</p>'
        f'<div class="gl-examples" role="group" aria-label="{escape(words["try"])}">{examples}</div></div>'
    )


# ---------------------------------------------------------------------- around the message box


def dock(
    words: Words, notice: str, queue: Mapping[str, str], questions: Sequence[Question], may_go_on: bool = False
) -> str:
    """What stands above the message box: questions, waiting messages, a way on, a notice."""
    parts = []
    if questions:
        title, cards = escape(words["approval"]), "".join(_question(words, question) for question in questions)
        parts.append(
            f'<section class="gl-approval" aria-label="{title}"><h2>{title}</h2>'
            f"<p>{escape(words['approval_more'])}</p>{cards}</section>"
        )
    for message_id, text in queue.items():
        parts.append(
            f'<div class="gl-queued"><span class="gl-tag">{escape(words["queued"])}</span>'
            f'<span class="gl-queued-text">{escape(text)}</span>'
            f"{button(words['withdraw'], kind='gl-flat gl-word', do='withdraw', id=message_id)}</div>"
        )
    if may_go_on:
        parts.append(button(words["go_on"], kind="gl-secondary gl-go-on", do="go_on"))
    if notice:
        parts.append(f'<div class="gl-notice" role="alert">{escape(notice)}</div>')
    return "".join(parts)


def _question(words: Words, question: Question) -> str:
    """What would run, word for word, from the server's side; the buttons carry the call's id and arguments' hash."""
    call = question.call
    bound = {"id": call.id, "hash": question.arguments_hash}
    why = f'<p class="gl-why">{escape(question.why)}</p>' if question.why else ""
    reason = escape(words["deny_reason"])
    return (
        f'<article class="gl-question" data-form><h3>{escape(call.name)}</h3>{why}{_arguments(call)}'
        f'<div class="gl-answer">{button(words["allow"], kind="gl-primary", do="allow", **bound)}'
        f"{button(words['deny'], kind='gl-secondary', do='deny', **bound)}"
        f'<input type="text" class="gl-reason" maxlength="500" placeholder="{reason}" aria-label="{reason}">'
        f"</div></article>"
    )


def _arguments(call: ToolCall) -> str:
    """The arguments one by one, texts as they are (a command with its line breaks); JSON where they are no object."""
    try:
        values = json.loads(call.arguments)
    except ValueError:
        values = None
    if not isinstance(values, dict) or not values:
        return f"<pre>{escape(pretty(call.arguments)[0])}</pre>"
    rows = []
    for name, value in values.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
        rows.append(f"<dt>{escape(str(name))}</dt><dd><pre>{escape(shown)}</pre></dd>")
    return f"<dl>{''.join(rows)}</dl>"


def state(words: Words, language: Language, session_id: str, title: str, running: bool, editing: str = "") -> str:
    """Facts for the page's script: the address bar, the window's title and the message box are named after them."""
    facts = {
        "session": session_id,
        "title": f"{title} · Glassloop" if title else "Glassloop",
        "running": "1" if running else "",
        "placeholder": words["placeholder_running" if running else "placeholder"],
        "send": words["queue" if running else "send"],
        "stop": words["stop"],
        "hint": words["hint"],
        "search": words["search"],
        "copied": words["copied"],
        "editing": editing,
        "lang": {"en": "en", "zh": "zh-CN"}[language],
    }
    attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in facts.items())
    return f'<div id="gl-facts" {attributes}></div>'
