"""Files in the conversation: a card to save one, and above or below it what can be seen of it at once.

    pictures, sound, film     in place, fetched from the session's own door
    PDF                       its first page, as a picture that came with the facts
    text, code, JSON, HTML    the beginning, as a code block: never as what it would do in a browser
    tables                    the first rows

Pure functions from facts to markup for the chat component. What a preview holds was found when the file was handed over
and stands in the log; a log may be somebody's, so nothing in it is believed: texts are escaped, numbers are counted
anew, a picture must be one. Refuses to open files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.attached import own_words
from agent.messages import File, UserMessage
from ui.safe_text import fence, one_line, plain
from ui.texts import Words, size

PICTURE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
SOUND_TYPES = frozenset({"audio/mpeg", "audio/wav", "audio/ogg", "audio/flac", "audio/mp4"})
FILM_TYPES = frozenset({"video/mp4", "video/webm"})
"""What the page may show in place. Everything else is a card to save."""

MAX_TEXT_CHARS = 4_000
MAX_ROWS, MAX_COLUMNS, MAX_CELL_CHARS = 20, 12, 60
MAX_NAMES = 12
MAX_PICTURE_CHARS = 200_000

_PICTURE = re.compile(r"data:image/(?:webp|png|jpeg);base64,[A-Za-z0-9+/]+={0,2}")
_LANGUAGE = re.compile(r"[a-z]{1,12}")

Address = Callable[[bool], str]
"""Where a file is fetched; True: to be shown in place."""


def handed_file(words: Words, file: File, address: Address, preview: Any = None) -> str:
    """A file that was handed to the person. Of a recording there is no more than its name, size and preview."""
    facts = preview if isinstance(preview, Mapping) else {}
    if file.path and file.mime in PICTURE_TYPES:
        return _picture(file, address) + _save(words, file, address)
    if file.path and file.mime in SOUND_TYPES | FILM_TYPES:
        return _player(file, address) + _save(words, file, address)
    above, below = _seen(words, facts)
    return f"{above}{card(words, file, address, _about(words, facts))}{below}"


def attached_files(words: Words, message: UserMessage, address: Callable[[int], str]) -> str:
    """The files that came with a message of the person; `address` is that of one of its files, then of its images."""
    if not message.files:
        return ""
    pictures = {image.name: len(message.files) + index for index, image in enumerate(message.images)}
    shown = []
    for index, file in enumerate(message.files):
        if file.path and file.name in pictures:
            where = address(pictures[file.name])
            shown.append(_picture(file, lambda show, where=where: f"{where}?show=1"))  # type: ignore[misc]
        else:
            shown.append(card(words, file, lambda show, index=index: address(index)))  # type: ignore[misc]
    label = plain(words["attached"])
    below = " gl-attached-below" if own_words(message.text) else ""
    return f'<span class="gl-attached{below}" role="group" aria-label="{label}">{"".join(shown)}</span>'


def card(words: Words, file: File, address: Address, about: str = "") -> str:
    """Name, size and a way to save it."""
    name = f'<span class="gl-file-name">{plain(file.name)}</span>'
    facts = [size(file.size), about, words["download"] if file.path else ""]
    said = f'<span class="gl-file-size">{plain(" · ".join(fact for fact in facts if fact))}</span>'
    if not file.path:
        return f'<span class="gl-file">{name}{said}</span>'
    return f'<a class="gl-file" href="{address(False)}" download="{plain(file.name)}">{name}{said}</a>'


# ---------------------------------------------------------------------- in place
# The chat component spoils an address that follows `src="/file`, so these stand in single quotes.


def _picture(file: File, address: Address) -> str:
    shown = address(True)
    return (
        f"<a class='gl-image' href='{shown}' target='_blank' rel='noopener'>"
        f"<img src='{shown}' alt='{plain(file.name)}' loading='lazy'></a>"
    )


def _player(file: File, address: Address) -> str:
    kind = "audio" if file.mime in SOUND_TYPES else "video"
    facts = f"controls preload='metadata' src='{address(True)}' title='{plain(file.name)}'"
    return f"<{kind} class='gl-{kind}' {facts}></{kind}>"


def _save(words: Words, file: File, address: Address) -> str:
    name = plain(file.name)
    facts = f"{size(file.size)} · {plain(words['download'])}"
    return f'<a class="gl-save" href="{address(False)}" download="{name}">{name} · {facts}</a>'


# ---------------------------------------------------------------------- what came with the facts


def _about(words: Words, facts: Mapping[str, Any]) -> str:
    """What the preview is of, in two words."""
    kind = facts.get("kind")
    if kind == "pdf" and isinstance(pages := facts.get("pages"), int) and facts.get("picture"):
        return words["preview_pages"].format(pages=pages)
    if kind == "archive" and isinstance(files := facts.get("files"), int):
        return words["preview_archive"].format(files=files)
    if facts.get("cut") and kind == "table":
        return words["preview_rows"].format(rows=len(rows_of(facts)))
    return words["preview_cut"] if facts.get("cut") and kind == "text" else ""


def _seen(words: Words, facts: Mapping[str, Any]) -> tuple[str, str]:
    """What stands above the card, and what below."""
    kind = facts.get("kind")
    if kind == "pdf":
        picture = str(facts.get("picture", ""))
        if len(picture) > MAX_PICTURE_CHARS or not _PICTURE.fullmatch(picture):
            return "", ""
        return f"<span class='gl-image gl-page'><img src='{picture}' alt='{plain(words['preview'])}'></span>", ""
    if kind == "table" and (rows := rows_of(facts)):
        return "", _table(rows)
    if kind == "text" and isinstance(text := facts.get("text"), str) and text.strip():
        language = str(facts.get("language", ""))
        named = language if _LANGUAGE.fullmatch(language) else "text"
        return "", f"\n\n{fence(text[:MAX_TEXT_CHARS], named)}"
    if kind == "archive":
        listed = facts.get("names")
        names = [one_line(str(name), 80) for name in (listed if isinstance(listed, (list, tuple)) else ())[:MAX_NAMES]]
        return "", f"\n\n{fence(chr(10).join(names), 'text')}" if names else ""
    return "", ""


def rows_of(facts: Mapping[str, Any]) -> list[list[str]]:
    """The first rows of a table, cut to what a page can show."""
    rows = facts.get("rows")
    if not isinstance(rows, Sequence) or isinstance(rows, str):
        return []
    sound = [row for row in rows[:MAX_ROWS] if isinstance(row, Sequence) and not isinstance(row, str)]
    return [[one_line(str(cell), MAX_CELL_CHARS) for cell in row[:MAX_COLUMNS]] for row in sound]


def _table(rows: list[list[str]]) -> str:
    def line(cells: list[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{plain(cell)}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows[1:])
    return f'<div class="gl-table"><table><thead>{line(rows[0], "th")}</thead><tbody>{body}</tbody></table></div>'
