"""Pieces of sentences: how clauses are cut, and how names of files, texts and expressions look in them.

Knows English and Chinese writing. Refuses to know what is done with a clause (`rules.py` does).
"""

from __future__ import annotations

import re

QUOTED = r"\"[^\"]+\"|'[^']+'|`[^`]+`|“[^”]+”|‘[^’]+’|「[^」]+」|《[^》]+》"
IT = r"\bit\b|\bthis file\b|\bthat file\b|它|这个文件|该文件"
NAME = (
    rf"{QUOTED}"
    r"|[A-Za-z0-9_.~-]*/[A-Za-z0-9_./~-]*"  # with a folder
    r"|[A-Za-z0-9_~-][A-Za-z0-9_.~-]*\.[A-Za-z0-9]{1,8}"  # with an ending
    r"|(?<![\u4e00-\u9fff])[\u4e00-\u9fff]+\.[A-Za-z0-9]{1,8}"
    r"|\b(?:README|LICENSE|Makefile|Dockerfile)\b"
)
FILE = (
    rf"(?:(?:the|a)\s+)?(?:new\s+)?(?:file\s+)?(?:文件\s*)?(?:called\s+|named\s+)?"
    rf"(?P<path>{NAME}|{IT})(?:\s*(?:file|文件))?"
)
TEXT = rf"(?P<text>{QUOTED}|.+?)"
SUMMARY = r"(?:(?:a|the)\s+)?(?:short\s+)?(?:summary|一?[份个篇段]?(?:简短的?)?(?:摘要|总结|概要|小结))"
EXPRESSION = r"(?P<text>[-+(（√]*\s*(?:\d|sqrt|abs|round|min|max|pi)[-\d\s.,+*/×÷^%()（）a-z]*?)"

_VERB = r"(?:run|execute|read|show|list|write|save|create|append|replace|send|compute|calculate|search|wait|sleep)\b"
_VERB_ZH = r"(?:运行|执行|读取|列出|写(?=一[份个篇])|创建|把|将|发送|发给|计算|搜索|等待)"
_CUT = re.compile(
    rf"(?P<whole>{QUOTED})"
    r"|[,，;；。]?\s*(?:\band then\b|(?<=,)\s*then\b|然后|接着)\s*"
    rf"|[,，]?\s+and\s+(?={_VERB})"
    rf"|[,，]\s*并?且?\s*(?={_VERB_ZH})|\s*并且?\s*(?={_VERB_ZH})",
    re.IGNORECASE,
)
_POLITE = re.compile(
    r"^(?:(?:please|could you|can you|would you|now|also)\s+|请你?|帮我|帮忙|麻烦你?|再|[,，。\s]+)+", re.IGNORECASE
)


def clauses(text: str) -> list[str]:
    """The things a message asks for, in order; what stands in quotes is never cut."""
    cut: list[str] = [""]
    at = 0
    for match in _CUT.finditer(text):
        cut[-1] += text[at : match.start()]
        if match["whole"]:
            cut[-1] += match["whole"]
        else:
            cut.append("")
        at = match.end()
    cut[-1] += text[at:]
    return [clause for clause in map(_tidy, cut) if clause]


def names_in(text: str) -> list[str]:
    """Every file a text names, in order, "it" included."""
    return list(dict.fromkeys(re.findall(rf"{NAME}|{IT}", text, re.IGNORECASE)))


def _tidy(clause: str) -> str:
    """Without the polite words before it and the full stop after it; `ls ..` keeps its dots."""
    clause = _POLITE.sub("", clause.strip())
    return re.sub(r"(?:(?<=[^\s.])\.|[。！!，,；;]+)$", "", clause).strip()


def unquote(text: str) -> str:
    """What stands between the quotes; a text without them as it is."""
    text = text.strip()
    return text[1:-1] if re.fullmatch(QUOTED, text) else text
