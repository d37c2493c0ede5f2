"""What undos do to a conversation that is shown: the quiet line of each, and the rows whose changes are gone.

A line says what was put back and offers the way forth again; an undo that takes another one back takes its line away.
Knows undos and rows. Refuses to know turns and branches (`ui/render.py` does).
"""

from __future__ import annotations

from collections.abc import Mapping

from agent.events import OneCall, OneUndo, Undone
from agent.undo import changed_files
from ui.acts import undone_line
from ui.parts import Line
from ui.rows import Row
from ui.texts import Words


class Undos:
    """A fold of the `Undone` events of a session."""

    def __init__(self, words: Words, acts: bool) -> None:
        self._words, self._acts = words, acts
        self._rows: dict[str, Row] = {}
        self._calls: dict[str, str] = {}  # the call that an undo is about, at the end of whatever chain
        self._paths: dict[str, tuple[str, ...] | None] = {}  # and which of its files; None: all
        self._forth: dict[str, bool] = {}  # does the undo bring changes back that were undone?
        self._lines: dict[str, list[Line]] = {}  # of each undo, wherever they stand
        self._landing: Line | None = None

    def watch(self, rows: Mapping[str, Row]) -> None:
        """Calls that may be undone later, by id. The first of two with one id is the one that can be."""
        for call_id, row in rows.items():
            row.acts = self._acts
            self._rows.setdefault(call_id, row)

    def add(self, event: Undone) -> list[Line]:
        """Fold the next undo; return the lines that do not hold any more."""
        target = event.target
        call_id, paths = "", event.paths
        if isinstance(target, OneCall):
            call_id = target.call_id
        elif isinstance(target, OneUndo):
            call_id = self._calls.get(target.undo_id, "")
            paths = paths or self._paths.get(target.undo_id)
        if row := self._rows.get(call_id):
            self._calls[event.id], self._paths[event.id] = call_id, paths
            row.undo(event.id, None if paths is None else [path for path in paths if path in _changed(event)])
        forth = isinstance(target, OneUndo) and not self._forth.get(target.undo_id, False)
        self._forth[event.id] = forth
        line = Line(undone_line(self._words, event, forth, self._acts))
        self._lines[event.id] = [line]
        self._landing = line if event.moved else None
        return self._lines.get(target.undo_id, []) if isinstance(target, OneUndo) else []

    def here(self, event: Undone) -> list[Line]:
        """What the turn that was the latest at the undo says of it."""
        if not event.moved:
            return self._lines[event.id]
        if not event.gone:
            return []
        left = Line(undone_line(self._words, event, forth=False, acts=False))
        self._lines[event.id].append(left)
        return [left]

    def landing(self) -> Line | None:
        """Once after an undo that moves the conversation: the line for where it has moved to."""
        line, self._landing = self._landing, None
        return line


def _changed(event: Undone) -> set[str]:
    """The files that it did put back: not those that the person kept."""
    return {str(fact["path"]) for fact in changed_files(event.details)}
