"""What a person has decided in a session: a fold of the log.

Knows decisions, the rules that were granted with them, and how often a rule has answered since. Refuses to know how
they look and which rules are still in force.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agent.events import CallDecided, CallStarted, Event, Replied, Rule, RuleGranted
from agent.log import Entry
from agent.messages import ToolCall


@dataclass(frozen=True)
class Decided:
    call: ToolCall
    """As the model wrote it."""
    decision: CallDecided
    at: float
    rules: tuple[Rule, ...] = ()
    """What was granted with it."""


@dataclass
class Decisions:
    made: list[Decided] = field(default_factory=list)
    """In their order."""
    uses: Counter[str] = field(default_factory=Counter)
    """How often each rule has let a call run without a question, by its id."""
    _calls: dict[str, ToolCall] = field(default_factory=dict)
    _granted: dict[str, list[Rule]] = field(default_factory=dict)

    def add(self, entry: Entry) -> None:
        """Fold the next entry of the log."""
        event: Event = entry.event
        if isinstance(event, Replied):
            self._calls.update((call.id, call) for call in event.message.tool_calls)
        elif isinstance(event, RuleGranted):
            self._granted.setdefault(event.call_id, []).append(event.rule)
        elif isinstance(event, CallStarted):
            self.uses.update(event.rules)
        elif isinstance(event, CallDecided) and event.call_id in self._calls:
            rules = tuple(self._granted.pop(event.call_id, ()))
            self.made.append(Decided(self._calls[event.call_id], event, entry.at, rules))
