"""Where a found entry is on the page: its turn, or the place where the version that holds it parts from the one shown.

Knows logs and branches. Refuses to know how it was found and how anything looks.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.branches import Branches
from agent.events import BranchSelected, TurnStarted
from agent.session import Session


@dataclass(frozen=True)
class Place:
    turn: int
    """On the branch that is shown; 0 where no turn of it leads to the place."""
    seq: int
    elsewhere: bool = False
    """It is in a version of the conversation that is not shown."""


def place_of(session: Session, seq: int) -> Place:
    """Where the entry `seq` of the session's log is said."""
    branches = Branches()
    for entry in session.log.since(0)[: seq + 1]:
        if isinstance(entry.event, (TurnStarted, BranchSelected)):
            branches.add(entry.event)
    now = session.transcript.branches
    shown = set(now.path(now.leaf))
    if branches.leaf in shown:
        return Place(branches.leaf or 0, seq)
    for turn in branches.path(branches.leaf):  # the first that is not shown has its versions where it was left
        if turn not in shown:
            return Place(next((other for other in now.siblings(turn) if other in shown), 0), seq, elsewhere=True)
    return Place(0, seq, elsewhere=True)
