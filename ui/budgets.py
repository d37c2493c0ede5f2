"""The gauge, the meter and the limits of a page: what they show of its session, and what a person does with them.

Who asks has been checked before (`ui/handlers.py`). Refuses to know gradio, and how anything looks (`ui/meters.py`
does).
"""

from __future__ import annotations

from math import isfinite
from typing import Any

from agent.compaction import measure
from agent.errors import Refused
from agent.events import Budget
from agent.limits import KINDS, SCOPES
from agent.session import Session
from ui import meters
from ui.history import Action
from ui.meters import Share
from ui.replay import ReplaySession
from ui.visits import Visit, Visits

SHOWN_TURNS = 6
"""Turns that are listed one by one; those before them are counted together."""


class Budgets:
    """The actions by the name that a button gives, and the markup of a visit."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        self.actions: dict[str, Action] = {
            "budget_raise": self._raise,
            "budget_finish": self._finish,
            "budget_stop": self._stop,
            "budgets": self._set,
        }

    async def _raise(self, visit: Visit, data: dict[str, Any]) -> None:
        session = self._visits.session(visit)
        budget = used_up(session)
        if budget is None or data.get("kind") != budget.kind:
            raise Refused("nothing is used up here")
        by = _number(visit, data.get("by"))
        if by is None:
            raise Refused(visit.words["limits_wrong"])
        session.raise_budget(budget.kind, by)
        self._visits.ring(visit.owner)

    async def _finish(self, visit: Visit, data: dict[str, Any]) -> None:
        self._visits.session(visit).finish()
        self._visits.ring(visit.owner)

    async def _stop(self, visit: Visit, data: dict[str, Any]) -> None:
        self._visits.session(visit).give_up()
        self._visits.ring(visit.owner)

    async def _set(self, visit: Visit, data: dict[str, Any]) -> None:
        session = self._visits.session(visit)
        wished = {(kind, scope): _number(visit, data.get(f"{scope}_{kind}")) for kind in KINDS for scope in SCOPES}
        for (kind, scope), limit in wished.items():
            if limit != session.budgets.limit(session.agent.limits, kind, scope):
                session.set_budget(kind, scope, limit)
        visit.panel_bell.set()

    # ------------------------------------------------------------------ markup

    def dock(self, visit: Visit) -> str:
        """Above the message box: the question of a turn that has used something up, and the gauge."""
        session, words = visit.session, visit.words
        if isinstance(session, ReplaySession):
            return ""
        asked = ""
        if budget := used_up(session):
            summed_up = session.turn.ended == "step_limit"
            may_raise = not (session.agent.limits.binding and budget.scope == "session")
            asked = meters.used_up(words, budget, session.agent.prices.currency, summed_up, may_raise)
        forecast = None if session.running else session.meters.forecast()
        if not session.turn.number:
            return asked
        return asked + meters.gauge(words, measure(session, session.agent), forecast)

    def panel(self, visit: Visit) -> str:
        """Above the exact messages: what takes how much, what was spent, and the limits."""
        session, words = visit.session, visit.words
        if isinstance(session, ReplaySession):
            return ""
        agent, currency = session.agent, session.agent.prices.currency
        spent = session.spent_in_all()
        unpriced = agent.model.name if spent.money is None else ""
        now = {(kind, scope): session.budgets.limit(agent.limits, kind, scope) for kind in KINDS for scope in SCOPES}
        filling = measure(session, agent) if session.turn.number else None
        shown = meters.context(words, filling, self._shares(visit, session)) if filling else ""
        return shown + meters.spent(words, spent) + meters.limits(words, now, currency, unpriced)

    def _shares(self, visit: Visit, session: Session) -> list[Share]:
        """The parts of the context, in the order in which the model reads them."""
        words, filling, counts = visit.words, measure(session, session.agent), session.counts
        path = session.transcript.branches.path(session.transcript.branches.leaf)
        view = session.compactions.view(session.transcript)
        first = {id(message): turn for turn in path for message in session.transcript.of(turn)}
        by_turn: dict[int, int] = {}
        turn = 0  # of a message that stands for others: the summary, or what was left out of a turn
        for message in view:
            turn = first.get(id(message), turn)
            by_turn[turn] = by_turn.get(turn, 0) + counts.sizes.of(message)
        scale = filling.messages / max(sum(by_turn.values()), 1)
        parts = [
            Share(words["gauge_system"], filling.system, "system"),
            Share(words["gauge_tools"], filling.tools, "tools"),
        ]
        if summary := by_turn.pop(0, 0):
            parts.append(Share(words["gauge_summary"], round(summary * scale), "summary"))
        turns = list(by_turn.items())
        if earlier := turns[:-SHOWN_TURNS]:
            tokens = round(sum(tokens for _, tokens in earlier) * scale)
            parts.append(Share(words["gauge_earlier"].format(count=len(earlier)), tokens, "turn"))
        for number, tokens in turns[-SHOWN_TURNS:]:
            parts.append(Share(words["gauge_turn"].format(number=number), round(tokens * scale), "turn"))
        return parts


def used_up(session: Session) -> Budget | None:
    """What the session's turn has used up, where a person is asked about it."""
    turn = session.turn
    if session.running or turn.ended not in ("budget", "step_limit"):
        return None
    limit = session.budgets.limit(session.agent.limits, "steps", "turn") or session.agent.limits.max_steps
    return turn.budget or Budget("steps", "turn", limit, turn.steps)


def _number(visit: Visit, text: Any) -> float | None:
    """What is written in a field; None for nothing. Raises Refused for what is no number."""
    written = str(text or "").strip()[:40]
    if not written:
        return None
    try:
        number = float(written)
    except ValueError:
        number = 0.0
    if not (isfinite(number) and number > 0):
        raise Refused(visit.words["limits_wrong"])
    return number
