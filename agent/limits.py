"""How much a turn may take, and when it is going in circles.

Knows numbers and how to count in a log. Refuses to know what a limit means for the person: that is `TurnEnded`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from agent.errors import LoopDetected
from agent.events import Nudged
from agent.messages import AssistantMessage, Message, ToolMessage

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
        elif message.source == "person":
            break
    return rounds
