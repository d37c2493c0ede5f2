"""Both languages say everything."""

from __future__ import annotations

import ast
import re
import string
from pathlib import Path
from typing import get_args

import pytest

from agent.errors import FAULT_CODES
from agent.events import CallStatus, StopReason
from ui import texts
from ui.texts import EXAMPLES, TEXTS, choose, duration, size

UI = Path(texts.__file__).parent
PAGE = [
    path
    for path in UI.glob("*.py")
    if path.stem not in ("texts", "cli", "cli_texts", "doctor", "arguments", "terminal")  # the terminal has its own
]


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def test_both_languages_have_the_same_keys_and_placeholders() -> None:
    english, chinese = TEXTS["en"], TEXTS["zh"]
    assert english.keys() == chinese.keys()
    for key, text in english.items():
        assert placeholders(text) == placeholders(chinese[key]), key
        assert text.strip() and chinese[key].strip()


def test_every_end_of_a_turn_has_words() -> None:
    for language in TEXTS.values():
        assert all(f"ended_{reason}" in language for reason in get_args(StopReason))
        assert all(f"fault_{code}" in language for code in FAULT_CODES)
        assert all(f"state_{status}" in language for status in get_args(CallStatus))


def test_chinese_is_chinese() -> None:
    names = {"other_language", "comma", "colon", "meter_tokens", "budget_tokens"}  # a token is a token in Chinese, too
    for key, text in TEXTS["zh"].items():
        assert key in names or re.search(r"[\u4e00-\u9fff]", text), key


def test_no_key_is_asked_for_that_is_not_there_and_none_is_left_over() -> None:
    sources = [path.read_text(encoding="utf-8") for path in PAGE]
    nodes = [node for source in sources for node in ast.walk(ast.parse(source))]
    constants = {node.value for node in nodes if isinstance(node, ast.Constant)}
    composed: tuple[str, ...] = (
        "state_",
        "ended_",
        "fault_",
        "retry_",
        "nudge_",
        "fact_",
        "boundary_",
        "exposed_",
        "receipt_",
    )
    composed += ("proof_", "plan_")
    composed += ("budget_", "limits_", "compacted_", "window_")
    composed += ("said_", "change_", "undo_", "undone_", "reason_", "refusal_")
    composed += (
        "effect_",
        "lasts_",
        "why_",
        "connect_no_",
        "connect_fault_",
        "test_",
        "protocol_",
        "upload_",
        "picture_",
        "replay_",
    )
    left_over = [key for key in TEXTS["en"] if key not in constants and not key.startswith(composed)]
    assert set(left_over) <= {"seconds", "minutes"}  # those of `duration`, beside the words
    assert set(re.findall(r"words\[[\"'](\w+)[\"']\]", "\n".join(sources))) <= TEXTS["en"].keys()


def test_retries_and_facts_are_named_after_what_they_stand_for() -> None:
    retries = {key.removeprefix("retry_") for key in TEXTS["en"] if key.startswith("retry_")}
    assert retries - {"in", "now", "adapting", "repeating"} <= set(FAULT_CODES)


def test_both_languages_have_the_same_examples() -> None:
    assert len(EXAMPLES["en"]) == len(EXAMPLES["zh"]) == 8


@pytest.mark.parametrize(
    ("setting", "chosen", "accepted", "language"),
    [
        ("auto", "", "zh-CN,zh;q=0.9,en;q=0.8", "zh"),
        ("auto", "", "de-DE,en;q=0.8", "en"),
        ("auto", "", "", "en"),
        ("zh", "", "en-US", "zh"),
        ("zh", "en", "zh", "en"),
        ("auto", "nonsense", "zh", "zh"),
    ],
)
def test_the_language_is_the_persons_then_the_operators_then_the_browsers(
    setting: str, chosen: str, accepted: str, language: str
) -> None:
    assert choose(setting, chosen, accepted) == language


def test_sizes_and_durations_read_well() -> None:
    assert [size(n) for n in (0, 999, 1_000, 1_234_567, 123_456_789)] == ["0 B", "999 B", "1.0 kB", "1.2 MB", "123 MB"]
    assert [duration(TEXTS["en"], s) for s in (0.004, 0.42, 12.3, 75)] == ["4 ms", "0.4 s", "12 s", "1 min 15 s"]
