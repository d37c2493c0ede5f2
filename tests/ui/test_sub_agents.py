"""A sub-agent as it is shown: on the page, in the terminal, to programs, in the report and in a replay."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.delegation import delegate
from agent.events import CallFinished, CallStarted, Delegated, Replied, RequestSent, StepStarted, Usage
from agent.log import Entry
from agent.messages import AssistantMessage
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, ToolResult, tool
from tests.scripted import ScriptedModel, call
from ui.api_events import ApiEvents
from ui.cli_texts import CLI_TEXTS
from ui.render import View
from ui.replay import ReplaySession
from ui.report import render_report
from ui.sent_requests import SentRequests
from ui.side import context
from ui.terminal import Terminal
from ui.texts import TEXTS

EN, ZH = TEXTS["en"], TEXTS["zh"]


@tool(Effect.READ)
async def look(context: ToolContext, path: str) -> ToolResult:
    """Read a file."""
    return ToolResult("12,30", details={"lines": 2})


def sent(*messages: str) -> RequestSent:
    return RequestSent("m", {"model": "m"}, 0, tuple({"role": "user", "content": m} for m in messages))


@pytest.fixture
async def entries(tmp_path: Path) -> Sequence[Entry]:
    """A turn in which a sub-agent looks at <b>data.csv</b> in two steps."""
    reads = AssistantMessage("I look.", tool_calls=(call("look", "r1", path="<b>data.csv"),))
    looks = Replied(reads, "tool_calls", Usage(10, 5))
    script: list[Any] = [
        [sent("main"), call("delegate", "c1", task="Add it up")],
        [sent("task"), looks],
        [sent("task", "12,30"), "It is 42."],
        [sent("main", "It is 42."), "The sum is 42."],
    ]
    session = Session(Agent(ScriptedModel(*script), Toolbox([look, delegate])), tmp_path, tmp_path)
    session.send("go")
    assert await session.wait() == "answered"
    return session.log.since(0)


def view_until(entries: Sequence[Entry], last: Any = None, words: Any = EN) -> View:
    view = View(words, lambda id, show: "/")
    for entry in entries:
        view.add(entry)
        if last is not None and isinstance(entry.event, Delegated) and isinstance(entry.event.event, last):
            break
    return view


def row(view: View) -> Any:
    return next(shown for shown in view.live() if "delegate" in shown.get("metadata", {}).get("title", ""))


def test_the_row_says_live_where_it_stands_and_lists_the_steps(entries: Sequence[Entry]) -> None:
    running = row(view_until(entries, CallStarted))["metadata"]["title"]
    assert "step 1 · look " in running and "data&#46;csv" in running and "<b>" not in running
    assert "第 1 步" in row(view_until(entries, CallStarted, ZH))["metadata"]["title"]
    assert "step 1 · thinking" in row(view_until(entries, StepStarted))["metadata"]["title"]
    done = row(view_until(entries))
    assert "2 steps" in done["metadata"]["title"] and "step 1" not in done["metadata"]["title"]
    body = done["content"]
    assert body.count("gl-sub-step") == 2 and body.count("gl-sub-call") == 1 and "gl-mark gl-done" in body
    assert "<b>data" not in body and "2 lines" in body
    assert 'href="#request-2"' in body and 'href="#request-3"' in body and "#request-1" in body


def test_its_requests_stand_among_the_others_and_are_marked(entries: Sequence[Entry]) -> None:
    requests = SentRequests()
    for entry in entries:
        requests.add(entry.event)
    whole = [[m["content"] for m in requests.messages(n)] for n in range(1, 5)]
    assert whole == [["main"], ["task"], ["task", "12,30"], ["main", "It is 42."]]
    marked = ["gl-sub-note" in context(EN, requests, n) for n in range(1, 5)]
    assert marked == [False, True, True, False]


def test_the_terminal_indents_what_it_does_and_tells_its_answer_once(entries: Sequence[Entry]) -> None:
    terminal = Terminal(CLI_TEXTS["en"])
    text = "".join(piece.text for entry in entries for piece in terminal.show(entry))
    assert "\n    > look <b>data.csv\n    < look: done" in text
    assert text.count("It is 42.") == 1 and "< delegate: done" in text


def test_programs_are_told_its_calls_with_their_parent(entries: Sequence[Entry]) -> None:
    events = ApiEvents("s")
    told = [event for entry in entries for event in events.add(entry)]
    calls = [(e.name, e.data["call_id"], e.data.get("parent")) for e in told if e.name.startswith("tool_call")]
    assert calls == [
        ("tool_call_start", "c1", None),
        ("tool_call_start", "r1", "c1"),
        ("tool_call_result", "r1", "c1"),
        ("tool_call_result", "c1", None),
    ]
    [end] = [e.data for e in told if e.name == "message_end"]
    assert end["usage"]["input_tokens"] == 40 and end["text"] == "The sum is 42."


def test_the_report_and_a_replay_have_all_of_it(entries: Sequence[Entry]) -> None:
    report = render_report(entries, "en", "t", lambda text: text)
    inside = report.partition('<div class="inside">')[2]
    assert "&lt;b&gt;data.csv" in inside and "I look." in inside and "It is 42." in inside and "<b>data" not in inside
    assert "40 in" in report.partition("</header>")[0]  # its tokens are counted
    replay = ReplaySession(entries, "t")
    replay.replay.finish()
    assert [e.event for e in replay.log.since(0)] == [e.event for e in entries]
    finished = [e.event for e in entries if isinstance(e.event, CallFinished)]
    assert replay.turn.finished == finished
