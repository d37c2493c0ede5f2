"""What a person does with what was said and done: edit, ask again, go over to another version, compare, undo, redo.

Most of it is begun with one action and sent, agreed to or dropped with another; what lies between is in `Begun`. Who
asks has been checked before (`ui/handlers.py`). Refuses to know gradio and how anything looks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from html import escape
from typing import Any

from agent.attached import own_words
from agent.errors import Refused
from agent.events import FromTurn, OneCall, OneUndo, UndoTarget
from agent.messages import UserMessage
from agent.session import Session
from agent.undo import OnConflict, changed_files
from ui import changes
from ui.begun import Begun
from ui.changes import Undoing
from ui.compare import Version, comparison
from ui.markup import button
from ui.refused import why
from ui.rows import Row
from ui.visits import Visit, Visits

MAX_DIFFS = 12
"""Files of one step whose differences are fetched."""

_CHOICES: Mapping[str, OnConflict] = {"refuse": "refuse", "keep_mine": "keep_mine", "overwrite": "overwrite"}

Action = Callable[[Visit, dict[str, Any]], Awaitable[None]]
"""What a button asks for, done. `data` has the button's facts. Raises Refused."""


class History:
    """The actions, by the name that a button or a link gives."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        self.actions: dict[str, Action] = {
            "edit": self._edit,
            "edit_cancel": self._cancel_edit,
            "retry": self._retry,
            "branch": self._branch,
            "compare": self._compare,
            "compare_close": self._close_comparison,
            "undo": self._undo_turn,
            "undo_step": self._undo_step,
            "undo_file": self._undo_file,
            "redo": self._redo,
            "undo_go": self._go,
            "undo_cancel": self._cancel_undo,
            "changes": self._show_changes,
        }

    # ------------------------------------------------------------------ edit and ask again

    async def _edit(self, visit: Visit, data: dict[str, Any]) -> None:
        session, turn = self._visits.session(visit), _number(data.get("value"))
        message = _message(session, turn)
        visit.begun.editing = turn
        visit.box.rewrite(own_words(message.text) if message.files else message.text)
        visit.panel_bell.set()

    async def _cancel_edit(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.begun.editing = None
        visit.panel_bell.set()

    def send_edited(self, visit: Visit, turn: int, text: str) -> None:
        """Send this in place of the message of `turn`."""
        self._visits.session(visit).edit(turn, text)
        visit.begun.editing = None
        self._visits.ring(visit.owner)

    async def _retry(self, visit: Visit, data: dict[str, Any]) -> None:
        self._visits.session(visit).retry(_number(data.get("value")))
        self._visits.ring(visit.owner)

    # ------------------------------------------------------------------ versions

    async def _branch(self, visit: Visit, data: dict[str, Any]) -> None:
        self._visits.session(visit).select(_number(data.get("value")))
        visit.begun = Begun()
        self._visits.ring(visit.owner)

    async def _compare(self, visit: Visit, data: dict[str, Any]) -> None:
        here, _, other = str(data.get("value", "")).partition(".")
        turns = _number(here), _number(other)
        session = self._visits.session(visit)
        for turn in turns:
            _message(session, turn)
        visit.begun.compared = turns
        visit.panel_bell.set()

    async def _close_comparison(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.begun.compared = None
        visit.panel_bell.set()

    # ------------------------------------------------------------------ undo and redo

    async def _undo_turn(self, visit: Visit, data: dict[str, Any]) -> None:
        await self._look(visit, FromTurn(_number(data.get("value"))))

    async def _undo_step(self, visit: Visit, data: dict[str, Any]) -> None:
        await self._look(visit, OneCall(str(data.get("value", ""))))

    async def _undo_file(self, visit: Visit, data: dict[str, Any]) -> None:
        await self._look(visit, OneCall(str(data.get("value", ""))), (str(data.get("file", "")),))

    async def _redo(self, visit: Visit, data: dict[str, Any]) -> None:
        """At once, where nobody has to choose: it is undone as easily."""
        target = OneUndo(str(data.get("value", "")))
        preview = await self._visits.session(visit).undo_preview(target)
        if preview.conflicts or preview.cannot:
            visit.begun.undoing = Undoing(target, preview)
            visit.panel_bell.set()
        else:
            await self._undo(visit, target, "refuse")

    async def _look(self, visit: Visit, target: UndoTarget, paths: tuple[str, ...] | None = None) -> None:
        session = self._visits.session(visit)
        if session.running:
            raise Refused("a turn is running; stop it first")
        visit.begun.undoing = Undoing(target, await session.undo_preview(target, paths), paths)
        visit.panel_bell.set()

    async def _go(self, visit: Visit, data: dict[str, Any]) -> None:
        """Do what was agreed to: if it is not what was shown any more, show it again."""
        undoing = visit.begun.undoing
        choice = _CHOICES.get(str(data.get("value")))
        if undoing is None or choice is None:
            return
        now = await self._visits.session(visit).undo_preview(undoing.target, undoing.paths)
        if now != undoing.preview:
            visit.begun.undoing = replace(undoing, preview=now)
            visit.say(visit.words["undo_changed_meanwhile"])
            return
        await self._undo(visit, undoing.target, choice, undoing.paths)

    async def _undo(
        self, visit: Visit, target: UndoTarget, on_conflict: OnConflict, paths: tuple[str, ...] | None = None
    ) -> None:
        await self._visits.session(visit).undo(target, paths, on_conflict)
        visit.begun.undoing = visit.begun.editing = None
        self._visits.ring(visit.owner)

    async def _cancel_undo(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.begun.undoing = None
        visit.panel_bell.set()

    # ------------------------------------------------------------------ changes

    async def _show_changes(self, visit: Visit, data: dict[str, Any]) -> None:
        visit.begun.step = str(data.get("value", ""))
        visit.tab = "changes"
        visit.panel_bell.set()

    async def panel(self, visit: Visit) -> str:
        """The changes panel: all steps, or one with its differences."""
        rows = visit.view.changed()
        row = next((row for row in rows if row.call and row.call.id == visit.begun.step), None)
        if row is None:
            return changes.all_changes(visit.words, rows)
        return changes.one_step(visit.words, row, await self._diffs(visit, row))

    async def _diffs(self, visit: Visit, row: Row) -> list[tuple[str, str]]:
        assert row.call is not None and row.result is not None
        kept = visit.begun.diffs
        if row.call.id not in kept:
            session, paths = visit.session, [str(fact["path"]) for fact in changed_files(row.result.details)]
            kept[row.call.id] = [(path, await _diff(visit, session, row.call.id, path)) for path in paths[:MAX_DIFFS]]
        return kept[row.call.id]

    # ------------------------------------------------------------------ around the message box

    def dock(self, visit: Visit) -> str:
        """What is begun: the mark of an edit, an undo to agree to, a comparison over the page."""
        words, begun = visit.words, visit.begun
        parts = []
        if begun.compared:
            parts.append(comparison(words, *(_version(visit.session, turn) for turn in begun.compared)))
        if begun.undoing:
            parts.append(changes.undo_card(words, begun.undoing))
        if begun.editing:
            parts.append(
                f'<div class="gl-queued gl-editing"><span class="gl-tag">{words["edit"]}</span>'
                f'<span class="gl-queued-text">{words["editing"]}</span>'
                f"{button(words['cancel'], kind='gl-flat gl-word', do='edit_cancel')}</div>"
            )
        if visit.offer:
            offer = button(visit.offer.label, kind="gl-secondary", do=visit.offer.do, id=visit.offer.id)
            parts.append(f'<div class="gl-notice gl-toast"><span>{escape(visit.notice)}</span>{offer}</div>')
        return "".join(parts)


def _number(value: Any) -> int:
    text = str(value)
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise Refused("there is no such turn")
    return int(text)


def _message(session: Session, turn: int) -> UserMessage:
    """The message that began this turn. Raises Refused for an unknown one."""
    try:
        message = session.transcript.of(turn)[0]
    except (KeyError, IndexError):
        raise Refused("there is no such turn") from None
    assert isinstance(message, UserMessage)
    return message


def _version(session: Session, turn: int) -> Version:
    """All that was said from this turn to the end of the newest branch through it."""
    path = session.path(session.transcript.branches.newest_leaf(turn))
    messages = [message for each in path[path.index(turn) :] for message in session.transcript.of(each)]
    return Version(session.siblings(turn).index(turn) + 1, turn, messages)


async def _diff(visit: Visit, session: Session, call_id: str, path: str) -> str:
    try:
        return await session.diff(OneCall(call_id), path)
    except Refused as refused:
        return f"[{visit.words['changes_no_diff'].format(why=why(visit.words, refused))}]"
