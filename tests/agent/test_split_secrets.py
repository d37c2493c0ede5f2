"""A secret that comes in pieces is taken out of an export like any other."""

from __future__ import annotations

import pytest

from agent.events import (
    CallDelta,
    CallFinished,
    CallStarted,
    Event,
    OutputDelta,
    ReasoningDelta,
    Replied,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnStarted,
)
from agent.exchange import carrier, export_lines, import_lines
from agent.log import Entry
from agent.messages import AssistantMessage, ToolCall, UserMessage
from agent.split_secrets import without_split_secrets


def scrub(text: str) -> str:
    return text.replace("s3cret", "***")


def entries(*events: Event) -> list[Entry]:
    return [Entry(seq, float(seq), event) for seq, event in enumerate(events)]


def texts(*events: Event) -> list[str]:
    clean = without_split_secrets(entries(*events), scrub)
    return [getattr(e.event, "arguments", "") or getattr(e.event, "text", "") for e in clean]


@pytest.mark.parametrize(
    "piece",
    [TextDelta, ReasoningDelta, lambda text: CallDelta(0, "run", text), lambda text: OutputDelta("c", text)],
)
def test_pieces_that_hold_a_secret_together_are_joined(piece: type[TextDelta]) -> None:
    assert texts(piece("the s3"), piece("cr"), piece("et is")) == ["the *** is", "", ""]
    assert texts(piece("the "), piece("s3cret"), piece(" is")) == ["the ", "s3cret", " is"]  # each is scrubbed later
    assert texts(piece("all "), piece("well")) == ["all ", "well"]


def test_streams_are_told_apart() -> None:
    mixed = (TextDelta("s3c"), CallDelta(0, "a", "x"), CallDelta(1, "b", "y"), TextDelta("ret"), CallDelta(0, "a", "z"))
    assert texts(*mixed) == ["***", "x", "y", "", "z"]
    assert texts(TextDelta("s3c"), StepStarted(2), TextDelta("ret")) == ["s3c", "", "ret"]


def test_an_export_holds_no_secret_in_any_form_that_it_can_be_put_together_from() -> None:
    call = ToolCall("c", "run", '{"key": "s3cret"}')
    log = entries(
        TurnStarted(1, UserMessage("go")),
        StepStarted(1),
        TextDelta("s3"),
        TextDelta("cret"),
        CallDelta(0, "run", '{"key": "s3c'),
        CallDelta(0, "run", 'ret"}'),
        Replied(AssistantMessage("s3cret", tool_calls=(call,)), "tool_calls"),
        CallStarted("c"),
        OutputDelta("c", "s3cre"),
        OutputDelta("c", "t"),
        CallFinished("c", "run", "done", "s3cret"),
        TurnEnded(1, "answered"),
    )
    content = "".join(export_lines("", log, scrub)).encode()
    again = [entry.event for entry in import_lines(content, 0).entries]
    said = "".join(getattr(e, "text", "") + getattr(e, "arguments", "") for e in again)
    assert "s3cret" not in said and b"s3cret" not in content and said.count("***") == 4


def test_a_page_carries_an_export() -> None:
    log = entries(TurnStarted(1, UserMessage("</script><script>alert(1)</script><!--")), TurnEnded(1, "answered"))
    lines = list(export_lines("a <title>", log, str))
    element = carrier(lines)
    assert element.count("<") == 2 and element.count("</script>") == 1
    page = f"\n<!doctype html><title>x</title><pre>&lt;script&gt;</pre>{element}<p>after</p>".encode()
    imported = import_lines(page, 0)
    assert imported == import_lines("".join(lines).encode(), 0)
    assert imported.title == "a <title>" and imported.entries == log
