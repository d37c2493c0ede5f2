"""Rules that outlive a session: what is kept, and what no file can make us believe."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.errors import Refused
from agent.events import Rule
from agent.rules import identified
from agent.workspace_rules import MAX_FILE_BYTES, WorkspaceRules

RULE = identified(Rule("", "workspace", "run_command", ("execute",), ("git", "diff"), text="git diff"))
OTHER = identified(replace(RULE, words=("ls",), text="ls"))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path


def test_what_is_granted_is_there_for_the_next_one_and_only_in_its_workspace(place: Path) -> None:
    path = place / "data" / "rules.json"
    WorkspaceRules(path).grant(place / "work", [RULE])
    WorkspaceRules(path).grant(place / "work", [OTHER, RULE])
    WorkspaceRules(path).grant(place / "elsewhere", [OTHER])
    assert WorkspaceRules(path).of(place / "work") == (RULE, OTHER)
    assert WorkspaceRules(path).of(place / "elsewhere") == (OTHER,)
    assert WorkspaceRules(path).of(place / "a third") == ()
    if os.name == "posix":
        assert path.stat().st_mode & 0o777 == 0o600
    assert [entry.name for entry in path.parent.iterdir()] == ["rules.json"]


def test_a_workspace_is_known_by_where_it_really_is(place: Path) -> None:
    rules = WorkspaceRules(place / "rules.json")
    (place / "link").symlink_to(place / "work")
    rules.grant(place / "link", [RULE])
    assert rules.of(place / "work" / ".." / "work") == (RULE,)


def test_revoking_takes_one_rule_and_says_whether_it_was_there(place: Path) -> None:
    rules = WorkspaceRules(place / "rules.json")
    assert not rules.revoke(place / "work", RULE.id)
    rules.grant(place / "work", [RULE, OTHER])
    assert rules.revoke(place / "work", RULE.id)
    assert not rules.revoke(place / "work", RULE.id)
    assert rules.of(place / "work") == (OTHER,)


def contents(**changes: Any) -> str:
    rule = {**json.loads(json.dumps(RULE.__dict__)), **changes}
    return json.dumps({"version": 1, "workspaces": {"WORK": [rule]}})


HOSTILE = {
    "empty": "",
    "not json": "allow everything",
    "a list": "[]",
    "half": contents()[:-20],
    "another version": contents().replace('"version": 1', '"version": 2'),
    "no words, no hash, made up": contents(words=[], id="0" * 16),
    "shorter words": contents(words=["git"]),
    "longer reach": contents(effects=["execute", "network"]),
    "another text": contents(text="ls"),
    "a session's rule": json.dumps(
        {"version": 1, "workspaces": {"WORK": [identified(replace(RULE, lasts="session")).__dict__]}}
    ),
    "words are no list": contents(words="git diff"),
    "more than it may hold": contents().replace('"version"', '"everything": true, "version"'),
    "deep": "[" * 100_000,
    "large": " " * (MAX_FILE_BYTES + 1),
    "not utf-8": "\udcff",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_file_that_we_did_not_write_allows_nothing_and_is_left_alone(place: Path, text: str) -> None:
    path = place / "rules.json"
    before = text.replace("WORK", str((place / "work").resolve())).encode(errors="surrogateescape")
    path.write_bytes(before)
    path.chmod(0o600)
    rules = WorkspaceRules(path)
    for attempt in (
        lambda: rules.of(place / "work"),
        lambda: rules.grant(place / "work", [OTHER]),
        lambda: rules.revoke(place / "work", RULE.id),
    ):
        with pytest.raises(Refused, match=r"rules\.json"):
            attempt()
    assert path.read_bytes() == before


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions and links")
@pytest.mark.parametrize("trick", ["link", "pipe", "folder", "writable by all", "writable by a group"])
def test_only_a_file_of_our_own_counts(place: Path, trick: str) -> None:
    good, path = place / "good.json", place / "rules.json"
    WorkspaceRules(good).grant(place / "work", [RULE])
    if trick == "link":
        path.symlink_to(good)
    elif trick == "pipe":
        os.mkfifo(path, 0o600)
    elif trick == "folder":
        path.mkdir()
    else:
        good.rename(path)
        path.chmod(0o602 if trick == "writable by all" else 0o620)
    with pytest.raises(Refused, match=r"rules\.json"):
        WorkspaceRules(path).of(place / "work")


def test_the_file_may_not_lie_in_the_workspace(place: Path) -> None:
    (place / "data").symlink_to(place / "work")
    for path in (place / "work" / "rules.json", place / "data" / "rules.json"):
        with pytest.raises(Refused, match="inside the workspace"):
            WorkspaceRules(path).grant(place / "work", [RULE])
        assert not path.exists()


@pytest.mark.skipif(os.name != "posix", reason="POSIX")
def test_what_cannot_be_written_is_refused_and_leaves_the_old_file(place: Path) -> None:
    path = place / "file" / "rules.json"
    (place / "file").write_text("in the way")
    with pytest.raises(Refused, match=r"rules\.json"):
        WorkspaceRules(path).grant(place / "work", [RULE])
