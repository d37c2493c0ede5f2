"""Pictures of a conversation: the prompt below each, what can be done with it, and all of them together.

Pure functions from facts to markup. Refuses to know gradio, and what a click does (`ui/picturing.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from agent.messages import File
from ui.acts import link
from ui.previews import PICTURE_TYPES
from ui.safe_text import one_line, plain
from ui.texts import Words

if TYPE_CHECKING:
    from ui.render import Handed

MAX_SHOWN_PROMPT = 400
WAYS = ("again", "vary", "rework")
"""Draw the same again, draw a variation, change something in it."""


@dataclass(frozen=True)
class Drawing:
    """A picture that was made from words."""

    prompt: str
    """As it was asked for."""
    revised: str
    """What the service made of it; empty where it did not say."""
    path: str
    """In the workspace; empty where no copy is there."""


def drawing_of(details: Mapping[str, Any], index: int) -> Drawing | None:
    """What a call's facts say of the picture that is the `index`-th of its files; None where it is not from words."""
    prompt, paths = details.get("prompt"), details.get("paths", [details.get("path", "")])
    if not isinstance(prompt, str) or not prompt.strip() or not isinstance(paths, (list, tuple)):
        return None
    path = str(paths[index]) if index < len(paths) else ""
    return Drawing(prompt, str(details.get("revised", "")), path)


def under_picture(words: Words, file_id: str, drawing: Drawing, acts: bool) -> str:
    """The prompt, and the ways on."""
    said = plain(one_line(drawing.prompt, MAX_SHOWN_PROMPT))
    more = (
        f"<br><i>{plain(words['picture_revised'].format(prompt=one_line(drawing.revised, MAX_SHOWN_PROMPT)))}</i>"
        if drawing.revised
        else ""
    )
    ways = [way for way in WAYS if way == "again" or drawing.path] if acts else []
    links = "".join(link(words, f"picture_{way}", "picture", f"{way}.{file_id}") for way in ways)
    return f'<span class="gl-prompt">{said}{more}</span><span class="gl-acts gl-picture-acts">{links}</span>'


def unfinished(file: File, address: Callable[[bool], str]) -> str:
    """A picture on its way. In single quotes, as `ui/previews.py` says."""
    if file.mime not in PICTURE_TYPES or not file.path:
        return ""
    return f"<span class='gl-image gl-unfinished'><img src='{address(True)}' alt=''></span>"


def gallery(words: Words, handed: Sequence[tuple[Handed, Callable[[bool], str]]]) -> str:
    """All pictures of the conversation, the newest first; empty where there is none."""
    shown = [
        f'<a href="{escape(address(True))}" target="_blank" rel="noopener" title="{escape(_title(item))}">'
        f'<img src="{escape(address(True))}" alt="{escape(_title(item))}" loading="lazy"></a>'
        for item, address in reversed(handed)
        if item.file.mime in PICTURE_TYPES
    ]
    return f'<h2>{escape(words["gallery"])}</h2><div class="gl-gallery">{"".join(shown)}</div>' if shown else ""


def _title(item: Handed) -> str:
    return one_line(item.drawing.prompt if item.drawing else item.file.name, 200)
