"""Where a turn stands: a fold of the events that belong to it.

Knows what has been asked, decided, begun and finished in one turn. Refuses to know what was said in it
(`agent/transcript.py` does), and to do anything about it (`agent/session.py` does).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.events import (
    CallAwaiting,
    CallDecided,
    CallFinished,
    CallStarted,
    Event,
    MessageQueued,
    MessageWithdrawn,
    Nudged,
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
    queue: dict[str, str] = field(default_factory=dict)
    """Messages that wait for their turn, by id; the same for all turns of a session."""
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
        elif isinstance(event, Nudged):
            self.nudges.add(event.code)
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
        elif isinstance(event, MessageQueued):
            self.queue[event.id] = event.text
        elif isinstance(event, MessageWithdrawn):
            self.queue.pop(event.id, None)
        elif isinstance(event, TurnEnded):
            self.ended = event.reason
