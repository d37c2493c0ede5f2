"""Editing, asking again, versions and comparing, in a real browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.page_steps import act, idle, see, send
from tests.ui.stage import Gate, Stage, calls, streamed

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("branches"))
    yield stage
    stage.close()


def session_of(stage: Stage, page: Page) -> Any:
    session_id = page.url.split("session=")[1]
    return stage.on_loop(lambda: stage.sessions._by_id[session_id])


def said(stage: Stage, page: Page) -> list[str]:
    """What the model would be told now."""
    session = session_of(stage, page)
    return stage.on_loop(lambda: [message.text for message in session.transcript.messages])  # type: ignore[no-any-return]


def conversation(stage: Stage, page: Page) -> None:
    stage.script("apples", "About apples.")
    stage.script("pears", "About pears.")
    for message, answer in (("apples", "About apples."), ("pears", "About pears.")):
        send(page, message)
        see(page, answer)
        idle(page)


def test_an_edited_message_makes_a_version_and_the_old_one_is_kept(stage: Stage, page: Page) -> None:
    conversation(stage, page)
    stage.script("plums", "About plums.")
    page.fill("#gl-box textarea", "half a thought")
    act(page, "edit", 1)
    see(page, "Editing an earlier message", "#gl-dock")
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value === 'apples'")
    assert page.evaluate("document.activeElement.closest('#gl-box') !== null")
    send(page, "plums")
    see(page, "About plums.")
    idle(page)
    assert page.locator("text=About pears.").count() == 0 and page.locator("text=About apples.").count() == 0
    assert said(stage, page) == ["plums", "About plums."]
    assert page.input_value("#gl-box textarea") == "half a thought"  # what was being written is back
    assert page.locator("#gl-dock .gl-editing").count() == 0
    see(page, "2/2")
    act(page, "branch", 1)
    see(page, "About pears.")
    assert page.locator("text=About plums.").count() == 0
    assert said(stage, page) == ["apples", "About apples.", "pears", "About pears."]
    see(page, "1/2")
    act(page, "branch", 3)
    see(page, "About plums.")
    page.reload()
    see(page, "About plums.")
    see(page, "2/2")


def test_an_edit_can_be_left(stage: Stage, page: Page) -> None:
    conversation(stage, page)
    page.fill("#gl-box textarea", "a draft")
    act(page, "edit", 2)
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value === 'pears'")
    act(page, "edit", 1)
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value === 'apples'")
    page.keyboard.press("Escape")
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value === 'a draft'")
    page.locator(".gl-editing").wait_for(state="detached")
    stage.script("a draft", "Sent as a new one.")
    page.press("#gl-box textarea", "Enter")
    see(page, "Sent as a new one.")
    assert len(said(stage, page)) == 6


def test_retry_asks_the_same_again_beside_the_first_answer(stage: Stage, page: Page) -> None:
    conversation(stage, page)
    stage.script("pears", "About other pears.")
    act(page, "retry", 2)
    see(page, "About other pears.")
    idle(page)
    assert page.locator("text=About pears.").count() == 0
    assert said(stage, page) == ["apples", "About apples.", "pears", "About other pears."]
    see(page, "2/2")


def test_nothing_is_edited_while_a_turn_runs(stage: Stage, page: Page) -> None:
    conversation(stage, page)
    gate = Gate()
    stage.script("slow", streamed("Going on", gate, reply="Going on and done."))
    send(page, "slow")
    see(page, "Going on")
    assert not page.locator("a[href='#do-edit-1']").is_visible()
    page.evaluate("document.dispatchEvent(new CustomEvent('glassloop:do', {detail: {do: 'retry', value: '1'}}))")
    see(page, "a turn is running", "#gl-dock")
    gate.open()
    see(page, "Going on and done.")
    assert len(said(stage, page)) == 6


def test_what_another_version_did_is_told_to_the_model_and_folded_on_the_page(stage: Stage, page: Page) -> None:
    stage.script("do it", calls(("run_command", {"command": "make mess"})), "Done it.")
    stage.script("do it well", "Looked first.")
    send(page, "do it")
    see(page, "Done it.")
    idle(page)
    act(page, "edit", 1)
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value === 'do it'")
    send(page, "do it well")
    see(page, "Looked first.")
    title = page.locator(".thought-group .title", has_text="The model was told what ran on another branch")
    assert page.locator("text=make mess").count() == 0
    title.click()
    see(page, "make mess")
    assert "make mess" in said(stage, page)[1]


def test_two_versions_stand_side_by_side_from_where_they_part(stage: Stage, page: Page) -> None:
    stage.script("start", "Started.")
    stage.script("<b>one way</b>", calls(("run_command", {"command": "go left"})), "Went *left*.")
    stage.script("another way", "Went right.")
    send(page, "start")
    see(page, "Started.")
    idle(page)
    send(page, "<b>one way</b>")
    see(page, "Went left.")
    idle(page)
    act(page, "edit", 2)
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value !== ''")
    send(page, "another way")
    see(page, "Went right.")
    idle(page)
    act(page, "compare", "3.2")
    sides = page.locator(".gl-side")
    see(page, "Two versions", ".gl-compare")
    assert "another way" in sides.nth(0).inner_text() and "Went right." in sides.nth(0).inner_text()
    assert "<b>one way</b>" in sides.nth(1).inner_text() and "Went *left*." in sides.nth(1).inner_text()
    assert "output of go left" in sides.nth(1).inner_text()
    assert "Started." not in page.inner_text(".gl-compare")
    page.keyboard.press("Escape")
    page.locator(".gl-compare").wait_for(state="detached")
    act(page, "compare", "3.2")
    page.click("text=Go over to this one")
    see(page, "Went left.")
    page.locator(".gl-compare").wait_for(state="detached")
    assert said(stage, page)[2] == "<b>one way</b>"


def test_a_forged_link_changes_nothing(stage: Stage, page: Page) -> None:
    hostile = "[edit](#do-retry-1) <a href='#do-retry-1'>x</a> #do-retry-1"
    stage.script("hi", hostile)
    send(page, "hi")
    see(page, "#do-retry-1")
    idle(page)
    assert page.locator("#gl-live .bot a[href='#do-retry-1']").count() == 1  # ours, below the answer
    for which in ("99", "-1", "x", "1.5", "../../etc"):
        for what in ("edit", "retry", "branch", "undo", "compare", "undo_step", "redo"):
            page.evaluate(
                "(detail) => document.dispatchEvent(new CustomEvent('glassloop:do', {detail}))",
                {"do": what, "value": which},
            )
    see(page, "That did not work", "#gl-dock")
    assert said(stage, page) == ["hi", hostile]


def test_copy_takes_the_answer_and_nothing_around_it(stage: Stage, page: Page) -> None:
    stage.script("copy", calls(("run_command", {"command": "ls"}), text="Looking."), "The **answer**.")
    send(page, "copy")
    see(page, "The answer.")
    idle(page)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    act(page, "copy", 1)
    see(page, "Copied")
    assert page.evaluate("navigator.clipboard.readText()").strip() == "The answer."


def test_chinese(stage: Stage, visitor: Open) -> None:
    stage.script("苹果", "关于苹果。")
    stage.script("梨", "关于梨。")
    page = visitor(stage.address, locale="zh-CN")
    send(page, "苹果")
    see(page, "关于苹果。")
    idle(page)
    act(page, "edit", 1)
    see(page, "正在编辑", "#gl-dock")
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value === '苹果'")
    send(page, "梨")
    see(page, "关于梨。")
    see(page, "2/2")
    act(page, "compare", "2.1")
    see(page, "两个版本", ".gl-compare")
