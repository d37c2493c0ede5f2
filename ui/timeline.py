"""What happened in a session, in order: turns of steps of calls, with the times at which each began and ended.

A fold of the log for readers who look back at the whole of it, such as the report. Deltas leave no trace in it unless
their reply was cut off. Knows what belongs to what. Refuses to know how anything looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Union

from typing_extensions import assert_never

from agent.events import (
    BranchSelected,
    BudgetRaised,
    BudgetSet,
    CallAwaiting,
    CallDecided,
    CallDelta,
    CallFinished,
    CallStarted,
    Compacted,
    Delegated,
    FinishRequested,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
    OutputDelta,
    PartialPicture,
    PlanChanged,
    PlanItem,
    Proved,
    ReasoningDelta,
    Recalled,
    Replied,
    RequestSent,
    Retrying,
    Rule,
    RuleGranted,
    RuleRevoked,
    Steered,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Undone,
)
from agent.log import Entry
from agent.messages import ToolCall


@dataclass
class Call:
    """A tool call from the reply that asked for it to its result."""

    call: ToolCall
    awaiting: CallAwaiting | None = None
    decided: CallDecided | None = None
    rules: list[Rule] = field(default_factory=list)
    """What was granted with the decision."""
    started: float | None = None
    by_rules: int = 0
    """How many rules of the person's allowed it, where no person was asked."""
    inside: Timeline | None = None
    """What its sub-agent did."""
    finished: CallFinished | None = None
    finished_seq: int = 0
    ended: float | None = None


@dataclass
class Step:
    """One model call and the calls it asked for."""

    number: int
    started: float
    requests: list[RequestSent] = field(default_factory=list)
    retries: list[Retrying] = field(default_factory=list)
    reply: Replied | None = None
    replied: float | None = None
    partial: str = ""
    """What had been said of a reply that never came to its end."""
    calls: list[Call] = field(default_factory=list)


Note = Union[Nudged, Compacted, BudgetRaised, FinishRequested, Recalled, Steered, Undone, TurnResumed]


@dataclass
class Turn:
    started: TurnStarted
    at: float
    grows: bool
    """Does it follow the turn that was the last one on the screen? If not, it begins a branch."""
    parts: list[Step | Note] = field(default_factory=list)
    plan: tuple[PlanItem, ...] = ()
    """As it was at the end."""
    proved: Proved | None = None
    ended: TurnEnded | None = None
    ended_at: float | None = None

    @property
    def steps(self) -> list[Step]:
        return [part for part in self.parts if isinstance(part, Step)]


def every_step(turns: Iterable[Turn]) -> Iterator[Step]:
    """The steps of the turns, and those of their sub-agents."""
    for turn in turns:
        for step in turn.steps:
            yield step
            for call in step.calls:
                yield from every_step(call.inside.turns if call.inside else ())


class Timeline:
    """The fold. Raises KeyError for an entry that cannot follow."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.turns: list[Turn] = []
        self._turn: Turn | None = None
        self._step: Step | None = None
        self._calls: dict[str, Call] = {}
        self._said: list[str] = []
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        event = entry.event
        match event:
            case TurnStarted() | BranchSelected():
                self._go_to(event, entry.at)
            case TurnEnded() | TurnResumed() | Nudged() | Undone() | Steered() | Recalled():
                self._note(event, entry.at)
            case StepStarted():
                self._step = Step(event.step, entry.at)
                self._said.clear()
                if self._turn:
                    self._turn.parts.append(self._step)
            case RequestSent() | Retrying() | TextDelta() | Replied():
                self._in_step(event, entry.at)
            case CallAwaiting() | CallDecided() | RuleGranted() | CallStarted() | CallFinished():
                self._in_call(event, entry)
            case Delegated():
                call = self._calls[event.call_id]
                call.inside = call.inside or Timeline()
                call.inside.add(replace(entry, event=event.event))
            case ReasoningDelta() | CallDelta() | OutputDelta() | PartialPicture():
                pass  # their end holds them
            case MessageQueued() | MessageWithdrawn() | RuleRevoked():
                pass  # a queued message is the start of its own turn; a rule stands with the calls it allowed
            case BudgetRaised() | FinishRequested() | Compacted():
                self._note(event, entry.at)
            case BudgetSet():
                pass  # a limit shows where it is reached
            case PlanChanged() if self._turn:
                self._turn.plan = event.items
            case Proved() if self._turn:
                self._turn.proved = event
            case PlanChanged() | Proved():
                pass  # of no turn: a log that was cut by hand
            case _:
                assert_never(event)

    def _go_to(self, event: TurnStarted | BranchSelected, at: float) -> None:
        if isinstance(event, TurnStarted):
            leaf = self._turn.started.turn if self._turn else None
            self._turn = Turn(event, at, grows=event.parent == leaf)
            self.turns.append(self._turn)
        else:
            self._turn = None if event.turn is None else self.turns[event.turn - 1]
        self._step = None

    def _note(self, event: TurnEnded | Note, at: float) -> None:
        if self._turn is None:
            return
        if isinstance(event, TurnEnded):
            self._turn.ended, self._turn.ended_at = event, at
            if self._step is not None:
                self._step.partial = "".join(self._said)
            self._step = None
        else:
            self._turn.parts.append(event)

    def _in_step(self, event: RequestSent | Retrying | TextDelta | Replied, at: float) -> None:
        step = self._step
        if step is None:
            return
        if isinstance(event, RequestSent):
            step.requests.append(event)
        elif isinstance(event, Retrying):
            step.retries.append(event)
            self._said.clear()
        elif isinstance(event, TextDelta):
            self._said.append(event.text)
        else:
            step.reply, step.replied = event, at
            self._said.clear()
            step.calls = [Call(call) for call in event.message.tool_calls]
            self._calls.update((call.call.id, call) for call in step.calls)

    def _in_call(
        self, event: CallAwaiting | CallDecided | RuleGranted | CallStarted | CallFinished, entry: Entry
    ) -> None:
        call = self._calls[event.call_id]
        if isinstance(event, CallAwaiting):
            call.awaiting = event
        elif isinstance(event, CallDecided):
            call.decided = event
        elif isinstance(event, RuleGranted):
            call.rules.append(event.rule)
        elif isinstance(event, CallStarted):
            call.started, call.by_rules = entry.at, len(event.rules)
        else:
            call.finished, call.finished_seq, call.ended = event, entry.seq, entry.at
