"""The tree of turns: the log is one line, the conversation in it may branch.

A turn names the turn it follows. Editing a message makes a sibling: a new turn with the same parent. The branch that is
on the screen ends in one leaf, and only the leaf's turn can run. Knows turn numbers and who follows whom. Refuses to
know what was said in a turn (`agent/transcript.py` does).
"""

from __future__ import annotations

from agent.events import BranchSelected, Event, TurnStarted


class Branches:
    """A fold of the log. Turn numbers count from 1 in the order of the log, whatever branch they are on."""

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.leaf: int | None = None
        """The last turn of the selected branch; None before the first turn."""

    def add(self, event: Event) -> None:
        """Raises ValueError for a turn out of order and for a turn that is not there."""
        if isinstance(event, TurnStarted):
            if event.turn != len(self.parents) + 1 or not (event.parent is None or event.parent in self.parents):
                raise ValueError(f"turn {event.turn} cannot follow turn {event.parent} here")
            self.parents[event.turn] = event.parent
            self.leaf = event.turn
        elif isinstance(event, BranchSelected):
            if event.turn is not None and event.turn not in self.parents:
                raise ValueError(f"there is no turn {event.turn}")
            self.leaf = event.turn

    def path(self, leaf: int | None) -> list[int]:
        """The turns from the first to `leaf`, in order; empty for None. Raises KeyError for an unknown turn."""
        path: list[int] = []
        while leaf is not None:
            path.append(leaf)
            leaf = self.parents[leaf]
        return path[::-1]

    def siblings(self, turn: int) -> list[int]:
        """The versions of this turn, itself among them, oldest first. Raises KeyError for an unknown turn."""
        parent = self.parents[turn]
        return [other for other, its_parent in self.parents.items() if its_parent == parent]

    def newest_leaf(self, turn: int) -> int:
        """Where the newest branch through `turn` ends."""
        through = {turn}
        for later, parent in self.parents.items():
            if parent in through:
                through.add(later)
        return max(through)  # a turn is younger than its parent, so the youngest has no children
