"""The workspace in the right panel, in a real browser, and its doors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import pytest
from PIL import Image

from tests.scripted import call
from tests.ui.page_steps import idle, send
from tests.ui.stage import Stage
from tests.ui.test_doors import Client

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    made = Stage(tmp_path_factory.mktemp("stage"), language="en")
    yield made
    made.close()


def shown(page: Page) -> str:
    found = page.get_attribute("#gl-facts", "data-session")
    assert found
    return found


def entry(path: str) -> str:
    return f'.gl-entry[data-file="{path}"]'


def choose(page: Page, path: str, what: str) -> None:
    row = page.locator(f"li:has(> {entry(path)})")
    row.hover()
    row.locator("summary").click()
    row.locator(what).click()


def test_the_tree_is_live_and_files_are_looked_at_renamed_removed_and_mentioned(
    stage: Stage, visitor: Callable[..., Page], tmp_path: Path
) -> None:
    page = visitor(stage.address)
    page.wait_for_selector(entry("notes.md"))
    workspace = stage.workspace(shown(page))
    (workspace / "sub").mkdir()
    (workspace / "data.csv").write_text("a,b\n1,<script>document.title='owned'</script>\n")
    Image.new("RGB", (30, 20), "teal").save(workspace / "sub" / "dot.png")
    (workspace / "page.png").write_text("<script>document.title='owned'</script>")

    # while a command runs, what it makes appears and is marked
    script = stage.script("work", call("run_command", command="sleep for ever"), "done")
    send(page, script)
    stage.until(lambda: "sleep for ever" in stage.running)
    (workspace / "made.txt").write_text("by the command")
    (workspace / "notes.md").write_text("changed")
    page.wait_for_selector(f"{entry('made.txt')} .gl-added")
    page.wait_for_selector(f"{entry('notes.md')} .gl-modified")
    assert page.locator("[data-do=file_remove]").count() == 0  # not under the command's hands
    page.click("#gl-stop")
    idle(page)

    page.click(entry("sub"))
    page.click(entry("sub/dot.png"))
    page.wait_for_function("() => document.querySelector('.gl-look img')?.naturalWidth === 30")
    page.click(entry("data.csv"))
    page.wait_for_selector(".gl-look td")
    assert page.locator(".gl-look td").all_inner_texts() == ["1", "<script>document.title='owned'</script>"]
    page.click(entry("page.png"))
    page.wait_for_selector(".gl-look pre")
    assert page.title() != "owned"

    choose(page, "made.txt", "[data-do=file_rename]")
    page.fill(".gl-rename input", "新.txt")
    page.press(".gl-rename input", "Enter")
    page.wait_for_selector(entry("新.txt"))
    assert (workspace / "新.txt").read_text() == "by the command"
    choose(page, "新.txt", "[data-do=file_remove]")
    page.wait_for_selector("[data-do=file_restore]")
    assert not (workspace / "新.txt").exists()
    page.click("[data-do=file_restore]")
    page.wait_for_selector(entry("新.txt"))
    choose(page, "新.txt", "[data-mention]")
    assert page.input_value("#gl-box textarea") == "`新.txt` "

    (tmp_path / "mine.txt").write_text("mine")
    with page.expect_file_chooser() as chooser:
        page.click("[data-add-files]")
    chooser.value.set_files(tmp_path / "mine.txt")
    page.wait_for_selector(entry("mine.txt"))
    assert (workspace / "mine.txt").read_text() == "mine"


def test_the_doors_are_the_owners_and_never_open_a_page(stage: Stage) -> None:
    mine, other = Client(stage.address), Client(stage.address)
    owner = mine.open()
    other.open()
    session = stage.on_loop(lambda: stage.sessions.create(owner))
    (session.workspace / "页.html").write_text("<script>alert(1)</script>")
    path = f"/sessions/{session.id}/workspace"
    stage.on_loop(lambda: session.send(stage.script("hi", "hello")))
    stage.until(lambda: not session.running)

    saved = mine.ask("GET", f"{path}?path={quote('页.html')}")
    assert saved.status == 200 and saved.body == b"<script>alert(1)</script>"
    assert saved.header("content-type") == "application/octet-stream"
    assert saved.header("content-disposition").startswith("attachment")
    for answer in (
        other.ask("GET", f"{path}?path={quote('页.html')}"),
        mine.ask("GET", f"{path}?path=../../x"),
        mine.ask("GET", f"/sessions/{session.id}/look/none"),
    ):
        assert answer.status == 404
    assert other.ask("POST", f"{path}?name=x", "{}", **{"x-glassloop": "1"}).status == 400
    assert mine.ask("POST", f"{path}?name=x", "{}").status == 403  # another site's form cannot say the word
    assert not (session.workspace / "x").exists()
    too_much = mine.ask("POST", f"{path}?name=x", **{"x-glassloop": "1", "Content-Length": "2000000000"})
    assert too_much.status == 400 and b"larger than" in too_much.body
