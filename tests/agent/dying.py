"""A process that dies by SIGKILL in the middle of a session, at the event it is told to die at.

`python -m tests.agent.dying FOLDER [DATABASE_URL]` plays the same session again and again, each time in a child of its
own and in the next sub-folder 0, 1, 2, ...: child n dies as its session writes event n. It ends with the first child
that lives. With a database all of them keep their sessions there.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent.agent import Agent
from agent.approval import Decision
from agent.events import TurnEnded
from agent.log import Entry, EventLog, dump_entry
from agent.policy import Policy, Verdict, arguments_hash
from agent.session import Session
from agent.sessions import Sessions
from agent.store import Store
from agent.tool import Effect, Toolbox, ToolContext, tool
from tests.scripted import ScriptedModel, call

OWNER = "ann"


@tool(Effect.READ)
async def add(context: ToolContext, a: int, b: int) -> str:
    """Add two numbers."""
    context.emit(f"{a}+{b}\n")
    await asyncio.sleep(0)
    return str(a + b)


@tool(Effect.WRITE)
async def note(context: ToolContext, text: str) -> str:
    """Write a note."""
    with (context.workspace / "notes").open("a") as notes:
        notes.write(text + "\n")
    return "noted"


@tool(Effect.EXECUTE)
async def launch(context: ToolContext, what: str) -> str:
    """Needs a person to agree."""
    context.emit("three, two, one\n")
    with (context.workspace / "launched").open("a") as launched:
        launched.write(what + "\n")
    return "launched"


SCRIPT = (
    [call("add", "r1", a=1, b=2), call("add", "r2", a=3, b=4), call("note", "w1", text="first")],
    "",
    [call("note", "w2", text="second"), call("launch", "x1", what="a"), call("launch", "x2", what="b")],
    "That was all.",
    "And this is the answer to what waited.",
)


def agent(*script: object) -> Agent:
    policy = Policy({Effect.EXECUTE: Verdict("ask", "it launches")})
    return Agent(ScriptedModel(*script), Toolbox([add, note, launch]), policy=policy)  # type: ignore[arg-type]


def open_sessions(store: Store, folder: Path, agent: Agent) -> Sessions:
    def build(owner: str, session_id: str, log: EventLog) -> Session:
        return Session(agent, folder, store.outbox(session_id), owner, log, session_id)

    return Sessions(store, build)


def session_in(folder: Path) -> str:
    """The id of the session that was played there."""
    return f"the-session-{folder.name}"


async def play(session: Session) -> None:
    session.send("Do a few things.")
    session.send("And then?")
    await session.wait()
    waiting = [Decision(one.id, arguments_hash(one), one.id == "x1", "no b") for one in session.open_calls()]
    session.decide_all(waiting[:1])
    session.decide_all(waiting[1:])
    assert await session.wait() == "answered"


def live(folder: Path, empty: Path, die_at: int, database_url: str) -> None:
    """Play the session; die as event `die_at` is written, before or after it is, by turns.

    On a copy of an empty store: making one takes longer than the session.
    """
    shutil.copytree(empty, folder)
    store, session_id = Store(folder, str, database_url), session_in(folder)
    told = os.open(folder / "told", os.O_WRONLY | os.O_CREAT)
    journal = store.journal(OWNER, session_id)

    def sink(entry: Entry) -> None:
        os.write(told, json.dumps(dump_entry(entry)).encode() + b"\n")
        if entry.seq == die_at and die_at % 2:
            os.kill(os.getpid(), signal.SIGKILL)
        journal(entry)
        if entry.seq == die_at:
            os.kill(os.getpid(), signal.SIGKILL)

    async def scenario() -> None:
        session = Session(agent(*SCRIPT), folder, store.outbox(session_id), OWNER, EventLog(sink=sink), session_id)
        await play(session)
        assert isinstance(session.log.since(0)[-1].event, TurnEnded)

    asyncio.run(scenario())
    store.close()
    os.close(told)


def in_a_child(work: Callable[[], None]) -> int:
    """The signal that ended it; 0 where it lived."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0:
        raise SystemExit("the child failed")
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


def main(folder: Path, database_url: str = "") -> None:
    die_at = 0
    with tempfile.TemporaryDirectory() as empty:
        Store(Path(empty), str, database_url).close()
        while True:
            child = partial(live, folder / str(die_at), Path(empty), die_at, database_url)
            if in_a_child(child) != signal.SIGKILL:
                return
            die_at += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
