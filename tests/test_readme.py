"""The README is for strangers: every file it names is there, and its Chinese twin says the same, section by section.

The lines for curl are run in `tests/ui/test_api.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

from tools import standard_tools

ROOT = Path(__file__).resolve().parents[1]
ENGLISH, CHINESE = ((ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md"))

_LINK = re.compile(r"\]\((?!https?:)([^)#]+)\)")
_COMMAND = re.compile(r"^(?:python3? |py |curl -\w+ \S+|\. )(?:app\.py [\w-]+)?", re.MULTILINE)
_PARTS = re.compile(r"^(#+ |- \*|\*\*|\| (?!-)|```\w*$)", re.MULTILINE)


def test_every_file_it_names_is_there() -> None:
    for text in (ENGLISH, CHINESE):
        links = _LINK.findall(text)
        assert len(links) > 40
        assert [link for link in links if not (ROOT / link).exists()] == []


def test_a_link_is_called_as_the_file_it_leads_to() -> None:
    for text in (ENGLISH, CHINESE):
        named = re.findall(r"\[`([^`]+)`\]\(([^)]+)\)", text)
        wrong = [
            (name, link) for name, link in named if not f"/{link.removesuffix('__init__.py')}".endswith(f"/{name}")
        ]
        assert [pair for pair in wrong if pair != ("tests/wire/", "tests/wire/README.md")] == []


def test_the_chinese_one_has_the_same_parts_links_and_commands_in_the_same_order() -> None:
    ours, theirs = ENGLISH.partition("\n# ")[2], CHINESE.partition("# ")[2]
    for pattern in (_PARTS, _COMMAND):
        assert pattern.findall(ours) == pattern.findall(theirs)
    other = {"README.md", "README.zh.md"}
    assert [a for a in _LINK.findall(ours) if a not in other] == [a for a in _LINK.findall(theirs) if a not in other]


def test_every_tool_is_named() -> None:
    tools = {tool.name for tool in standard_tools(None, None, ROOT / "generated")}
    assert tools
    for text in (ENGLISH, CHINESE):
        assert [name for name in tools if f"`{name}`" not in text] == []
