"""The page in a real browser, from a person's side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from agent.errors import ModelError
from tests.ui.stage import HOSTILE, PAGE_BYTES, Gate, Stage, calls, retried, streamed

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

TO_BOTTOM = "(() => { const s = document.querySelector('#gl-scroll'); return s.scrollHeight - s.clientHeight - s.scrollTop; })()"  # noqa: E501


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("page"))
    yield stage
    stage.close()


def send(page: Page, message: str) -> None:
    page.fill("#gl-box textarea", message)
    page.press("#gl-box textarea", "Enter")


def see(page: Page, text: str, where: str = "#gl-scroll") -> Locator:
    found = page.locator(where).get_by_text(text, exact=False).first
    found.wait_for()
    return found


def idle(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('#gl-facts')?.dataset.running === ''")


def title_of(page: Page, name: str) -> Locator:
    return page.locator(".thought-group .title", has_text=name)


# ---------------------------------------------------------------------- a conversation


def test_an_answer_streams_in(stage: Stage, page: Page) -> None:
    gate = Gate()
    stage.script("stream", streamed("The first half", gate, " and the second.", reply="The first half and the second."))
    see(page, "What shall we do?")
    send(page, "stream")
    see(page, "The first half")
    assert page.locator("#gl-stop").is_visible() and not page.locator("#gl-send").is_visible()
    assert page.input_value("#gl-box textarea") == ""
    assert page.locator("text=and the second").count() == 0
    gate.open()
    see(page, "The first half and the second.")
    idle(page)
    assert page.locator("#gl-send").is_visible() and not page.locator("#gl-stop").is_visible()
    assert page.title() == "stream · Glassloop"


def test_an_example_is_sent_by_a_click(stage: Stage, page: Page) -> None:
    stage.script("What time is it?", "It is late.")
    page.click("text=What time is it?")
    see(page, "It is late.")
    assert page.locator(".gl-welcome").count() == 0


def test_a_step_is_folded_and_opens_to_arguments_result_and_exact_messages(stage: Stage, page: Page) -> None:
    stage.script(
        "two calls", calls(("run_command", {"command": "ls -la"}), ("run_command", {"command": "pwd"})), "Done."
    )
    send(page, "two calls")
    see(page, "Done.")
    rows = page.locator("#gl-live .thought-group")
    assert rows.count() == 2
    assert "exit 0, 12 lines" in rows.nth(0).inner_text() and "ls -la" in rows.nth(0).inner_text()
    assert page.locator("text=output of ls -la").count() == 0
    rows.nth(0).locator(".title").click()
    see(page, "output of ls -la")
    assert page.locator("text=output of pwd").count() == 0
    page.click("text=The exact messages behind this step")
    see(page, "Request 1 of 2", "#gl-right")
    page.locator("#gl-right summary", has_text="user").click()
    assert page.locator("#gl-right details[open] pre").inner_text() == "two calls"
    page.click("#gl-right >> text=Next")
    see(page, "Request 2 of 2", "#gl-right")
    assert page.locator("#gl-right summary", has_text="tool").count() >= 2


def test_a_second_turn_comes_below_the_first_and_nothing_doubles(stage: Stage, page: Page) -> None:
    stage.script("first", "Answer one.")
    stage.script("second", "Answer two.")
    send(page, "first")
    see(page, "Answer one.")
    idle(page)
    page.evaluate(  # count at every change of the page, for what flashes by
        """() => { window.most = 0; window.least = 9; new MutationObserver(() => {
            const text = document.querySelector('#gl-scroll').textContent, count = text.split('Answer one.').length - 1;
            window.most = Math.max(window.most, count); window.least = Math.min(window.least, count);
        }).observe(document.querySelector('#gl-scroll'), {subtree: true, childList: true, characterData: true}); }"""
    )
    send(page, "second")
    see(page, "Answer two.")
    assert page.evaluate("[window.least, window.most]") == [1, 1]
    text = page.inner_text("#gl-scroll")
    assert text.index("first") < text.index("Answer one.") < text.index("second") < text.index("Answer two.")


def test_a_retry_is_a_quiet_line_and_voids_what_was_said(stage: Stage, page: Page) -> None:
    gate = Gate()
    stage.script("retry", retried(gate, "The right answer."))
    send(page, "retry")
    see(page, "rate limited, trying again in 8 s")
    assert page.locator("text=half a wrong").count() == 0
    gate.open()
    see(page, "The right answer.")


def test_an_error_says_what_to_do_and_the_next_message_works(stage: Stage, page: Page) -> None:
    stage.script("wrong key", ModelError("wrong_key", "The key was refused.", "401 Incorrect API key"))
    stage.script("again", "Now it works.")
    send(page, "wrong key")
    see(page, "in .env it is OPENAI_API_KEY")
    see(page, "401 Incorrect API key")
    send(page, "again")
    see(page, "Now it works.")


# ---------------------------------------------------------------------- files


def test_a_file_is_a_card_whose_download_has_its_bytes(stage: Stage, page: Page, visitor: Open, tmp_path: Path) -> None:
    stage.script("send it", calls(("send_file", {"name": "report.html"})), "There it is.")
    send(page, "send it")
    see(page, "There it is.")
    with page.expect_download() as download:
        page.locator("#gl-live .gl-file").click()
    download.value.save_as(tmp_path / "got")
    assert (tmp_path / "got").read_bytes() == PAGE_BYTES
    assert download.value.suggested_filename == "report.html"
    page.click("#gl-right >> text=Files")
    assert page.locator("#gl-right .gl-file").inner_text().startswith("report.html")
    address = page.locator("#gl-live .gl-file").get_attribute("href") or ""
    answer = page.request.get(stage.address + address)
    assert answer.headers["content-disposition"].startswith("attachment")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    shown = page.request.get(f"{stage.address}{address}?show=1")
    assert shown.headers["content-disposition"].startswith("attachment")  # asking nicely does not help
    stranger = visitor(stage.address)
    assert stranger.request.get(stage.address + address).status == 404


def test_a_picture_is_shown_in_place(stage: Stage, page: Page) -> None:
    stage.script("draw", calls(("send_file", {"name": "teal.png"})), "A picture.")
    send(page, "draw")
    see(page, "A picture.")
    page.wait_for_function("() => document.querySelector('.gl-image img')?.naturalWidth === 60")


def test_a_page_that_calls_itself_a_picture_is_not_shown(stage: Stage, page: Page) -> None:
    stage.script("lie", calls(("send_file", {"name": "page.svg"})), "A lie.")
    send(page, "lie")
    see(page, "A lie.")
    address = page.locator("#gl-live .gl-file").get_attribute("href") or ""
    assert page.request.get(f"{stage.address}{address}?show=1").headers["content-type"] == "application/octet-stream"


# ---------------------------------------------------------------------- stop, queue, approval


def test_stop_ends_a_command_that_never_ends_and_the_next_message_works(stage: Stage, page: Page) -> None:
    stage.script("for ever", calls(("run_command", {"command": "sleep 300"}), text="Starting."))
    stage.script("and now", "Here I am.")
    send(page, "for ever")
    title_of(page, "run_command").click()
    see(page, "line 2 of sleep 300")  # its output while it runs
    assert "sleep 300" in stage.running
    page.click("#gl-stop")
    see(page, "Stopped. What was said and done so far is kept")
    assert "stopped" in title_of(page, "run_command").inner_text()
    assert "sleep 300" not in stage.running
    idle(page)
    send(page, "and now")
    see(page, "Here I am.")


def test_escape_stops_and_unsent_messages_come_back(stage: Stage, page: Page) -> None:
    stage.script("wait here", calls(("run_command", {"command": "sleep 301"})))
    send(page, "wait here")
    page.wait_for_selector("#gl-live .gl-state.gl-running")
    send(page, "first in line")
    send(page, "second in line")
    page.wait_for_function("() => document.querySelectorAll('.gl-queued').length === 2")
    page.locator(".gl-queued", has_text="first in line").get_by_text("Take back").click()
    page.wait_for_function("() => document.querySelectorAll('.gl-queued').length === 1")
    assert page.input_value("#gl-box textarea") == "first in line"
    page.fill("#gl-box textarea", "half a thought")
    page.keyboard.press("Escape")
    see(page, "Stopped.")
    page.wait_for_function(
        "() => document.querySelector('#gl-box textarea').value === 'second in line\\n\\nhalf a thought'"
    )
    page.wait_for_function("() => !document.querySelector('.gl-queued')")


def test_nothing_is_lost_of_what_is_typed_faster_than_the_page_answers(stage: Stage, page: Page) -> None:
    stage.script("wait there", calls(("run_command", {"command": "sleep 302"})))
    send(page, "wait there")
    page.wait_for_selector("#gl-live .gl-state.gl-running")
    page.evaluate("""() => {
      const box = document.querySelector('#gl-box textarea');
      const type = (text) => { box.value += text; box.dispatchEvent(new Event('input', {bubbles: true})); };
      const enter = () => box.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}));
      type('one'); enter(); enter(); type('two'); enter(); type('not yet');
    }""")
    page.wait_for_function("() => document.querySelectorAll('.gl-queued').length === 2")
    assert [line.inner_text() for line in page.locator(".gl-queued-text").all()] == ["one", "two"]
    # what comes back goes before what has been typed since, even while it is on its way
    page.evaluate("""() => {
      document.querySelector('#gl-stop').click();
      const box = document.querySelector('#gl-box textarea');
      box.value += ', really';
      box.dispatchEvent(new Event('input', {bubbles: true}));
    }""")
    page.wait_for_function(
        "() => document.querySelector('#gl-box textarea').value === 'one\\n\\ntwo\\n\\nnot yet, really'"
    )


def test_a_queued_message_becomes_a_turn(stage: Stage, page: Page) -> None:
    gate = Gate()
    stage.script("slow", streamed("Wait", gate, reply="Waited."))
    stage.script("line one\nline two", "Got both lines.")
    send(page, "slow")
    see(page, "Wait")
    page.fill("#gl-box textarea", "line one")
    page.press("#gl-box textarea", "Shift+Enter")
    page.keyboard.type("line two")
    page.keyboard.press("Enter")
    see(page, "line one", "#gl-dock")
    gate.open()
    see(page, "Got both lines.")
    assert page.locator(".gl-queued").count() == 0


def test_approval_shows_what_would_run_and_runs_only_what_is_allowed(stage: Stage, page: Page) -> None:
    first, second = {"command": "pay 1 <b>now</b>"}, {"command": "pay 2"}
    stage.script("buy", calls(("run_command", first), ("run_command", second)), "Bought one.")
    send(page, "buy")
    see(page, "May this run?", "#gl-dock")
    questions = page.locator(".gl-question")
    assert questions.count() == 2
    assert "pay 1 <b>now</b>" in questions.nth(0).inner_text() and "it costs money" in questions.nth(0).inner_text()
    idle(page)
    assert not [command for command in stage.ran if command.startswith("pay")]
    questions.nth(1).locator("input").fill("too dear")
    questions.nth(1).get_by_text("Deny").click()
    page.wait_for_function("() => document.querySelectorAll('.gl-question').length === 1")
    page.locator(".gl-question").get_by_text("Allow once").click()
    see(page, "Bought one.")
    assert [command for command in stage.ran if command.startswith("pay")] == ["pay 1 <b>now</b>"]
    assert page.locator(".gl-approval").count() == 0
    title_of(page, "pay 2").click()
    see(page, "Not allowed. too dear")


def test_a_forged_decision_changes_nothing(stage: Stage, page: Page) -> None:
    stage.script("forge", calls(("run_command", {"command": "pay 999"})))
    send(page, "forge")
    see(page, "May this run?", "#gl-dock")
    page.evaluate("() => { document.querySelector('[data-do=allow]').dataset.hash = '0'.repeat(64); }")
    page.click(".gl-question >> text=Allow once")
    see(page, "That did not work", "#gl-dock")
    assert page.locator(".gl-question").count() == 1
    assert "pay 999" not in stage.ran


# ---------------------------------------------------------------------- reload, tabs, visitors


def test_a_reload_in_mid_answer_goes_on_in_place(stage: Stage, page: Page) -> None:
    gate = Gate()
    stage.script("before", "Earlier answer.")
    stage.script("reload", streamed("Half of", gate, " it.", reply="Half of it."))
    send(page, "before")
    see(page, "Earlier answer.")
    idle(page)
    send(page, "reload")
    see(page, "Half of")
    assert "?session=" in page.url
    page.fill("#gl-box textarea", "half a question")
    page.reload()
    page.wait_for_function("() => document.querySelector('#gl-box textarea')?.value === 'half a question'")
    see(page, "Half of")
    see(page, "Earlier answer.")
    assert page.locator("#gl-stop").is_visible()
    gate.open()
    see(page, "Half of it.")
    assert page.locator("text=Half of it.").count() == 1


def test_two_tabs_on_one_session_show_the_same_run(stage: Stage, page: Page) -> None:
    gate = Gate()
    stage.script("share", streamed("Both see", gate, reply="Both see this."))
    other = page.context.new_page()
    page.wait_for_function("() => location.search.includes('session=')")
    other.goto(page.url)
    see(other, "What shall we do?")
    send(page, "share")
    see(page, "Both see")
    see(other, "Both see")
    assert other.locator("#gl-stop").is_visible()
    gate.open()
    see(page, "Both see this.")
    see(other, "Both see this.")
    stage.script("from the other", "Heard you.")
    idle(other)
    send(other, "from the other")
    see(page, "Heard you.")


def test_two_visitors_share_nothing(stage: Stage, visitor: Open) -> None:
    stage.script("my secret", "Kept.")
    page = visitor(stage.address)
    send(page, "my secret")
    see(page, "Kept.")
    idle(page)
    stranger = visitor(page.url)
    see(stranger, "That conversation is not here", "#gl-dock")
    assert stranger.locator("text=my secret").count() == 0
    stranger.wait_for_function("() => location.search.includes('session=')")
    assert stranger.url != page.url
    cookies = {cookie["name"]: cookie for cookie in page.context.cookies()}
    assert cookies["glassloop_owner"]["httpOnly"] and cookies["glassloop_owner"]["sameSite"] == "Lax"
    assert len(cookies["glassloop_owner"]["value"]) == 43


def test_conversations_are_listed_and_can_be_switched(stage: Stage, visitor: Open) -> None:
    stage.script("apples", "About apples.")
    stage.script("pears", "About pears.")
    page = visitor(stage.address)
    send(page, "apples")
    see(page, "About apples.")
    idle(page)
    apples = page.url
    page.click(".gl-new")
    see(page, "What shall we do?")
    page.wait_for_function("(old) => location.href !== old", arg=apples)
    send(page, "pears")
    see(page, "About pears.")
    assert page.locator("text=About apples.").count() == 0
    assert page.locator(".gl-session").all_inner_texts() == ["pears", "apples"]
    page.click(".gl-session >> text=apples")
    see(page, "About apples.")
    assert page.locator("text=About pears.").count() == 0
    page.wait_for_function("(old) => location.href === old", arg=apples)


def test_a_closed_tab_is_forgotten_and_its_turn_goes_on(stage: Stage, visitor: Open) -> None:
    gate = Gate()
    stage.script("leave", streamed("Going on", gate, reply="Went on."))
    page = visitor(stage.address)
    send(page, "leave")
    see(page, "Going on")
    session_id = page.url.split("session=")[1]
    address, context = page.url, page.context
    visits = stage.on_loop(lambda: set(stage.handlers.visits.pages()))
    page.close()
    context.new_page().goto("about:blank")
    stage.until(lambda: len(stage.handlers.visits.pages() & visits) < len(visits))
    gate.open()
    stage.until(lambda: stage.sessions._by_id[session_id].turn.ended == "answered")
    back = context.new_page()
    back.goto(address)
    see(back, "Went on.")


# ---------------------------------------------------------------------- looks and languages


def test_on_a_phone_the_panels_are_sheets(stage: Stage, visitor: Open) -> None:
    stage.script("phone", calls(("run_command", {"command": "ls"})), "Small. " + "A long line of words. " * 20)
    page = visitor(stage.address, viewport={"width": 390, "height": 844})
    send(page, "phone")
    see(page, "Small.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert not page.locator("#gl-left").is_visible() and not page.locator("#gl-right").is_visible()
    page.click(".gl-bar [data-sheet=left]")
    page.locator(".gl-session").wait_for(state="visible")
    page.click("#gl-left [data-sheet]")
    page.locator("#gl-left").wait_for(state="hidden")
    page.click(".gl-bar [data-sheet=right]")
    see(page, "notes.md", "#gl-right")
    page.click("#gl-right [data-sheet]")
    page.locator("#gl-right").wait_for(state="hidden")
    box = page.locator("#gl-box").bounding_box()
    assert box and box["y"] + box["height"] <= 844


def test_dark_follows_the_system_and_can_be_switched(stage: Stage, visitor: Open) -> None:
    def brightness(page: Page) -> int:
        color = page.evaluate("getComputedStyle(document.querySelector('#gl-app')).backgroundColor")
        return sum(int(part) for part in color.removeprefix("rgb(").removesuffix(")").split(","))

    light, dark = visitor(stage.address, color_scheme="light"), visitor(stage.address, color_scheme="dark")
    assert brightness(light) > 700 and brightness(dark) < 100
    dark.click("[data-theme]")
    assert brightness(dark) > 700
    dark.reload()
    dark.wait_for_selector(".gl-bar")
    assert brightness(dark) > 700


def test_the_language_is_the_browsers_and_can_be_switched(stage: Stage, visitor: Open) -> None:
    stage.script("你好", "你好！")
    page = visitor(stage.address, locale="zh-CN")
    see(page, "想做点什么？")
    page.click("text=你好")
    see(page, "你好！")
    page.click("[data-do=language]")
    see(page, "New conversation", "#gl-left")
    see(page, "你好！")
    page.reload()
    see(page, "New conversation", "#gl-left")
    assert page.get_attribute("#gl-box textarea", "placeholder") == "Write a message"


def test_scrolling_up_while_text_streams_is_respected(stage: Stage, page: Page) -> None:
    first, second = Gate(), Gate()
    paragraph = "A paragraph of some length.\n\n"
    stage.script(
        "scroll", streamed(paragraph * 60, first, paragraph * 20, second, paragraph * 20, reply=paragraph * 100)
    )
    send(page, "scroll")
    page.wait_for_function(f"() => document.querySelectorAll('#gl-live p').length > 55 && {TO_BOTTOM} < 5")
    page.mouse.move(600, 400)
    page.mouse.wheel(0, -600)
    page.wait_for_function(f"() => {TO_BOTTOM} > 300")
    where = page.evaluate("document.querySelector('#gl-scroll').scrollTop")
    first.open()
    page.wait_for_function("() => document.querySelectorAll('#gl-live p').length > 75")
    assert page.evaluate("document.querySelector('#gl-scroll').scrollTop") == where
    page.mouse.wheel(0, 9_000)
    page.wait_for_function(f"() => {TO_BOTTOM} < 5")
    second.open()
    page.wait_for_function(f"() => document.querySelectorAll('#gl-live p').length > 95 && {TO_BOTTOM} < 5")


# ---------------------------------------------------------------------- hostile text


def test_hostile_text_asks_no_other_host_and_runs_nothing(stage: Stage, visitor: Open) -> None:
    stage.script("attack", calls(("run_command", {"command": HOSTILE}), text=HOSTILE), HOSTILE)
    stage.script(HOSTILE.strip(), "Heard it from the person, too.")
    asked: list[str] = []
    page = visitor(stage.address)
    page.on("request", lambda request: asked.append(request.url))
    send(page, "attack")
    idle(page)
    see(page, "blocked image: evil.test")
    title_of(page, "run_command").click()
    see(page, "output of <img")
    page.locator("#gl-left .gl-session").wait_for()
    send(page, HOSTILE)
    see(page, "Heard it from the person, too.")
    page.click("text=Context")
    see(page, "Request", "#gl-right")
    for summary in page.locator("#gl-right summary").all():
        summary.click()
    inside = page.locator("#gl-scroll, #gl-right")
    assert inside.locator("img, script, iframe, form, video, svg[onload], object, embed").count() == 0
    assert inside.locator("[style*=fixed], [style*=url]").count() == 0
    assert page.locator("a[href*='bank.test']").first.inner_text() == "bank"
    see(page, "(evil.test)")
    assert page.title() != "owned"
    own = stage.address.removeprefix("http://")
    assert not [url for url in asked if not url.startswith((f"http://{own}/", "data:", "blob:"))]


def test_nothing_but_our_own_address_is_asked_from_the_first_request_on(stage: Stage, browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(stage.address)
    page.wait_for_selector(".gl-bar")
    context.close()
    assert len(asked) > 5 and not [url for url in asked if not url.startswith((stage.address, "data:", "blob:"))]
