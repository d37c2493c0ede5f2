"""Done is a fact: what a model says at the end, against the workspace and the record of its calls."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.claims import Ran, unborne
from agent.events import CallFinished, Event, Nudged, Proved, TurnEnded
from agent.expectations import expectation, outputs_named
from agent.llm.model import Request
from agent.plan import update_plan
from agent.policy import Policy, Verdict
from agent.session import Session
from agent.tool import Effect, Toolbox
from tests.scripted import ScriptedModel, call
from tools import standard_tools
from tools.checkpoint import Checkpoints
from tools.proving import Proving
from tools.sandbox import probe
from tools.writing import write_file

Say = Callable[..., Session]


@pytest.fixture
def say(tmp_path: Path) -> Any:
    """Plays a turn against the real tools: the message, then what the model replies. Gives the session."""
    checkpoints = Checkpoints(tmp_path / "checkpoints")
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    def play(message: str, *script: Any, expects: tuple[str, ...] = (), **agent: Any) -> Session:
        fence = probe()
        tools = [*standard_tools(fence, None, tmp_path / "images"), update_plan]
        toolbox = Toolbox(tools, around=checkpoints.around)
        made = Agent(ScriptedModel(*script), toolbox, checkpoints=checkpoints, prover=Proving(fence), **agent)

        async def scenario() -> Session:
            session = Session(made, workspace, tmp_path / "outbox")
            session.send(message, expects=expects)
            await asyncio.wait_for(session.wait(), 60)
            return session

        return asyncio.run(scenario())

    yield play
    checkpoints.close()


def events(session: Session, kind: type[Event] | Any) -> list[Any]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, kind)]


def proof(session: Session) -> Proved | None:
    found = events(session, Proved)
    assert len(found) < 2
    return found[0] if found else None


def codes(session: Session) -> list[str]:
    return [event.code for event in events(session, Nudged)]


def write(path: str, content: str = "text\n") -> Any:
    return call("write_file", path=path, content=content)


# ---------------------------------------------------------------------- lies and honest ends


def test_what_was_asked_for_and_is_there_is_verified(say: Say) -> None:
    session = say("Write report.md", write("report.md"), "I wrote report.md.")
    found = proof(session)
    assert found is not None and found.verdict == "verified" and codes(session) == []
    assert [(c.what, c.source, c.ok) for c in found.checks] == [("report.md", "message", True)]
    kinds = [type(entry.event) for entry in session.log.since(0)]
    assert kinds.index(Proved) == kinds.index(TurnEnded) - 1


def test_a_lying_model_is_told_twice_and_never_verified(say: Say) -> None:
    session = say("Write report.md", *["I wrote report.md. All tests pass."] * 9)
    found = proof(session)
    assert found is not None and found.verdict == "not_verified" and session.turn.ended == "answered"
    assert codes(session) == ["unmet", "unmet_again"] and session.turn.steps == 3
    assert "report.md does not exist" in events(session, Nudged)[0].text
    assert [(c.text, c.why) for c in found.claims] == [
        ("I wrote report.md.", "not_written"),
        ("All tests pass.", "not_run"),
    ]


def test_a_lie_about_an_old_file_is_one_too(say: Say) -> None:
    say("Write report.md", write("report.md"), "Done.")
    session = say("Write report.md anew", *["Done."] * 3)
    found = proof(session)
    assert found is not None and found.verdict == "not_verified"
    assert [c.found for c in found.checks] == ["unchanged"]


def test_one_pointed_fact_is_enough_for_an_honest_model(say: Say) -> None:
    session = say("把结果保存为 结果.csv", "已保存到 结果.csv。", write("结果.csv", "a,b\n1,2\n"), "已写入 结果.csv。")
    found = proof(session)
    assert found is not None and found.verdict == "verified" and codes(session) == ["unmet"]


@pytest.mark.parametrize(
    ("message", "answer"),
    [
        ("Write report.md", "I could not write report.md, because the disk is full."),
        ("Write report.md", "I could not, because there is no data to report on."),
        ("Write report.md", "report.md was not written: you asked me to stop."),
        ("把结果保存为 结果.csv", "很抱歉，因为没有数据，我无法生成 结果.csv。"),
        ("把结果保存为 结果.csv", "没能完成，因为磁盘已满。"),
    ],
)
def test_an_honest_failure_ends_at_once(say: Say, message: str, answer: str) -> None:
    session = say(message, answer)
    found = proof(session)
    assert found is not None and found.verdict == "could_not" and codes(session) == []
    assert session.turn.ended == "answered"


@pytest.mark.parametrize(
    "answer",
    [
        "I could not have done it better: it is done.",
        "I couldn't be prouder. Everything is finished.",
        "Done. I did not change anything else.",
        "I could not find any problems.",
        "I wrote report.md, although I could not run the tests.",
    ],
)
def test_words_that_only_sound_like_a_failure_are_none(say: Say, answer: str) -> None:
    session = say("Write report.md", *[answer] * 3)
    found = proof(session)
    assert found is not None and found.verdict == "not_verified" and codes(session)[0] == "unmet"


def test_without_anything_to_prove_there_is_no_card(say: Say) -> None:
    session = say("How are you?", "Fine, thank you.")
    assert proof(session) is None and codes(session) == []


def test_a_false_claim_is_told_once_and_marked(say: Say) -> None:
    session = say("Is it good?", *["I ran the tests and all of it works."] * 3)
    found = proof(session)
    assert found is not None and found.verdict == "not_verified" and codes(session) == ["unborne"]
    assert session.turn.steps == 2


def test_tests_that_failed_do_not_pass(say: Say) -> None:
    failing = call("run_command", command="echo 1 test failed; exit 1")
    session = say("Try it", failing, *["All tests pass."] * 2)
    found = proof(session)
    assert found is not None and [c.why for c in found.claims] == ["run_failed"]


def test_a_question_about_earlier_work_is_answered_from_the_whole_record(say: Say, tmp_path: Path) -> None:
    async def more(session: Session) -> Session:
        session.agent.model.script[:] = ["Yes, I wrote report.md."]  # type: ignore[attr-defined]
        session.send("Did you finish?")
        await session.wait()
        return session

    session = say("Please do it", write("report.md"), "There it is.")
    asyncio.run(more(session))
    assert proof(session) is None and codes(session) == []


# ---------------------------------------------------------------------- what the person wants


def test_the_persons_lines_are_looked_at_one_by_one(say: Say) -> None:
    script = [
        write("data.json", "{"),
        write("table.csv", "a,b\n1,2\n"),
        write("app.py", "print(1)\n"),
        write("notes.md", "forty two"),
        write("empty.txt", ""),
        *["There you are."] * 3,
    ]
    lines = (
        "data.json json",
        "table.csv csv",
        "app.py python",
        "notes.md contains forty two",
        "notes.md contains 43",
        "empty.txt",
        "../outside.txt",
        "$ test -f app.py",
        "$ exit 3",
    )
    session = say("Make some files", *script, expects=lines)
    found = proof(session)
    assert found is not None and found.verdict == "partly" and codes(session) == ["unmet", "unmet_again"]
    assert [(c.what, c.ok, c.found) for c in found.checks] == [
        ("data.json json", False, "invalid"),
        ("table.csv csv", True, ""),
        ("app.py python", True, ""),
        ("notes.md contains forty two", True, ""),
        ("notes.md contains 43", False, "lacks"),
        ("empty.txt", False, "empty"),
        ("../outside.txt", None, "unreadable"),
        ("$ test -f app.py", True, ""),
        ("$ exit 3", False, "failed"),
    ]


def test_a_picture_is_read_within_bounds_and_by_no_other_program(tmp_path: Path) -> None:
    head = b"IHDR" + struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    whole = struct.pack(">I", 13) + head + struct.pack(">I", zlib.crc32(head))
    (tmp_path / "bomb.png").write_bytes(b"\x89PNG\r\n\x1a\n" + whole + bytes(4) + b"IDAT" + bytes(4))
    (tmp_path / "program.png").write_bytes(
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n"
    )
    found = {name: Proving(None).look(tmp_path, "image", name, "") for name in ("bomb.png", "program.png")}
    assert all(ok is False and code == "invalid" for ok, code, _ in found.values())
    assert "exceeds limit" in found["bomb.png"][2] and "cannot identify" in found["program.png"][2]


def test_a_command_that_policy_asks_about_is_not_run(say: Say, tmp_path: Path) -> None:
    policy = Policy({Effect.EXECUTE: Verdict("ask", "It runs a command.")})
    session = say("Go", "Done.", expects=("$ touch ran",), policy=policy)
    found = proof(session)
    assert found is not None and [(c.ok, c.found) for c in found.checks] == [(None, "asks")]
    assert found.verdict == "not_verified" and codes(session) == [] and not (tmp_path / "workspace/ran").exists()


def test_an_edited_and_a_retried_message_keep_what_was_expected(say: Say) -> None:
    async def again(session: Session) -> None:
        for act in (lambda: session.edit(1, "Do it now"), lambda: session.retry(1)):
            session.agent.model.script[:] = ["I could not, because it rains."]  # type: ignore[attr-defined]
            act()
            await session.wait()

    session = say("Do it", "I could not, because it rains.", expects=("a.txt",))
    asyncio.run(again(session))
    assert [p.verdict for p in events(session, Proved)] == ["could_not"] * 3


# ---------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Read notes.txt and write a summary to summary.md", ["summary.md"]),
        ("读取 notes.txt，并把摘要写入 summary.md", ["summary.md"]),
        ("把结果保存为结果.csv", ["结果.csv"]),
        ("create src/app.py, src/test_app.py and README.md", ["src/app.py", "src/test_app.py", "README.md"]),
        ("创建 index.html、style.css 和 app.js", ["index.html", "style.css", "app.js"]),
        ("convert a.csv to b.json", ["b.json"]),
        ("Use pandas to generate out.csv", ["out.csv"]),
        ("生成一个名为 x.py 的脚本", ["x.py"]),
        ("compare a.csv to b.csv", []),
        ("fix the bug in app.py", []),
        ("write tests for app.py", []),
        ("写 app.py 的测试", []),
        ("write a script that creates out.csv", []),
        ("do not create x.md", []),
        ("不要创建 x.md", []),
        ("How do I create a file.txt?", []),
        ("把 demo.txt 文件发送给我。", []),
        ("write to ../x.md or /etc/passwd.txt", []),
        ("Save https://example.com/data.csv", []),
    ],
)
def test_only_outputs_are_expected(text: str, names: list[str]) -> None:
    assert outputs_named(text) == names


def test_the_lines_of_a_person() -> None:
    read = [expectation(line) for line in ("my notes.md", "a b.json json", "x.md contains  a b ", "$ pytest -q", "`x`")]
    assert [(e.kind, e.subject, e.text) for e in read] == [
        ("exists", "my notes.md", ""),
        ("json", "a b.json", ""),
        ("contains", "x.md", "a b"),
        ("command", "pytest -q", ""),
        ("exists", "x", ""),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        "I have not run the tests.",
        "You can run the tests with pytest.",
        "Once all tests pass, deploy.",
        "测试没有通过。",
        "I wrote a haiku for you.",
        "notes.txt was created in March.",
        "I will write report.md next.",
        "> I ran the tests",
        "```\nI wrote report.md.\n```",
        "创建 a.py 的步骤如下：",
    ],
)
def test_what_is_no_plain_claim_is_left_alone(answer: str) -> None:
    assert unborne(answer, []) == ()


@pytest.mark.parametrize(
    "answer",
    [
        "According to ci.log all 42 tests passed.",
        "日志显示测试全部通过。",
        "文档中提到已保存到 backup.zip。",
        "这个函数创建了 cache.db 文件。",
        "在 2021 年，团队更新了 setup.py。",
        "The archive was made, and data.db has been exported, says the log.",
        "report.md is ready; it is based on data.csv, sales.xlsx and b.csv.",
        "I've sent the summary above.",
    ],
)
def test_what_was_read_and_what_others_did_is_no_claim(answer: str) -> None:
    wrote = Ran(
        write("report.md"), CallFinished("", "write_file", "done", "", (), {"path": "report.md"}), write_file, True
    )
    read = Ran(call("read_file", path="ci.log"), CallFinished("", "read_file", "done", "== 42 passed =="), None, True)
    assert unborne(answer, [read, wrote]) == ()
    assert unborne("I ran the tests, all pass. I wrote a.md from b.csv and c.csv.", [read, wrote]) != ()
    assert [claim.why for claim in unborne("I wrote a.md. All tests pass.", [wrote])] == ["not_written", "not_run"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I ran the tests.", "not_run"),
        ("我运行了测试，全部通过。", "not_run"),
        ("测试全部通过。", "not_run"),
        ("The summary has been saved to report.md.", "not_written"),
        ("已写入结果.csv。", "not_written"),
        ("report.md 已生成。", "not_written"),
        ("已保存。", "not_saved"),
        ("I have sent you the file.", "not_sent"),
        ("已把 demo.txt 发给你。", "not_sent"),
    ],
)
def test_a_claim_without_a_call_is_marked(answer: str, why: str) -> None:
    assert [claim.why for claim in unborne(answer, [])] == [why]


def test_the_request_is_unchanged_for_a_model_that_is_right(say: Say) -> None:
    seen: list[Request] = []

    def last(request: Request) -> str:
        seen.append(request)
        return "I wrote report.md."

    say("Write report.md", write("report.md"), last)
    assert [message.text for message in seen[0].messages if message.text.startswith("Not done")] == []


def test_a_queued_message_brings_what_it_expects(tmp_path: Path) -> None:
    async def scenario() -> Session:
        session = Session(
            Agent(ScriptedModel("one", *["two"] * 3), Toolbox([]), prover=Proving(None)), tmp_path, tmp_path
        )
        session.send("first")
        session.send("second", expects=("a.md",))
        await session.wait()
        return session

    session = asyncio.run(scenario())
    [found] = events(session, Proved)
    assert [(c.what, c.source, c.found) for c in found.checks] == [("a.md", "person", "missing")]
    assert session.turn.number == 2
