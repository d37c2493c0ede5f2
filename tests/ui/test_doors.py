"""What a hostile client can do that no browser would: everything over plain HTTP, nothing through the page."""

from __future__ import annotations

import http.client
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from PIL import Image

from agent.agent import Agent
from agent.errors import Refused
from agent.events import CallFinished, File
from agent.log import EventLog
from agent.session import Session
from agent.sessions import Sessions
from agent.tool import Toolbox
from tests.scripted import ScriptedModel
from tests.ui.stage import Stage
from ui.downloads import handed_over, picture_type
from ui.harden import is_local, owner_of
from ui.replaying import Replaying
from ui.visits import Visits

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas


@dataclass
class Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key.lower() == name), "")


class Client:
    """One visitor, with whatever cookie and headers it likes."""

    def __init__(self, address: str, cookie: str = "") -> None:
        self.host = urlsplit(address).netloc
        self.cookie = cookie
        self.page = secrets.token_hex(6)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=20)
        sent = {"Cookie": self.cookie, "Host": self.host, **headers}
        text = None if body is None else json.dumps(body)
        if text is not None:
            sent["Content-Type"] = "application/json"
        connection.request(method, path, text, sent)
        answer = connection.getresponse()
        endless = answer.getheader("content-type", "").startswith("text/event-stream")
        got = Answer(answer.status, answer.getheaders(), b"" if endless else answer.read())
        connection.close()
        return got

    def open(self) -> str:
        """Open the page; the owner's id that came with it."""
        cookie = self.ask("GET", "/").header("set-cookie")
        self.cookie = cookie.split(";")[0]
        return self.cookie.split("=", 1)[1]

    def call(self, name: str, data: list[Any], page: str, **more: Any) -> Answer:
        config = json.loads(self.ask("GET", "/config").body)
        index = next(d["id"] for d in config["dependencies"] if d["api_name"] == name)
        return self.ask(
            "POST", "/gradio_api/run/predict", {"data": data, "fn_index": index, "session_hash": page, **more}
        )


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("doors"))
    yield stage
    stage.close()


def test_the_first_request_gives_an_owner_and_every_answer_is_hardened(stage: Stage) -> None:
    client = Client(stage.address)
    first = client.ask("GET", "/")
    cookie = first.header("set-cookie")
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and "Path=/" in cookie
    assert owner_of({"glassloop_owner": cookie.split(";")[0].split("=", 1)[1]})
    assert "default-src 'self'" in first.header("content-security-policy")
    assert first.header("x-content-type-options") == "nosniff" and first.header("referrer-policy") == "no-referrer"
    client.cookie = cookie.split(";")[0]
    assert not client.ask("GET", "/").header("set-cookie")
    client.cookie = "glassloop_owner=guessable"
    assert client.ask("GET", "/").header("set-cookie")


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=http://evil.test/x.png",
        "/gradio_api/file=HTTPS://evil.test/x.png",
        "/gradio_api/file%3Dhttp://evil.test/x.png",
        "/gradio_api/proxy=http://evil.test/x",
        "/gradio_api/upload",
        "/monitoring",
    ],
)
def test_doors_nobody_uses_are_closed(stage: Stage, path: str) -> None:
    client = Client(stage.address)
    client.open()
    assert client.ask("GET", path).status == 403
    assert client.ask("POST", path, {}).status == 403


def test_no_file_of_the_machine_is_served(stage: Stage, tmp_path: Path) -> None:
    client = Client(stage.address)
    owner = client.open()
    session = stage.on_loop(lambda: stage.handlers.visits.fresh(owner))
    for path in (session.workspace / "notes.md", Path(__file__), Path("/etc/passwd"), Path(".env")):
        assert client.ask("GET", f"/gradio_api/file={quote(str(path.absolute()))}").status in (403, 404)


@pytest.mark.parametrize("host", ["evil.test", "evil.test:7860", "127.0.0.1.evil.test", "", "localhost.evil.test:80"])
def test_no_other_name_leads_here(stage: Stage, host: str) -> None:
    assert Client(stage.address).ask("GET", "/", Host=host).status in (400, 403)


def test_no_other_site_can_send(stage: Stage) -> None:
    client = Client(stage.address)
    client.open()
    for origin in ("http://evil.test", "http://127.0.0.1:1", "null", "file://"):
        assert client.ask("POST", "/gradio_api/queue/join", {}, Origin=origin).status == 403
    assert client.ask("GET", "/config", Origin=stage.address).status == 200


def test_another_visitors_page_takes_no_orders_and_shows_nothing(stage: Stage) -> None:
    stage.script("mine", "Mine.")
    victim, thief = Client(stage.address), Client(stage.address)
    owner = victim.open()
    thief.open()
    visit = stage.on_loop(stage.handlers.visits.enter(victim.page, owner, "en", ""))
    for client in (thief, Client(stage.address)):
        client.call("act", [], victim.page, event_data={"do": "send", "text": "do it"})
        client.call("stop", [], victim.page)
    assert Client(stage.address).ask("GET", f"/gradio_api/heartbeat/{victim.page}").status == 403
    assert len(visit.session.log) == 0
    victim.call("act", [], victim.page, event_data={"do": "send", "text": "mine"})
    stage.until(lambda: visit.session.turn.ended == "answered" and visit.session.turn.number == 1)


def test_a_pages_stream_goes_to_its_visitor_only(stage: Stage) -> None:
    victim, thief = Client(stage.address), Client(stage.address)
    victim.open()
    thief.open()
    assert victim.ask("GET", f"/gradio_api/queue/data?session_hash={victim.page}").status == 200
    assert thief.ask("GET", f"/gradio_api/queue/data?session_hash={victim.page}").status == 403
    assert Client(stage.address).ask("GET", "/gradio_api/queue/data?session_hash=other").status == 403


def test_another_visitors_session_cannot_be_opened(stage: Stage) -> None:
    victim, thief = Client(stage.address), Client(stage.address)
    owner, other = victim.open(), thief.open()
    mine = stage.on_loop(stage.handlers.visits.enter(victim.page, owner, "en", ""))
    theirs = stage.on_loop(stage.handlers.visits.enter(thief.page, other, "en", mine.session.id))
    assert theirs.session is not mine.session and "not here" in theirs.notice
    thief.call("act", [], thief.page, event_data={"do": "open", "id": mine.session.id})
    assert theirs.session is not mine.session


@pytest.mark.parametrize("data", [None, [], "x", {"do": 3}, {"do": "decide"}, {"do": "request", "value": "9" * 5000}])
def test_nonsense_is_answered(stage: Stage, data: Any) -> None:
    client = Client(stage.address)
    owner = client.open()
    stage.on_loop(stage.handlers.visits.enter(client.page, owner, "en", ""))
    assert client.call("act", [], client.page, event_data=data).status == 200


def test_nothing_of_the_page_is_an_api(stage: Stage) -> None:
    info = json.loads(Client(stage.address).ask("GET", "/gradio_api/info").body)
    assert info == {"named_endpoints": {}, "unnamed_endpoints": {}}


# ---------------------------------------------------------------------- downloads


@pytest.fixture
def session(tmp_path: Path) -> Session:
    outbox, workspace = tmp_path / "outbox", tmp_path / "workspace"
    outbox.mkdir()
    workspace.mkdir()
    return Session(Agent(ScriptedModel(), Toolbox([])), workspace, outbox, owner="o", log=EventLog())


def hand_over(session: Session, *paths: Path) -> None:
    files = tuple(File(str(path), path.name, "text/plain", 1) for path in paths)
    session.log.append(CallFinished("c", "send", "done", "", files))


def test_only_what_was_handed_over_is_given_out(session: Session, tmp_path: Path) -> None:
    good, outside, link = session.outbox / "good", tmp_path / "outside", session.outbox / "link"
    good.write_text("x")
    outside.write_text("x")
    link.symlink_to(outside)
    hand_over(session, good, outside, link, session.outbox / "gone", session.outbox / ".." / "outside")
    assert handed_over(session, "0-0").name == "good"
    for file_id in ("0-1", "0-2", "0-3", "0-4", "0-5", "1-0", "-1-0", "0--1", "0", "", "0-0-0", "٠-٠", "9" * 30 + "-0"):
        with pytest.raises(Refused):
            handed_over(session, file_id)


def test_a_picture_is_what_its_bytes_say(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.txt", "PNG")
    Image.new("RGB", (8, 8)).save(tmp_path / "b.png", "BMP")
    (tmp_path / "c.png").write_text("<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>")
    (tmp_path / "d.png").write_bytes((tmp_path / "a.txt").read_bytes()[:40])
    Image.new("1", (9_000, 9_000)).save(tmp_path / "e.png")
    kinds = {path.name: picture_type(path) for path in tmp_path.iterdir()}
    assert kinds == {"a.txt": "image/png", "b.png": "", "c.png": "", "d.png": "", "e.png": ""}


# ---------------------------------------------------------------------- visits and folders


async def test_an_empty_session_is_used_before_a_new_one_is_made(session: Session) -> None:
    made = []

    def open_session(owner: str) -> Session:
        made.append(Session(session.agent, session.workspace, session.outbox, owner))
        return made[-1]

    sessions = Sessions()
    visits = Visits(sessions, open_session, Replaying(sessions).reopen)
    first = await visits.enter("page 1", "o", "en", "")
    assert await visits.enter("page 1", "o", "en", "") is first
    second = await visits.enter("page 2", "o", "en", "")
    assert second.session is not first.session and len(made) == 2
    visits.leave("page 1")
    assert (await visits.enter("page 3", "o", "en", "")).session is first.session
    assert (await visits.enter("page 4", "another", "en", "")).session is not first.session
    with pytest.raises(Refused):
        visits.of("page 2", "another")
    with pytest.raises(Refused):
        await visits.enter("page 2", "another", "en", "")
    with pytest.raises(Refused):
        await visits.enter("page 5", "", "en", "")
    visits.close_all()
    assert visits.pages() == set()


def test_what_counts_as_this_machine() -> None:
    assert all(is_local(host) for host in ("127.0.0.1", "localhost", "::1", "127.1.2.3"))
    assert not any(is_local(host) for host in ("0.0.0.0", "::", "192.168.1.2", "example.org", "127.evil.test"))
