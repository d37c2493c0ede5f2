"""The command line as a person meets it: a process with arguments, streams, signals and an exit code."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import psutil
import pytest

from agent.events import CallAwaiting, CallFinished, CallStarted, Receipt, TextDelta, TurnEnded, TurnStarted
from agent.log import Entry, load_entry
from tests.wire.replay import Replay
from ui.cli_texts import CLI_TEXTS
from ui.terminal import Terminal

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 120
"""For a process on a busy machine; every wait is for a condition."""

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals and terminals of a POSIX system")


class App:
    """Starts the app with an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "LANG": "C.UTF-8",
            "OPENAI_CHAT_MODEL": "demo",
            "WORKSPACE_DIR": str(self.workspace),
            "GLASSLOOP_DATA": str(folder / "data"),
            "GLASSLOOP_LANGUAGE": "en",
        }

    def run(self, *arguments: str, stdin: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """Run to the end; an empty value takes a variable out."""
        return subprocess.run(
            [sys.executable, str(ROOT / "app.py"), *arguments],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env={**self.environment, **environment},
            cwd=self.workspace,
            timeout=PATIENCE_S,
        )

    @contextmanager
    def started(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "app.py"), *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=self.environment,
            cwd=self.workspace,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path)


def entries(stdout: str) -> list[Entry]:
    return [load_entry(json.loads(line)) for line in stdout.splitlines()]


def until(condition: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
    return found


def sleepers(seconds: str) -> list[psutil.Process]:
    """The processes that run `sleep seconds`, wherever they have gone."""
    return [p for p in psutil.process_iter(["cmdline"]) if p.info["cmdline"] == ["sleep", seconds]]


def read_until(process: subprocess.Popen[str], kind: type[Any]) -> list[Entry]:
    """Read JSON lines up to an event of this kind."""
    assert process.stdout is not None
    found: list[Entry] = []
    while not found or not isinstance(found[-1].event, kind):
        line = process.stdout.readline()
        assert line, "the output ended before"
        found.append(load_entry(json.loads(line)))
    return found


# ------------------------------------------------------------------ arguments and settings


def test_help_names_the_exit_codes(app: App) -> None:
    done = app.run("--help")
    assert done.returncode == 0 and done.stderr == ""
    for word in ("--task", "doctor", "sandbox", "130", "waits for approval"):
        assert word in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [["--tusk", "x"], ["--json"], ["nonsense"], ["--task", "x", "doctor"], ["sandbox"]],
)
def test_a_wrong_command_line_is_a_usage_error(app: App, arguments: list[str]) -> None:
    done = app.run(*arguments)
    assert done.returncode == 2 and "usage:" in done.stderr and done.stdout == ""


@pytest.mark.parametrize(
    ("environment", "named"),
    [
        ({"AGENT_MAX_STEPS": "many"}, "AGENT_MAX_STEPS"),
        ({"WORKSPACE_DIR": str(ROOT)}, "WORKSPACE_DIR"),
        ({"WORKSPACE_DIR": "/"}, "WORKSPACE_DIR"),
        ({"AGENT_SYSTEM_PROMPT_FILE": "missing.md"}, "AGENT_SYSTEM_PROMPT_FILE"),
    ],
)
def test_a_wrong_setting_ends_with_2_and_its_name(app: App, environment: Mapping[str, str], named: str) -> None:
    done = app.run("--task", "hello", **environment)
    assert done.returncode == 2 and done.stdout == ""
    assert named in done.stderr and "Traceback" not in done.stderr


def test_a_folder_in_an_argument_is_looked_for_where_the_person_is(app: App) -> None:
    done = app.run("--workspace", "sub", "--task", 'write "x" to x.txt')
    assert done.returncode == 0
    assert (app.workspace / "sub" / "x.txt").read_text() == "x\n"


def test_an_empty_task_is_a_usage_error(app: App) -> None:
    assert app.run("--task", " ").returncode == 2


# ------------------------------------------------------------------ one task


def test_a_task_is_done_and_the_answer_alone_is_on_stdout(app: App) -> None:
    done = app.run("--task", 'write "hello" to a.txt, then read it, then send it to me')
    assert done.returncode == 0
    assert (app.workspace / "a.txt").read_text() == "hello\n"
    assert "Wrote `a.txt`" in done.stdout and "> write_file" not in done.stdout
    assert '> write_file path="a.txt"' in done.stderr and "< write_file: done" in done.stderr
    (path,) = [line.split()[-1] for line in done.stderr.splitlines() if line.strip().startswith("file: a.txt")]
    assert Path(path).read_text() == "hello\n"
    assert "\x1b" not in done.stdout + done.stderr


def test_a_task_from_stdin_in_chinese(app: App) -> None:
    done = app.run("--task", "-", stdin="把“你好”写入 a.txt", GLASSLOOP_LANGUAGE="", LANG="zh_CN.UTF-8")
    assert done.returncode == 0
    assert (app.workspace / "a.txt").read_text(encoding="utf-8") == "你好\n"
    assert "完成" in done.stderr


def test_json_lines_are_the_whole_log_and_nothing_else(app: App) -> None:
    done = app.run("--json", "--task", "run echo 你好")
    log = entries(done.stdout)
    assert done.returncode == 0 and done.stderr == ""
    assert [entry.seq for entry in log] == list(range(len(log)))
    assert isinstance(log[0].event, TurnStarted) and log[0].event.message.text == "run echo 你好"
    assert isinstance(log[-1].event, TurnEnded) and log[-1].event.reason == "answered"
    (finished,) = [e.event for e in log if isinstance(e.event, CallFinished)]
    assert "你好" in finished.text


def test_a_file_cannot_steer_the_terminal(app: App) -> None:
    (app.workspace / "evil.txt").write_text("\x1b]0;owned\x07\x1b[2Jharmless\x9b31m\u202e\n")
    done = app.run("--task", "read evil.txt")
    assert done.returncode == 0 and "harmless" in done.stdout
    assert not set("\x1b\x07\x9b\u202e") & set(done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("task", "environment", "code", "says"),
    [
        ("read a.txt, then write 'b' to b.txt", {"AGENT_MAX_STEPS": "1"}, 3, "AGENT_MAX_STEPS"),
        ("run touch made", {"AGENT_MODE": "ask"}, 4, "approval"),
        ("hello", {"OPENAI_CHAT_MODEL": "m", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}, 1, "127.0.0.1"),
    ],
)
def test_exit_codes(app: App, task: str, environment: Mapping[str, str], code: int, says: str) -> None:
    (app.workspace / "a.txt").write_text("alpha")
    done = app.run("--task", task, **environment)
    assert done.returncode == code
    assert says in done.stderr and "Traceback" not in done.stderr
    assert sorted(path.name for path in app.workspace.glob("[a-z]*")) == ["a.txt"]


def test_a_waiting_call_is_in_the_log_for_whoever_decides_later(app: App) -> None:
    done = app.run("--json", "--task", "run touch made", AGENT_MODE="ask")
    assert done.returncode == 4
    (waiting,) = [e.event for e in entries(done.stdout) if isinstance(e.event, CallAwaiting)]
    assert len(waiting.arguments_hash) == 64


@posix_only
def test_a_reader_that_goes_away_is_no_bug(app: App) -> None:
    with app.started("--json", "--task", "run sleep 300") as process:
        read_until(process, CallStarted)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        process.send_signal(signal.SIGINT)
        until(lambda: process.poll() is not None)
        assert "Traceback" not in process.stderr.read()


# ------------------------------------------------------------------ Stop


def test_a_stopped_turn_tells_what_it_had_done() -> None:
    changed = {"a.txt": "added", "b\x1b[2J.txt": "modified"}
    receipt = Receipt(steps=2, calls=3, killed=1, changed=changed, complete=False)
    ended = Entry(0, 0.0, TurnEnded(1, "stopped", receipt=receipt))
    english, chinese = ("".join(piece.text for piece in Terminal(CLI_TEXTS[one]).show(ended)) for one in ("en", "zh"))
    assert "tool calls that ran: 3; processes ended: 1; changed: a.txt, b.txt; more files may have changed" in english
    assert "3" in chinese and "a.txt" in chinese
    nothing = Entry(0, 0.0, TurnEnded(1, "stopped", receipt=Receipt(steps=1, calls=0)))
    assert "0" not in "".join(piece.text for piece in Terminal(CLI_TEXTS["en"]).show(nothing))


@posix_only
@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_turn_and_leaves_no_process(app: App, sign: signal.Signals) -> None:
    seconds = f"3{os.getpid()}"
    with app.started("--json", "--task", f"run sleep {seconds}") as process:
        log = read_until(process, CallStarted)
        until(lambda: sleepers(seconds))
        process.send_signal(sign)
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
    log += entries(stdout)
    assert process.returncode == 130 and "Stopping" in stderr
    assert [e.event.status for e in log if isinstance(e.event, CallFinished)] == ["stopped"]
    assert isinstance(log[-1].event, TurnEnded) and log[-1].event.reason == "stopped"
    assert sleepers(seconds) == []


@posix_only
def test_stop_in_mid_answer_keeps_what_was_said(app: App) -> None:
    with app.started("--json", "--task", "What can you do?") as process:
        log = read_until(process, TextDelta)
        process.send_signal(signal.SIGINT)
        log += entries(process.communicate(timeout=PATIENCE_S)[0])
    assert process.returncode == 130
    assert isinstance(log[-1].event, TurnEnded) and log[-1].event.reason == "stopped"


STUBBORN = """
import asyncio, sys
from pathlib import Path
from agent.agent import Agent
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, tool
from tests.scripted import ScriptedModel, call
from ui.cli import run_task, show_json
from ui.cli_texts import CLI_TEXTS

@tool(Effect.READ)
async def hold(context: ToolContext) -> str:
    "Does not let go."
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()
    return ""

async def main():
    session = Session(Agent(ScriptedModel(call("hold")), Toolbox([hold])), Path(), Path())
    return await run_task(session, "go", show_json, CLI_TEXTS["en"], None)

sys.exit(asyncio.run(main()))
"""


@posix_only
def test_a_second_signal_leaves_at_once() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", STUBBORN], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", cwd=ROOT
    )
    with process:
        assert process.stderr is not None
        read_until(process, CallStarted)
        process.send_signal(signal.SIGINT)
        while "Stopping" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
        assert "Left at once" in process.stderr.read()


# ------------------------------------------------------------------ a person at the terminal


def read_up_to(stream: IO[str] | None, words: str) -> str:
    """What the process says up to `words`; fails where it ends without them."""
    assert stream is not None
    said = ""
    while words not in said:
        piece = stream.read(1)
        assert piece, f"it ended without {words!r}: {said}"
        said += piece
    return said


@posix_only
@pytest.mark.parametrize(("answer", "made"), [("y\n", True), ("n\n", False), ("\n", False), ("yes please\n", False)])
def test_a_person_is_asked_and_sees_the_exact_command(app: App, answer: str, made: bool) -> None:
    ours, theirs = os.openpty()
    app.environment["AGENT_MODE"] = "ask"
    try:
        with app.started("--task", "run touch made # \u202etxt.exe", stdin=theirs) as process:
            said = read_up_to(process.stderr, "[y/N]")
            assert "command: touch made # \\u202etxt.exe" in said
            os.write(ours, answer.encode())
            process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert (app.workspace / "made").exists() is made
    finally:
        os.close(ours)
        os.close(theirs)


@posix_only
def test_ctrl_c_at_the_question_leaves_and_nothing_runs(app: App) -> None:
    ours, theirs = os.openpty()
    app.environment["AGENT_MODE"] = "ask"
    try:
        with app.started("--task", "run touch made", stdin=theirs) as process:
            read_up_to(process.stderr, "[y/N]")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 130
        assert not (app.workspace / "made").exists()
    finally:
        os.close(ours)
        os.close(theirs)


@posix_only
@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_colour_is_for_terminals(app: App, no_color: str, coloured: bool) -> None:
    ours, theirs = os.openpty()
    try:
        with open(ours, "rb", buffering=0, closefd=False) as terminal:
            done = subprocess.run(
                [sys.executable, str(ROOT / "app.py"), "--task", "what time is it?"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=theirs,
                env={**app.environment, "NO_COLOR": no_color},
                timeout=PATIENCE_S,
            )
            said = terminal.read(4096)
        assert done.returncode == 0 and b"current_time" in said
        assert (b"\x1b[" in said) is coloured
    finally:
        os.close(ours)
        os.close(theirs)


# ------------------------------------------------------------------ a server


def chunks(*deltas: Mapping[str, Any], finish: str) -> list[str]:
    """One streamed answer as a server writes it."""

    def chunk(delta: Mapping[str, Any], reason: str | None) -> str:
        body = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1790000000,
            "model": "m-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}],
        }
        return f"data: {json.dumps(body)}\n\n"

    return [*(chunk(delta, None) for delta in deltas), chunk({}, finish), "data: [DONE]\n\n"]


def calling(id: str, name: str, **arguments: Any) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]}


@pytest.fixture
def replay(tmp_path: Path) -> Iterator[Replay]:
    case = {
        "id": "three-steps",
        "title": "Looks around, writes a file, answers",
        "kind": "app.cli",
        "source": ["nobody/nothing#1"],
        "prompt": "Make a list.",
        "stream": chunks(calling("c1", "list_files"), finish="tool_calls"),
        "then": [
            {"stream": chunks(calling("c2", "write_file", path="list.txt", content="one\n"), finish="tool_calls")},
            {"stream": chunks({"content": "Done: "}, {"content": "list.txt"}, finish="stop")},
        ],
        "expect": {"finish": "tool_calls"},
    }
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "three-steps.json").write_text(json.dumps(case))
    with Replay(tmp_path / "cases") as server:
        yield server


def test_a_conversation_with_a_server(app: App, replay: Replay) -> None:
    (app.workspace / "seen.txt").write_text("x")
    server = {"OPENAI_BASE_URL": replay.url, "OPENAI_API_KEY": "sk-not-to-be-seen", "OPENAI_CHAT_MODEL": "three-steps"}
    done = app.run("--task", "Make a list.", **server)
    assert (done.returncode, done.stdout) == (0, "Done: list.txt\n")
    assert (app.workspace / "list.txt").read_text() == "one\n"
    requests = replay.requests("three-steps")
    assert [m["role"] for m in requests[-1]["body"]["messages"]] == [
        "system", "user", "assistant", "tool", "assistant", "tool",
    ]  # fmt: skip
    assert "seen.txt" in requests[1]["body"]["messages"][-1]["content"]
    assert replay.problems("three-steps") == []
    assert "sk-not" not in done.stdout + done.stderr


# ------------------------------------------------------------------ the other commands


def test_one_command_behind_the_fence(app: App) -> None:
    done = app.run("sandbox", "--", "pwd; exit 7")
    assert (done.returncode, done.stdout) == (7, f"{app.workspace}\n")
    assert "sandbox:" in done.stderr
    done = app.run("sandbox", "--", "cat", str(ROOT / "app.py"))
    assert done.returncode != 0 and "Start here" not in done.stdout


def test_the_doctor_finds_the_demo(app: App) -> None:
    done = app.run("doctor")
    assert done.returncode == 0, done.stdout
    for word in ("Python", "Workspace", "sandbox:", "files-read", "demo model", "OPENAI_API_KEY"):
        assert word in done.stdout


def test_the_doctor_names_a_wrong_setting(app: App) -> None:
    done = app.run("doctor", AGENT_MAX_STEPS="many")
    assert done.returncode == 1
    assert "[x]" in done.stdout and "AGENT_MAX_STEPS" in done.stdout and "Traceback" not in done.stderr


def test_the_doctor_says_what_a_dead_server_needs_and_shows_no_key(app: App) -> None:
    server = {"OPENAI_BASE_URL": "http://127.0.0.1:9/v1", "OPENAI_API_KEY": "sk-not-to-be-seen"}
    done = app.run("doctor", **server, OPENAI_CHAT_MODEL="m")
    assert done.returncode == 1
    assert "[x]" in done.stdout and "OPENAI_BASE_URL" in done.stdout
    assert "sk-not" not in done.stdout + done.stderr and "Traceback" not in done.stderr


def test_the_doctor_tries_a_reply_and_a_call(app: App, replay: Replay) -> None:
    server = {"OPENAI_BASE_URL": replay.url, "OPENAI_API_KEY": "sk-not-to-be-seen", "OPENAI_CHAT_MODEL": "three-steps"}
    done = app.run("doctor", **server)
    assert "It called write_file" in done.stdout
    assert len(replay.requests("three-steps")) == 2
    assert "sk-not" not in done.stdout + done.stderr


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_the_doctor_finds_a_workspace_that_cannot_be_written_to(app: App) -> None:
    app.workspace.chmod(0o500)
    done = app.run("doctor")
    assert done.returncode == 1 and "cannot be written to" in done.stdout


# ---------------------------------------------------------------------- the audit trail


def test_the_audit_trail_is_verified_and_exported(app: App) -> None:
    assert app.run("--task", "Run echo =1+1").returncode == 0
    verified = app.run("audit", "verify")
    assert verified.returncode == 0 and verified.stdout.startswith("ok: 1 rows")
    row = json.loads(app.run("audit", "export").stdout)
    assert row["tool"] == "run_command" and row["owner"] == "local" and row["status"] == "done"
    header, line = app.run("audit", "export", "--csv").stdout.splitlines()
    assert header.startswith("at,owner,session_id") and "run_command" in line
    with closing(sqlite3.connect(app.workspace.parent / "data" / "glassloop.db")) as database, database:
        database.execute("UPDATE audit SET tool = 'read_file'")
    tampered = app.run("audit", "verify")
    assert tampered.returncode == 1 and "row 1 was changed" in tampered.stdout


@pytest.mark.parametrize("arguments", [("audit",), ("audit", "delete"), ("audit", "verify", "--csv")])
def test_a_wrong_audit_command_is_a_usage_error(app: App, arguments: tuple[str, ...]) -> None:
    assert app.run(*arguments).returncode == 2
