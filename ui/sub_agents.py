"""A sub-agent under the call that runs it: a line that says where it stands, and the list of its steps.

A fold of the events that `Delegated` carries. What a step was told and what came back is behind the link to its exact
messages. Knows how such a list looks. Refuses to know why there is a sub-agent, and what the call around it shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from agent.events import CallFinished, CallStarted, Event, Nudged, Replied, StepStarted
from ui.rows import Row
from ui.safe_text import one_line, plain
from ui.texts import Words

MAX_SHOWN = 30
"""The last steps of a long list; the exact messages have all of them."""


@dataclass
class _Step:
    number: int
    request: int = 0
    said: str = ""
    rows: list[Row] = field(default_factory=list)


class SubAgent:
    """Takes a sub-agent's events in order."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._steps: list[_Step] = []
        self._rows: dict[str, Row] = {}

    def add(self, event: Event, at: float, seq: int, request: int) -> None:
        """`request`: the number of the session's latest request, which is this sub-agent's own."""
        if isinstance(event, StepStarted):
            self._steps.append(_Step(event.step))
        elif isinstance(event, Replied) and self._steps:
            step = self._steps[-1]
            step.request = request
            step.said = one_line(event.message.text, 160)
            for call in event.message.tool_calls:
                row = self._rows[call.id] = Row(self._words)
                row.settle(call, request)
                step.rows.append(row)
        elif isinstance(event, Nudged) and self._steps:
            self._steps[-1].said = self._steps[-1].said or one_line(event.text, 160)
        elif isinstance(event, CallStarted) and event.call_id in self._rows:
            self._rows[event.call_id].start(at, by_rule=bool(event.rules))
        elif isinstance(event, CallFinished) and event.call_id in self._rows:
            self._rows[event.call_id].finish(event, at, seq)

    @property
    def has_changes(self) -> bool:
        """Did one of its calls change files, with checkpoints of it?"""
        return any(row.has_changes for row in self._rows.values())

    def line(self) -> str:
        """Where it stands, as text."""
        if not self._steps:
            return ""
        step = self._steps[-1]
        where = self._words["sub_agent_step"].format(number=step.number)
        doing = next((row.brief() for row in step.rows if row.result is None), "")
        doing = doing or (step.rows[-1].brief() if step.rows else self._words["working"])
        return f"{where} · {doing}"

    def block(self) -> str:
        """Its steps as a list, as markup; nothing where there are none."""
        left_out = len(self._steps) - MAX_SHOWN
        lines = [self._step(step) for step in self._steps[-MAX_SHOWN:]]
        if left_out > 0:
            earlier = plain(self._words["sub_agent_earlier"].format(count=left_out))
            lines.insert(0, f'<span class="gl-sub-step">{earlier}</span>')
        title = f"**{self._words['sub_agent_did']}**\n\n"
        return f'{title}<span class="gl-sub">{"".join(lines)}</span>' if lines else ""

    def _step(self, step: _Step) -> str:
        way = f'<a class="gl-act" href="#request-{step.request}">{plain(self._words["sub_agent_messages"])}</a>'
        said = step.said or ("" if step.rows else self._words["working"])
        calls = "".join(f'<span class="gl-sub-call">{row.title()}</span>' for row in step.rows)
        return (
            f'<span class="gl-sub-step"><span class="gl-sub-head"><b>{step.number}</b>'
            f'<span class="gl-sub-said">{plain(said)}</span>{way if step.request else ""}</span>{calls}</span>'
        )
