"""The door for programs, over real HTTP: what it tells, what it does, and whom it keeps out."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent.log import Entry
from agent.sessions import HOME_OWNER
from tests.scripted import Hang
from tests.ui.stage import PAGE_BYTES, Gate, Stage, calls, retried, streamed
from ui.api import MAX_BODY, TOKEN_OWNER
from ui.api_events import ApiEvents, place_of, split_file_id

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "a-token-that-nobody-knows"


@dataclass
class Said:
    id: str
    name: str
    data: dict[str, Any]


def events(lines: Iterator[str]) -> Iterator[Said]:
    """As any SSE client reads them."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif "data" in fields:
            yield Said(fields["id"], fields["event"], json.loads(fields["data"]))
            fields = {}


class Program:
    """A client that sends what it is told to, and nothing of its own."""

    def __init__(self, stage: Stage, **headers: str) -> None:
        self._http = httpx.Client(base_url=stage.address, headers=headers, timeout=30, trust_env=False)

    def get(self, path: str, **headers: str) -> httpx.Response:
        return self._http.get(path, headers=headers)

    def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return self._http.post(path, json={} if body is None else body, headers=headers)

    def chat(self, message: str, session: str = "") -> list[Said]:
        """All events of the turn."""
        body = {"message": message, **({"session": session} if session else {})}
        with self._http.stream("POST", "/api/chat", json=body) as answer:
            assert answer.status_code == 200, answer.read()
            assert answer.headers["content-type"].startswith("text/event-stream")
            return list(events(answer.iter_lines()))

    def follow(self, session: str, until: str, last: str = "") -> list[Said]:
        """The session's events behind `last`, up to the first one named `until`; then hang up."""
        headers = {"last-event-id": last} if last else {}
        seen = []
        with self._http.stream("GET", f"/api/sessions/{session}/events", headers=headers) as answer:
            assert answer.status_code == 200, answer.read()
            for event in events(answer.iter_lines()):
                seen.append(event)
                if event.name == until:
                    break
        return seen

    def close(self) -> None:
        self._http.close()


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("api"), exposure="local")
    yield stage
    stage.close()


@pytest.fixture
def program(stage: Stage) -> Iterator[Program]:
    program = Program(stage)
    yield program
    program.close()


def names(said: list[Said]) -> list[str]:
    return [event.name for event in said]


def text(said: list[Said]) -> str:
    return "".join(event.data.get("text", "") for event in said if event.name == "message_delta")


def refusal(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/json", answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "message"} and error["message"]
    return answer.status_code, error["code"]


# ---------------------------------------------------------------------- a turn


def test_a_message_is_answered_with_the_events_of_its_turn(stage: Stage, program: Program) -> None:
    run, send = ("run_command", {"command": "make"}), ("send_file", {"name": "page.html"})
    stage.script("api 1", calls(run, send, key="k"), "All is well.")
    said = program.chat("api 1")
    assert names([e for e in said if e.name != "message_delta"]) == [
        "assistant_start", "tool_call_start", "tool_call_result", "tool_call_start", "tool_call_result", "attachment",
        "assistant_start", "message_end",
    ]  # fmt: skip
    start, result = said[1], said[2]
    assert start.data == {"call_id": "k_0", "name": "run_command", "arguments": {"command": "make"}}
    assert result.data["status"] == "done" and result.data["text"] == "output of make"
    assert result.data["details"]["exit_code"] == 0
    assert text(said) == said[-1].data["text"] == "All is well."
    assert (said[-1].data["reason"], said[-1].data["turn"], said[-1].data["waiting"]) == ("answered", 1, [])
    assert said[-1].data["usage"]["input_tokens"] == 20
    places = [place_of(event.id) for event in said]
    assert places == sorted(set(places))

    session = said[0].data["session"]
    card = next(event.data for event in said if event.name == "attachment")
    assert (card["name"], card["mime"], card["size"]) == ("page.html", "text/html", len(PAGE_BYTES))
    assert split_file_id(card["id"])[0] == session
    file = program.get(card["url"])
    assert file.content == PAGE_BYTES and file.headers["content-type"] == "application/octet-stream"
    assert (
        file.headers["content-disposition"].startswith("attachment")
        and "sandbox" in file.headers["content-security-policy"]
    )
    assert file.headers["x-content-type-options"] == "nosniff"


def test_a_session_goes_on_and_is_listed(stage: Stage, program: Program) -> None:
    stage.script("api 2a", "One.")
    stage.script("api 2b", "Two.")
    first = program.chat("api 2a")
    session = first[0].data["session"]
    second = program.chat("api 2b", session)
    assert second[-1].data["session"] == session and second[-1].data["turn"] == 2
    assert text(second) == "Two." and place_of(second[0].id) > place_of(first[-1].id)
    listed = {one["id"]: one for one in program.get("/api/sessions").json()["sessions"]}
    assert listed[session]["title"] == "api 2a" and listed[session]["ended"] == "answered"
    assert listed[session]["running"] is False and listed[session]["created_at"] <= listed[session]["changed_at"]


def test_at_home_a_program_and_the_page_see_the_same_sessions(stage: Stage, program: Program) -> None:
    stage.script("api 3", "Yes.")
    session = program.chat("api 3")[0].data["session"]
    assert session in [one.id for one in stage.on_loop(lambda: stage.sessions.summaries(HOME_OWNER))]


def test_a_void_attempt_starts_anew(stage: Stage, program: Program) -> None:
    gate = Gate()
    gate.open()
    stage.script("api 4", retried(gate, "Right."))
    said = program.chat("api 4")
    starts = [event.data for event in said if event.name == "assistant_start"]
    assert [start["step"] for start in starts] == [1, 1] and starts[1]["because"] == "rate_limited"
    again = next(n for n, event in enumerate(said) if event.data.get("attempt") == 2)
    assert text(said[again:]) == "Right." == said[-1].data["text"]


def test_a_turn_that_fails_says_why_and_ends(stage: Stage, program: Program) -> None:
    stage.script("api 5", RuntimeError("boom"))
    said = program.chat("api 5")
    assert names(said) == ["assistant_start", "error", "message_end"]
    assert said[1].data["code"] == "bug" and said[1].data["message"] and said[2].data["reason"] == "error"
    assert "boom" not in json.dumps(said[1].data)


# ---------------------------------------------------------------------- reading on


def test_a_reader_that_was_cut_off_misses_nothing(stage: Stage, program: Program) -> None:
    stage.script("api 6", calls(("send_file", {"name": "a.txt"}), ("run_command", {"command": "x"})), "Done now.")
    whole = program.chat("api 6")
    session = whole[0].data["session"]
    assert program.follow(session, "message_end") == whole
    for cut, event in enumerate(whole[:-1]):
        assert program.follow(session, "message_end", last=event.id) == whole[cut + 1 :]


def test_a_reader_follows_what_is_still_to_come(stage: Stage, program: Program) -> None:
    gate = Gate()
    stage.script("api 7", "First.")
    stage.script("api 7b", streamed("Sec", gate, "ond.", reply="Second."))
    first = program.chat("api 7")
    session, last = first[0].data["session"], first[-1].id
    with program._http.stream("GET", f"/api/sessions/{session}/events", headers={"last-event-id": last}) as answer:
        coming = events(answer.iter_lines())
        stage.on_loop(lambda: stage.sessions.get(HOME_OWNER, session).send("api 7b"))
        assert [next(coming).name, next(coming).data] == ["assistant_start", {"text": "Sec"}]
        gate.open()
        assert [next(coming).data, next(coming).name] == [{"text": "ond."}, "message_end"]


@pytest.mark.parametrize("last", ["x", "-1", "1-", "1-2-3", "9" * 30, "1.5"])
def test_an_id_that_is_none_is_refused(stage: Stage, program: Program, last: str) -> None:
    stage.script("api 8", "Hi.")
    session = program.chat("api 8")[0].data["session"]
    answer = program.get(f"/api/sessions/{session}/events", **{"last-event-id": last.encode().decode("latin-1")})
    assert refusal(answer) == (400, "bad_event_id")


def test_a_message_sent_while_a_turn_runs_waits_and_its_turn_is_told(stage: Stage, program: Program) -> None:
    gate = Gate()
    stage.script("api 9", streamed(gate, "One.", reply="One."))
    stage.script("api 9b", "Two.")
    session = stage.on_loop(lambda: stage.sessions.create(HOME_OWNER))
    stage.on_loop(lambda: session.send("api 9"))
    with program._http.stream("POST", "/api/chat", json={"message": "api 9b", "session": session.id}) as answer:
        gate.open()
        said = list(events(answer.iter_lines()))
    assert [event.data["reason"] for event in said if event.name == "message_end"] == ["answered", "answered"]
    assert said[-1].data["text"] == "Two."


# ---------------------------------------------------------------------- stop and decide


def test_a_message_that_steers_is_told_in_the_turn_that_it_enters(stage: Stage, program: Program) -> None:
    gate = Gate()
    stage.script("api 9s", streamed("Long ", gate, reply="Long answer"), "Short answer")
    session = stage.on_loop(lambda: stage.sessions.create(HOME_OWNER))
    stage.on_loop(lambda: session.send("api 9s"))
    body = {"message": "shorter", "session": session.id, "steer": True}
    with program._http.stream("POST", "/api/chat", json=body) as answer:
        gate.open()
        told = list(events(answer.iter_lines()))
    names = [event.name for event in told]
    assert names.index("steered") < names.index("assistant_start", names.index("steered"))
    assert told[names.index("steered")].data == {"turn": 1, "text": "shorter"}
    assert [e.data["turn"] for e in told if e.name == "message_end"] == [1] and told[-1].data["text"] == "Short answer"


def test_stop_ends_the_turn_and_what_waits(stage: Stage, program: Program) -> None:
    stage.script("api 10", Hang)
    session = stage.on_loop(lambda: stage.sessions.create(HOME_OWNER))
    stage.on_loop(lambda: session.send("api 10"))
    with program._http.stream("POST", "/api/chat", json={"message": "never", "session": session.id}) as answer:
        stopped = program.post(f"/api/sessions/{session.id}/stop").json()
        said = list(events(answer.iter_lines()))
    assert stopped == {"unsent": ["never"], "ended": "stopped"}
    assert [event.data["reason"] for event in said if event.name == "message_end"] == ["stopped"]
    assert stage.on_loop(lambda: session.running) is False
    assert program.post(f"/api/sessions/{session.id}/stop").json() == {"unsent": [], "ended": "stopped"}


@pytest.mark.parametrize("allowed", [True, False])
def test_a_call_that_waits_is_decided_here(stage: Stage, program: Program, allowed: bool) -> None:
    message = stage.script(f"api 11 {allowed}", calls(("run_command", {"command": "pay now"})), "That was that.")
    said = program.chat(message)
    end, session = said[-1].data, said[0].data["session"]
    assert end["reason"] == "awaiting_approval"
    (waiting,) = end["waiting"]
    assert waiting["arguments"] == {"command": "pay now"} and waiting["why"] == "it costs money"
    bound = {"call_id": waiting["call_id"], "arguments_hash": waiting["arguments_hash"]}
    path = f"/api/sessions/{session}/decide"
    assert refusal(program.post(path, {**bound, "arguments_hash": "0" * 64, "allowed": True})) == (409, "refused")
    assert refusal(program.post(path, {**bound, "allowed": "yes"})) == (400, "bad_request")
    assert refusal(program.post(path, {**bound, "allowed": True, "scope": "everything"})) == (409, "refused")
    ran = list(stage.ran)
    changed = {"arguments": {"command": "pay later"}} if allowed else {"reason": "too dear"}
    assert program.post(path, {**bound, "allowed": allowed, **changed}).json()["still_waiting"] == 0
    rest = program.follow(session, "message_end", last=said[-1].id)
    assert rest[-1].data["reason"] == "answered" and rest[-1].data["waiting"] == []
    result = next(event.data for event in rest if event.name == "tool_call_result")
    if allowed:
        start = next(event.data for event in rest if event.name == "tool_call_start")
        assert start["arguments"] == {"command": "pay later"} and stage.ran == [*ran, "pay later"]
    else:
        assert result["status"] == "denied" and "too dear" in result["text"] and stage.ran == ran
    assert refusal(program.post(path, {**bound, "allowed": True})) == (409, "refused")


# ---------------------------------------------------------------------- bad requests


@pytest.mark.parametrize(
    ("content", "kind", "status", "code"),
    [
        (b'{"message": "x"}', "text/plain", 415, "not_json"),
        (b'{"message": "x"}', "", 415, "not_json"),
        (b"message=x", "application/x-www-form-urlencoded", 415, "not_json"),
        (b'{"message": "x"', "application/json", 400, "bad_request"),
        (b"\xff\xfe", "application/json", 400, "bad_request"),
        (b"[]", "application/json", 400, "bad_request"),
        (b"", "application/json", 400, "bad_request"),
        (b'{"message": 3}', "application/json", 400, "bad_request"),
        (b'{"message": ""}', "application/json", 400, "bad_request"),
        (b'{"message": "  \\n"}', "application/json", 400, "refused"),
        (b'{"message": "x", "history": []}', "application/json; charset=utf-8", 400, "bad_request"),
        (b'{"message": "x", "session": "unknown"}', "application/json", 404, "not_found"),
        (b'{"message": "' + b"x" * MAX_BODY + b'"}', "application/json", 413, "too_large"),
    ],
)
def test_what_makes_no_sense_is_refused_clearly(
    program: Program, content: bytes, kind: str, status: int, code: str
) -> None:
    answer = program._http.post("/api/chat", content=content, headers={"content-type": kind} if kind else {})
    assert refusal(answer) == (status, code)
    assert b"x" * 100 not in answer.content


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/chat"), ("GET", "/api/"), ("GET", "/api/nothing"), ("PUT", "/api/sessions"),
        ("GET", "/api/sessions/unknown/events"), ("GET", "/api/files/unknown"), ("GET", "/api/files/a.0-0"),
        ("GET", "/api/files/%2e%2e%2fetc"), ("DELETE", "/api/sessions/x"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_not_found(program: Program, method: str, path: str) -> None:
    answer = program._http.request(method, path)
    assert refusal(answer) == (404, "not_found")


# ---------------------------------------------------------------------- who may come in


def test_no_web_page_of_another_site_gets_in(stage: Stage, program: Program) -> None:
    before = len(stage.on_loop(lambda: stage.sessions.summaries(HOME_OWNER)))
    for headers in (
        {"origin": "http://evil.test"}, {"origin": "null"}, {"origin": "http://127.0.0.1:1"},
        {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-site"}, {"host": "evil.test"},
    ):  # fmt: skip
        assert program.post("/api/chat", {"message": "evil"}, **headers).status_code == 403, headers
        assert program.get("/api/sessions", **headers).status_code == 403, headers
    assert len(stage.on_loop(lambda: stage.sessions.summaries(HOME_OWNER))) == before
    assert program.get("/api/sessions", origin=stage.address).status_code == 200
    assert "access-control-allow-origin" not in program.get("/api/sessions").headers


def test_nobody_gets_in_through_a_proxy_without_a_token(program: Program) -> None:
    for header in ("x-forwarded-for", "x-forwarded-host", "forwarded", "via"):
        assert refusal(program.get("/api/sessions", **{header: "127.0.0.1"})) == (403, "not_local")


def test_where_the_app_is_open_and_no_token_is_set_there_is_no_door(tmp_path: Path) -> None:
    stage = Stage(tmp_path, exposure="share")
    program = Program(stage, authorization="Bearer")
    try:
        for answer in (
            program.get("/api/sessions"),
            program.post("/api/chat", {"message": "hello"}),
            program.get("/api/nothing"),
            program.get("/api/sessions", authorization="Bearer x"),
        ):
            assert refusal(answer) == (404, "not_found")
        assert stage.on_loop(lambda: stage.sessions.of(HOME_OWNER) + stage.sessions.of(TOKEN_OWNER)) == []
    finally:
        program.close()
        stage.close()


@pytest.mark.parametrize("exposure", ["share", "local"])
def test_with_a_token_only_who_bears_it_gets_in(tmp_path: Path, exposure: str) -> None:
    stage = Stage(tmp_path, exposure=exposure, token=TOKEN)
    stage.script("api 20", "Welcome.")
    good, bare = Program(stage, authorization=f"Bearer {TOKEN}"), Program(stage)
    try:
        for given in (
            "",
            TOKEN,
            f"Basic {TOKEN}",
            "Bearer",
            f"bearer x{TOKEN}",
            f"Bearer {TOKEN}x",
            f"Bearer {TOKEN[:-1]}",
        ):
            answer = bare.get("/api/sessions", **({"authorization": given} if given else {}))
            assert refusal(answer) == (401, "wrong_token") and answer.headers["www-authenticate"] == "Bearer"
            assert TOKEN not in answer.text
        assert refusal(bare.post("/api/chat", {"message": "api 20"})) == (401, "wrong_token")
        said = good.chat("api 20")
        owner = HOME_OWNER if exposure == "local" else TOKEN_OWNER
        assert [one.id for one in stage.on_loop(lambda: stage.sessions.summaries(owner))] == [said[0].data["session"]]
        assert good.get("/api/sessions", **{"x-forwarded-for": "1.2.3.4"}).status_code == 200
        assert good.get("/api/sessions", origin="http://evil.test").status_code == 403
    finally:
        good.close()
        bare.close()
        stage.close()


def test_the_token_opens_no_visitors_session_and_no_cookie_opens_the_door(tmp_path: Path) -> None:
    stage = Stage(tmp_path, token=TOKEN)
    stage.script("api 21", calls(("send_file", {"name": "a.txt"})), "Private.")
    program = Program(stage, authorization=f"Bearer {TOKEN}")
    try:
        cookie = program.get("/").headers["set-cookie"].split(";")[0]
        owner = cookie.split("=", 1)[1]
        session = stage.on_loop(lambda: stage.sessions.create(owner))
        stage.on_loop(lambda: session.send("api 21"))
        stage.until(lambda: session.turn.ended == "answered")
        for answer in (
            program.get(f"/api/sessions/{session.id}/events"),
            program.post(f"/api/sessions/{session.id}/stop"),
            program.post("/api/chat", {"message": "api 21", "session": session.id}),
            program.get(f"/api/files/{session.id}.{_handed_over(stage, session.log.since(0))}", cookie=cookie),
        ):
            assert refusal(answer) == (404, "not_found")
        assert program.get("/api/sessions", cookie=cookie).json() == {"sessions": []}
        anonymous = Program(stage, cookie=cookie)
        assert refusal(anonymous.get("/api/sessions")) == (401, "wrong_token")
        anonymous.close()
    finally:
        program.close()
        stage.close()


def _handed_over(stage: Stage, entries: Any) -> str:
    fold = ApiEvents("s")
    found = [
        e.data["id"] for entry in entries if isinstance(entry, Entry) for e in fold.add(entry) if e.name == "attachment"
    ]
    return split_file_id(found[0])[1]


# ---------------------------------------------------------------------- as it stands in the README


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl")
def test_the_lines_for_curl_work_as_they_stand(tmp_path: Path) -> None:
    environment = {
        "PATH": os.environ["PATH"],
        "OPENAI_CHAT_MODEL": "demo",
        "WORKSPACE_DIR": str(tmp_path / "workspace"),
        "GLASSLOOP_DATA": str(tmp_path / "data"),
        "GLASSLOOP_LANGUAGE": "en",
    }
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "app.py"), "--port", "0"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )

    def shell(line: str) -> str:
        asked = line.replace("http://127.0.0.1:7860", address)
        done = subprocess.run(["bash", "-c", asked], env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    with process:
        try:
            assert process.stderr is not None
            said = next(line for line in process.stderr if re.search(r"http://127\.0\.0\.1:\d+", line))
            address = re.findall(r"http://127\.0\.0\.1:\d+", said)[0]
            turn = shell("""curl -sN http://127.0.0.1:7860/api/chat --json '{"message": "What time is it?"}'""")
            assert "event: tool_call_result" in turn and '"reason": "answered"' in turn
            listed = json.loads(shell("curl -s http://127.0.0.1:7860/api/sessions"))
            session = listed["sessions"][0]["id"]
            again = shell(f"curl -sN -m 2 http://127.0.0.1:7860/api/sessions/{session}/events || true")
            assert again.strip() == turn.strip()
            stop = shell(f"curl -s http://127.0.0.1:7860/api/sessions/{session}/stop --json '{{}}'")
            assert json.loads(stop) == {"unsent": [], "ended": "answered"}
        finally:
            process.terminate()
            process.wait(60)
