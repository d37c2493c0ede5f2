"""Every word the page shows, in English and Chinese, from the parts in `ui/words/`.

Knows how they come together, and how a size or a duration is written. Refuses to know where a word appears. A test
compares the two languages key by key, and looks for words for each stop reason and fault code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from ui.words import (
    approvals,
    attaching,
    browser,
    budgets,
    connecting,
    conversations,
    delegation,
    frame,
    history,
    memory,
    pictures,
    proof,
    refusals,
    replays,
    steering,
    turns,
)

Words = Mapping[str, str]
Language = Literal["en", "zh"]

EXAMPLES: Mapping[Language, tuple[str, ...]] = {
    "en": (
        "Hello",
        "What time is it?",
        "List the files in the workspace.",
        "Run python --version and tell me the result.",
        "Run pwd && ls -la and sum up the current folder.",
        "Send me the file demo.txt.",
        "Draw an illustration of the agent loop.",
        "Read demo.txt and write a summary to summary.md.",
    ),
    "zh": (
        "你好",
        "现在几点？",
        "列出当前工作区文件。",
        "运行 python --version，并告诉我结果。",
        "运行 pwd && ls -la，并总结当前目录。",
        "把 demo.txt 文件发送给我。",
        "画一张智能体循环的插图。",
        "读取 demo.txt，并把摘要写入 summary.md。",
    ),
}

_PARTS = (
    approvals,
    attaching,
    browser,
    budgets,
    connecting,
    conversations,
    delegation,
    frame,
    history,
    memory,
    pictures,
    proof,
    refusals,
    replays,
    steering,
    turns,
)


def _together(language: Literal["EN", "ZH"]) -> Words:
    """The words of all parts. A key belongs to one part only."""
    words: dict[str, str] = {}
    for part in _PARTS:
        own: Words = getattr(part, language)
        if double := words.keys() & own.keys():
            raise ValueError(f"{part.__name__}: {sorted(double)} stand in another part, too")
        words |= own
    return words


TEXTS: Mapping[Language, Words] = {"en": _together("EN"), "zh": _together("ZH")}


def choose(setting: str, chosen: str, accept_language: str) -> Language:
    """The page's language: the person's own choice, else the operator's setting, else what the browser asks for."""
    for wish in (chosen, setting):
        if wish in ("en", "zh"):
            return "en" if wish == "en" else "zh"
    for item in accept_language.lower().split(","):
        tag = item.split(";")[0].strip()
        if tag.startswith("zh"):
            return "zh"
        if tag.startswith("en"):
            return "en"
    return "en"


def duration(words: Words, seconds: float) -> str:
    """Seconds as a person writes them."""
    if seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds >= 60:
        return words["minutes"].format(minutes=int(seconds // 60), seconds=int(seconds % 60))
    return words["seconds"].format(value=f"{seconds:.1f}" if seconds < 10 else f"{seconds:.0f}")


def size(count: int) -> str:
    """Bytes as a person writes them, in steps of 1,000."""
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{amount:.0f} {unit}" if unit == "B" or amount >= 100 else f"{amount:.1f} {unit}"
