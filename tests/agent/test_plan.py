"""The plan: a checklist that the model keeps, revised in the open."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from agent.agent import Agent
from agent.events import CallFinished, Event, Nudged, PlanChanged, PlanItem, Proved, StepStarted
from agent.log import EventLog, dump_entry, load_entry
from agent.plan import update_plan
from agent.session import Session
from agent.settings import Settings
from agent.tool import Toolbox
from app import build_agent
from tests.scripted import Hang, ScriptedModel, call
from tools import standard_tools
from tools.proving import Proving
from tools.sandbox import probe

ITEMS = ("Read notes.txt", "Count the words", "Write report.md")


def plan(*statuses: str, items: tuple[str, ...] = ITEMS, **more: str) -> Any:
    listed = [{"text": text, "status": status} for text, status in zip(items, statuses, strict=True)]
    if more:
        listed[-1] |= more
    return call("update_plan", items=listed)


def session_of(tmp_path: Path, *script: Any, **agent: Any) -> Session:
    toolbox = Toolbox([*standard_tools(None, None, tmp_path / "images"), update_plan])
    workspace = tmp_path / "workspace"
    workspace.mkdir(exist_ok=True)
    return Session(
        Agent(ScriptedModel(*script), toolbox, prover=Proving(None), **agent), workspace, tmp_path / "outbox"
    )


def events(session: Session, kind: type[Event] | Any) -> list[Any]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, kind)]


def play(session: Session, message: str = "go") -> Session:
    async def scenario() -> None:
        session.send(message)
        await asyncio.wait_for(session.wait(), 30)

    asyncio.run(scenario())
    return session


def test_a_plan_is_kept_and_told(tmp_path: Path) -> None:
    first, second = plan("doing", "open", "open"), plan("done", "doing", "open")
    session = play(session_of(tmp_path, first, second, "I could not go on, because it is late."))
    assert [[item.status for item in e.items] for e in events(session, PlanChanged)] == [
        ["doing", "open", "open"],
        ["done", "doing", "open"],
    ]
    assert [item.text for item in session.turn.plan] == list(ITEMS)
    assert [e.text for e in events(session, CallFinished)][1] == "1 of 3 done. Next: Count the words"


def test_a_silent_drop_is_refused_and_a_reasoned_one_is_not(tmp_path: Path) -> None:
    session = play(
        session_of(
            tmp_path,
            plan("done", "open", "open"),
            plan("done", "open", "open", items=(ITEMS[0], ITEMS[1], "Say good night")),  # report.md is gone
            plan("done", "open", "dropped"),  # without a reason
            plan("done", "open", "dropped", why="nobody needs it"),
            plan(
                "done", "done", "done", items=(ITEMS[0], "Count all of the words", "Look again")
            ),  # need not repeat it
            "That is all.",
        )
    )
    statuses = [(e.status, e.text) for e in events(session, CallFinished)]
    assert [status for status, _ in statuses] == ["done", "failed", "failed", "done", "done"]
    assert "Write report.md" in statuses[1][1] and "dropped" in statuses[1][1]
    assert "without a reason" in statuses[2][1]
    assert session.turn.plan[-1] == PlanItem("Write report.md", "dropped", "nobody needs it")
    [proved] = events(session, Proved)
    assert proved.verdict == "partly" and [(c.found, c.detail) for c in proved.checks] == [
        ("dropped", "nobody needs it")
    ]


def test_a_plan_has_three_to_eight_items(tmp_path: Path) -> None:
    few = plan("open", "open", items=("One", "Two"))
    many = plan(*["open"] * 9, items=tuple(f"Item number {n} of them" for n in range(9)))
    session = play(session_of(tmp_path, few, many, "ok"))
    assert {e.status for e in events(session, CallFinished)} == {"failed"} and session.turn.plan == ()


def test_what_the_plan_calls_done_is_looked_at(tmp_path: Path) -> None:
    session = play(session_of(tmp_path, plan("done", "done", "done"), *["That is all."] * 3))
    [proved] = events(session, Proved)
    assert [(c.what, c.source, c.found) for c in proved.checks] == [("report.md", "plan", "missing")]
    assert proved.verdict == "not_verified"
    assert [e.code for e in events(session, Nudged)] == ["unmet", "unmet_again"]


def test_open_items_are_pointed_out(tmp_path: Path) -> None:
    session = play(session_of(tmp_path, plan("done", "open", "open"), *["That is all."] * 3))
    assert "Count the words" in events(session, Nudged)[0].text
    [proved] = events(session, Proved)
    assert proved.verdict == "not_verified" and {c.found for c in proved.checks} == {"open"}


def test_a_turn_that_goes_on_keeps_its_plan_and_what_was_asked_for(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = session_of(tmp_path, plan("done", "open", "open"), Hang)
        session.send("Read notes.txt and write report.md")
        async for _ in session.log.follow():
            if len(events(session, StepStarted)) == 2:
                break
        await session.stop()
        loaded = [load_entry(dump_entry(entry)) for entry in session.log.since(0)]  # as after a restart
        again = session_of(tmp_path, plan("done", "done", "done"), *["That is all."] * 3)
        again = Session(again.agent, again.workspace, again.outbox, log=EventLog(loaded))
        again.resume()
        assert [item.status for item in again.turn.plan] == ["done", "open", "open"]
        await asyncio.wait_for(again.wait(), 30)
        again.agent.model.script[:] = ["Hello."]  # type: ignore[attr-defined]
        again.send("Hello")
        await again.wait()
        return again

    session = asyncio.run(scenario())
    assert [(c.what, c.source) for c in events(session, Proved)[0].checks] == [("report.md", "message")]
    assert session.turn.plan == () and len(events(session, Proved)) == 1  # another task begins with none


def test_always_asks_for_the_plan_before_anything_else(tmp_path: Path) -> None:
    session = session_of(tmp_path, plan("open", "open", "open"), "I could not, because it is late.", plan_first=True)
    play(session)
    first, second = session.agent.model.requests  # type: ignore[attr-defined]
    assert "call update_plan" in first.messages[-1].text and [e.code for e in events(session, Nudged)] == ["plan_first"]
    assert sum("call update_plan" in message.text for message in second.messages) == 1


def test_the_setting_decides(tmp_path: Path) -> None:
    def built(plan: str) -> Agent:
        settings = Settings(plan=plan, workspace_dir=tmp_path / "w", data_dir=tmp_path / "d")  # type: ignore[arg-type]
        return build_agent(settings, ScriptedModel(), probe())

    off, auto, always = (built(mode) for mode in ("off", "auto", "always"))
    assert off.toolbox.get("update_plan") is None and "update_plan" not in off.system_prompt
    assert auto.toolbox.get("update_plan") and not auto.plan_first and "update_plan" in auto.system_prompt
    assert always.plan_first
