"""Done is a fact, on a phone and in both languages: the plan while it works, the proof when it says that it is done."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest

from agent.llm.model import ModelEvent, Request
from agent.plan import update_plan
from tests.scripted import Reply, ScriptedModel
from tests.ui.page_steps import idle, see, send
from tests.ui.stage import Gate, Play, Stage, calls
from tools.proving import Proving

if TYPE_CHECKING:
    from playwright.sync_api import Page

Visitor = Callable[..., "Page"]
ITEMS = ("Read notes.md", "Write report.md", "Look at it again")


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("done"), tools=[update_plan], prover=Proving(None))
    yield stage
    stage.close()


def plan(*statuses: str) -> tuple[str, dict[str, Any]]:
    return "update_plan", {"items": [{"text": t, "status": s} for t, s in zip(ITEMS, statuses, strict=True)]}


def held(gate: Gate, reply: Reply) -> Play:
    async def play(request: Request) -> AsyncGenerator[ModelEvent, None]:
        await gate.wait()
        async with aclosing(ScriptedModel(reply).stream(request)) as events:
            async for event in events:
                yield event

    return play


def test_a_plan_ticks_off_and_a_proof_stands_under_the_answer(stage: Stage, visitor: Visitor) -> None:
    gate = Gate()
    stage.script(
        "Write report.md from notes.md",
        calls(plan("doing", "open", "open"), text="First the plan."),
        calls(plan("done", "doing", "open"), ("write_file", {"path": "report.md", "text": "three lines"})),
        held(gate, calls(plan("done", "done", "done"))),
        "I wrote report.md.",
    )
    lie = "I ran the tests and all of them pass."
    stage.script("Is it good?", lie, lie)
    page = visitor(stage.address, viewport={"width": 390, "height": 844})

    page.click("#gl-must-toggle")
    page.fill("#gl-must textarea", "report.md contains three\nnotes.md")
    page.press("#gl-must textarea", "Escape")  # the words stay, the box is folded
    page.wait_for_selector("#gl-must-toggle.gl-set")
    send(page, "Write report.md from notes.md")
    see(page, "1 of 3 done", "#gl-dock")  # while it works
    assert page.locator("#gl-dock .gl-items li.gl-done").count() == 1
    assert page.input_value("#gl-must textarea") == ""
    see(page, "Must be true at the end: report.md contains three · notes.md")
    gate.open()
    idle(page)
    see(page, "Verified: report.md contains “three”, notes.md is there").click()
    see(page, "Plan: 3 of 3 done")
    see(page, "60 tokens · ", "#gl-live .gl-meter")
    see(page, "of 32.8k", "#gl-dock .gl-gauge")
    assert page.locator("#gl-dock .gl-todo").count() == 0
    assert page.locator(".gl-checks li.gl-done:visible").count() == 2

    send(page, "Is it good?")
    idle(page)
    see(page, "Not verified: “I ran the tests")
    page.click("[data-do=language]")
    see(page, "未能核实：“I ran the tests")
    see(page, "已核实：report.md 包含“three”")
    see(page, "计划：已完成 3/3 项")
    see(page, "token · 模型", "#gl-live .gl-meter")
    see(page, "/ 32.8k", "#gl-dock .gl-gauge")
    page.wait_for_function("() => document.querySelector('#gl-must-toggle').title.startsWith('结束')")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
