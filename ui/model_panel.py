"""The model panel, as HTML: which model answers here, and the form that connects another.

Pure functions from facts to markup. A key is never among the facts: the form has a field to write one into, and no way
to read one. Refuses to know gradio, where facts come from, and how a server is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ui.doctor import Finding
from ui.markup import button, icon
from ui.texts import Words

PLACES = (
    "https://api.openai.com/v1",
    "https://api.deepseek.com/v1",
    "https://dashscope.aliyuncs.com/compatible-mode/v1",
    "https://api.moonshot.cn/v1",
    "https://open.bigmodel.cn/api/paas/v4",
    "https://openrouter.ai/api/v1",
)
HOME_PLACES = ("http://127.0.0.1:11434/v1", "http://127.0.0.1:1234/v1")
"""Addresses that the field suggests; the second ones are servers on the person's own machine."""

NO_HISTORY = 'autocomplete="off"'

MAX_LISTED = 200


@dataclass(frozen=True)
class Form:
    """What stands in the form when it is opened. Not a key."""

    base_url: str = ""
    model: str = ""
    protocol: str = "auto"


@dataclass(frozen=True)
class Connection:
    """What the panel says around the form."""

    answers: str
    """The name of the model that answers in this conversation."""
    host: str = ""
    """Where it is, if it was chosen here."""
    demo: bool = False
    own: bool = True
    """Is it the app's own?"""
    key_known: bool = False
    """Need no key be written for the address in the form?"""
    at_home: bool = True
    may_save: bool = False
    form_number: int = 0
    """Counts how often the form was filled by the app: what a person wrote before that does not come back."""
    busy: str = ""
    """What is going on: `list`, `test`, `use`, or nothing."""
    problem: str = ""
    done: str = ""
    names: tuple[str, ...] | None = None
    """What the server listed, once it was asked."""
    findings: tuple[Finding, ...] = ()


def panel(words: Words, form: Form, now: Connection) -> str:
    """The whole sheet, over the page."""
    title = escape(words["connect_title"])
    close = button(words["close"], icon_name="close", do="models_close")
    return (
        f'<div class="gl-overlay" data-do="models_close"></div>'
        f'<section class="gl-connect" role="dialog" aria-modal="true" aria-label="{title}" data-form>'
        f"<header><h2>{title}</h2>{close}</header>"
        f'<div class="gl-connect-body">{_answers(words, now)}{_fields(words, form, now)}'
        f"{_outcome(words, now)}</div><footer>{_buttons(words, now)}</footer></section>"
    )


def _answers(words: Words, now: Connection) -> str:
    key = "connect_now_demo" if now.demo else "connect_now_at" if now.host else "connect_now"
    said = escape(words[key].format(model=now.answers, host=now.host))
    note = escape(words["connect_note" if now.at_home else "connect_note_public"])
    return f'<p class="gl-connect-now">{said}</p><p class="gl-small">{note}</p>'


def _fields(words: Words, form: Form, now: Connection) -> str:
    """The fields, each kept by the browser over a redraw of the panel until the form is filled anew: see `page.js`."""

    def field(label: str, tag: str) -> str:
        return f"<label><span>{escape(words[label])}</span>{tag}</label>"

    def text(name: str, kind: str, hint: str, value: str = "", more: str = NO_HISTORY) -> str:
        return (
            f'<input type="{kind}" name="{name}" value="{escape(value)}" placeholder="{escape(hint)}" '
            f'spellcheck="false" data-keep="model:{now.form_number}:{name}" {more}>'
        )

    places = "".join(f'<option value="{place}">' for place in (*PLACES, *(HOME_PLACES if now.at_home else ())))
    key_hint = words["connect_key_known" if now.key_known else "connect_key_hint"]
    listing = button(words["connect_list"], kind="gl-secondary", do="models_list")
    address = text("base_url", "url", "https://…/v1", form.base_url, f'list="gl-places" data-first {NO_HISTORY}')
    key = text("key", "password", key_hint, more='autocomplete="new-password"')
    model = text("model", "text", words["connect_model_hint"], form.model)
    return (
        f'<div class="gl-fields">{field("connect_address", address)}<datalist id="gl-places">{places}</datalist>'
        f"{field('connect_key', key)}"
        f'<div class="gl-pair">{field("connect_model", model)}{listing}</div>{_listed(words, now)}'
        f"{field('connect_protocol', _protocols(words, form, now))}{_save(words, now)}</div>"
    )


def _protocols(words: Words, form: Form, now: Connection) -> str:
    options = "".join(
        f'<option value="{name}"{" selected" if name == form.protocol else ""}>'
        f"{escape(words[f'protocol_{name}'])}</option>"
        for name in ("auto", "tools", "json")
    )
    return f'<select name="protocol" data-keep="model:{now.form_number}:protocol">{options}</select>'


def _save(words: Words, now: Connection) -> str:
    if not now.may_save:
        return ""
    return (
        f'<label class="gl-check"><input type="checkbox" name="save" value="1" '
        f'data-keep="model:{now.form_number}:save"><span>{escape(words["connect_save"])}</span></label>'
    )


def _listed(words: Words, now: Connection) -> str:
    if now.busy == "list":
        return f'<p class="gl-small gl-dots" role="status">{escape(words["connect_listing"])}</p>'
    if now.names is None:
        return ""
    if not now.names:
        return f'<p class="gl-small" role="status">{escape(words["connect_lists_none"])}</p>'
    names = "".join(
        f'<button class="gl-chip" data-fill="model" value="{escape(name)}">{escape(name)}</button>'
        for name in now.names[:MAX_LISTED]
    )
    count = words["connect_listed_one" if len(now.names) == 1 else "connect_listed"].format(count=len(now.names))
    return (
        f'<div class="gl-chips" role="group" aria-label="{escape(count)}">'
        f'<p class="gl-small">{escape(count)}</p>{names}</div>'
    )


def _outcome(words: Words, now: Connection) -> str:
    parts = []
    if now.findings or now.busy == "test":
        found = "".join(_finding(finding) for finding in now.findings)
        going = f'<li class="gl-small gl-dots">{escape(words["connect_testing"])}</li>' if now.busy == "test" else ""
        parts.append(f'<ul class="gl-findings" role="status">{found}{going}</ul>')
    if now.busy == "use":
        parts.append(f'<p class="gl-small gl-dots" role="status">{escape(words["connect_using"])}</p>')
    if now.problem:
        parts.append(f'<p class="gl-connect-problem" role="alert">{escape(now.problem)}</p>')
    if now.done:
        parts.append(f'<p class="gl-connect-done" role="status">{escape(now.done)}</p>')
    return "".join(parts)


_TONES: Mapping[str, tuple[str, str]] = {"ok": ("good", "check"), "warn": ("warn", "warn"), "bad": ("bad", "close")}


def _finding(finding: Finding) -> str:
    tone, sign = _TONES[finding.state]
    advice = f'<p class="gl-small">{escape(finding.advice)}</p>' if finding.advice else ""
    return (
        f'<li><span class="gl-{tone}">{icon(sign)}</span><div><b>{escape(finding.subject)}</b> {escape(finding.text)}'
        f"{advice}</div></li>"
    )


def _buttons(words: Words, now: Connection) -> str:
    back = "" if now.own else button(words["connect_back"], kind="gl-flat gl-word", do="models_back")
    return (
        f"{button(words['connect_use'], kind='gl-primary', do='models_use')}"
        f"{button(words['connect_test'], kind='gl-secondary', do='models_test')}<span class=gl-space></span>{back}"
    )


def invitation(words: Words) -> str:
    """What an empty conversation with the demo model says."""
    connect = button(words["connect_title"], kind="gl-primary", do="models")
    return f'<div class="gl-invitation"><p>{escape(words["connect_demo"])}</p>{connect}</div>'


def listed_names(names: Sequence[str]) -> tuple[str, ...]:
    """A server's list without doubles, as the panel shows it."""
    return tuple(dict.fromkeys(name for name in names if name.strip()))
