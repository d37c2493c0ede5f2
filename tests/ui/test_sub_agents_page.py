"""A sub-agent's steps under the call that runs it, in a real browser, on a wide screen and on a phone's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.ui.page_steps import act, idle, see, send
from tests.ui.stage import Gate, Stage, calls, streamed

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

Open = Callable[..., Any]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("delegation"))
    yield stage
    stage.close()


def work(stage: Stage, task: str, key: str) -> Gate:
    """A turn in which a sub-agent runs a command, writes two files, and answers when the gate is opened."""
    gate = Gate()
    delegated = calls(("delegate", {"task": task, "files": ["notes.md"]}), key=key)
    named = f"{task}\n\nFiles that were named to you; read what you need of them:\n- notes.md (17 bytes)"
    stage.script(f"hand over {key}", delegated, "The sub-agent is done.")
    stage.script(
        named,
        calls(("run_command", {"command": "wc -l notes.md"}), text="First I count.", key=f"{key}a"),
        calls(
            ("write_file", {"path": "notes.md", "text": "changed\n"}),
            ("write_file", {"path": "count.txt", "text": "3\n"}),
            key=f"{key}b",
        ),
        streamed(gate, reply="There are 3 lines."),
    )
    return gate


def test_its_steps_show_live_under_the_call_and_can_be_undone(stage: Stage, visitor: Open) -> None:
    page = visitor(stage.address)
    gate = work(stage, "Count the lines", "w")
    send(page, "hand over w")
    row = page.locator(".thought-group", has_text="delegate").first
    see(page, "step 3 · thinking")
    gate.open()
    see(page, "The sub-agent is done.")
    idle(page)
    assert "3 steps" in row.locator(".title").inner_text()
    row.locator(".title").click()
    said = row.locator(".gl-sub-step")
    said.nth(2).wait_for()
    assert said.count() == 3 and "First I count." in said.nth(0).inner_text()
    assert row.locator(".gl-sub-call .gl-mark.gl-done").count() == 3
    row.locator("a[href='#request-2']").last.click()
    see(page, "A sub-agent's request", "#gl-right")
    act(page, "undo_step", "w_0")
    see(page, "count.txt", ".gl-card")
    page.locator(".gl-card .gl-primary").click()
    see(page, "Undone")
    folder = stage.workspace(page.url.split("session=")[1])
    assert (folder / "notes.md").read_text() == "three\nlines\nhere\n" and not (folder / "count.txt").exists()


def test_on_a_phone_in_chinese_nothing_runs_over_the_edge(stage: Stage, visitor: Open) -> None:
    page = visitor(stage.address, locale="zh-CN", viewport={"width": 390, "height": 780})
    gate = work(stage, "数一数这个很长很长的文件里到底有多少行，然后告诉我", "p")
    send(page, "hand over p")
    see(page, "第 3 步")
    gate.open()
    see(page, "The sub-agent is done.")
    idle(page)
    row = page.locator(".thought-group", has_text="delegate").first
    row.locator(".title").click()
    row.locator(".gl-sub").wait_for()
    assert row.locator(".gl-sub-step").count() == 3
    widths = "e => [e.scrollWidth, e.clientWidth]"
    for place in (".gl-sub", ".title"):
        wide, room = row.locator(place).first.evaluate(widths)
        assert wide <= room + 1
