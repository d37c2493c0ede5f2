"""From a message to a plan: clauses, the rule that each one matches, the steps in order.

How far a plan has come is counted from the results in the request: nothing is remembered between two calls. Knows how
rules are applied. Refuses to know the rules (`rules.py` is the table).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Union

from agent.llm.demo.language import IT, clauses, names_in, unquote
from agent.llm.demo.turn import Outcome, Turn

MAX_CHARS = 2_000
"""Of a message that is looked at: the patterns' time grows faster than the text, and every visitor shares the loop."""


@dataclass(frozen=True)
class Want:
    """A call the plan would like to make."""

    tool: str
    arguments: dict[str, Any]


Step = Callable[[tuple[Outcome, ...]], tuple[Want, ...]]
"""The calls of one reply, made side by side; they may depend on what came back before."""


@dataclass(frozen=True)
class Heard:
    """A clause, and what a rule's pattern found in it."""

    clause: str
    groups: dict[str, str]
    last_path: str
    """The file that was spoken of before: what "it" means. Empty where there was none."""
    opens: bool
    """Whether no clause before it has led to a call."""

    def text(self, group: str = "text") -> str:
        return unquote(self.groups.get(group, ""))

    def path(self) -> str:
        return self.resolve(self.groups.get("path", ""))

    def resolve(self, name: str) -> str:
        is_it = re.fullmatch(IT, name.strip(), re.IGNORECASE) and self.last_path
        return self.last_path if is_it else unquote(name)

    def paths(self) -> list[str]:
        """Every file the clause names."""
        return [self.resolve(name) for name in names_in(self.groups.get("text") or self.clause)]


Act = Callable[[Heard], Union[list[Step], str, None]]
"""The steps of a clause; or the name of something to say; or None: another rule's business after all."""


@dataclass(frozen=True)
class Rule:
    english: str
    chinese: str
    act: Act


@dataclass
class Plan:
    """What a message leads to."""

    steps: list[Step] = field(default_factory=list)
    sayings: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    """Clauses that no rule knows."""
    parts: list[tuple[str, int]] = field(default_factory=list)
    """Each clause that leads to steps, and to how many."""


def plan_for(message: str, last_path: str, rules: Iterable[Rule]) -> Plan:
    """The plan for a message. `last_path`: what "it" means before the message itself names a file."""
    rules = tuple(rules)
    plan = Plan()
    if len(message) > MAX_CHARS:
        return Plan(lost=[message])
    for clause in clauses(message):
        outcome = _first_match(clause, last_path, not plan.steps, rules)
        if isinstance(outcome, str):
            plan.sayings.append(outcome)
        elif outcome is None:
            plan.lost.append(clause)
        else:
            plan.steps += outcome
            plan.parts.append((clause, len(outcome)))
        last_path = _spoken_of(clause) or last_path
    return plan


def _spoken_of(clause: str) -> str:
    """The file that "it" means in the clause after this one. Quotes mostly hold other things."""
    names = [name for name in names_in(clause) if not re.fullmatch(IT, name, re.IGNORECASE)]
    plain = [name for name in names if name == unquote(name)]
    return unquote((plain or names or [""])[-1])


def next_step(plan: Plan, turn: Turn) -> tuple[Want, ...]:
    """The calls to make now; none where the plan is through, something went wrong, or the loop said to stop."""
    if turn.failed or turn.told or not turn.may_call or len(turn.steps) >= len(plan.steps):
        return ()
    return plan.steps[len(turn.steps)](turn.outcomes)


def _first_match(clause: str, last_path: str, opens: bool, rules: Iterable[Rule]) -> Union[list[Step], str, None]:
    for rule in rules:
        for pattern in (rule.english, rule.chinese):
            if match := re.search(pattern, clause, re.IGNORECASE | re.DOTALL):
                groups = {name: found or "" for name, found in match.groupdict().items()}
                if (outcome := rule.act(Heard(clause, groups, last_path, opens))) is not None:
                    return outcome
    return None
