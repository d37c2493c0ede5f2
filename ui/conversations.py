"""The left panel, as HTML: the conversations, or the places where something was said.

Pure functions from facts to markup. Refuses to know gradio and where facts come from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import quote

from agent.store import Found
from ui.markup import button, icon, none_yet
from ui.texts import Words

MAX_TITLE = 60
"""Characters of a title."""


@dataclass(frozen=True)
class Listed:
    """A conversation in the list."""

    id: str
    title: str
    running: bool = False
    waiting: bool = False
    """It needs a decision of the person's."""
    pinned: bool = False
    kept: bool = True
    """Something was said in it: it can be renamed, exported, deleted."""


def left(words: Words, model: str, content: str) -> str:
    """The panel: a new conversation, then the list or what was found, then the way to bring one in. `model`: its
    name, for a small screen, where the header has no room."""
    return (
        f'<nav class="gl-sessions" aria-label="{escape(words["sessions"])}"><div class="gl-sheet-top">'
        f"{model}{button(words['close'], icon_name='close', sheet='')}</div>"
        f'<button class="gl-new" data-do="new" data-close-sheet>{icon("plus")}'
        f"<span>{escape(words['new_session'])}</span></button>{content}"
        f'<button class="gl-import" data-import>{escape(words["import"])}</button></nav>'
    )


def session_list(words: Words, sessions: Iterable[Listed], current: str, renaming: str) -> str:
    """The conversations; the one with the id `renaming` as a form."""
    items = (
        _renamed(words, session) if session.id == renaming else _item(words, session, session.id == current)
        for session in sessions
    )
    return f"<ul>{''.join(items)}</ul>"


def _item(words: Words, session: Listed, here: bool) -> str:
    title = escape(session.title or words["untitled"])
    current = ' aria-current="true"' if here else ""
    return (
        f'<li class="gl-item"{current}><button class="gl-session" data-do="open" data-id="{escape(session.id)}" '
        f'data-close-sheet{current} title="{title}"><span>{title}</span>{_marks(words, session)}</button>'
        f"{_menu(words, session) if session.kept else ''}</li>"
    )


def _marks(words: Words, session: Listed) -> str:
    marks = []
    if session.running:
        marks.append(_mark("gl-mark gl-running", words["list_running"]))
    elif session.waiting:
        marks.append(_mark("gl-mark gl-waiting", words["list_needs_you"]))
    if session.pinned:
        marks.append(f'<i class="gl-pinned" title="{escape(words["pinned"])}">{icon("pin")}</i>')
    return "".join(marks)


def _mark(kind: str, said: str) -> str:
    return f'<i class="{kind}" role="img" title="{escape(said)}" aria-label="{escape(said)}"></i>'


def _menu(words: Words, session: Listed) -> str:
    pin = button(
        words["unpin" if session.pinned else "pin"], kind="gl-menu-entry", do="pin", id=session.id,
        value="" if session.pinned else "1",
    )  # fmt: skip
    more = escape(words["more"])
    return (
        f'<details class="gl-menu"><summary title="{more}" aria-label="{more}">{icon("more")}</summary>'
        f'<div class="gl-menu-list">{pin}'
        f"{button(words['rename'], kind='gl-menu-entry', do='rename', id=session.id)}"
        f'<a class="gl-menu-entry" href="{export_address(session.id)}" download>{escape(words["export"])}</a>'
        f'<a class="gl-menu-entry" href="{report_address(session.id)}" download>{escape(words["report"])}</a>'
        f"{button(words['replay'], kind='gl-menu-entry', do='replay_this', id=session.id)}"
        f"{button(words['delete'], kind='gl-menu-entry gl-bad', do='delete', id=session.id, **_CLOSES)}</div></details>"
    )


_CLOSES = {"close-sheet": ""}
"""On a small screen the list goes away, for what is said about it stands on the page."""


def _renamed(words: Words, session: Listed) -> str:
    label = escape(words["rename"])
    return (
        f'<li class="gl-rename" data-form><input type="text" value="{escape(session.title)}" maxlength="{MAX_TITLE}" '
        f'aria-label="{label}" data-focus>'
        f"{button(words['rename_save'], kind='gl-flat gl-word', do='rename_save', id=session.id)}"
        f"{button(words['cancel'], icon_name='close', do='rename_cancel')}</li>"
    )


def export_address(session_id: str) -> str:
    """Where a conversation is fetched as one file."""
    return f"/sessions/{quote(session_id)}/export"


def report_address(session_id: str) -> str:
    """Where the report of a conversation is fetched."""
    return f"/sessions/{quote(session_id)}/report"


# ---------------------------------------------------------------------- what was found


def found(words: Words, query: str, places: Sequence[Found]) -> str:
    """The places where all words of the query were said, each with the line around the first of them."""
    if not places:
        return none_yet(words["search_none"])
    number = len(places)
    count = words["search_found_one" if number == 1 else "search_found"].format(count=number)
    return f"{none_yet(count)}<ul>{''.join(_place(words, query, place) for place in places)}</ul>"


def _place(words: Words, query: str, place: Found) -> str:
    title = escape(place.session.title or words["untitled"])
    return (
        f'<li><button class="gl-session gl-hit" data-do="found" data-id="{escape(place.session.id)}" '
        f'data-value="{place.seq}" data-close-sheet>'
        f"<b>{title}</b><span><i>{escape(words[f'said_{place.who}'])}</i> {_marked(place.excerpt, query)}</span>"
        f"</button></li>"
    )


def _marked(text: str, query: str) -> str:
    """The text with the query's words marked."""
    terms = "|".join(re.escape(term) for term in sorted(set(query.split()), key=len, reverse=True))
    pieces = re.split(f"({terms})", text, flags=re.IGNORECASE) if terms else [text]
    return "".join(
        f"<mark>{escape(piece)}</mark>" if index % 2 else escape(piece) for index, piece in enumerate(pieces)
    )
