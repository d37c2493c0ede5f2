"""The right panel, as HTML: the files of a session, and the exact messages of each request.

Pure functions from facts to markup. Refuses to know gradio and where facts come from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ui.markup import button, icon, none_yet
from ui.render import Handed
from ui.sent_requests import SentRequests
from ui.texts import Words, size

TABS = ("files", "changes", "context", "approvals", "memory")

MAX_SHOWN_CHARS = 60_000
"""Of one text in the context panel: a browser gets slow on more."""


def right(words: Words, tab: str, content: str, above: str = "") -> str:
    """The panel with its tabs, one of them open; `above`: what is shown whichever is."""
    tabs = "".join(
        f'<button role="tab" class="gl-tab" data-do="tab" data-value="{name}" '
        f'aria-selected="{"true" if name == tab else "false"}">{escape(words[name])}</button>'
        for name in TABS
    )
    return (
        f'<div class="gl-tabs" role="tablist">{tabs}<span class="gl-space"></span>'
        f"{button(words['close'], icon_name='close', sheet='')}</div>{above}"
        f'<div class="gl-panel" role="tabpanel">{content}</div>'
    )


def files(words: Words, handed: Sequence[tuple[Handed, str]], workspace: str, pictures: str) -> str:
    """The workspace and the pictures as their modules draw them, and handed-over files with their addresses, the newest
    first."""
    cards = "".join(
        f'<a class="gl-file" href="{escape(address)}" download="{escape(item.file.name)}">{icon("file")}'
        f'<span class="gl-file-name">{escape(item.file.name)}</span>'
        f'<span class="gl-file-size">{size(item.file.size)}</span></a>'
        for item, address in reversed(handed)
    )
    return f"{workspace}{pictures}<h2>{escape(words['files_handed'])}</h2>{cards or none_yet(words['files_none'])}"


def context(words: Words, requests: SentRequests, number: int | None) -> str:
    """One request as it was sent (None: the latest): each message folded, the whole as JSON below."""
    total = len(requests)
    if not total:
        return none_yet(words["context_none"])
    number = total if number is None else min(max(number, 1), total)
    sent, messages = requests[number], requests.messages(number)
    tools = len(sent.body.get("tools") or ())
    facts = words["comma"].join(
        [
            words["context_model"].format(model=sent.model),
            words["context_kept"].format(kept=sent.kept, new=len(sent.messages)),
            words["context_tools_one" if tools == 1 else "context_tools"].format(count=tools),
        ]
    )
    whose = f'<p class="gl-sub-note">{escape(words["context_sub_agent"])}</p>' if requests.call_of(number) else ""
    body = "".join(_message(words, message, index >= sent.kept) for index, message in enumerate(messages))
    raw = json.dumps({**sent.body, "messages": messages}, ensure_ascii=False, indent=2)
    return (
        f'{_turner(words, number, total)}{whose}<p class="gl-small">{escape(facts)}</p>{body}'
        f'<details class="gl-message"><summary>{escape(words["context_raw"])}</summary>{_pre(raw)}</details>'
    )


def _turner(words: Words, number: int, total: int) -> str:
    def to(key: str, target: int, possible: bool) -> str:
        if not possible:
            return f'<button class="gl-flat gl-word" disabled>{escape(words[key])}</button>'
        return button(words[key], kind="gl-flat gl-word", do="request", value=str(target))

    where = escape(words["context_of"].format(number=number, total=total))
    return (
        f'<div class="gl-turner"><span>{where}</span><span class="gl-space"></span>'
        f"{to('previous', number - 1, number > 1)}{to('next', number + 1, number < total)}</div>"
    )


def _message(words: Words, message: Mapping[str, Any], new: bool) -> str:
    role, text = str(message.get("role", "?")), _content(message)
    tag = f'<span class="gl-tag">{escape(words["context_new"])}</span>' if new else ""
    start = escape(" ".join(text[:120].split()))
    count = words["characters"].format(count=f"{len(text):,}")
    return (
        f'<details class="gl-message"><summary><b class="gl-role">{escape(role)}</b>{tag}'
        f'<span class="gl-start">{start}</span></summary><p class="gl-small">{escape(count)}</p>{_pre(text)}</details>'
    )


def _content(message: Mapping[str, Any]) -> str:
    """The message without its role: the text as it is, every other field as JSON."""
    content = message.get("content")
    rest = {key: value for key, value in message.items() if key not in ("role", "content")}
    parts = []
    if content is not None:
        parts.append(content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, indent=2))
    if rest:
        parts.append(json.dumps(rest, ensure_ascii=False, indent=2))
    return "\n".join(parts)


def _pre(text: str) -> str:
    cut = text[:MAX_SHOWN_CHARS]
    return f"<pre>{escape(cut)}{'…' if len(cut) < len(text) else ''}</pre>"
