"""Approvals in a real browser: edited, allowed for longer, taken back, decided together. And processes, ended."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from agent.messages import ToolMessage
from tests.living import new_marker, processes_with
from tests.ui.page_steps import idle, see, send
from tests.ui.stage import Stage, calls
from tools.sandbox import probe

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("deciding"), fence=probe())
    yield stage
    stage.close()


def paying(*commands: str) -> Any:
    return calls(*(("run_command", {"command": command}) for command in commands))


def tell_all(stage: Stage, text: str) -> None:
    for visit in stage.handlers.visits._by_page.values():
        visit.say(text)


def asks(page: Page, count: int) -> None:
    page.wait_for_function("(n) => document.querySelectorAll('.gl-question').length === n", arg=count)


def test_a_call_is_edited_allowed_for_longer_and_asked_for_again_once_that_is_revoked(stage: Stage, page: Page) -> None:
    stage.script("edit", paying("git diff pay-1"), "Edited.")
    stage.script("longer", paying("git diff pay-3"), "Longer.")
    stage.script("again", paying("git diff --stat pay-4"), "Again.")
    stage.script("once more", paying("git diff pay-5"), "Once more.")
    send(page, "edit")
    asks(page, 1)
    page.click("text=Edit before it runs")
    field = page.locator(".gl-question textarea")
    field.fill("git diff pay-2")

    # the server draws the card anew, and nothing of it is lost
    stage.on_loop(lambda: tell_all(stage, "Drawn anew."))
    see(page, "Drawn anew.", "#gl-dock")
    assert field.is_visible() and field.input_value() == "git diff pay-2"
    assert field.evaluate("(field) => document.activeElement === field")
    page.click(".gl-question >> text=Allow once")
    see(page, "Edited.")
    assert stage.ran == ["git diff pay-2"] and stage.warmed_up
    see(page, "changed by you")

    send(page, "longer")
    asks(page, 1)
    page.click("text=Allow for longer")
    page.click(".gl-scope >> text=Whatever begins with “git diff”")
    see(page, "Longer.")
    send(page, "again")
    see(page, "Again.")
    assert stage.ran[1:] == ["git diff pay-3", "git diff --stat pay-4"]

    page.click("#gl-right >> text=Approvals")
    see(page, "used once", "#gl-right")
    assert page.locator("#gl-right .gl-verdict").all_inner_texts() == ["allowed", "allowed"]
    assert page.locator("#gl-right time").first.inner_text()
    page.click("#gl-right >> text=Revoke")
    see(page, "None. Allow a call for longer", "#gl-right")
    idle(page)
    send(page, "once more")
    asks(page, 1)
    page.reload()  # what waits is in the log, not in the page
    asks(page, 1)
    assert "git diff pay-5" not in stage.ran


def test_several_calls_are_decided_in_one_card(stage: Stage, page: Page) -> None:
    stage.script("three", paying("pay 1", "pay 2", "pay 3"), "None of it.")
    stage.script("two", paying("pay 4", "pay 5"), "Both.")
    before = list(stage.ran)
    send(page, "three")
    asks(page, 3)
    page.locator(".gl-question input").nth(1).fill("too dear")
    page.locator(".gl-question").nth(0).get_by_text("Deny").click()
    asks(page, 2)  # what was written for the second call is still the second call's
    assert [one.input_value() for one in page.locator(".gl-question input").all()] == ["too dear", ""]
    page.click("text=Deny all")
    see(page, "None of it.")
    assert stage.ran == before
    (session,) = stage.on_loop(lambda: [visit.session for visit in stage.handlers.visits._by_page.values()])
    results = [message.text for message in session.transcript.messages if isinstance(message, ToolMessage)]
    assert len(results) == 3 and "too dear" in results[1] and "too dear" not in results[0]
    idle(page)
    send(page, "two")
    asks(page, 2)
    page.locator(".gl-question summary").nth(2).click()
    page.locator(".gl-question textarea").nth(1).fill("pay 6")
    page.click("text=Allow all once")
    see(page, "Both.")
    assert sorted(stage.ran[len(before) :]) == ["pay 4", "pay 6"]


@pytest.mark.skipif(sys.platform != "linux", reason="the commands are those of Linux")
def test_a_process_in_the_background_is_listed_and_ended(stage: Stage, page: Page) -> None:
    marker = new_marker()
    stage.script("start", calls(("start_process", {"command": f"echo up; sleep {marker}", "name": "watcher"})), "Runs.")
    send(page, "start")
    see(page, "Runs.")
    see(page, "In the background: 1 running", "#gl-right")
    page.click("#gl-right >> text=watcher")
    see(page, "up", "#gl-right pre")
    assert processes_with(marker)
    page.click("[data-do=process_stop]")
    see(page, "In the background: 0 running", "#gl-right")
    assert not processes_with(marker)
    assert page.locator("[data-do=process_stop]").count() == 0
