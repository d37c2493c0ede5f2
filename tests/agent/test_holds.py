"""A session is alive in one process at a time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.agent import Agent
from agent.errors import Refused
from agent.log import EventLog
from agent.session import Session
from agent.sessions import Sessions
from agent.store import Store
from agent.store.holds import Holds
from agent.tool import Toolbox
from tests.scripted import ScriptedModel

ROOT = Path(__file__).resolve().parents[2]

HOLDER = """
import sys
from pathlib import Path
from agent.store.holds import Holds
holds = Holds(Path(sys.argv[1]))
print(holds.take(sys.argv[2]), flush=True)
for line in sys.stdin:
    holds.release(sys.argv[2])
    print("released", flush=True)
"""


def other_process(path: Path, session_id: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path), session_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdout is not None and process.stdout.readline() == "True\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.communicate()


def test_another_process_is_kept_out_until_the_session_is_released(tmp_path: Path) -> None:
    holds = Holds(tmp_path / "locks")
    process = other_process(tmp_path / "locks", "mine")
    try:
        assert not holds.take("mine")
        assert holds.take("another") and holds.take("another")
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.stdout.readline() == "released\n"
        assert holds.take("mine")
    finally:
        end(process)
        holds.close()


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    holds = Holds(tmp_path / "locks")
    process = other_process(tmp_path / "locks", "mine")
    assert not holds.take("mine")
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert holds.take("mine")
    holds.close()


def test_a_session_that_lives_elsewhere_is_not_opened_and_nothing_is_written_to_it(tmp_path: Path) -> None:
    agent = Agent(ScriptedModel("Hello."), Toolbox([]))

    def build(owner: str, id: str, log: EventLog) -> Session:
        return Session(agent, tmp_path, tmp_path, owner, log, id)

    async def talk() -> tuple[str, int]:
        session = sessions.create("ann")
        session.send("hi")
        await session.wait()
        sessions.sweep(idle=0)
        return session.id, len(session.log)

    store = Store(tmp_path, scrub=str)
    sessions = Sessions(store, build)
    session_id, length = asyncio.run(talk())
    process = other_process(tmp_path / "sessions.lock", session_id)
    try:
        with pytest.raises(Refused, match="open in another process"):
            asyncio.run(sessions.open("ann", session_id))
        with pytest.raises(Refused, match="no such session"):  # not even that much is told to another
            asyncio.run(sessions.open("bob", session_id))
        assert len(store.load("ann", session_id).entries) == length
    finally:
        end(process)
    assert len(asyncio.run(sessions.open("ann", session_id)).log) == length
    store.close()
