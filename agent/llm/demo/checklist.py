"""The demo model's checklist: what is asked for in two clauses or more is kept in sight, clause by clause.

How far it is is counted from the results, like everything here. Refuses to know what a clause leads to (`rules.py`).
"""

from __future__ import annotations

from typing import Any

from agent.llm.demo.plan import Plan, Want
from agent.llm.demo.turn import CHECKLIST, Turn

MAX_CLAUSES = 7
MAX_CHARS = 80


def checklist(plan: Plan, turn: Turn, closing: str) -> tuple[Want, ...]:
    """The call that brings the checklist up to date; none where it is, or where there is none to keep."""
    if CHECKLIST not in turn.tools or not 2 <= len(plan.parts) <= MAX_CLAUSES:
        return ()
    failed = turn.failed
    items: list[dict[str, Any]] = []
    steps, begun = 0, False
    for clause, count in plan.parts:
        steps += count
        item: dict[str, Any] = {"text": clause[:MAX_CHARS], "status": "open"}
        if len(turn.steps) >= steps and not (failed and len(turn.steps) == steps):
            item["status"] = "done"
        elif failed:
            item |= {"status": "dropped", "why": _reason(turn)}
        elif not begun:
            item["status"], begun = "doing", True
        items.append(item)
    items.append({"text": closing, "status": "open" if begun else "done"})
    return () if turn.listed.get("items") == items else (Want(CHECKLIST, {"items": items}),)


def _reason(turn: Turn) -> str:
    return next((" ".join(one.text.split())[:MAX_CHARS] for one in turn.outcomes if not one.ok), "")
