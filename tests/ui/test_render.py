"""The conversation as a pure fold of the log."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from html import unescape
from typing import Any

import pytest

from agent.events import (
    BranchSelected,
    CallAwaiting,
    CallDecided,
    CallDelta,
    CallFinished,
    CallStarted,
    Fault,
    File,
    MessageQueued,
    Nudged,
    OneCall,
    OneUndo,
    OutputDelta,
    ReasoningDelta,
    Replied,
    RequestSent,
    Retrying,
    StepStarted,
    TextDelta,
    TurnEnded,
    TurnResumed,
    TurnStarted,
    Undone,
)
from agent.log import Entry
from agent.messages import AssistantMessage, ToolCall, UserMessage
from tests.scripted import call
from ui.render import View
from ui.rows import VIEW_CHARS, summary
from ui.texts import TEXTS

EN, ZH = TEXTS["en"], TEXTS["zh"]
PICTURE = File("/outbox/p.png", "p.png", "image/png", 1_200)
PAGE = File("/outbox/p.html", "<p>.html", "text/html", 10)


def view_of(events: Iterable[Any], words: Any = EN) -> View:
    """One second between any two events."""
    view = View(words, lambda id, show: f"/files/s/{id}{'?show=1' if show else ''}")
    for seq, event in enumerate(events):
        view.add(Entry(seq, float(seq), event))
    return view


def start(text: str = "hi", turn: int = 1, parent: int | None = None) -> TurnStarted:
    return TurnStarted(turn, UserMessage(text), parent=parent)


def reply(text: str = "", *calls: ToolCall, reasoning: str = "") -> Replied:
    return Replied(AssistantMessage(text, reasoning, tuple(calls)), "tool_calls" if calls else "stop")


def shown(message: dict[str, Any]) -> str:
    """What a person reads: the title of a row, or the text."""
    text = message.get("metadata", {}).get("title") or message["content"]
    return " ".join(unescape(re.sub(r"<[^>]+>", "", text)).split())


def lines(view: View) -> list[str]:
    return [shown(message) for message in view.live()]


RUN = call("run_command", "c1", command="ls -la")
READ = call("read_file", "c2", path="a.txt")


# ---------------------------------------------------------------------- text


def test_text_streams_in_and_the_reply_replaces_it() -> None:
    events: list[Any] = [start(), StepStarted(1), TextDelta("Hel"), TextDelta("lo")]
    assert lines(view_of(events)) == ["hi", "Hello"]
    assert lines(view_of([*events, reply("Hello."), TurnEnded(1, "answered")])) == ["hi", "Hello."]


def test_waiting_for_the_first_word_is_shown() -> None:
    assert lines(view_of([start()])) == ["hi", "thinking"]
    assert lines(view_of([start(), StepStarted(1)])) == ["hi", "thinking"]
    assert lines(view_of([start(), StepStarted(1), TextDelta("a")])) == ["hi", "a"]


def test_reasoning_is_a_folded_row_of_its_own() -> None:
    events: list[Any] = [start(), StepStarted(1), ReasoningDelta("let me "), ReasoningDelta("see")]
    row = view_of(events).live()[1]
    assert shown(row) == "Thinking" and row["content"] == "let me see" and row["metadata"]["status"] == "done"
    rows = view_of([*events, TextDelta("So"), reply("So.", reasoning="let me see")]).live()
    assert [shown(row) for row in rows] == ["hi", "Thought for 2.0 s", "So."]


def test_a_person_is_shown_what_they_typed() -> None:
    message = view_of([start("<b>x</b> *y*\n  ![z](http://evil.test/z)")]).live()[0]
    assert message["role"] == "user"
    assert not re.search(r"[<>*!\[]", message["content"])
    assert unescape(message["content"]).replace("\xa0", " ") == "<b>x</b> *y*\n  ![z](http://evil.test/z)"


# ---------------------------------------------------------------------- calls


def test_the_life_of_a_call() -> None:
    events: list[Any] = [start(), StepStarted(1), TextDelta("Look.")]
    events += [CallDelta(0, "run_command", '{"command": "ls'), CallDelta(0, "run_command", ' -la"}')]
    written = view_of(events).live()[2]
    assert shown(written) == "run_command ls -la being written" and "ls -la" in written["content"]
    events.append(reply("Look.", RUN))
    assert lines(view_of(events))[2] == "run_command ls -la next"
    events += [CallStarted("c1"), OutputDelta("c1", "one\n"), OutputDelta("c1", "two\n")]
    running = view_of(events).live()[2]
    assert shown(running) == "run_command ls -la running" and "one\ntwo" in running["content"]
    events.append(CallFinished("c1", "run_command", "done", "one\ntwo\n", details={"exit_code": 0, "lines": 2}))
    done = view_of(events).live()[2]
    assert shown(done) == "run_command ls -la done exit 0, 2 lines, 3.0 s"
    assert "Output so far" not in done["content"] and "one\ntwo" in done["content"]
    assert done["metadata"]["status"] == "done"  # folded
    assert len(view_of(events).live()) == 3


def test_parallel_calls_keep_their_rows_in_the_models_order() -> None:
    events: list[Any] = [start(), StepStarted(1), CallDelta(1, "read_file", "{"), CallDelta(0, "run_command", "{")]
    events += [reply("", RUN, READ), CallStarted("c1"), CallStarted("c2")]
    events += [OutputDelta("c2", "from two"), OutputDelta("c1", "from one")]
    events += [CallFinished("c2", "read_file", "failed", "no"), CallFinished("c1", "run_command", "done", "yes")]
    first, second = view_of(events).live()[1:]
    assert shown(first).startswith("run_command ls -la done") and "yes" in first["content"]
    assert shown(second).startswith("read_file a.txt failed") and "no" in second["content"]


def test_steps_follow_one_another() -> None:
    events: list[Any] = [start(), StepStarted(1), reply("one", RUN), CallStarted("c1")]
    events += [CallFinished("c1", "run_command", "done", "x"), StepStarted(2), reply("two", READ), CallStarted("c2")]
    events += [CallFinished("c2", "read_file", "done", "y"), StepStarted(3), reply("three"), TurnEnded(1, "answered")]
    assert [line.split()[0] for line in lines(view_of(events))] == [
        "hi", "one", "run_command", "two", "read_file", "three",
    ]  # fmt: skip


def test_repairs_and_a_persons_changes_are_said() -> None:
    odd = ToolCall("c1", "run_command", '{"command": "ls"}', repairs=("a missing brace was added", "a comma removed"))
    row = view_of([start(), StepStarted(1), reply("", odd)]).live()[1]
    assert "repaired" in shown(row)
    assert "Arguments repaired: a missing brace was added; a comma removed" in unescape(row["content"])
    events: list[Any] = [start(), StepStarted(1), reply("", RUN), CallAwaiting("c1", "h", "it runs a command")]
    asked = view_of([*events, TurnEnded(1, "awaiting_approval")]).live()
    assert [shown(m) for m in asked] == ["hi", "run_command ls -la needs your yes"]
    assert "it runs a command" in asked[1]["content"]
    decided = [CallDecided("c1", "h", True, arguments='{"command": "ls"}'), TurnResumed(1), CallStarted("c1")]
    events += [TurnEnded(1, "awaiting_approval"), *decided]
    events.append(CallFinished("c1", "run_command", "done", "ok"))
    row = view_of(events).live()[1]
    assert shown(row) == "run_command ls done changed by you, 1.0 s"


def test_denied_stopped_and_allowed_by_a_rule() -> None:
    events: list[Any] = [start(), StepStarted(1), reply("", RUN, READ), CallStarted("c1", rules=("r",))]
    events.append(CallFinished("c1", "run_command", "stopped", "Stopped by the user. Killed 2 processes."))
    events += [CallFinished("c2", "read_file", "denied", "Not allowed."), TurnEnded(1, "stopped")]
    assert lines(view_of(events))[1:] == [
        "run_command ls -la stopped allowed by your rule, 1.0 s",
        "read_file a.txt denied",
        "Stopped. What was said and done so far is kept; write to go on.",
    ]


def test_a_diff_is_a_diff_and_no_fence_can_be_left() -> None:
    result = "```\n````\n<img src=x>\n"
    finished = CallFinished("c1", "edit", "done", result, details={"diff": "-a\n+```b\n", "replaced": 1})
    row = view_of([start(), StepStarted(1), reply("", RUN), CallStarted("c1"), finished]).live()[1]
    assert "````diff\n-a\n+```b\n" in row["content"]
    assert f"`````text\n{result}\n`````" in row["content"]
    assert "1 replacement" in shown(row)


def test_long_texts_are_cut_in_the_view_and_say_so() -> None:
    finished = CallFinished("c1", "run_command", "done", "x" * 50_000)
    row = view_of([start(), StepStarted(1), reply("", RUN), CallStarted("c1"), finished]).live()[1]
    assert len(row["content"]) < VIEW_CHARS + 1_000 and "left out" in row["content"]
    flood = [OutputDelta("c1", "y" * 999 + "\n") for _ in range(100)]
    row = view_of([start(), StepStarted(1), reply("", RUN), CallStarted("c1"), *flood]).live()[1]
    assert len(row["content"]) < VIEW_CHARS + 1_000


@pytest.mark.parametrize(
    ("details", "facts"),
    [
        ({"exit_code": 1, "lines": 1}, ["exit 1", "1 line"]),
        ({"entries": 3}, ["3 entries"]),
        ({"matches": 1_200, "truncated": True}, ["1,200 matches", "cut"]),
        ({"bytes": 4_096, "path": "a/b.txt"}, ["a/b.txt", "4.1 kB"]),
        ({"value": 42}, ["42"]),
        ({"time": "2026-01-02 03:04"}, ["2026-01-02 03:04"]),
        ({"size": "1024x1024"}, ["1024x1024"]),
        ({"killed": True, "timeout_s": 60}, ["killed after 60 s"]),
        ({"killed": True}, ["killed"]),
        ({"exit_code": None, "lines": "many", "diff": "x", "odd": object()}, []),
    ],
)
def test_the_summary_of_a_result(details: dict[str, Any], facts: list[str]) -> None:
    assert summary(EN, details) == facts


def test_the_link_to_the_exact_messages_counts_the_sessions_requests() -> None:
    def sent() -> RequestSent:
        return RequestSent("m", {}, 0, ())

    events: list[Any] = [start(), StepStarted(1), sent(), Retrying("timeout", "", 1, 2), sent(), reply("", RUN)]
    assert "(#request-2)" in view_of(events).live()[-1]["content"]


# ---------------------------------------------------------------------- unusual ways


def test_a_retry_voids_what_was_said() -> None:
    events: list[Any] = [start(), StepStarted(1), ReasoningDelta("r"), TextDelta("half"), CallDelta(0, "x", "{")]
    events.append(Retrying("rate_limited", "429", 8.0, 2))
    assert lines(view_of(events)) == ["hi", "rate limited, trying again in 8 s", "thinking"]
    events += [TextDelta("whole"), reply("whole")]
    assert lines(view_of(events)) == ["hi", "rate limited, trying again in 8 s", "whole"]


def test_a_stop_keeps_the_words_and_drops_half_a_call() -> None:
    events: list[Any] = [
        start(),
        StepStarted(1),
        TextDelta("As far as"),
        CallDelta(0, "run", "{"),
        TurnEnded(1, "stopped"),
    ]
    assert lines(view_of(events))[:2] == ["hi", "As far as"]
    assert len(view_of(events).live()) == 3


def test_a_reply_without_the_text_that_streamed_takes_it_away() -> None:
    events: list[Any] = [start(), StepStarted(1), TextDelta('{"tool": "run"}'), reply("", RUN)]
    assert lines(view_of(events)) == ["hi", "run_command ls -la next"]


def test_a_nudge_is_a_quiet_line() -> None:
    events: list[Any] = [start(), StepStarted(1), reply(""), Nudged("empty_answer", "Your last reply was empty.")]
    assert lines(view_of(events))[1].startswith("The reply was empty")
    assert "Your last reply was empty." in lines(view_of(events))[1]


def test_an_error_says_what_to_do_and_what_the_server_said() -> None:
    fault = Fault("wrong_key", "The key was refused.", "401 <b>no</b>")
    events: list[Any] = [start(), StepStarted(1), TurnEnded(1, "error", fault)]
    end = lines(view_of(events))[-1]
    assert "OPENAI_API_KEY" in end and "401 <b>no</b>" in end
    assert "<b>" not in view_of(events).live()[-1]["content"]
    assert "密钥" in lines(view_of(events, ZH))[-1]


def test_files_are_cards_and_pictures_are_shown() -> None:
    finished = CallFinished("c1", "send", "done", "sent", (PAGE, PICTURE))
    view = view_of([start(), StepStarted(1), reply("", RUN), CallStarted("c1"), finished])
    page, picture = view.live()[2:]
    assert 'href="/files/s/4-0"' in page["content"] and "<img" not in page["content"]
    assert "&#60;p&#62;" in page["content"]
    assert "src='/files/s/4-1?show=1'" in picture["content"]
    assert [handed.id for handed in view.files] == ["4-0", "4-1"]


def test_going_on_by_itself_is_no_message_of_the_persons() -> None:
    resumed = TurnStarted(2, UserMessage("Go on where you were cut off", source="glassloop"), parent=1)
    messages = view_of([start(), TurnEnded(1, "stopped"), resumed]).live()
    assert [m["role"] for m in messages] == ["assistant", "assistant"]
    assert lines(view_of([start(), TurnEnded(1, "stopped"), resumed]))[0] == "Going on where it stopped."


# ---------------------------------------------------------------------- history and branches

ANSWERED: list[Any] = [StepStarted(1), reply("one"), TurnEnded(1, "answered")]


def test_a_turn_moves_to_the_history_when_the_next_one_starts() -> None:
    ended = view_of([start(), *ANSWERED])
    assert ended.history() == [] and ended.commits == 0 and lines(ended) == ["hi", "one"]
    next_turn = view_of([start(), *ANSWERED, MessageQueued("q", "and?"), start("and?", 2, parent=1)])
    assert [shown(m) for m in next_turn.history()] == ["hi", "one"] and next_turn.commits == 1
    assert lines(next_turn) == ["and?", "thinking"]


def test_an_edited_message_shows_its_own_branch() -> None:
    first: list[Any] = [
        start("a", 1),
        *ANSWERED,
        start("b", 2, parent=1),
        StepStarted(1),
        reply("two"),
        TurnEnded(2, "answered"),
    ]
    view = view_of([*first, start("c", 3, parent=1)])
    assert [shown(m) for m in view.history()] == ["a", "one"] and lines(view)[0] == "c"
    before = view.commits
    later: list[Any] = [StepStarted(1), reply("three"), TurnEnded(3, "answered"), BranchSelected(2)]
    for seq, event in enumerate(later, 50):
        view.add(Entry(seq, float(seq), event))
    assert view.commits == before + 1
    assert [shown(m) for m in view.history()] == ["a", "one"] and lines(view) == ["b", "two"]


def test_what_is_finished_is_the_same_object_at_every_look() -> None:
    events: list[Any] = [start(), StepStarted(1), reply("one", RUN), CallStarted("c1")]
    events += [CallFinished("c1", "run_command", "done", "x"), StepStarted(2), TextDelta("two")]
    view = view_of(events)
    before = view.live()
    view.add(Entry(99, 99.0, TextDelta(" more")))
    after = view.live()
    assert all(one is other for one, other in zip(before[:3], after[:3], strict=True))
    assert after[3]["content"] == "two more" and before[3]["content"] == "two"
    history = view.history()
    view.add(Entry(100, 100.0, start("next", 2, parent=1)))
    assert view.history() is history and len(history) == 4 and history[1] is before[1]


# ---------------------------------------------------------------------- hostile text

HOSTILE = "<img src=x onerror=alert(1)> ![x](http://evil.test/y) **b** `c`\n# d [e](http://evil.test)"


def test_nothing_of_the_models_reaches_a_title_as_markup() -> None:
    hostile = ToolCall("c1", HOSTILE, json.dumps({"command": HOSTILE}), repairs=(HOSTILE,))
    finished = CallFinished(
        "c1", HOSTILE, "done", HOSTILE, (File("/o/x", HOSTILE, "text/plain", 1),), {"path": HOSTILE}
    )
    events: list[Any] = [start(), StepStarted(1), ReasoningDelta(HOSTILE), reply(HOSTILE, hostile, reasoning=HOSTILE)]
    events += [CallAwaiting("c1", "h", HOSTILE), CallStarted("c1"), OutputDelta("c1", HOSTILE), finished]
    events += [Nudged("x", HOSTILE), TurnEnded(1, "error", Fault("bug", HOSTILE, HOSTILE))]
    for message in view_of(events).live():
        title = message.get("metadata", {}).get("title", "")
        assert not re.search(r"<(?!/?span)|!\[|\]\(|\*\*|`", title)
        outside = re.sub(r"(?s)(`{3,})\w*\n.*?\n\1", "", message["content"])
        assert not re.search(r"<(?!/?(span|code|a|b)\b)", outside), outside
        assert "![" not in outside


def test_every_call_of_a_damaged_log_that_can_be_shown_is() -> None:
    events: list[Any] = [
        start(),
        StepStarted(1),
        CallStarted("gone"),
        CallFinished("gone", "x", "done", "y"),
        TextDelta("still"),
    ]
    assert lines(view_of(events)) == ["hi", "still"]


# ---------------------------------------------------------------------- what a person can do with it


def acting(events: Iterable[Any]) -> View:
    view = View(EN, lambda id, show: "", acts=True)
    for seq, event in enumerate(events):
        view.add(Entry(seq, float(seq), event))
    return view


def doings(view: View) -> list[str]:
    """The links in what is shown, such as `edit-1`."""
    return re.findall(r"#do-([^\"]+)", " ".join(message["content"] for message in [*view.history(), *view.live()]))


CHANGED = {"before": "a", "checkpoint": "b", "changed": [{"path": "n.md", "change": "added", "added": 2}]}


def test_a_page_offers_what_can_be_done_and_a_report_does_not() -> None:
    call_made = [reply("", RUN), CallStarted("c1"), CallFinished("c1", "run_command", "done", "x", details=CHANGED)]
    events = [start(), StepStarted(1), *call_made, StepStarted(2), reply("Hi."), TurnEnded(1, "answered")]
    assert doings(acting(events)) == ["edit-1", "undo-1", "changes-c1", "undo_step-c1", "copy-1", "retry-1"]
    assert doings(view_of(events)) == []


def test_versions_are_counted_on_whichever_branch_is_shown() -> None:
    first = [
        start("one"),
        reply("1"),
        TurnEnded(1, "answered"),
        start("two", 2, 1),
        reply("2"),
        TurnEnded(2, "answered"),
    ]
    other = [start("uno", 3), reply("3"), TurnEnded(3, "answered")]
    assert "branch-1" in doings(acting([*first, *other])) and "2/2" in acting([*first, *other]).live()[0]["content"]
    back = acting([*first, *other, BranchSelected(2)])
    assert "1/2" in back.history()[0]["content"] and "branch-3" in doings(back) and "compare-1.3" in doings(back)
    assert "gl-versions" not in back.live()[0]["content"]


def test_a_line_says_what_was_undone_until_it_is_brought_back() -> None:
    events: list[Any] = [start(), reply("", RUN), CallStarted("c1")]
    events += [CallFinished("c1", "run_command", "done", "x", details=CHANGED), reply("Hi."), TurnEnded(1, "answered")]
    undone = Undone("u1", OneCall("c1"), False, 1, details={"changed": [{"path": "<n>.md"}], "changed_total": 1})
    view = acting([*events, undone])
    assert "undone" in shown(view.live()[1]) and lines(view)[-1] == "Undone: <n>.md. Redo"
    assert "redo-u1" in doings(view) and "undo_step-c1" not in doings(view)
    redone = Undone("u2", OneUndo("u1"), False, 1, details={"changed": [{"path": "<n>.md"}], "changed_total": 1})
    view = acting([*events, undone, redone])
    assert "undone" not in shown(view.live()[1]) and lines(view)[-1] == "Brought back: <n>.md. Undo"
    assert not [line for line in lines(view) if line.startswith("Undone")]
    again = acting([*events, undone, redone, Undone("u3", OneUndo("u2"), False, 1)])
    assert lines(again)[-1] == "Undone. No files changed. Redo" and "undone" in shown(again.live()[1])


def test_a_file_that_was_undone_alone_leaves_the_step_as_it_is() -> None:
    events: list[Any] = [start(), reply("", RUN), CallStarted("c1")]
    events += [CallFinished("c1", "run_command", "done", "x", details=CHANGED), reply("Hi."), TurnEnded(1, "answered")]
    changed = {"changed": [{"path": "a.md"}], "changed_total": 1}
    undone = Undone("u1", OneCall("c1"), False, 1, details=changed, paths=("a.md",))
    view = acting([*events, undone])
    [row] = view.changed()
    assert row.files_undone_by == {"a.md": "u1"} and "undone: 1" in shown(view.live()[1])
    assert "undo_step-c1" in doings(view) and "redo-u1" in doings(view)
    forth = Undone("u2", OneUndo("u1"), False, 1, details=changed)
    [row] = acting([*events, undone, forth]).changed()
    assert row.files_undone_by == {} and not row.undone_by
    [row] = acting([*events, undone, forth, Undone("u3", OneUndo("u2"), False, 1, details=changed)]).changed()
    assert row.files_undone_by == {"a.md": "u3"}


def test_a_call_id_cannot_leave_its_link() -> None:
    odd = call("run_command", 'c"><img src=x>', command="ls")
    events = [start(), reply("", odd), CallStarted(odd.id)]
    events.append(CallFinished(odd.id, "run_command", "done", "x", details=CHANGED))
    content = acting(events).live()[1]["content"]
    assert "<img" not in content and "#do-changes-c%22%3E%3Cimg%20src%3Dx%3E" in content
