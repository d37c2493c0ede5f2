"""What a person has begun on a page and not finished: an edit, an undo to agree to, a comparison, another model.

It belongs to one tab and one conversation; going over to another drops it. Knows values. Refuses to know what they
lead to (`ui/history.py` does).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from ui.changes import Undoing
from ui.doctor import Finding
from ui.model_panel import Form


@dataclass
class Begun:
    editing: int | None = None
    """The turn whose message is being written anew."""
    undoing: Undoing | None = None
    compared: tuple[int, int] | None = None
    """The turns in which two versions part: the one that is shown, and another."""
    step: str = ""
    """The call whose changes the panel shows; empty: all of them."""
    memory: str = ""
    """The memory that is being written anew."""
    diffs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Paths and differences by call, once they were looked at: they do not change any more."""


@dataclass
class Connecting:
    """A panel that is open on a page. No key is in it."""

    form: Form
    form_number: int = 0
    """Counts how often the app has filled the form."""
    busy: str = ""
    problem: str = ""
    done: str = ""
    names: tuple[str, ...] | None = None
    findings: list[Finding] = field(default_factory=list)
    task: asyncio.Task[None] | None = None

    def close(self) -> None:
        """Whatever still goes on for it ends."""
        if self.task is not None:
            self.task.cancel()
