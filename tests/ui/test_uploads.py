"""Files both ways on the page: handed in through the door and the message box, handed out and seen in place."""

from __future__ import annotations

import base64
import http.client
import io
import json
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import pytest
from PIL import Image

from agent.events import CallFinished, MessageQueued, TurnStarted
from agent.messages import UserMessage
from agent.session import Session
from tests.tools.test_documents import pdf
from tests.ui.page_steps import act, idle, see, send
from tests.ui.stage import Gate, Stage, calls, streamed
from tests.ui.test_doors import Client
from tools.documents import Reader
from tools.handing import send_file_tool
from tools.sandbox import probe

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas


class RealFiles(Stage):
    """A stage whose send_file is the real one."""

    def _tools(self) -> list[Any]:
        others = [tool for tool in super()._tools() if tool.name != "send_file"]
        return [*others, send_file_tool(Reader(probe()))]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = RealFiles(tmp_path_factory.mktemp("uploads"))
    yield stage
    stage.close()


def png(colour: str = "teal") -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (60, 40), colour).save(written, "PNG")
    return written.getvalue()


# ---------------------------------------------------------------------- the door


class Door(Client):
    """A visitor who hands files to a session of theirs."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.address)
        self.stage, self.owner = stage, self.open()
        self.session: Session = stage.on_loop(stage.handlers.visits.enter(self.page, self.owner, "en", "")).session

    def put(self, name: str, data: bytes, length: int | None = None, session: str = "", **headers: str) -> Any:
        """Status and answer. `length`: what is announced; None: it comes in chunks, without one."""
        connection = http.client.HTTPConnection(urlsplit(self.stage.address).netloc, timeout=20)
        connection.putrequest("POST", f"/sessions/{session or self.session.id}/uploads?name={quote(name)}")
        sent = {"Cookie": self.cookie, "x-glassloop": "1", **headers}
        sent |= {"Transfer-Encoding": "chunked"} if length is None else {"Content-Length": str(length)}
        for key, value in sent.items():
            if value:
                connection.putheader(key, value)
        connection.endheaders()
        try:
            for start in range(0, len(data), 1 << 16):
                piece = data[start : start + (1 << 16)]
                connection.send(piece if length is not None else b"%x\r\n%s\r\n" % (len(piece), piece))
            if length is None:
                connection.send(b"0\r\n\r\n")
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough
        answer = connection.getresponse()
        told = answer.status, json.loads(answer.read() or b"{}")
        connection.close()
        return told

    def waiting(self) -> list[str]:
        assert self.stage.handlers.intake is not None
        return [upload.name for upload in self.stage.handlers.intake.waiting(self.session.id)]

    def on_disk(self) -> list[Path]:
        return [path for path in self.session.outbox.rglob("*") if path.is_file()]


def test_the_door_takes_what_is_theirs_and_refuses_the_rest(stage: Stage) -> None:
    door, thief = Door(stage), Door(stage)
    assert door.put("../../e\u202evil\n.png", png())[0] == 200
    assert door.put("chunks.txt", b"some text")[0] == 200  # its length was never said
    assert door.waiting() == ["evil.png", "chunks.txt"]
    before = len(door.on_disk())
    for refused in (
        thief.put("a", b"x", 1, session=door.session.id),
        door.put("a", b"x", 1, **{"x-glassloop": ""}),
        door.put("a", b"x", 1, Cookie=""),
        door.put("a", b"x", 1, session="nothing"),
    ):
        assert refused[0] in (403, 404) and refused[1]["code"] == "gone"
    assert door.put("a", b"", 2 << 30) == (413, {"code": "too_large"})  # not a byte of it was read
    assert door.put("a.png", b"\x89PNG\r\n\x1a\n" + bytes(26_000_000)) == (413, {"code": "picture_too_large"})
    assert len(door.on_disk()) == before
    [picture] = [u for u in stage.handlers.intake.waiting(door.session.id) if u.picture]  # type: ignore[union-attr]
    where = f"/sessions/{door.session.id}/uploads/{picture.id}"
    seen = door.ask("GET", where)
    assert seen.status == 200 and seen.header("content-type") == "image/png"
    assert "sandbox" in seen.header("content-security-policy")
    assert thief.ask("GET", where).status == 404


def test_an_upload_that_breaks_off_leaves_nothing(stage: Stage) -> None:
    door = Door(stage)
    connection = http.client.HTTPConnection(urlsplit(stage.address).netloc, timeout=20)
    connection.putrequest("POST", f"/sessions/{door.session.id}/uploads?name=half.bin")
    for key, value in {"Cookie": door.cookie, "x-glassloop": "1", "Content-Length": "50000000"}.items():
        connection.putheader(key, value)
    connection.endheaders()
    connection.send(bytes(3_000_000))
    stage.until(lambda: len(door.on_disk()) == 1)
    connection.close()
    stage.until(lambda: door.on_disk() == [])
    assert door.waiting() == []


# ---------------------------------------------------------------------- the page


def message_of(stage: Stage, page: Page) -> tuple[Session, list[UserMessage]]:
    session_id = page.evaluate("document.querySelector('#gl-facts').dataset.session")
    [session] = [s for s in stage.sessions._by_id.values() if s.id == session_id]
    return session, [e.event.message for e in session.log.since(0) if isinstance(e.event, TurnStarted)]


DROP = """([kind, name, type, data]) => {
  const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), carried = new DataTransfer();
  carried.items.add(new File([bytes], name, {type}));
  const box = document.querySelector('#gl-box textarea');
  const facts = {bubbles: true, cancelable: true};
  box.dispatchEvent(kind === 'paste' ? new ClipboardEvent('paste', {...facts, clipboardData: carried})
                                     : new DragEvent('drop', {...facts, dataTransfer: carried}));
}"""


def test_files_are_picked_pasted_dropped_and_sent(stage: Stage, visitor: Callable[..., Any], tmp_path: Path) -> None:
    page: Page = visitor(stage.address)
    for name, data in (("table.csv", b"a,b\n1,2\n"), ("two.txt", b"2"), ("photo.png", png())):
        (tmp_path / name).write_bytes(data)
    with (tmp_path / "big.bin").open("wb") as file:
        file.truncate(100_000_001)
    with page.expect_file_chooser() as chosen:
        page.click("#gl-attach")
    chosen.value.set_files([tmp_path / name for name in ("table.csv", "two.txt", "big.bin")])
    page.evaluate(DROP, ["paste", "pasted.png", "image/png", base64.b64encode(png()).decode()])
    page.evaluate(DROP, ["drop", "dropped.md", "text/markdown", base64.b64encode(b"# hi").decode()])
    page.wait_for_function(
        "document.querySelectorAll('.gl-upload:not(.gl-upload-failed) .gl-upload-remove').length === 4"
    )
    page.wait_for_function("document.querySelectorAll('.gl-upload img').length === 1")
    assert "too large: 100 MB at most" in page.locator(".gl-upload-failed").inner_text()
    page.reload()  # nothing that arrived is lost
    page.wait_for_function("document.querySelectorAll('.gl-upload').length === 4")
    page.focus("button[title='Remove two.txt']")
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelectorAll('.gl-upload').length === 3")
    gate = Gate()
    stage.script("look at these", streamed("Two files ", gate, "are here.", reply="Two files are here."))
    stage.script("", "Just files.")
    send(page, "look at these")
    see(page, "Two files")
    session, [first] = message_of(stage, page)
    assert {file.name for file in first.files} == {"table.csv", "pasted.png", "dropped.md"}
    assert [image.name for image in first.images] == ["pasted.png"]
    assert "uploads/table.csv (text/csv, 8 bytes)" in first.text
    assert (session.workspace / "uploads" / "dropped.md").read_bytes() == b"# hi"
    page.wait_for_function("!document.querySelector('.gl-upload')")
    assert "[Attached" not in page.locator("#gl-scroll").inner_text()
    page.wait_for_function("document.querySelector('.gl-attached img')?.naturalWidth === 60")
    # while the turn runs: queued with its file, taken back with it, queued again without a word
    with page.expect_file_chooser() as chosen:
        page.click("#gl-attach")
    chosen.value.set_files(tmp_path / "two.txt")
    page.wait_for_selector(".gl-upload button[title='Remove two.txt']")
    send(page, "later")
    see(page, "later · two.txt", "#gl-dock")
    page.click("[data-do=withdraw]")
    page.wait_for_selector(".gl-upload button[title='Remove two.txt']")
    assert page.input_value("#gl-box textarea") == "later"
    send(page, "")
    see(page, "two.txt", "#gl-dock")
    [queued] = [e.event for e in session.log.since(0) if isinstance(e.event, MessageQueued)][-1:]
    assert queued.text == "[Attached: uploads/two.txt (text/plain, 1 byte)]".replace("1 byte", "1 bytes")
    gate.open()
    see(page, "Just files.")
    idle(page)
    # another way to say the first: its files stay
    act(page, "edit", 1)
    page.wait_for_function("document.querySelector('#gl-box textarea').value === 'look at these'")
    stage.script("look again", "I looked.")
    send(page, "look again")
    see(page, "I looked.")
    edited = message_of(stage, page)[1][-1]
    assert edited.files == first.files and edited.images == first.images and "uploads/table.csv" in edited.text


def test_each_kind_is_seen_in_place_and_nothing_of_it_runs(stage: Stage, visitor: Callable[..., Any]) -> None:
    page: Page = visitor(stage.address)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    session, _ = message_of(stage, page)
    root = session.workspace
    evil = b"<script>document.title='owned'</script><img src=http://evil.test/1.png onerror=document.title='owned'>"
    files = {
        "code.py": b"import os\n",
        "rows.csv": b"city,people\nBerlin,3\n",
        "data.json": b'{"a":1}',
        "page.html": evil,
    }
    files |= {
        "drawing.svg": b"<svg xmlns='http://www.w3.org/2000/svg' onload=document.title='owned'/>",
        "lie.png": evil,
    }
    files |= {"photo.png": png()}
    for name, data in files.items():
        (root / name).write_bytes(data)
    pdf(root / "paper.pdf", ["Hello"])
    with wave.open(str(root / "tone.wav"), "wb") as tone:
        tone.setparams((1, 2, 8000, 0, "NONE", ""))
        tone.writeframes(bytes(16_000))
    (root / "folder").mkdir()
    (root / "folder" / "inside.txt").write_text("x")
    names = [*files, "paper.pdf", "tone.wav", "folder"]
    stage.script("all of it", calls(*[("send_file", {"path": name}) for name in names]), "There.")
    send(page, "all of it")
    see(page, "There.")
    idle(page)
    page.wait_for_function("document.querySelector('#gl-scroll audio')?.readyState >= 1")
    pictures = "[...document.querySelectorAll('#gl-scroll .gl-image img')]"
    page.wait_for_function(f"{pictures}.length === 2 && {pictures}.every((one) => one.naturalWidth)")
    assert page.locator("#gl-scroll td", has_text="Berlin").is_visible()
    text = page.locator("#gl-scroll").inner_text()
    for seen in ("import os", '"a": 1', "document.title='owned'", "onload=", "page 1 of 1", "folder.zip", "inside.txt"):
        assert seen in text
    assert "owned" not in page.title() and not [url for url in asked if "evil.test" in url]
    # what comes over the wire
    finished = [(entry.seq, entry.event) for entry in session.log.since(0) if isinstance(entry.event, CallFinished)]
    seq = {event.files[0].name: number for number, event in finished if event.files}
    answers = {
        name: page.request.get(
            f"{stage.address}/files/{session.id}/{seq[name]}-0?show=1", headers={"range": "bytes=0-3"}
        )
        for name in ("page.html", "drawing.svg", "lie.png", "tone.wav", "photo.png")
    }
    for name in ("page.html", "drawing.svg", "lie.png"):
        headers = answers[name].headers
        assert headers["content-type"] == "application/octet-stream" and "attachment" in headers["content-disposition"]
        assert headers["x-content-type-options"] == "nosniff" and "sandbox" in headers["content-security-policy"]
    assert answers["tone.wav"].status == 206 and answers["tone.wav"].body() == b"RIFF"
    assert answers["tone.wav"].headers["content-type"] == "audio/wav"
    stranger = Client(stage.address)
    stranger.open()
    assert stranger.ask("GET", f"/files/{session.id}/{seq['photo.png']}-0").status == 404
