"""Approvals as markup, what a form becomes, and what was decided as a fold of the log."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.approval import Question, questions
from agent.errors import Refused
from agent.events import CallDecided, CallStarted, Event, Replied, Rule, RuleGranted
from agent.log import Entry
from agent.messages import AssistantMessage, ToolCall
from agent.policy import Policy, Verdict, arguments_hash
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, ToolResult, tool
from agent.workspace_rules import WorkspaceRules
from tests.scripted import ScriptedModel
from tools.command_line import atoms
from ui import approvals
from ui.approvals import WHYS, card, covers, panel, said_why
from ui.deciding import edited
from ui.decisions import Decisions
from ui.texts import TEXTS

EN, ZH = TEXTS["en"], TEXTS["zh"]


def call(id: str = "c1", name: str = "run_command", **values: Any) -> ToolCall:
    return ToolCall(id, name, json.dumps(values))


@tool(Effect.EXECUTE, atoms=atoms)
async def run_command(context: ToolContext, command: str) -> ToolResult:
    """Run."""
    return ToolResult("ran")


async def waiting(folder: Path, *commands: str) -> tuple[Question, ...]:
    """The questions of a turn that wants to run these."""
    ask = Policy({Effect.EXECUTE: Verdict("ask", "It runs a command.")})
    made = tuple(call(f"c{n}", command=command) for n, command in enumerate(commands))
    agent = Agent(ScriptedModel(AssistantMessage("", tool_calls=made)), Toolbox([run_command]), policy=ask)
    session = Session(agent, folder, folder, workspace_rules=WorkspaceRules(folder / "rules.json"))
    session.send("go")
    await session.wait()
    return questions(session)


async def test_the_card_says_what_runs_why_and_what_each_scope_covers(tmp_path: Path) -> None:
    (one,) = await waiting(tmp_path, "git diff <b>&</b>.txt")
    assert "git diff" not in str(one.scopes[2:]) or one.scopes  # a line with signs of the shell has no prefix
    shown = card(EN, [one])
    assert "<pre>git diff &lt;b&gt;&amp;&lt;/b&gt;.txt</pre>" in shown and "It runs a command." in shown
    (two,) = await waiting(tmp_path, "git diff --stat")
    shown, chinese = card(EN, [two]), card(ZH, [two])
    for said in ("Exactly this call, in this conversation", "Whatever begins with “git diff”, in this conversation"):
        assert said in shown
    assert "Whatever begins with “git diff”, always in this workspace" in shown
    assert "以 “git diff” 开头的都允许，在此工作区始终有效" in chinese and "它要运行命令。" in chinese
    assert f'data-hash="{two.arguments_hash}"' in shown and "allow_all" not in shown
    keys = re.findall(r'data-scope="([^"]+)"', shown)
    assert keys == [scope.key for scope in two.scopes] and keys[0] == "once"


async def test_several_calls_stand_in_one_card_with_names_of_their_own(tmp_path: Path) -> None:
    shown = card(EN, await waiting(tmp_path, "rm a", "rm b", "rm c"))
    assert shown.count("data-form") == 3 and "3 calls" in shown and "Deny all" in shown
    keeps = re.findall(r'data-keep="([^"]+)"', shown)
    assert len(keeps) == len(set(keeps)) == 12


@pytest.mark.parametrize("sentence", WHYS)
def test_why_policy_asks_is_said_in_the_pages_language(sentence: str) -> None:
    for words in (EN, ZH):
        assert said_why(words, f"{sentence} (More.)") == f"{words[WHYS[sentence]]} (More.)"


def test_the_sentences_are_policys_own() -> None:
    said = {
        verdict.why
        for boundary in ("strong", "none")
        for verdict in Policy.of("ask", boundary, "local").rules.values()
        if verdict.answer == "ask"
    }
    assert said and said <= set(WHYS)


# ------------------------------------------------------------------ what a form becomes


class Page:
    words = EN


def form(**fields: str) -> dict[str, str]:
    return {f"{approvals.ARGUMENT}{name}": text for name, text in fields.items()}


def test_only_what_was_changed_is_changed() -> None:
    made = call(command="ls\nls", limit=3, more={"a": [1]})
    page: Any = Page()
    assert edited(page, made, {}) is None
    assert edited(page, made, form(command="ls\r\nls", unknown="x")) is None
    assert json.loads(edited(page, made, form(command="pwd")) or "") == {
        "command": "pwd",
        "limit": 3,
        "more": {"a": [1]},
    }
    assert json.loads(edited(page, made, form(limit="4")) or "")["limit"] == 4
    with pytest.raises(Refused, match="limit is not sound JSON"):
        edited(page, made, form(limit="many"))
    whole = ToolCall("c", "run_command", "[1]")
    assert edited(page, whole, {approvals.ARGUMENT: "[2]"}) == "[2]"


# ------------------------------------------------------------------ the panel


def test_what_was_decided_is_listed_with_what_was_granted() -> None:
    first, second = call(command="git diff"), call("c2", command="rm <x>")
    rule = Rule("r1", "session", "run_command", ("execute",), ("git", "diff"), "", "git diff")
    events: list[Event] = [
        Replied(AssistantMessage("", tool_calls=(first, second)), "tool_calls"),
        RuleGranted(rule, "c1"),
        CallDecided("c1", arguments_hash(first), True),
        CallDecided("c2", arguments_hash(second), False, "no <i>way</i>"),
        CallStarted("c1"),
        CallStarted("c3", rules=("r1",)),
    ]
    decisions = Decisions()
    for n, event in enumerate(events):
        decisions.add(Entry(n, 1_000.0 + n, event))
    assert [one.rules for one in decisions.made] == [(rule,), ()] and decisions.uses["r1"] == 1
    shown = panel(EN, [rule], "", decisions, may_revoke=True)
    assert covers(EN, ("git diff",), "session") in shown and "used once" in shown and 'data-id="r1"' in shown
    assert "no &lt;i&gt;way&lt;/i&gt;" in shown and "rm &lt;x&gt;" in shown and "<x>" not in shown
    assert shown.index("rm &lt;x&gt;") < shown.index("<code>git diff</code>")  # the latest first
    assert "data-do" not in panel(EN, [replace(rule, id="r2")], "", decisions, may_revoke=False)
    assert "The file of rules is odd" in panel(ZH, [], "The file of rules is odd", Decisions(), may_revoke=True)
