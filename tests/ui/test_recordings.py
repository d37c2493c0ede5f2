"""Recordings in files: those that ship, those that are handed in, and the command line's doors to them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.errors import Refused
from agent.events import Replied, StepStarted, TurnEnded, TurnStarted
from agent.exchange import export_lines, import_lines
from agent.llm.recorded import RecordedModel
from agent.log import Entry
from agent.messages import AssistantMessage, UserMessage
from agent.store import Store
from ui import recordings
from ui.arguments import parse_arguments
from ui.report import render_report

ROOT = Path(__file__).resolve().parents[2]
LOG = [
    Entry(0, 1.0, TurnStarted(1, UserMessage("Say it"))),
    Entry(1, 1.0, StepStarted(1)),
    Entry(2, 1.5, Replied(AssistantMessage("Said s3cret."), "stop")),
    Entry(3, 1.5, TurnEnded(1, "answered")),
]


def as_export(title: str = "A title") -> str:
    return "".join(export_lines(title, LOG, str))


# ---------------------------------------------------------------------- files


def test_what_ships_can_be_replayed_and_rerun() -> None:
    shipped = recordings.listed()
    assert "demo" in [one.name for one in shipped]
    for one in shipped:
        imported = recordings.load(one.name)
        assert one.title and isinstance(imported.entries[-1].event, TurnEnded)
        assert RecordedModel(imported.entries).left > 0
        text = (recordings.SHIPPED / f"{one.name}.jsonl").read_text(encoding="utf-8")
        assert json.loads(text.splitlines()[0])["scrubbed"] is True
        assert not [word for word in ("/home/", "/root/", str(ROOT)) if word in text]


def test_only_recordings_of_the_folder_are_listed_and_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    folder.mkdir()
    (folder / "b.jsonl").write_text(as_export("B"), encoding="utf-8")
    (folder / "a.jsonl").write_text(as_export(""), encoding="utf-8")
    (folder / "broken.jsonl").write_text("{}", encoding="utf-8")
    (folder / "notes.txt").write_text(as_export(), encoding="utf-8")
    (tmp_path / "outside.jsonl").write_text(as_export(), encoding="utf-8")
    listed = [(one.name, one.title) for one in recordings.listed(folder)]
    assert listed == [("a", "a"), ("b", "B")]
    assert recordings.load("b", folder).entries == LOG
    for name in ("../outside", "broken", "notes", "", "/etc/passwd", "a.jsonl"):
        with pytest.raises(Refused):
            recordings.load(name, folder)
    assert recordings.listed(tmp_path / "none") == []


def test_a_report_is_a_recording_too(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_report(LOG, "en", "A title", str), encoding="utf-8")
    assert recordings.read(page).entries == LOG


@pytest.mark.parametrize("content", [b"", b"<html></html>", b"<script type", bytes(range(128, 228))])
def test_what_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x").write_bytes(content)
    for path in (tmp_path / "x", tmp_path / "none", tmp_path):
        with pytest.raises(Refused):
            recordings.read(path)


# ---------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    "line",
    [
        "replay", "replay x --speed 0", "replay x --speed -1", "replay x --speed inf", "replay x --speed nan",
        "replay x --speed fast", "replay x --speed 2 --step", "report", "report x", "replay x --task y", "--speed 2",
    ],
)  # fmt: skip
def test_a_line_that_makes_no_sense_is_refused(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse_arguments(line.split())
    assert left.value.code == 2
    assert "error" in capsys.readouterr().err


def test_what_can_be_said() -> None:
    replay, report = (
        parse_arguments(["replay", "x.jsonl", "--speed", "2.5"]),
        parse_arguments(["report", "latest", "-o", "y"]),
    )
    assert (replay.door, replay.source, replay.speed, replay.step) == ("replay", "x.jsonl", 2.5, False)
    assert (report.door, report.source, report.output) == ("report", "latest", "y")
    assert parse_arguments(["replay", "x", "--step"]).step


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A data folder with two sessions of two owners; the second one changed last."""
    store = Store(tmp_path / "data", str)
    for owner, session_id, later in (("ann", "first", 0.0), ("bob", "second", 10.0)):
        journal = store.journal(owner, session_id)
        journal.take_over([Entry(e.seq, e.at + later, e.event) for e in LOG])
    store.close()
    yield tmp_path / "data"


def app(folder: Path, *words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "OPENAI_CHAT_MODEL": "demo",
        "WORKSPACE_DIR": str(folder / "workspace"),
        "GLASSLOOP_DATA": str(folder / "data"),
        "GLASSLOOP_LANGUAGE": "en",
        "PYTHONIOENCODING": "utf-8",
        **variables,
    }
    return subprocess.run(
        [sys.executable, str(ROOT / "app.py"), *words],
        cwd=folder, env=environment, input=stdin, capture_output=True, encoding="utf-8", timeout=120,
    )  # fmt: skip


def test_a_kept_session_becomes_a_report_or_a_recording(tmp_path: Path, data: Path) -> None:
    done = app(tmp_path, "report", "latest", "-o", "out.html", OPENAI_API_KEY="xx-s3cret.")
    assert done.returncode == 0 and "out.html" in done.stderr and done.stdout == ""
    page = (tmp_path / "out.html").read_text(encoding="utf-8")
    assert "Said s3cret." in page  # another text than the key
    assert import_lines(page.encode(), 0).entries[0].at == 11.0
    assert app(tmp_path, "report", "first", "-o", "out.jsonl", OPENAI_API_KEY="Said s3cret.").returncode == 0
    lines = (tmp_path / "out.jsonl").read_text(encoding="utf-8")
    assert "s3cret" not in lines and import_lines(lines.encode(), 0).entries[0].at == 1.0
    again = app(tmp_path, "report", "out.jsonl", "-o", "again.html", "--language", "zh")
    assert again.returncode == 0 and 'lang="zh-CN"' in (tmp_path / "again.html").read_text(encoding="utf-8")


def test_a_report_that_cannot_be_written_is_a_clear_error(tmp_path: Path, data: Path) -> None:
    for words in (("report", "unknown", "-o", "x.html"), ("report", "first", "-o", "no/such/folder.html")):
        done = app(tmp_path, *words)
        assert done.returncode == 2 and done.stderr.strip() and "Traceback" not in done.stderr
    assert not (tmp_path / "x.html").exists()


def test_a_recording_is_played_in_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(as_export("My \x1b[2Jtitle"), encoding="utf-8")
    done = app(tmp_path, "replay", "x.jsonl", "--speed", "1000")
    assert done.returncode == 0 and done.stdout == "Said s3cret.\n"
    assert ">>> Say it" in done.stderr and "Replay of: My title" in done.stderr and "\x1b" not in done.stderr
    assert not (tmp_path / "data").exists()  # nothing is kept of it


@pytest.mark.parametrize(("keys", "prompts"), [("\n\n\n", 1), ("", 1)])
def test_by_steps_it_waits_for_enter(tmp_path: Path, keys: str, prompts: int) -> None:
    (tmp_path / "x.jsonl").write_text(as_export(), encoding="utf-8")
    done = app(tmp_path, "replay", "x.jsonl", "--step", stdin=keys)
    assert done.returncode == 0 and done.stdout == "Said s3cret.\n" and done.stderr.count("[Enter") == prompts
    assert done.stderr.index(">>> Say it") < done.stderr.index("[Enter")


def test_the_operator_finds_any_session(data: Path) -> None:
    store = Store(data, str)
    try:
        assert store.whose() == ("bob", "second") and store.whose("first") == ("ann", "first")
        store.delete("bob", "second")
        assert store.whose() == ("ann", "first")
        for session_id in ("second", "third"):
            with pytest.raises(Refused):
                store.whose(session_id)
    finally:
        store.close()
