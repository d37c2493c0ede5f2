"""Changed files, undo and redo, in a real browser: what is shown, and what is on the disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.ui.page_steps import act, idle, see, send
from tests.ui.stage import Stage, calls

if TYPE_CHECKING:
    from playwright.sync_api import Page

Open = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

NOTES = "three\nlines\nhere\n"


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("undo"))
    yield stage
    stage.close()


def folder(stage: Stage, page: Page) -> Path:
    return stage.workspace(page.url.split("session=")[1])


def writes(path: str, text: str, key: str) -> Any:
    return calls(("write_file", {"path": path, "text": text}), key=key)


def work(stage: Stage, page: Page) -> Path:
    """Two turns: one changes notes.md, one makes a file. Returns the workspace."""
    stage.script("change the notes", writes("notes.md", "three\nother\nlines\nhere\n", "first"), "Changed.")
    stage.script("make a file", writes("new.txt", "new\n", "second"), "Made.")
    for message, answer in (("change the notes", "Changed."), ("make a file", "Made.")):
        send(page, message)
        see(page, answer)
        idle(page)
    where = folder(stage, page)
    assert (where / "notes.md").read_text() != NOTES and (where / "new.txt").exists()
    return where


def test_a_step_says_what_it_changed_and_shows_the_difference(stage: Stage, page: Page) -> None:
    work(stage, page)
    row = page.locator(".thought-group .title", has_text="write_file").first
    assert "+1 −0" in row.inner_text()
    assert "new +1" in page.locator(".thought-group .title", has_text="write_file").nth(1).inner_text()
    row.click()
    act(page, "changes", "first_0")
    see(page, "+other", ".gl-diff")
    assert page.locator(".gl-diff .gl-plus").inner_text() == "+other"
    page.click("text=All changes")
    see(page, "new.txt", ".gl-panel")
    assert page.locator(".gl-change").count() == 2
    page.locator(".gl-change").first.click()
    see(page, "+new", ".gl-diff")


def test_undo_from_here_takes_files_and_conversation_back_and_redo_brings_both(stage: Stage, page: Page) -> None:
    where = work(stage, page)
    act(page, "undo", 1)
    see(page, "2 messages and their answers leave the conversation", ".gl-card")
    card = page.inner_text(".gl-card")
    assert "notes.md" in card and "goes back" in card and "new.txt" in card and "is removed" in card
    assert (where / "new.txt").exists()  # nothing is done before the yes
    page.click(".gl-card >> text=Cancel")
    page.locator(".gl-card").wait_for(state="detached")
    assert (where / "new.txt").exists()
    act(page, "undo", 1)
    page.click(".gl-card .gl-primary")
    see(page, "Undone: new.txt, notes.md.")
    assert (where / "notes.md").read_text() == NOTES and not (where / "new.txt").exists()
    assert page.locator("text=change the notes").count() == page.locator("#gl-left >> text=change the notes").count()
    see(page, "What shall we do?")
    page.reload()  # the way back outlives the page
    see(page, "Undone: new.txt, notes.md.")
    page.click("#gl-scroll >> text=Redo")
    see(page, "Brought back: new.txt, notes.md.")
    assert (where / "notes.md").read_text() != NOTES and (where / "new.txt").read_text() == "new\n"
    see(page, "Made.")
    assert page.locator("text=Undone:").count() == 0
    page.click("#gl-scroll .gl-quiet >> text=Undo")
    see(page, "Undone: new.txt, notes.md.")
    assert (where / "notes.md").read_text() == NOTES


def test_the_last_turn_alone_can_be_undone(stage: Stage, page: Page) -> None:
    where = work(stage, page)
    act(page, "undo", 2)
    see(page, "Your message and its answer leave the conversation", ".gl-card")
    page.click(".gl-card .gl-primary")
    see(page, "Undone: new.txt.")
    see(page, "Changed.")
    assert page.locator("#gl-scroll >> text=Made.").count() == 0
    assert not (where / "new.txt").exists() and (where / "notes.md").read_text() != NOTES
    stage.script("go on", "Going on.")
    send(page, "go on")
    see(page, "Going on.")
    see(page, "2/2")  # the undone turn is a version beside the new one


def test_one_step_can_be_undone_and_the_conversation_stays(stage: Stage, page: Page) -> None:
    where = work(stage, page)
    row = page.locator("#gl-history .thought-group .title", has_text="write_file")
    row.click()
    act(page, "undo_step", "first_0")
    see(page, "Undo this step?", ".gl-card")
    page.click(".gl-card .gl-primary")
    see(page, "Undone: notes.md.")
    see(page, "The model was told so.")
    assert (where / "notes.md").read_text() == NOTES and (where / "new.txt").exists()
    see(page, "Changed.")
    see(page, "Made.")
    page.locator("#gl-history .title >> text=undone").wait_for()
    page.locator("#gl-live .gl-quiet >> text=Redo").click()
    see(page, "Brought back: notes.md.")
    assert (where / "notes.md").read_text() != NOTES
    page.locator("#gl-history .title >> text=undone").wait_for(state="detached")


def test_one_file_of_a_step_can_be_undone_and_what_the_person_changed_since_needs_their_choice(
    stage: Stage, page: Page
) -> None:
    both = calls(("write_files", {"paths": ["a.txt", "b.txt"], "text": "by the model\n"}), key="pair")
    stage.script("two files", both, "Both.")
    send(page, "two files")
    see(page, "Both.")
    idle(page)
    where = folder(stage, page)
    row = page.locator("#gl-live .thought-group .title", has_text="write_files")
    row.click()
    act(page, "changes", "pair_0")
    page.locator(".gl-diff", has_text="a.txt").get_by_role("button").click()
    see(page, "Undo this file?", ".gl-card")
    assert "a.txt" in page.inner_text(".gl-card") and "b.txt" not in page.inner_text(".gl-card")
    page.click(".gl-card .gl-primary")
    see(page, "Undone: a.txt.")
    assert not (where / "a.txt").exists() and (where / "b.txt").read_text() == "by the model\n"
    see(page, "undone", ".gl-diff")
    page.locator(".gl-diff", has_text="a.txt").get_by_role("button", name="Redo").click()
    see(page, "Brought back: a.txt.")
    assert (where / "a.txt").read_text() == "by the model\n"

    (where / "b.txt").write_text("mine\n")
    page.locator(".gl-diff", has_text="b.txt").get_by_role("button").click()
    see(page, "These need your choice", ".gl-card")
    page.click(".gl-card >> text=Keep my changes")
    page.locator(".gl-card").wait_for(state="detached")
    assert (where / "b.txt").read_text() == "mine\n"
    page.locator(".gl-diff", has_text="b.txt").get_by_role("button").click()
    page.click(".gl-card >> text=Overwrite my changes")
    see(page, "Undone: b.txt.")
    assert (where / "a.txt").exists() and not (where / "b.txt").exists()


@pytest.mark.parametrize(("choice", "left"), [("Keep my changes", "mine\n"), ("Overwrite my changes", NOTES)])
def test_what_the_person_changed_since_needs_their_choice(stage: Stage, page: Page, choice: str, left: str) -> None:
    where = work(stage, page)
    (where / "notes.md").write_text("mine\n")
    act(page, "undo", 1)
    see(page, "These need your choice", ".gl-card")
    assert "changed since, by you" in page.inner_text(".gl-card")
    assert page.locator(".gl-card .gl-answer button").all_inner_texts() == [
        "Keep my changes",
        "Overwrite my changes",
        "Cancel",
    ]
    page.click(f".gl-card >> text={choice}")
    see(page, "Undone: new.txt")
    assert (where / "notes.md").read_text() == left and not (where / "new.txt").exists()
    assert (page.locator("text=Left as they are: notes.md").count() > 0) == (left == "mine\n")


def test_a_file_that_changes_while_the_person_looks_is_not_overwritten(stage: Stage, page: Page) -> None:
    where = work(stage, page)
    act(page, "undo", 1)
    see(page, "Undo from here?", ".gl-card")
    (where / "notes.md").write_text("mine, just now\n")
    page.click(".gl-card .gl-primary")
    see(page, "Files have changed meanwhile", "#gl-dock")
    see(page, "These need your choice", ".gl-card")
    assert (where / "notes.md").read_text() == "mine, just now\n" and (where / "new.txt").exists()
    page.keyboard.press("Escape")
    page.locator(".gl-card").wait_for(state="detached")


def test_nothing_is_undone_while_a_turn_runs(stage: Stage, page: Page) -> None:
    where = work(stage, page)
    stage.script("for long", calls(("run_command", {"command": "sleep 77"})))
    send(page, "for long")
    page.wait_for_selector("#gl-live .gl-state.gl-running")
    page.evaluate("document.dispatchEvent(new CustomEvent('glassloop:do', {detail: {do: 'undo', value: '1'}}))")
    see(page, "a turn is running", "#gl-dock")
    assert page.locator(".gl-card").count() == 0 and (where / "new.txt").exists()
    page.click("#gl-stop")
    see(page, "Stopped.")


def test_chinese(stage: Stage, visitor: Open) -> None:
    page = visitor(stage.address, locale="zh-CN")
    stage.script("新建文件", writes("新.txt", "内容\n", "cn"), "好了。")
    send(page, "新建文件")
    see(page, "好了。")
    idle(page)
    act(page, "undo", 1)
    see(page, "你的这条消息及其回答会移出对话", ".gl-card")
    page.click(".gl-card .gl-primary")
    see(page, "已撤销：新.txt。")
    assert not (folder(stage, page) / "新.txt").exists()
