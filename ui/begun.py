"""What a person has begun on a page and not finished: an edit, an undo to agree to, a comparison, a look at changes.

It belongs to one tab and one conversation; going over to another drops it. Knows values. Refuses to know what they
lead to (`ui/history.py` does).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ui.changes import Undoing


@dataclass
class Begun:
    editing: int | None = None
    """The turn whose message is being written anew."""
    draft: str = ""
    """What stood in the message box before."""
    undoing: Undoing | None = None
    compared: tuple[int, int] | None = None
    """The turns in which two versions part: the one that is shown, and another."""
    step: str = ""
    """The call whose changes the panel shows; empty: all of them."""
    diffs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """Paths and differences by call, once they were looked at: they do not change any more."""
