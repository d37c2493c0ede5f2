"""How the parts are put together: who gets a shell, whose workspace it is, and that each door opens."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

import app
from agent.errors import SettingsError
from agent.events import CallFinished
from agent.llm.demo import DemoModel
from agent.policy import Exposure
from agent.sessions import Sessions
from agent.settings import Settings
from tools.checkpoint import Checkpoints
from tools.sandbox import Boundary, Strength, probe

ROOT = Path(__file__).resolve().parents[1]


@dataclass
class PaperFence:
    """Holds nothing and runs nothing: for what is decided before anything runs."""

    boundary: Boundary

    async def run(self, *arguments: Any, **options: Any) -> Any:
        raise AssertionError("nothing runs here")

    async def start(self, *arguments: Any, **options: Any) -> Any:
        raise AssertionError("nothing runs here")


def settings_in(folder: Path, **variables: str) -> Settings:
    folders = {"WORKSPACE_DIR": str(folder / "workspace"), "GLASSLOOP_DATA": str(folder / "data")}
    return app.load_settings({**folders, **variables}, env_file=folder / ".env")


def environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "OPENAI_CHAT_MODEL": "demo",
        "WORKSPACE_DIR": str(folder / "workspace"),
        "GLASSLOOP_DATA": str(folder / "data"),
        "PYTHONPATH": str(ROOT),
    }


# ------------------------------------------------------------------ who gets a shell


@pytest.mark.parametrize(
    ("strength", "exposure", "offered", "answer"),
    [
        ("strong", "local", True, "allow"),
        ("strong", "share", True, "allow"),
        ("strong", "space", True, "allow"),
        ("partial", "local", True, "ask"),
        ("none", "local", True, "ask"),
        ("partial", "share", False, "deny"),
        ("none", "share", False, "deny"),
        ("none", "space", False, "deny"),
    ],
)
@pytest.mark.parametrize("mode", ["", "auto"])
def test_the_fence_decides_about_the_shell(
    tmp_path: Path, strength: Strength, exposure: Any, offered: bool, answer: str, mode: str
) -> None:
    fence = PaperFence(Boundary(strength, f"sandbox: {strength}", ()))
    agent = app.build_agent(settings_in(tmp_path, AGENT_MODE=mode), DemoModel(), fence, exposure)
    shell = agent.toolbox.get("run_command")
    assert (shell is not None) is offered
    assert {agent.policy.rules[effect].answer for effect in agent.policy.rules if effect.value == "execute"} == {answer}
    assert (f"sandbox: {strength}" in agent.system_prompt) is offered


def test_read_only_is_for_everything(tmp_path: Path) -> None:
    agent = app.build_agent(settings_in(tmp_path, AGENT_MODE="read_only"), DemoModel(), probe())
    assert agent.toolbox.get("run_command") is None
    assert {effect.value for effect, verdict in agent.policy.rules.items() if verdict.answer == "allow"} == {"read"}


@pytest.mark.parametrize(
    ("variables", "exposure"),
    [
        ({}, "local"),
        ({"GLASSLOOP_HOST": "localhost"}, "local"),
        ({"GLASSLOOP_HOST": "127.0.0.2"}, "local"),
        ({"GLASSLOOP_HOST": "::1"}, "local"),
        ({"GLASSLOOP_HOST": "0.0.0.0"}, "share"),
        ({"GLASSLOOP_HOST": "::"}, "share"),
        ({"GLASSLOOP_HOST": "192.168.1.5"}, "share"),
        ({"GLASSLOOP_HOST": "127.0.0.1.example.org"}, "share"),
        ({"GLASSLOOP_HOST": "my-machine"}, "share"),
        ({"SPACE_ID": "ann/space"}, "space"),
    ],
)
def test_what_is_not_certainly_this_machine_is_open_to_others(
    tmp_path: Path, variables: dict[str, str], exposure: str
) -> None:
    assert app.exposure_of(settings_in(tmp_path, **variables)) == exposure


def test_pictures_need_a_service(tmp_path: Path) -> None:
    def offered(**variables: str) -> bool:
        agent = app.build_agent(settings_in(tmp_path, **variables), DemoModel(), probe())
        return agent.toolbox.get("generate_image") is not None

    assert not offered()
    assert not offered(OPENAI_BASE_URL="http://127.0.0.1:11434/v1")
    assert offered(OPENAI_API_KEY="sk-12345678")
    assert offered(OPENAI_IMAGE_BASE_URL="http://127.0.0.1:9/v1")


# ------------------------------------------------------------------ whose workspace


def test_at_home_the_workspace_is_the_folder_itself(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    agent = app.build_agent(settings, DemoModel(), probe())
    one, other = app.new_session(agent, settings), app.new_session(agent, settings)
    assert one.workspace == other.workspace == tmp_path / "workspace"
    assert one.outbox != other.outbox and not one.outbox.is_relative_to(one.workspace)


@pytest.mark.parametrize("exposure", ["share", "space"])
async def test_strangers_share_nothing(tmp_path: Path, exposure: Literal["share", "space"]) -> None:
    settings = settings_in(tmp_path)
    settings.workspace_dir.mkdir()
    (settings.workspace_dir / "demo.txt").write_text("from the app")
    (settings.workspace_dir / ".hidden").write_text("not for all")
    agent = app.build_agent(settings, DemoModel(0), probe(), exposure)
    ann, bob = (app.new_session(agent, settings, owner, exposure) for owner in ("ann", "bob"))
    for session, name in ((ann, "ann"), (bob, "bob")):
        session.send(f"write '{name}' to demo.txt, then run ls -a ..; cat ../*/demo.txt")
        assert await asyncio.wait_for(session.wait(), 60) == "answered"
    assert (ann.workspace / "demo.txt").read_text() == "ann\n"
    assert (bob.workspace / "demo.txt").read_text() == "bob\n"
    assert (settings.workspace_dir / "demo.txt").read_text() == "from the app"
    assert not (ann.workspace / ".hidden").exists()
    told = [e.event.text for e in bob.log.since(0) if isinstance(e.event, CallFinished)]
    assert "ann" not in told[-1]


def test_a_stranger_who_comes_back_finds_their_files(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    agent = app.build_agent(settings, DemoModel(), probe(), "share")
    first = app.new_session(agent, settings, "ann", "share")
    (first.workspace / "mine.txt").write_text("x")
    again = app.new_session(agent, settings, "ann", "share", first.id)
    assert (again.workspace / "mine.txt").read_text() == "x"
    assert first.id not in str(first.workspace)
    assert os.name != "posix" or first.workspace.stat().st_mode & 0o777 == 0o700


async def test_what_a_stranger_leaves_behind_goes_with_the_session(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    settings.workspace_dir.mkdir()
    (settings.workspace_dir / "demo.txt").write_text("from the app")
    store, checkpoints = app.open_store(settings), Checkpoints(settings.data_dir / "checkpoints")
    agent = app.build_agent(settings, DemoModel(0), probe(), "share", checkpoints)
    clear = app.clearing(settings, checkpoints, "share")
    sessions = Sessions(store, lambda owner, id, log: app.new_session(agent, settings, owner, "share", id, log), clear)
    gone, kept, unused = (sessions.create(owner) for owner in ("ann", "bob", "eve"))
    for session in (gone, kept):
        session.send("write 'new' to demo.txt, then send me the file demo.txt")
        assert await asyncio.wait_for(session.wait(), 60) == "answered"
    (gone.workspace / "locked").mkdir(mode=0)
    (gone.workspace / "away").symlink_to(settings.workspace_dir)
    await sessions.delete("ann", gone.id)
    sessions.undelete("ann", gone.id)  # until it is purged, all of it is there
    assert (gone.workspace / "demo.txt").read_text() == "new\n"
    await sessions.open("ann", gone.id)
    await sessions.delete("ann", gone.id)
    assert store.purge(float("inf"), clear) == 1
    sessions.leave_unused()
    left = {name: [*(settings.data_dir / name).iterdir()] for name in ("workspaces", "files", "checkpoints")}
    assert left["workspaces"] == [kept.workspace] and left["files"] == [kept.outbox] and len(left["checkpoints"]) == 1
    assert not gone.workspace.exists() and not unused.workspace.exists()
    assert (settings.workspace_dir / "demo.txt").read_text() == "from the app"
    app.clearing(settings, checkpoints, "local")(kept.id)
    assert (kept.workspace / "demo.txt").read_text() == "new\n"
    checkpoints.close()
    store.close()


# ------------------------------------------------------------------ settings


def test_relative_folders_lie_beside_the_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = app.load_settings({"WORKSPACE_DIR": "somewhere"}, env_file=tmp_path / ".env")
    assert settings.workspace_dir == ROOT / "somewhere"


@pytest.mark.parametrize("folder", [ROOT, ROOT.parent, Path("/")])
def test_the_app_itself_is_no_workspace(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(SettingsError, match="WORKSPACE_DIR"):
        app.load_settings({"WORKSPACE_DIR": str(folder)}, env_file=tmp_path / ".env")


def test_the_data_may_not_lie_where_the_agent_works(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="GLASSLOOP_DATA"):
        settings_in(tmp_path, GLASSLOOP_DATA=str(tmp_path / "workspace" / "data"))


def test_an_env_file_in_the_workspace_is_not_read(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / ".env").write_text("AGENT_MAX_STEPS=many\nOPENAI_CHAT_MODEL=evil\n")
    done = subprocess.run(
        [sys.executable, str(ROOT / "app.py"), "--task", "hello"],
        cwd=workspace,
        env=environment(tmp_path),
        capture_output=True,
        timeout=120,
    )
    assert done.returncode == 0 and b"demo model" in done.stdout


# ------------------------------------------------------------------ the doors


def test_the_example_in_the_header_runs(tmp_path: Path) -> None:
    assert app.__doc__ is not None
    indented = app.__doc__.partition("From a program of your own:\n")[2].partition("\nThe only file")[0]
    program = "\n".join(line[4:] for line in indented.splitlines())
    assert len(program.split("\n\n")) > 2
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=environment(tmp_path), capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    assert b"TurnStarted(" in done.stdout and b"TurnEnded(turn=1, reason='answered'" in done.stdout


@pytest.mark.skipif(os.name != "posix", reason="signals of a POSIX system")
def test_the_browser_app_starts_serves_and_ends(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, str(ROOT / "app.py"), "--port", "0"],
        cwd=tmp_path,
        env={**environment(tmp_path), "GLASSLOOP_LANGUAGE": "en"},
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    with process:
        try:
            assert process.stderr is not None
            said = ""
            while not (address := re.search(r"http://127\.0\.0\.1:\d+", said)):
                line = process.stderr.readline()
                assert line, said
                said += line
            assert said.index("Loading") < said.index("sandbox:") < said.index("Model: demo") < address.start()
            with urllib.request.urlopen(address[0], timeout=60) as page:
                assert page.status == 200 and b"Glassloop" in page.read()
            process.send_signal(signal.SIGINT)  # of the others: tests/agent/test_stop.py
            assert process.wait(120) == 0
            assert "Traceback" not in process.stderr.read()
        finally:
            process.kill()


# ---------------------------------------------------------------------- the image service


def image_key(environ: Mapping[str, str], exposure: Exposure = "local") -> str | None:
    """The key that pictures are asked for with; None where there are none."""
    client = app.image_client(Settings.load(None, environ), exposure)
    return None if client is None else client.server.api_key


def test_the_chat_key_goes_to_the_chat_server_and_no_stranger_draws_with_it() -> None:
    chat = {"OPENAI_API_KEY": "sk-chat-1234567"}
    own = {"OPENAI_IMAGE_API_KEY": "sk-image-123456"}
    elsewhere = {"OPENAI_IMAGE_BASE_URL": "https://pictures.test/v1"}
    assert image_key(chat) == "sk-chat-1234567"
    assert image_key(chat | elsewhere) == ""
    assert image_key(chat | elsewhere | own) == image_key(chat | own) == "sk-image-123456"
    assert image_key({}) is None and image_key(chat, "space") is None and image_key(chat, "share") is None
    assert image_key(chat | own, "space") == "sk-image-123456"
