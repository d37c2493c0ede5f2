"""The receipt of a Stop: what the turn had done when it was stopped, and what was ended with it.

Knows how to sum up what the log says of the turn's calls. Refuses to look at anything else: what no call has told is
not made up, and where something may be missing the receipt says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.events import CallFinished, Receipt

if TYPE_CHECKING:
    from agent.session import Session

_NET = {
    ("added", "modified"): "added",
    ("added", "deleted"): "",
    ("modified", "modified"): "modified",
    ("modified", "deleted"): "deleted",
    ("deleted", "added"): "modified",
}
"""What two changes of one file, one after the other, come to; empty: to nothing."""


def receipt(session: Session) -> Receipt:
    """The current turn's, once all its calls have their result."""
    turn = session.turn
    ran = [event for event in turn.finished if event.call_id in turn.started]
    changing = [event for event in ran if _may_change(session, event)]
    return Receipt(
        steps=turn.steps,
        calls=len(ran),
        killed=sum(_count(event, "killed") for event in ran if event.status == "stopped"),
        changed=_changed(fact for event in changing for fact in _facts(session, event)),
        complete=all(
            _watched(session, event) and _count(event, "changed_total") <= len(_facts(session, event))
            for event in changing
        ),
    )


def _may_change(session: Session, event: CallFinished) -> bool:
    tool = session.agent.toolbox.get(event.name)
    return tool is None or tool.may_change


def _watched(session: Session, event: CallFinished) -> bool:
    """Was the workspace compared before and after? Then a call without facts has changed nothing."""
    return session.agent.checkpoints is not None and "no_checkpoint" not in event.details


def _facts(session: Session, event: CallFinished) -> Sequence[Mapping[str, Any]]:
    """What the call changed; what a file tool says of itself where nobody compared."""
    details = event.details
    if "path" in details and not _watched(session, event):
        return [{"path": details["path"], "change": "modified"}]
    listed = details.get("changed")
    # A foreign tool may mean something else by this word, and the turn must end all the same.
    return [fact for fact in listed if _is_fact(fact)] if isinstance(listed, (list, tuple)) else []


def _is_fact(value: Any) -> bool:
    return isinstance(value, Mapping) and "path" in value and "change" in value


def _changed(facts: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Path and change of each file that is other than before, from the changes one after the other."""
    changed: dict[str, str] = {}
    for fact in facts:
        path, change = str(fact["path"]), str(fact["change"])
        net = _NET.get((changed.pop(path), change), change) if path in changed else change
        if net:
            changed[path] = net
    return changed


def _count(event: CallFinished, name: str) -> int:
    value = event.details.get(name, 0)
    return value if isinstance(value, int) else 0
