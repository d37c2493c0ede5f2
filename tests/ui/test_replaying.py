"""Replays and reports on the page, in a real browser and over plain HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pytest

from agent.exchange import import_lines
from tests.ui.stage import Stage, calls
from tests.ui.test_doors import Client
from ui.harden import owner_of
from ui.replay import ReplaySession
from ui.visits import Visit

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

Open = Callable[..., "Page"]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("replaying"))
    yield stage
    stage.close()


def say(page: Page, text: str) -> None:
    page.locator("#gl-box textarea").fill(text)
    page.keyboard.press("Enter")


def session_of(page: Page) -> str:
    return parse_qs(urlsplit(page.url).query)["session"][0]


def control(page: Page, name: str) -> None:
    page.locator(".gl-replay").get_by_role("button", name=name, exact=True).click()


def test_a_recording_that_ships_is_watched(stage: Stage, visitor: Open) -> None:
    page = visitor(stage.address)
    page.locator(".gl-recordings button").first.click()
    page.wait_for_selector(".gl-replay")
    assert "no model is asked" in page.locator(".gl-replay").inner_text()
    assert not page.locator("#gl-composer").is_visible()
    first = page.locator(".gl-chat .user").first
    first.wait_for()
    assert "List the files" in first.inner_text() and page.get_by_text("list_files").count() == 0
    control(page, "Next step")
    page.get_by_text("list_files").first.wait_for()
    assert page.get_by_text("send_file").count() == 0
    control(page, "All at once")
    page.get_by_text("Demo model: fixed rules").wait_for()
    assert "demo.txt" in page.locator(".gl-file").first.inner_text()
    assert page.locator("a.gl-file, .gl-save").count() == 0  # the file itself is not in a recording
    assert stage.ran == [] and stage.running == set()
    control(page, "From the start")
    page.locator(".gl-replay").get_by_role("button", name="Pause").wait_for()
    for speed in ("2", "4", "8"):
        page.get_by_role("button", name="Speed").click()
        page.get_by_role("button", name=f"Speed {speed}×").wait_for()
    page.get_by_text("Demo model: fixed rules").wait_for()  # it has played to its end by itself
    page.get_by_role("button", name="From the start").wait_for()
    control(page, "Leave")
    page.locator("#gl-composer").wait_for()
    assert page.locator(".gl-replay").count() == 0


def test_ones_own_session_is_replayed_with_its_files_and_nothing_runs_again(stage: Stage, visitor: Open) -> None:
    step = calls(("run_command", {"command": "replayed"}), ("send_file", {"name": "pic.png"}))
    stage.script("replay 2", step, "Here it is.")
    page = visitor(stage.address)
    say(page, "replay 2")
    page.get_by_text("Here it is.").wait_for()
    ran, original = list(stage.ran), session_of(page)
    page.locator(".gl-item[aria-current] summary").click()
    page.locator(".gl-item[aria-current]").get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_selector(".gl-replay")
    control(page, "All at once")
    page.get_by_text("Here it is.").wait_for()
    page.wait_for_function("document.querySelector('.gl-image img')?.naturalWidth === 60")
    assert stage.ran == ran and session_of(page) != original
    replay = stage.on_loop(lambda: next(s for s in stage.sessions._by_id.values() if s.id == session_of(page)))
    assert isinstance(replay, ReplaySession)
    assert page.locator(".gl-act, [data-do=retry], [data-do=edit]").count() == 0
    page.reload()
    page.get_by_text("Here it is.").wait_for()
    page.wait_for_selector(".gl-replay")


def test_at_a_question_the_replay_asks_nobody(stage: Stage, visitor: Open) -> None:
    stage.script("replay 3", calls(("run_command", {"command": "pay again"})), "Paid.")
    page = visitor(stage.address)
    say(page, "replay 3")
    page.wait_for_selector(".gl-approval")
    page.locator(".gl-item[aria-current] summary").click()
    page.locator(".gl-item[aria-current]").get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_selector(".gl-replay")
    control(page, "All at once")
    page.get_by_text("run_command").first.wait_for()
    assert page.locator(".gl-approval").count() == 0 and "pay again" not in stage.ran


def test_what_a_forged_button_asks_of_a_replay_is_refused(stage: Stage) -> None:
    stage.script("replay 4", "Said.")
    client, thief = Client(stage.address), Client(stage.address)
    owner, other = client.open(), thief.open()
    visit = stage.on_loop(stage.handlers.visits.enter(client.page, owner, "en", ""))
    theirs = stage.on_loop(stage.handlers.visits.enter(thief.page, other, "en", ""))
    client.call("act", [], client.page, event_data={"do": "send", "text": "replay 4"})
    original = visit.session
    stage.until(lambda: original.turn.ended == "answered" and original.turn.number == 1)
    thief.call("act", [], thief.page, event_data={"do": "replay_this", "id": original.id})
    assert not isinstance(theirs.session, ReplaySession)
    client.call("act", [], client.page, event_data={"do": "recording", "value": "../../etc/passwd"})
    assert visit.session is original and "no such recording" in visit.notice
    client.call("act", [], client.page, event_data={"do": "replay_this", "id": original.id})
    replay = visit.session
    assert isinstance(replay, ReplaySession) and replay.owner == owner
    client.call("act", [], client.page, event_data={"do": "send", "text": "more"})
    assert "recording" in visit.notice
    client.call("stop", [], client.page)
    for what in ("", "explode", "step", "all", "all"):
        client.call("act", [], client.page, event_data={"do": "replay", "value": what})
    assert replay.replay.done and replay.log.since(0) == original.log.since(0)
    client.call("act", [], client.page, event_data={"do": "open", "id": original.id})
    client.call("act", [], client.page, event_data={"do": "replay", "value": "play"})
    assert "no replay" in visit.notice


def test_a_replay_s_address_outlives_it(stage: Stage) -> None:
    stage.script("replay 6", "Said again.")
    client, thief = Client(stage.address), Client(stage.address)
    owner, other = client.open(), thief.open()
    visit = stage.on_loop(stage.handlers.visits.enter(client.page, owner, "en", ""))
    original = visit.session

    async def act(visit: Visit, asked: dict[str, str]) -> None:
        await stage.handlers._actions[asked["do"]](visit, asked)

    stage.on_loop(lambda: original.send("replay 6"))
    stage.until(lambda: original.turn.ended == "answered" and original.turn.number == 1)
    opened = []
    for asked in ({"do": "replay_this", "id": original.id}, {"do": "recording", "value": "demo"}):
        stage.on_loop(act(visit, asked))
        opened.append(visit.session)

    def enter(page: str, owner: str, session_id: str) -> Visit:
        """As a page that is opened with this address."""
        visit: Visit = stage.on_loop(stage.handlers.visits.enter(page, owner, "en", session_id))
        return visit

    for number, replay in enumerate(opened):
        stage.on_loop(partial(stage.sessions._forget, replay.id))  # what a restart leaves: the address
        again = enter(f"again {number}", owner, replay.id)
        assert isinstance(again.session, ReplaySession) and not again.notice
        assert again.session.replay.entries == replay.replay.entries and again.session.owner == owner
    assert not isinstance(enter("thief", other, opened[0].id).session, ReplaySession)
    for number, wrong in enumerate(("recording~../demo~x", "session~nobody~x", "recording~", "demo~x", "~", "no")):
        lost = enter(f"lost {number}", owner, wrong)
        assert not isinstance(lost.session, ReplaySession) and lost.notice


def test_a_report_is_handed_to_the_owner_only(stage: Stage) -> None:
    stage.script("report 5", calls(("send_file", {"name": "pic.png"})), "Reported.")
    client, thief = Client(stage.address), Client(stage.address)
    owner = client.open()
    thief.open()
    assert owner_of({"glassloop_owner": owner}) == owner
    session = stage.on_loop(lambda: stage.sessions.create(owner))
    empty = stage.on_loop(lambda: stage.sessions.create(owner))
    stage.on_loop(lambda: session.send("report 5"))
    stage.until(lambda: session.turn.ended == "answered")
    answer = client.ask("GET", f"/sessions/{session.id}/report", **{"Accept-Language": "zh-CN"})
    assert answer.status == 200 and answer.header("content-disposition").startswith("attachment")
    assert answer.header("content-type") == "application/octet-stream" and "sandbox" in answer.header(
        "content-security-policy"
    )
    page = answer.body.decode()
    assert 'lang="zh-CN"' in page and "Reported." in page and page.count("data:image/png;base64,") == 1
    assert len(import_lines(answer.body, 0).entries) == len(session.log)
    for client_, session_id in (
        (thief, session.id),
        (Client(stage.address), session.id),
        (client, "no"),
        (client, empty.id),
    ):
        assert client_.ask("GET", f"/sessions/{session_id}/report").status == 404
