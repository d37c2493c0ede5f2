"""Plan and proof in words: on the page, in the terminal, in the report and over HTTP, in both languages."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.claims import WHY
from agent.events import Check, Claim, PlanChanged, PlanItem, Proved, TurnEnded, TurnStarted
from agent.log import Entry
from agent.messages import UserMessage
from agent.proof import FOUND
from agent.session import Session
from agent.tool import Toolbox
from tests.scripted import ScriptedModel, call
from tools import standard_tools
from tools.proving import Proving
from ui.api_events import ApiEvents
from ui.arguments import parse_arguments
from ui.cli import run_task
from ui.cli_texts import CLI_TEXTS
from ui.proof import headline
from ui.render import View
from ui.report import render_report
from ui.terminal import Terminal
from ui.texts import TEXTS, Language

PLAN = PlanChanged((PlanItem("Write <b>a.md</b>", "done"), PlanItem("Dance", "dropped", "no legs"), PlanItem("Rest")))
PROVED = Proved(
    "not_verified",
    (Check("a.md", "message", True), Check("b.json json", "person", False, "invalid", "line 1")),
    (Claim("I ran the tests <script>", "not_run"),),
)


def entries() -> list[Entry]:
    events = [TurnStarted(1, UserMessage("go", expects=("a.md",))), PLAN, PROVED, TurnEnded(1, "answered")]
    return [Entry(seq, 100.0 + seq, event) for seq, event in enumerate(events)]  # type: ignore[arg-type]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_finding_has_words(language: Language) -> None:
    words = TEXTS[language]
    assert all(f"proof_found_{found}" in words for found in FOUND) and all(f"proof_claim_{why}" in words for why in WHY)
    for found in FOUND:
        line = headline(words, Proved("partly", (Check("a.md", "plan", False, found, "why"),)))
        assert "a.md" in line and "{" not in line
    assert "“I ran it”" in headline(words, Proved("not_verified", (), (Claim("I ran it", "not_run"),)))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_shows_both_and_lets_no_markup_through(language: Language) -> None:
    view = View(TEXTS[language], lambda file, shown: "", acts=False)
    for entry in entries():
        view.add(entry)
    shown = [f"{part.get('metadata', {}).get('title', '')}{part['content']}" for part in view.live()]
    plan, card = shown[1], shown[2]
    assert "gl-dropped" in plan and "no legs" in plan and "<b>" not in plan
    assert "gl-proof-warn" in card and "<q>I ran the tests" in card and "<script>" not in card
    assert "a&#46;md" in shown[0]  # what the person wanted stands under their message


def test_the_terminal_and_the_report_say_the_same() -> None:
    terminal = Terminal(CLI_TEXTS["en"])
    said = "".join(piece.text for entry in entries() for piece in terminal.show(entry))
    assert "[x] Write <b>a.md</b>" in said and "[-] Dance (given up: no legs)" in said
    assert "Not verified: “I ran the tests <script>”" in said and "[ ] b.json can be read as JSON" in said
    report = re.sub(
        r"<script[^>]*type=.*?</script>", "", render_report(entries(), "zh", "t", lambda text: text), flags=re.S
    )
    assert "未能核实" in report and "[-] Dance" in report and "tests &lt;script&gt;" in report


def test_programs_get_events() -> None:
    events = ApiEvents("s")
    got = {event.name: event.data for entry in entries() for event in events.add(entry)}
    assert got["plan"]["items"][1]["why"] == "no legs"
    assert got["proof"]["verdict"] == "not_verified" and got["proof"]["claims"][0]["why"] == "not_run"


@pytest.mark.parametrize(
    ("answer", "expects", "code"),
    [
        ("I wrote a.md.", (), 0),
        ("I wrote a.md.", ("a.md contains text",), 0),
        ("I wrote a.md.", ("b.md",), 5),
        ("I could not write b.md, because it is late.", ("b.md",), 5),
        ("I wrote a.md, and all tests pass.", (), 5),
    ],
)
def test_the_exit_code_is_about_facts(tmp_path: Path, answer: str, expects: tuple[str, ...], code: int) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    async def scenario() -> int:
        model = ScriptedModel(call("write_file", path="a.md", content="text"), *[answer] * 3)
        tools = Toolbox(standard_tools(None, None, tmp_path / "images"))
        session = Session(Agent(model, tools, prover=Proving(None)), workspace, tmp_path / "outbox")
        show: Callable[[Any], None] = lambda entry: None  # noqa: E731
        return await run_task(session, "Write a.md", show, CLI_TEXTS["en"], None, expects)

    assert asyncio.run(scenario()) == code


def test_expectations_go_with_a_task() -> None:
    found = parse_arguments(["--task", "go", "--expect", "a.md", "--expect", "$ true"])
    assert found.expects == ("a.md", "$ true")
    with pytest.raises(SystemExit):
        parse_arguments(["--expect", "a.md"])
