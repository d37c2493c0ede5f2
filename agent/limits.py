"""How much a turn and a session may take, and when a turn is going in circles.

    steps_left   model calls that the turn has still
    watch        before each model call: is anything used up, is the end near, does the model repeat itself?
    Budgets      what the person has changed in a session: a fold of the log

A turn that has used something up ends with the reason `budget` and can go on from there, when the person gives more or
wants to hear how far it got. Knows numbers and how to count in a log. Refuses to know what a limit means for the
person: that is `TurnEnded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from agent.errors import BudgetSpent, LoopDetected
from agent.events import Budget, BudgetKind, BudgetRaised, BudgetScope, BudgetSet, Event, Meter, Nudged
from agent.messages import AssistantMessage, Message, ToolMessage

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session

KINDS: tuple[BudgetKind, ...] = ("steps", "tokens", "money", "seconds")
SCOPES: tuple[BudgetScope, ...] = ("turn", "session")

NEARLY = 0.8
"""From this share on the model is told to come to an end."""

WARN_REPEATS = 3
STOP_REPEATS = 5
"""The same calls with the same results: told to the model at the third time, given up at the fifth. A second try can be
sensible (a file may have changed); nothing was ever gained by a fifth."""
LONGEST_CIRCLE = 3
"""Steps that come round again and again count too: read, write, read, write."""

Round = tuple[tuple[str, ...], ...]
"""One step: name, arguments and result of each of its calls."""


@dataclass(frozen=True)
class Limits:
    max_steps: int = 30
    """Model calls in one turn."""
    max_sub_agents: int = 4
    """In one turn, one after another. Who needs more has cut the work too small: each begins with nothing and reads it
    all again."""
    max_tokens: int | None = None
    """Read and written in one turn."""
    max_cost: float | None = None
    """Money for one turn, in the currency of the table of prices."""
    max_seconds: float | None = None
    """Of one turn, without the time in which a person was waited for."""
    session_steps: int | None = None
    session_tokens: int | None = None
    session_cost: float | None = None
    session_seconds: float | None = None
    """The same of all turns of a session together."""
    binding: bool = False
    """They are the operator's, for strangers: nobody sets higher ones, and no more is given at a time than another
    message would give."""
    context_tokens: int | None = None
    """How much the model reads at once; None: what its server or the table says."""

    def of(self, kind: BudgetKind, scope: BudgetScope) -> float | None:
        """What may be spent; None: as much as it takes."""
        if scope == "turn":
            return {
                "steps": self.max_steps,
                "tokens": self.max_tokens,
                "money": self.max_cost,
                "seconds": self.max_seconds,
            }[kind]
        return {
            "steps": self.session_steps,
            "tokens": self.session_tokens,
            "money": self.session_cost,
            "seconds": self.session_seconds,
        }[kind]

    def watch_for_loops(self, transcript: Sequence[Message]) -> Nudged | None:
        """What to tell a model that repeats itself. Raises LoopDetected when telling did not help."""
        repeats = _repeats(transcript)
        if repeats >= STOP_REPEATS:
            raise LoopDetected
        if repeats < WARN_REPEATS:
            return None
        return Nudged(
            "repeating",
            f"You have made the same tool calls {repeats} times and got the same results each time. Do something else, "
            "or say what keeps you from finishing.",
        )


class Budgets:
    """What the person has changed about the limits of a session: a fold of the log."""

    def __init__(self) -> None:
        self._set: dict[tuple[BudgetKind, BudgetScope], float | None] = {}
        self._added: dict[BudgetKind, float] = {}

    def add(self, event: Event) -> None:
        if isinstance(event, BudgetSet):
            self._set[event.kind, event.scope] = event.limit
            if event.scope == "session":
                self._added.pop(event.kind, None)
        elif isinstance(event, BudgetRaised) and event.scope == "session":
            self._added[event.kind] = self._added.get(event.kind, 0.0) + event.by

    def limit(self, limits: Limits, kind: BudgetKind, scope: BudgetScope) -> float | None:
        """What may be spent in a turn as such, or in the session; None: as much as it takes."""
        limit = self._set.get((kind, scope), limits.of(kind, scope))
        more = self._added.get(kind, 0.0) if scope == "session" else 0.0
        return None if limit is None else limit + more


def budgets(session: Session, agent: Agent) -> list[Budget]:
    """All that is limited, and how much of it is spent: in this turn, and in the session."""
    now = session.log.now()
    spent = {"turn": session.spent(now), "session": session.spent_in_all(now)}
    found = []
    for scope in SCOPES:
        for kind in KINDS:
            limit = session.budgets.limit(agent.limits, kind, scope)
            more = session.turn.raised.get(kind, 0.0) if scope == "turn" else 0.0
            of_turn = (kind, scope) == ("steps", "turn")  # sub-agents have steps of their own
            used = session.turn.steps if of_turn else amount(spent[scope], kind)
            if limit is not None:
                found.append(Budget(kind, scope, limit + more, used))
    return found


def amount(meter: Meter, kind: BudgetKind) -> float:
    """How much of one kind was spent. Money that nobody can reckon counts as none: the page says so."""
    amounts = {"steps": meter.steps, "tokens": meter.tokens, "money": meter.money or 0.0, "seconds": meter.seconds}
    return amounts[kind]


def steps_left(session: Session, agent: Agent) -> int:
    """Model calls that the turn may still make; none where the person wants it to come to an end."""
    if session.turn.finishing:
        return 0
    limit = session.budgets.limit(agent.limits, "steps", "turn") or agent.limits.max_steps
    return max(0, int(limit + session.turn.raised.get("steps", 0.0)) - session.turn.steps)


def watch(session: Session, agent: Agent) -> None:
    """Before a model call. Raises LoopDetected, or BudgetSpent where something is used up; warns before that."""
    if warning := agent.limits.watch_for_loops(session.transcript.messages):
        session.append(warning)
    for budget in budgets(session, agent):
        if budget.spent >= budget.limit:
            raise BudgetSpent(budget)
        code = f"budget_{budget.kind}"
        if budget.limit * NEARLY <= budget.spent < budget.limit and code not in session.turn.nudges:
            session.append(Nudged(code, _nearly(budget)))


def what_is_left(session: Session, agent: Agent, steps: int) -> Limits:
    """What a sub-agent may spend of this turn: so many model calls, and no more of anything than the turn has left."""
    left: dict[BudgetKind, float] = {}
    for budget in budgets(session, agent):
        rest = max(0.0, budget.limit - budget.spent)
        left[budget.kind] = min(rest, left.get(budget.kind, rest))
    tokens, seconds = left.get("tokens"), left.get("seconds")
    return replace(
        agent.limits,
        max_steps=min(steps, int(left.get("steps", steps))),
        max_tokens=None if tokens is None else int(tokens),
        max_cost=left.get("money"),
        max_seconds=seconds,
        session_steps=None,
        session_tokens=None,
        session_cost=None,
        session_seconds=None,
    )


def last_words(session: Session) -> Nudged:
    """What the model is told before its last reply, which has no tools."""
    ask = "Without tools: say what is done and what is still open."
    if session.turn.finishing:
        return Nudged("finish", f"The user wants you to come to an end now. {ask}")
    return Nudged("step_limit", f"No steps are left. {ask}")


def _nearly(budget: Budget) -> str:
    left = budget.limit - budget.spent
    what = {
        "steps": f"model calls: {left:.0f} of {budget.limit:.0f} are left",
        "tokens": f"tokens: about {left:,.0f} of {budget.limit:,.0f} are left",
        "money": f"money: {left:.4g} of {budget.limit:.4g} is left",
        "seconds": f"time: {left:.0f} of {budget.limit:.0f} seconds are left",
    }[budget.kind]
    where = "this task" if budget.scope == "turn" else "this conversation"
    return f"{where.capitalize()} has a limit on {what}. Come to an end: do what matters most, then answer."


def _repeats(transcript: Sequence[Message]) -> int:
    """How often the steps at the end of this turn asked for the same calls and read the same results."""
    rounds = _rounds(transcript)
    return max(_times(rounds, length) for length in range(1, LONGEST_CIRCLE + 1))


def _times(rounds: list[Round], length: int) -> int:
    """How often the last `length` steps were made in a row."""
    last = rounds[-length:]
    starts = range(len(rounds) - length, -1, -length)
    return sum(1 for _ in takewhile(lambda start: rounds[start : start + length] == last, starts))


def _rounds(transcript: Sequence[Message]) -> list[Round]:
    """Each step since the person last spoke, as (name, arguments, result) of its calls."""
    rounds: list[Round] = []
    results: dict[str, str] = {}
    for message in reversed(transcript):
        if isinstance(message, ToolMessage):
            results[message.call_id] = message.text
        elif isinstance(message, AssistantMessage):
            calls = message.tool_calls
            rounds.insert(0, tuple((c.name, c.arguments, results.get(c.id, "")) for c in calls))
        elif message.source != "glassloop":
            break
    return rounds
