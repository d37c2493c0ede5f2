"""The gauge, the meter, the limits and the question of a turn that has used something up, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from agent.events import Replied, Usage
from agent.limits import Limits
from agent.messages import AssistantMessage
from agent.prices import Price, Prices
from tests.ui.page_steps import idle, see, send
from tests.ui.stage import Stage, calls

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

PHONE = {"viewport": {"width": 390, "height": 780}}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("meter"))
    limits = Limits(max_tokens=6_000, context_tokens=8_000)
    prices = Prices({"playbook": Price(input=10.0, output=30.0, cached=1.0)})
    stage._agent = replace(stage._agent, limits=limits, prices=prices)
    yield stage
    stage.close()


def counted(text: str, tokens: int = 2_000, *made: tuple[str, dict[str, Any]]) -> Replied:
    """A reply of a server that has counted so many tokens, half of them in its cache."""
    message = calls(*made) if made else AssistantMessage(text)
    return Replied(message, "tool_calls" if made else "stop", Usage(tokens, 100, tokens // 2, 40))


def no_wider_than_the_screen(page: Page) -> bool:
    return bool(page.evaluate("document.documentElement.scrollWidth <= innerWidth"))


def test_gauge_meter_and_compaction_on_a_phone(stage: Stage, visitor: Open) -> None:
    page = visitor(stage.address, **PHONE)
    stage.script("hello", counted("Hello there.", 1_000))
    send(page, "hello")
    see(page, "Hello there.")
    idle(page)
    meter = page.locator("#gl-live .gl-meter summary")
    assert re.fullmatch(r"1\.1k tokens · \$0\.0085 · .+ model", meter.inner_text())
    meter.click()
    assert "of it from the cache: 500" in page.inner_text("#gl-live .gl-meter")
    gauge = page.locator("#gl-dock .gl-gauge")
    assert re.match(r"\S+k? of 8k", gauge.inner_text()) and no_wider_than_the_screen(page)

    stage.script("sum up", "They go on and on.")
    for number in range(4):  # each 1,600 tokens that nobody counts: the window fills
        send(page, stage.script(f"{number}" + " on and on" * 530, AssistantMessage(f"Answer {number}.")))
        see(page, f"Answer {number}.")
        idle(page)
    line = page.locator(".thought-group .title", has_text="Room was made in the context").last
    line.click()
    see(page, "They go on and on.")
    assert no_wider_than_the_screen(page)

    gauge.locator("button").click()
    panel = page.locator("#gl-right")
    panel.get_by_text("What the model is shown").wait_for()
    panel.locator("[data-keep=gauge] summary").click()
    shown = panel.locator("[data-keep=gauge]").inner_text()
    assert "Tools" in shown and "Summary of earlier turns" in shown and "Turn 5" in shown
    assert "Spent in this conversation" in panel.inner_text()


def test_a_turn_that_has_used_up_its_tokens_asks_in_chinese(stage: Stage, visitor: Open) -> None:
    page = visitor(stage.address, locale="zh-CN", **PHONE)
    run = [counted("", 3_500, ("run_command", {"command": f"echo {number}"})) for number in range(3)]
    stage.script("跑三次", *run, counted("跑完了。"))
    send(page, "跑三次")
    card = page.locator("#gl-dock .gl-used-up")
    card.wait_for()
    assert "本轮的预算已用完：token" in card.inner_text() and "7,200 / 6,000" in card.inner_text()
    assert no_wider_than_the_screen(page)
    page.reload()  # the question outlives the page
    card.wait_for()
    card.locator("input").fill("3000")
    card.get_by_text("追加并继续").click()
    see(page, "你追加了 3,000：token。")
    see(page, "10,800 / 9,000", "#gl-dock")
    card.get_by_text("现在总结并结束").click()
    see(page, "跑完了。")
    card.wait_for(state="detached")
    assert page.locator("#gl-live .gl-meter").count() == 1
    assert "token" in page.inner_text("#gl-live .gl-meter summary")

    page.click("#gl-dock .gl-gauge button")
    limits = page.locator("#gl-right .gl-limits")
    limits.locator("summary").click()
    limits.locator("[name=turn_tokens]").fill("")
    limits.locator("[name=session_steps]").fill("4")
    limits.get_by_text("设定", exact=True).click()
    page.keyboard.press("Escape")
    stage.script("再来", calls(("run_command", {"command": "echo again"})), "好了。")
    send(page, "再来")
    see(page, "本对话的预算已用完：模型调用", "#gl-dock")
    page.click("#gl-dock .gl-used-up >> text=就到这里")
    see(page, "已停止。")
    card.wait_for(state="detached")
