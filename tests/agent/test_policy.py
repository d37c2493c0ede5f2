"""What policy says, by mode, boundary, exposure and effect."""

from __future__ import annotations

from typing import Any

import pytest

from agent.policy import Boundary, Exposure, Mode, Policy, Verdict, arguments_hash, default_mode
from agent.tool import Effect, ToolContext, tool
from tests.scripted import call

READ, WRITE, EXECUTE, NETWORK, SPEND, REMEMBER = Effect


@pytest.mark.parametrize(
    ("mode", "boundary", "exposure", "answers"),
    [  # read, write, execute, network, spend, remember
        ("read_only", "strong", "local", "allow deny deny deny deny deny"),
        ("read_only", "none", "share", "allow deny deny deny deny deny"),
        ("ask", "strong", "local", "allow allow ask ask ask ask"),
        ("ask", "partial", "local", "allow allow ask ask ask ask"),
        ("ask", "none", "local", "allow allow ask ask ask ask"),
        ("auto", "strong", "local", "allow allow allow ask ask ask"),
        ("auto", "partial", "local", "allow allow ask ask ask ask"),
        ("auto", "none", "local", "allow allow ask ask ask ask"),
        ("auto", "strong", "share", "allow allow allow ask ask ask"),
        ("auto", "strong", "space", "allow allow allow ask ask ask"),
        ("ask", "partial", "share", "allow allow deny ask ask ask"),
        ("auto", "partial", "space", "allow allow deny ask ask ask"),
        ("auto", "none", "space", "allow allow deny ask ask ask"),
        ("auto", "a new word", "local", "allow allow ask ask ask ask"),
        ("auto", "none", "a new word", "allow allow deny ask ask ask"),
    ],
)
def test_the_whole_table(mode: Mode, boundary: Boundary, exposure: Exposure, answers: str) -> None:
    policy = Policy.of(mode, boundary, exposure)
    verdicts = [policy.judge([effect]) for effect in Effect]
    assert " ".join(verdict.answer for verdict in verdicts) == answers
    assert all(verdict.why for verdict in verdicts if verdict.answer != "allow")


def test_what_lasts_in_the_persons_name_is_asked_once_others_have_spoken() -> None:
    auto, read_only = Policy.of("auto", "strong", "local"), Policy.of("read_only", "strong", "local")
    assert auto.judge([REMEMBER], from_outside=False).answer == "allow"
    assert auto.judge([REMEMBER], from_outside=True).answer == "ask"
    assert Policy().judge([REMEMBER], from_outside=True).answer == "ask"  # whatever the rules leave out
    assert read_only.judge([REMEMBER], from_outside=False).answer == "deny"


def test_an_unknown_mode_is_an_error() -> None:
    with pytest.raises(ValueError, match="yolo"):
        Policy.of("yolo", "strong", "local")  # type: ignore[arg-type]


def test_the_mode_of_an_app_that_was_told_nothing() -> None:
    assert [default_mode(boundary) for boundary in ("strong", "partial", "none")] == ["auto", "ask", "ask"]


def test_the_strictest_effect_decides_and_every_reason_is_given() -> None:
    policy = Policy(
        {EXECUTE: Verdict("ask", "It runs."), NETWORK: Verdict("ask", "It calls out."), SPEND: Verdict("deny", "No.")}
    )
    assert policy.judge([READ]) == Verdict("allow")
    assert policy.judge([READ, EXECUTE]) == Verdict("ask", "It runs.")
    assert policy.judge({NETWORK, EXECUTE}) == Verdict("ask", "It runs. It calls out.")
    assert policy.judge(set(Effect)) == Verdict("deny", "No.")


def test_arguments_add_to_a_tools_effect_and_take_nothing_away() -> None:
    def reach(arguments: Any) -> Effect:
        return NETWORK if arguments["network"] else READ

    @tool(EXECUTE, reach=reach)
    async def run(context: ToolContext, network: bool = False) -> str:
        """Run."""
        return ""

    assert run.effects({"network": True}) == {EXECUTE, NETWORK}
    assert run.effects({"network": False}) == {EXECUTE, READ}
    policy = Policy.of("auto", "strong", "local")
    assert policy.judge(run.effects({"network": True})).answer == "ask"
    assert policy.judge(run.effects({"network": False})).answer == "allow"


def test_a_hash_names_tool_and_arguments() -> None:
    one = call("run", "c1", a=1)
    assert arguments_hash(one) == arguments_hash(call("run", "c2", a=1))
    assert len({arguments_hash(c) for c in (one, call("run", a=2), call("rum", a=1))}) == 3
