"""The frame around the conversation, as HTML: header, empty page, and what stands above the message box.

Pure functions from facts to markup. Refuses to know gradio and where facts come from.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from ui.markup import LOGO, button
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


def header(words: Words, language: Language, status: Status, model: str, demo: bool, may_choose: bool) -> str:
    """`model`: the name of the one that answers here; `may_choose`: another can be connected."""
    badges = []
    if demo:
        badges.append(_badge("warn", words["demo"], words["demo_more"]))
    strength = status.boundary_strength if status.boundary_strength in _TONES else "none"
    meaning = words[f"boundary_{strength}_more"]
    fence = words[f"boundary_{strength}"]
    badges.append(_badge(_TONES[strength], fence, meaning, words["boundary"], status.boundary_line))
    if status.exposure in ("share", "space"):
        exposed = f"exposed_{status.exposure}"
        badges.append(_badge("warn", words[exposed], words[f"{exposed}_more"]))
    other = "zh" if language == "en" else "en"
    return "".join(
        [
            '<div class="gl-bar">',
            button(words["sessions"], icon_name="menu", kind="gl-flat gl-narrow", sheet="left"),
            f'{LOGO}<span class="gl-brand">Glassloop</span>',
            model_name(words, model, may_choose),
            *badges,
            '<span class="gl-space"></span>',
            button(words["other_language"], kind="gl-flat gl-word", do="language", value=other),
            button(words["theme"], icon_name="theme", theme=""),
            button(words["panel"], icon_name="panel", sheet="right"),
            "</div>",
        ]
    )


def model_name(words: Words, name: str, may_choose: bool, **data: str) -> str:
    """The model by its name: what is clicked to connect another, where that can be done."""
    if not may_choose:
        return f'<span class="gl-model" title="{escape(words["model"])}">{escape(name)}</span>'
    facts = "".join(f' data-{key.replace("_", "-")}="{escape(value)}"' for key, value in data.items())
    return (
        f'<button class="gl-model" data-do="models"{facts} title="{escape(words["connect_title"])}" '
        f'aria-haspopup="dialog"><span>{escape(name)}</span></button>'
    )


def _badge(tone: str, text: str, more: str, kind: str = "", exact: str = "") -> str:
    """A word that says more when it is pointed at or opened; `exact`: the same as the log and the model are told it."""
    line = f"<br><code>{escape(exact)}</code>" if exact else ""
    label = f"{kind}: {text}" if kind else text
    return (
        f'<details class="gl-badge gl-{tone}"><summary title="{escape(more)}" aria-label="{escape(label)}">'
        f"<span>{escape(text)}</span></summary><p><b>{escape(label)}</b><br>{escape(more)}{line}</p></details>"
    )


def welcome(words: Words, language: Language, connect: str = "") -> str:
    """What an empty conversation says; `connect`: what it says about the model."""
    examples = "".join(button(text, kind="gl-example", do="send", text=text) for text in EXAMPLES[language])
    return (
        f'<div class="gl-welcome">{LOGO}<h1>{escape(words["welcome"])}</h1>'
        f"<p>{escape(words['welcome_more'])}</p>{connect}"
        f'<div class="gl-examples" role="group" aria-label="{escape(words["try"])}">{examples}</div></div>'
    )


# ---------------------------------------------------------------------- around the message box


def dock(words: Words, notice: str, may_go_on: bool = False) -> str:
    """What stands right above the message box: a way on, a notice."""
    parts = []
    if may_go_on:
        parts.append(button(words["go_on"], kind="gl-secondary gl-go-on", do="go_on"))
    if notice:
        parts.append(f'<div class="gl-notice" role="alert">{escape(notice)}</div>')
    return "".join(parts)


def state(
    words: Words, language: Language, session_id: str, title: str, running: bool, editing: str = "", place: str = ""
) -> str:
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
        "place": place,
        "lang": {"en": "en", "zh": "zh-CN"}[language],
    }
    attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in facts.items())
    return f'<div id="gl-facts" {attributes}></div>'
