"""What was spent, per turn and in all: a fold of the log.

Counts model calls, tokens as the servers gave them, money by the table of prices, and time from the entries. Tokens of
a server that counts none are estimated, and the meter says so. Sub-agents count with the turn that they work for.
Refuses to know limits (`agent/limits.py` does) and what anybody makes of the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from agent.events import (
    BranchSelected,
    CallFinished,
    CallStarted,
    Compacted,
    Delegated,
    Event,
    Meter,
    Replied,
    RequestSent,
    StepStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Usage,
)
from agent.log import Entry
from agent.prices import Prices
from agent.tokens import estimate, estimate_json, estimate_message

MOST_GUESSED_FROM = 8
LEAST_GUESSED_FROM = 3
"""Turns that a forecast is made from: the latest ones, and not from fewer."""


@dataclass
class _Running:
    """A turn that is being counted."""

    spent: Meter
    since: float | None = None
    """When it began, or went on; None while it waits or has ended."""
    model_since: float | None = None
    tools_since: float | None = None
    tools: set[str] = field(default_factory=set)
    answered: bool = False

    def at(self, now: float) -> Meter:
        """What it has taken by now."""
        if self.since is None:
            return self.spent
        return replace(
            self.spent,
            seconds=self.spent.seconds + _span(self.since, now),
            model_s=self.spent.model_s + _span(self.model_since, now),
            tool_s=self.spent.tool_s + _span(self.tools_since, now),
        )

    def settle(self, now: float) -> None:
        """It is at rest."""
        self.spent = self.at(now)
        self.since = self.model_since = self.tools_since = None
        self.tools.clear()


class Meters:
    """Of one session. Turns of all branches count: what was spent is spent."""

    def __init__(self, prices: Prices | None = None) -> None:
        self.prices = prices or Prices()
        self._turns: dict[int, _Running] = {}
        self._leaf: int | None = None
        self._sent: list[Mapping[str, Any]] = []
        self._rest: Mapping[str, Any] = {}
        self._model = ""

    def add(self, entry: Entry) -> None:
        event, now = entry.event, entry.at
        if isinstance(event, (TurnStarted, BranchSelected)):
            self._leaf = event.turn
            if isinstance(event, TurnStarted):
                self._turns[event.turn] = _Running(Meter(currency=self.prices.currency), since=now)
        elif self._leaf is not None:
            self._count(self._turns[self._leaf], event, now)

    def turn(self, number: int, now: float) -> Meter:
        """What this turn has taken by `now`. Raises KeyError for an unknown turn."""
        return self._turns[number].at(now)

    def session(self, now: float) -> Meter:
        """What all turns have taken by `now`."""
        return added(turn.at(now) for turn in self._turns.values())

    def forecast(self) -> Meter | None:
        """What a turn took here lately, by the median of those that were answered; None where too few were."""
        lately = [turn.spent for turn in self._turns.values() if turn.answered][-MOST_GUESSED_FROM:]
        if len(lately) < LEAST_GUESSED_FROM:
            return None
        tokens, seconds = median(spent.tokens for spent in lately), median(spent.seconds for spent in lately)
        return Meter(input_tokens=round(tokens), seconds=seconds)

    # ------------------------------------------------------------------ inside

    def _count(self, turn: _Running, event: Event, now: float) -> None:
        if isinstance(event, StepStarted):
            turn.spent = replace(turn.spent, steps=turn.spent.steps + 1)
            turn.model_since = now
        elif isinstance(event, RequestSent):
            self._sent[event.kept :] = event.messages
            self._rest, self._model = event.body, event.model
        elif isinstance(event, Replied):
            turn.spent = replace(turn.spent, model_s=turn.spent.model_s + _span(turn.model_since, now))
            turn.model_since = None
            self._pay(turn, event.usage or self._estimated(event), event.model or self._model, bool(event.usage))
        elif isinstance(event, Compacted) and event.usage:
            self._pay(turn, event.usage, self._model, True)
        elif isinstance(event, CallStarted):
            turn.tools_since = now if turn.tools_since is None else turn.tools_since
            turn.tools.add(event.call_id)
        elif isinstance(event, CallFinished):
            self._finish_call(turn, event.call_id, now)
        elif isinstance(event, Delegated):
            self._count_sub_agent(turn, event.event)
        elif isinstance(event, TurnResumed):
            turn.since = now
        elif isinstance(event, TurnEnded):
            turn.settle(now)
            turn.answered = event.reason == "answered"

    def _finish_call(self, turn: _Running, call_id: str, now: float) -> None:
        turn.tools.discard(call_id)
        if not turn.tools and turn.tools_since is not None:
            turn.spent = replace(turn.spent, tool_s=turn.spent.tool_s + _span(turn.tools_since, now))
            turn.tools_since = None

    def _count_sub_agent(self, turn: _Running, event: Event) -> None:
        """Its model calls and their tokens; its time is that of the call it works in."""
        if isinstance(event, StepStarted):
            turn.spent = replace(turn.spent, steps=turn.spent.steps + 1)
        elif isinstance(event, Compacted) and event.usage:
            self._pay(turn, event.usage, self._model, True)
        elif isinstance(event, Replied):
            guess = Usage(0, estimate_message(event.message))
            self._pay(turn, event.usage or guess, event.model or self._model, bool(event.usage))

    def _pay(self, turn: _Running, usage: Usage, model: str, counted: bool) -> None:
        price, before = self.prices.of(model), turn.spent
        known = price is not None and before.money is not None
        turn.spent = replace(
            before,
            input_tokens=before.input_tokens + usage.input_tokens,
            cached_tokens=before.cached_tokens + min(usage.cached_tokens, usage.input_tokens),
            output_tokens=before.output_tokens + usage.output_tokens,
            reasoning_tokens=before.reasoning_tokens + usage.reasoning_tokens,
            counted=before.counted and counted,
            money=(before.money or 0.0) + price.of(usage) if price is not None and known else None,
        )

    def _estimated(self, event: Replied) -> Usage:
        """Of a server that does not count."""
        sent = sum(estimate_json(message) for message in self._sent) + estimate_json(self._rest.get("tools", []))
        reasoning = estimate(event.message.reasoning)
        return Usage(sent, estimate_message(event.message) + reasoning, reasoning_tokens=reasoning)


def added(meters: Iterable[Meter]) -> Meter:
    """All of them together."""
    every = list(meters)
    money = [one.money for one in every]
    return Meter(
        steps=sum(one.steps for one in every),
        input_tokens=sum(one.input_tokens for one in every),
        cached_tokens=sum(one.cached_tokens for one in every),
        output_tokens=sum(one.output_tokens for one in every),
        reasoning_tokens=sum(one.reasoning_tokens for one in every),
        counted=all(one.counted for one in every),
        money=None if None in money else sum(amount or 0.0 for amount in money),
        currency=every[-1].currency if every else "",
        model_s=sum(one.model_s for one in every),
        tool_s=sum(one.tool_s for one in every),
        seconds=sum(one.seconds for one in every),
    )


def _span(since: float | None, now: float) -> float:
    return max(0.0, now - since) if since is not None else 0.0
