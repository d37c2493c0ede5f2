"""Going in circles: told at the third time, ended at the fifth."""

from __future__ import annotations

import pytest

from agent.errors import LoopDetected
from agent.limits import Limits
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage


def steps(*rounds: tuple[str, str]) -> list[Message]:
    """Each round is a call's arguments and its result."""
    messages: list[Message] = [UserMessage("go")]
    for number, (arguments, result) in enumerate(rounds):
        call = ToolCall(str(number), "read", arguments)
        messages += [AssistantMessage("", "", (call,)), ToolMessage(call.id, "read", result)]
    return messages


A, B, C = ("a", "1"), ("b", "2"), ("c", "3")


@pytest.mark.parametrize("circle", [[A], [A, B], [A, B, C]])
def test_circles_are_noticed(circle: list[tuple[str, str]]) -> None:
    limits = Limits()
    assert limits.watch_for_loops(steps(C, *circle * 2)) is None
    told = limits.watch_for_loops(steps(B, *circle * 3))
    assert told is not None and "3 times" in told.text
    with pytest.raises(LoopDetected):
        limits.watch_for_loops(steps(*circle * 5))


def test_another_result_is_progress() -> None:
    assert Limits().watch_for_loops(steps(*(("a", str(n)) for n in range(9)))) is None


def test_what_the_person_asked_for_again_is_no_circle() -> None:
    messages = [m for _ in range(6) for m in steps(A)]
    assert Limits().watch_for_loops(messages) is None
