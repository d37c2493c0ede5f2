"""Where a turn stands: a fold of the events that belong to it.

Knows what has been asked, decided, begun and finished in one turn. Refuses to know what was said in it
(`agent/transcript.py` does), and to do anything about it (`agent/session.py` does).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.events import (
    Budget,
    BudgetKind,
    BudgetRaised,
    CallAwaiting,
    CallDecided,
    CallFinished,
    CallStarted,
    Delegated,
    Event,
    FinishRequested,
    Memory,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
    PlanChanged,
    PlanItem,
    Proved,
    Recalled,
    Steered,
    StepStarted,
    StopReason,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)


@dataclass
class TurnState:
    """Where the current turn stands: a fold of the log."""

    number: int = 0
    steps: int = 0
    ended: StopReason | None = "answered"
    nudges: set[str] = field(default_factory=set)
    waiting: dict[str, CallAwaiting] = field(default_factory=dict)
    """The calls that a person is asked about and has not decided, by id."""
    decisions: dict[str, CallDecided] = field(default_factory=dict)
    queue: dict[str, MessageQueued] = field(default_factory=dict)
    """Messages that wait for their turn, by id; the same for all turns of a session."""
    recalled: tuple[Memory, ...] = ()
    """What the model was reminded of at the start."""
    plan: tuple[PlanItem, ...] = ()
    """The model's checklist; empty where it keeps none."""
    proved: Proved | None = None
    before: TurnState | None = None
    """The turn whose task this one goes on with, after an interruption."""
    delegated: set[str] = field(default_factory=set)
    """The calls that ran a sub-agent, by id."""
    raised: dict[BudgetKind, float] = field(default_factory=dict)
    """What the person has given this turn beyond its limits."""
    budget: Budget | None = None
    """What the turn has used up, where it ended so."""
    finishing: bool = False
    """The person wants to hear how far it got, and no more."""
    started: set[str] = field(default_factory=set)
    """The calls that began to run, by id."""
    finished: list[CallFinished] = field(default_factory=list)
    """The results of the turn's calls, in the order in which they came."""

    def add(self, event: Event) -> None:
        if isinstance(event, TurnStarted):
            self.number, self.steps, self.ended = event.turn, 0, None
            self.nudges.clear()
            self.queue.pop(event.queued_id or "", None)
        elif isinstance(event, StepStarted):
            self.steps = event.step
            self.decisions.clear()  # a decision dies with its step
        elif isinstance(event, CallStarted):
            self.started.add(event.call_id)
        elif isinstance(event, Delegated):
            self.delegated.add(event.call_id)
        elif isinstance(event, Nudged):
            self.nudges.add(event.code)
        elif isinstance(event, PlanChanged):
            self.plan = event.items
        elif isinstance(event, Proved):
            self.proved = event
        elif isinstance(event, CallAwaiting):
            self.waiting[event.call_id] = event
        elif isinstance(event, CallDecided):
            self.waiting.pop(event.call_id, None)
            self.decisions[event.call_id] = event
        elif isinstance(event, CallFinished):
            self.waiting.pop(event.call_id, None)
            self.finished.append(event)
        elif isinstance(event, TurnResumed):
            self.waiting.clear()  # a rule granted meanwhile may have answered what was not decided
            self.ended = None
        elif isinstance(event, (MessageQueued, MessageWithdrawn, Steered)):
            self._queue(event)
        elif isinstance(event, Recalled):
            self.recalled += event.memories
        elif isinstance(event, (BudgetRaised, FinishRequested, TurnEnded)):
            self._budget(event)

    def _queue(self, event: MessageQueued | MessageWithdrawn | Steered) -> None:
        if isinstance(event, MessageQueued):
            self.queue[event.id] = event
        else:
            self.queue.pop(event.queued_id if isinstance(event, Steered) else event.id, None)

    def _budget(self, event: BudgetRaised | FinishRequested | TurnEnded) -> None:
        """The turn has used something up or come to its end otherwise, and what the person makes of it."""
        if isinstance(event, TurnEnded):
            self.ended, self.budget, self.finishing = event.reason, event.budget, False
        elif isinstance(event, FinishRequested):
            self.finishing = True
        elif event.scope == "turn":
            self.raised[event.kind] = self.raised.get(event.kind, 0.0) + event.by
