"""The workspace, as HTML: a tree of folders and files, what can be done with each, and one file that is looked at.

Pure functions from facts to markup. Refuses to know gradio, where facts come from, and what an action does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING
from urllib.parse import quote

from ui.markup import button, icon, none_yet
from ui.previews import FILM_TYPES, PICTURE_TYPES, SOUND_TYPES, rows_of
from ui.texts import Words, size

if TYPE_CHECKING:
    from ui.browsing import Browsing, Entry, Look

MAX_ROWS = 400


def save_address(session_id: str, path: str) -> str:
    """Where a file of the workspace is fetched."""
    return f"/sessions/{quote(session_id)}/workspace?path={quote(path, safe='')}"


def look_address(session_id: str, look_id: str) -> str:
    """Where the copy that is looked at is fetched."""
    return f"/sessions/{quote(session_id)}/look/{quote(look_id)}"


def trouble(words: Words, said: str) -> str:
    return f"<h2>{escape(words['workspace'])}</h2>{none_yet(said)}"


def tree(
    words: Words,
    session_id: str,
    entries: Sequence[Entry],
    more: bool,
    browsing: Browsing,
    marks: Mapping[str, str],
    running: bool,
) -> str:
    """`marks`: what the turn did, by path; `running`: then nothing can be renamed or removed."""
    shown = [entry for entry in entries if _is_open(entry.path, browsing.folders)]
    rows = []
    for entry in shown[:MAX_ROWS]:
        if entry.path == browsing.renaming:
            rows.append(_renamed(words, entry))
        elif entry.kind == "folder":
            rows.append(_folder(words, entry, entry.path in browsing.folders, marks, running))
        else:
            rows.append(_file(words, session_id, entry, marks.get(entry.path, ""), running))
        if browsing.look is not None and browsing.look.path == entry.path:
            rows.append(f'<li class="gl-look">{_look(words, session_id, browsing.look)}</li>')
    rest = none_yet(words["workspace_rest"]) if more or len(shown) > MAX_ROWS else ""
    listed = f'<ul class="gl-files">{"".join(rows)}</ul>{rest}' if rows else none_yet(words["workspace_empty"])
    add = (
        f'<button class="gl-flat gl-word" data-add-files="/sessions/{quote(session_id)}/workspace">{icon("plus")}'
        f"<span>{escape(words['files_add'])}</span></button>"
    )
    return f'<div class="gl-files-head"><h2>{escape(words["workspace"])}</h2>{add}</div>{listed}'


def _is_open(path: str, folders: set[str]) -> bool:
    """Are all folders above it open?"""
    names = path.split("/")[:-1]
    return all("/".join(names[: depth + 1]) in folders for depth in range(len(names)))


def _depth(path: str) -> int:
    return path.count("/")


def _folder(words: Words, entry: Entry, opened: bool, marks: Mapping[str, str], running: bool) -> str:
    touched = any(path.startswith(f"{entry.path}/") for path in marks)
    dot = _dot(words, "modified") if touched and not opened else ""
    return (
        f'<li style="--depth:{_depth(entry.path)}"><button class="gl-entry" data-do="folder" '
        f'data-file="{escape(entry.path)}" aria-expanded="{"true" if opened else "false"}">{icon("folder")}'
        f'<span class="gl-file-name">{escape(_name(entry))}</span>{dot}</button>'
        f"{_menu(words, entry, '', running)}</li>"
    )


def _file(words: Words, session_id: str, entry: Entry, mark: str, running: bool) -> str:
    name = escape(_name(entry))
    inside = (
        f'{icon("file")}<span class="gl-file-name">{name}</span>{_dot(words, mark)}'
        f'<span class="gl-file-size">{size(entry.size) if entry.kind == "file" else escape(words["file_other"])}</span>'
    )
    if entry.kind != "file":
        return f'<li style="--depth:{_depth(entry.path)}"><span class="gl-entry">{inside}</span></li>'
    save = save_address(session_id, entry.path)
    return (
        f'<li style="--depth:{_depth(entry.path)}"><button class="gl-entry" data-do="file_look" '
        f'data-file="{escape(entry.path)}" title="{escape(entry.path)}">{inside}</button>'
        f"{_menu(words, entry, save, running)}</li>"
    )


def _name(entry: Entry) -> str:
    return entry.path.rpartition("/")[2]


def _dot(words: Words, mark: str) -> str:
    if not mark:
        return ""
    said = escape(words[f"change_{mark}"])
    return f'<i class="gl-touched gl-{mark}" title="{said}">{said}</i>'


def _menu(words: Words, entry: Entry, save: str, running: bool) -> str:
    more, path = escape(words["more"]), entry.path
    saved = f'<a class="gl-menu-entry" href="{escape(save)}" download>{escape(words["download"])}</a>' if save else ""
    changing = (
        ""
        if running
        else f"{button(words['rename'], kind='gl-menu-entry', do='file_rename', file=path)}"
        f"{button(words['delete'], kind='gl-menu-entry gl-bad', do='file_remove', file=path)}"
    )
    mention = button(words["file_mention"], kind="gl-menu-entry", mention=path)
    return (
        f'<details class="gl-menu"><summary title="{more}" aria-label="{more}: {escape(path)}">{icon("more")}</summary>'
        f'<div class="gl-menu-list">{mention}{saved}{changing}</div></details>'
    )


def _renamed(words: Words, entry: Entry) -> str:
    label = escape(words["rename"])
    return (
        f'<li class="gl-rename" data-form style="--depth:{_depth(entry.path)}"><input type="text" maxlength="200" '
        f'value="{escape(_name(entry))}" aria-label="{label}" data-focus>'
        f"{button(words['rename_save'], kind='gl-flat gl-word', do='file_rename_save', file=entry.path)}"
        f"{button(words['cancel'], icon_name='close', do='file_rename_cancel')}</li>"
    )


# ---------------------------------------------------------------------- one file


def _look(words: Words, session_id: str, look: Look) -> str:
    head = (
        f'<div class="gl-look-head"><b>{escape(look.file.name)}</b><span class="gl-space"></span>'
        f'<a class="gl-flat gl-word" href="{escape(save_address(session_id, look.path))}" download>'
        f"{escape(words['download'])}</a>{button(words['close'], icon_name='close', do='file_close')}</div>"
    )
    return f"{head}{_seen(words, look_address(session_id, look.id), look)}"


def _seen(words: Words, address: str, look: Look) -> str:
    """What is in it, never as what it would do in a browser."""
    file, facts = look.file, look.facts or {}
    name = escape(file.name)
    if file.mime in PICTURE_TYPES:
        return f'<img src="{escape(address)}" alt="{name}">'
    if file.mime in SOUND_TYPES:
        return f'<audio controls preload="metadata" src="{escape(address)}" title="{name}"></audio>'
    if file.mime in FILM_TYPES:
        return f'<video controls preload="metadata" src="{escape(address)}" title="{name}"></video>'
    cut = none_yet(words["preview_cut"]) if facts.get("cut") else ""
    if facts.get("kind") == "table" and (rows := rows_of(facts)):
        head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows[1:])
        return f'<div class="gl-table"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{cut}'
    if facts.get("kind") == "text":
        return f"<pre>{escape(str(facts.get('text', '')))}</pre>{cut}"
    return none_yet(words["look_empty" if file.size == 0 else "look_none"])
