"""What is remembered of a person: the list in the right panel, and what they do with it.

Every access goes through the memory of the session on the page, which belongs to whoever asks (`ui/handlers.py` has
checked that). Knows how a memory looks. Refuses to know gradio, and how memories are kept and chosen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from agent.errors import Refused
from agent.store.memories import MAX_CHARS, Memories, Remembered
from ui.history import Action
from ui.markup import button, none_yet, when
from ui.replay import ReplaySession
from ui.safe_text import one_line
from ui.texts import Words
from ui.visits import Offer, Visit, Visits


class MemoryList:
    """The list and its actions, by the name that a button gives."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        self.actions: dict[str, Action] = {
            "memory_switch": self._switch,
            "memory_edit": self._begin,
            "memory_cancel": self._end,
            "memory_save": self._save,
            "memory_delete": self._delete,
            "memory_undelete": self._undelete,
        }

    async def _switch(self, visit: Visit, data: dict[str, Any]) -> None:
        await asyncio.to_thread(self._memories(visit).switch, data.get("value") == "on")
        self._visits.ring(visit.owner)

    async def _begin(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.begun.memory = str(data.get("id", ""))
        visit.panel_bell.set()

    async def _end(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.begun.memory = ""
        visit.panel_bell.set()

    async def _save(self, visit: Visit, data: dict[str, Any]) -> None:
        """What is refused stays in its field."""
        await asyncio.to_thread(self._memories(visit).edit, str(data.get("id", "")), str(data.get("memory", "")))
        visit.begun.memory = ""
        self._visits.ring(visit.owner)

    async def _delete(self, visit: Visit, data: dict[str, Any]) -> None:
        gone = await asyncio.to_thread(self._memories(visit).delete, str(data.get("id", "")))
        said = visit.words["memory_deleted"].format(text=one_line(gone.text, 60))
        visit.say(said, Offer(visit.words["undo"], "memory_undelete", gone.id))
        self._visits.ring(visit.owner)

    async def _undelete(self, visit: Visit, data: dict[str, Any]) -> None:
        await asyncio.to_thread(self._memories(visit).undelete, str(data.get("id", "")))
        self._visits.ring(visit.owner)

    def _memories(self, visit: Visit) -> Memories:
        memory = self._visits.session(visit).memory
        if memory is None:
            raise Refused("there is no memory here")
        return memory

    async def panel(self, visit: Visit) -> str:
        """The switch and the list."""
        words, memory = visit.words, visit.session.memory
        if memory is None:
            recorded = isinstance(visit.session, ReplaySession)
            return none_yet(words["memory_not_in_recordings"] if recorded else words["memory_not_here"])
        there, on = await asyncio.gather(asyncio.to_thread(memory.all), asyncio.to_thread(lambda: memory.on))
        titles = {one.id: one.title or words["untitled"] for one in await self._visits.listed(visit)}
        return panel(words, there, on, titles, visit.begun.memory)


def panel(words: Words, there: Sequence[Remembered], on: bool, titles: Mapping[str, str], editing: str) -> str:
    """`titles`: of the owner's conversations, by id. `editing`: the memory that is being written anew."""
    way, label = ("off", words["memory_switch_off"]) if on else ("on", words["memory_switch_on"])
    state = words["memory_on"] if on else words["memory_off"]
    items = "".join(
        _field(words, one) if one.id == editing else _memory(words, one, titles.get(one.session_id)) for one in there
    )
    listed = f'<ul class="gl-memories">{items}</ul>' if items else none_yet(words["memory_none"])
    return (
        f'<p class="gl-small">{escape(words["memory_about"])}</p>'
        f'<p class="gl-memory-switch"><span class="gl-mark gl-{"done" if on else "stopped"}"></span>'
        f"<span>{escape(state)}</span>"
        f"{button(label, kind='gl-secondary', do='memory_switch', value=way)}</p>{listed}"
    )


def _memory(words: Words, one: Remembered, title: str | None) -> str:
    always = f'<span class="gl-tag">{escape(words["memory_always"])}</span> ' if one.always else ""
    if title is None:
        origin = escape(words["memory_from_gone"])
    else:
        link = (
            f'<button class="gl-link" data-do="open" data-id="{escape(one.session_id)}">'
            f"{escape(one_line(title, 40))}</button>"
        )
        origin = f"{escape(words['memory_from'])} {link}"
    used = f"{escape(words['memory_used'])} {when(one.used_at)}" if one.used_at else escape(words["memory_never_used"])
    return (
        f'<li><p>{always}{escape(one.text)}</p><p class="gl-small">{origin} · {when(one.at)} · {used}</p>'
        f'<div class="gl-answer">{button(words["memory_edit"], kind="gl-flat gl-word", do="memory_edit", id=one.id)}'
        f"{button(words['delete'], kind='gl-flat gl-word', do='memory_delete', id=one.id)}</div></li>"
    )


def _field(words: Words, one: Remembered) -> str:
    label = escape(words["memory_text"])
    return (  # a line break right after the tag is not part of the text
        f'<li data-form data-id="{escape(one.id)}"><textarea name="memory" rows="3" maxlength="{MAX_CHARS}" '
        f'aria-label="{label}" data-keep="memory-{escape(one.id)}">\n{escape(one.text)}</textarea>'
        f'<div class="gl-answer">{button(words["memory_save"], kind="gl-primary", do="memory_save")}'
        f"{button(words['cancel'], kind='gl-secondary', do='memory_cancel')}</div></li>"
    )
