"""Reasoning inside the text."""

from __future__ import annotations

import pytest

from agent.llm.thinking import ThinkSplitter


def split(text: str, size: int) -> tuple[str, str]:
    splitter = ThinkSplitter()
    said = {"text": "", "reasoning": ""}
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    for kind, part in [p for piece in pieces for p in splitter.feed(piece)] + list(splitter.close()):
        if kind == "misplaced":
            said = {"text": "", "reasoning": said["reasoning"] + said["text"]}
        else:
            said[kind] += part
    return said["text"].strip(), said["reasoning"].strip()


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<think>\nhm\n</think>\n\nHi", ("Hi", "hm")),
        ("<thinking>hm</thinking>Hi", ("Hi", "hm")),
        ("[THINK]hm[/THINK]Hi", ("Hi", "hm")),
        ("◁think▷hm◁/think▷Hi", ("Hi", "hm")),
        ("hm\n</think>\n\nHi", ("Hi", "hm")),
        ("<think>hm", ("", "hm")),
        ("<think>a < b</think>Hi\n<think>more</think>\nyou", ("Hi\nyou", "a < bmore")),
        ("<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hi", ("Hi", "hm")),
        ("The `<think>` tag, and `</think>` after it.", ("The `<think>` tag, and `</think>` after it.", "")),
        ("```\n<think>\n</think>\n```", ("```\n<think>\n</think>\n```", "")),
        ("1 < 2 [a] <b>", ("1 < 2 [a] <b>", "")),
    ],
)
def test_tags(text: str, expected: tuple[str, str], size: int) -> None:
    assert split(text, size) == expected
