"""What can be counted in a result and copied out of it: the demo model makes nothing up, so it sums up no more."""

from __future__ import annotations

import re
from dataclasses import dataclass

from agent.llm.demo.turn import Language, Outcome

MOST = 8
"""Headings, and first lines of paragraphs, in a summary."""


def summary_of(outcomes: tuple[Outcome, ...], language: Language) -> str:
    """A Markdown page of facts about everything that came back: how much, which headings, how each paragraph begins."""
    return "\n".join(_page(outcome, language) for outcome in outcomes)


def _page(outcome: Outcome, language: Language) -> str:
    title, has, begin = (
        ("Summary of", "Headings", "Paragraphs begin") if language == "en" else ("摘要：", "标题", "各段开头")
    )
    paragraphs = [part.strip().splitlines() for part in re.split(r"\n\s*\n", outcome.text)]
    headings = [line.lstrip("# ") for lines in paragraphs for line in lines if _is_heading(line)]
    first_lines = [next((line for line in lines if not _is_heading(line)), "") for lines in paragraphs]
    page = [f"# {title} {subject_of(outcome)}", "", size_of(outcome.text, language)]
    if headings:
        page += ["", f"## {has}", "", *(f"- {heading}" for heading in headings[:MOST])]
    if quoted := [line for line in first_lines if line][:MOST]:
        page += ["", f"## {begin}", "", *(f"> {line}" for line in quoted)]
    return "\n".join([*page, ""])


def _is_heading(line: str) -> bool:
    return re.match(r"#{1,6} ", line) is not None


def subject_of(outcome: Outcome) -> str:
    """What a call was about: its file or its command."""
    arguments = outcome.arguments
    return str(arguments.get("path") or arguments.get("command") or outcome.call.name)


def size_of(text: str, language: Language) -> str:
    """How much there is in a text."""
    lines, words, characters = len(text.splitlines()), len(text.split()), len(text)
    if language == "zh":
        return f"共 {lines} 行，{characters} 个字符。"
    return f"{lines} lines, {words} words, {characters} characters."


@dataclass(frozen=True)
class Ran:
    """What became of a command that was started."""

    ended: str
    exit_code: int | None
    """None where it was killed."""
    output: str


def command_in(text: str) -> Ran | None:
    """A command's result read again; None where the text does not say that one ran."""
    ended, _, rest = text.partition("\n")
    if not re.fullmatch(r"\[.+\]", ended):
        return None
    code = re.match(r"\[exit code (-?\d+)", ended)
    output = rest.removeprefix("[stdout]\n") if "\n[stderr]\n" not in rest else rest
    return Ran(ended[1:-1], int(code[1]) if code else None, "" if output == "[no output]" else output)


@dataclass(frozen=True)
class Listing:
    """What `ls -l` showed."""

    files: tuple[str, ...]
    folders: tuple[str, ...]
    largest: str
    largest_bytes: int


_LS_LINE = re.compile(r"^([-dlbcps])[-rwxsStT]{9}\S?\s+\d+\s+\S+\s+\S+\s+(\d+)\s+\S+\s+\S+\s+\S+\s+(.+)$", re.MULTILINE)


def listing_in(output: str) -> Listing | None:
    """The folder that a command listed; None where the output holds no `ls -l`."""
    entries = [m.groups() for m in _LS_LINE.finditer(output) if m[3] not in (".", "..")]
    if not entries and not re.search(r"^total \d+$", output, re.MULTILINE):
        return None
    files = [(int(size), name) for kind, size, name in entries if kind == "-"]
    size, largest = max(files, default=(0, ""))
    folders = tuple(name for kind, _, name in entries if kind == "d")
    return Listing(tuple(name for _, name in files), folders, largest, size)
