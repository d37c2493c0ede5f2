"""What an answer says was done, against the record of the calls.

    "I ran the tests", "all tests pass"     some command looks like it, and the last such one did not fail
    "I wrote report.md", "已写入 结果.csv"    some call changed this file, or may have
    "I have saved it", "已保存"              some call changed anything
    "I have sent you a.pdf"                 some call handed over a file

A sentence counts as a claim only where it is plain: one with a "not", an "if", a "would" or a question mark is none.
The record is believed in doubt: a command whose changes nobody watched may have written anything. Knows words and
records. Refuses to know any tool by name, and what becomes of a claim (`agent/proof.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.events import CallFinished, Claim
from agent.expectations import MAX_SENTENCE_CHARS, NAME
from agent.messages import ToolCall
from agent.tool import Effect, Tool

MAX_READ_CHARS = 20_000
"""Of an answer: a longer one is a document."""

WHY = ("not_run", "run_failed", "not_written", "not_saved", "not_sent")


@dataclass(frozen=True)
class Ran:
    """One call that ran to its end: what it was, what came of it, and what kind of tool it was."""

    call: ToolCall
    finished: CallFinished
    tool: Tool | None
    watched: bool
    """The workspace was compared before and after, so what is not listed did not change."""
    delegated: bool = False
    """A sub-agent did it: what it ran is only known from what it says."""

    @property
    def done(self) -> bool:
        return self.finished.status == "done"

    @property
    def executes(self) -> bool:
        return self.delegated or (self.tool is not None and self.tool.effect is Effect.EXECUTE)

    @property
    def may_change(self) -> bool:
        return self.tool is not None and self.tool.may_change

    def paths(self) -> Iterator[str]:
        """The files it changed."""
        details = self.finished.details
        if self.may_change and isinstance(path := details.get("path"), str):
            yield path
        for fact in self._changed():
            if isinstance(fact, Mapping) and fact.get("change") != "deleted":
                yield str(fact.get("path", ""))

    def _changed(self) -> Sequence[Any]:
        listed = self.finished.details.get("changed")
        return listed if isinstance(listed, (list, tuple)) else ()

    def wrote(self, name: str) -> bool:
        """Did it change a file of this name, or may it have?"""
        if any(same_file(path, name) for path in self.paths()):
            return True
        total = self.finished.details.get("changed_total", 0)
        whole = self.watched and not (isinstance(total, int) and total > len(self._changed()))
        if whole or not self.may_change:
            return False
        if self.executes:
            return True  # nobody watched what the command did
        return self.done and any(same_file(text, name) for text in _texts(json.loads(self.call.arguments)))


def same_file(path: str, name: str) -> bool:
    """Is the file at `path` the one that `name` means? A name without its folders means one in any folder."""
    path, name = path.strip().removeprefix("./"), name.strip().removeprefix("./")
    return path == name or path.endswith(f"/{name}")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


# ---------------------------------------------------------------------- sentences

_NO_PROSE = re.compile(
    r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)|^[ \t]*>[^\n]*$|^(?: {4}|\t)[^\n]*$", re.DOTALL | re.MULTILINE
)
_QUOTATION = re.compile(r"“[^”\n]{30,240}”|「[^」\n]{15,240}」")
"""What somebody else has said; a shorter one is mostly a name."""
_SENTENCE = re.compile(
    r"(?<=[.!?])\s+|(?<=[。！？；])|\n+|[,;]?\s{1,9}(?:but|although|though|however)\b|，?(?:但是?|不过|虽然)",
    re.IGNORECASE,
)
_NOT_PLAIN = re.compile(
    r"\b(?:not|never|no|none|cannot|unable|failed to|if|once|when|unless|until|before)\b|n['’]t\b|"
    r"\b(?:should|would|will|could|can|may|might|must|shall|let me|going to|about to|try|tried)\b|"
    r"\b(?:please|ensure|make sure|so that)\b|[?？]|"
    r"\b(?:according to|as stated in|(?:log|file|mail|text|commit|document|readme|changelog|\w\.\w+)[`\"”]? says)\b|"
    r"\bsays the\b|提到|记载|写道|[在于]\s*\d{4}\s*年|"  # somebody else says it, or it was long ago
    r"没|未|不|无法|如果|若|请|应该|应当|需要|将会|将要|将在|可以|可能|会(?!话|议)|要(?!求)|想|打算|准备|尝试",
    re.IGNORECASE,
)
_PLAIN_AFTER_ALL = re.compile(r"\bI can confirm\b|\bno longer\b", re.IGNORECASE)


def sentences(text: str) -> list[str]:
    """The sentences of an answer, cut at a "but": no code, no quotations."""
    prose = _QUOTATION.sub("“”", _NO_PROSE.sub("\n", text[:MAX_READ_CHARS]))
    return [sentence for part in _SENTENCE.split(prose) if (sentence := part.strip(" \t-*#•>")[:MAX_SENTENCE_CHARS])]


def _plain(sentence: str) -> bool:
    return not _NOT_PLAIN.search(_PLAIN_AFTER_ALL.sub("", sentence))


def _pattern(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts), re.IGNORECASE)


_I = (  # "I have now", "we", or the first word of the sentence
    r"(?:\b(?:I|we)(?:['’]ve| have)?|^(?:done|ok|okay|all done|finished)?[.:,!; ]*)\s*"
    r"(?:just|now|also|then|successfully|already|and)?\s*"
)
_RAN_TESTS = _pattern(
    rf"{_I}(?:ran|run|re-?ran|executed)\s+(?:[\w`-]+\s+){{0,4}}?(?:tests?\b|test suite|`?pytest)",
    r"(?:运行|执行|跑)(?:了|过|完)(?:全部|所有|一遍|单元)*的?测试",
    r"测试(?:已|都已|全部)?(?:运行|执行)(?:完|过|了)",
)
_PASSED = _pattern(
    r"\b(?:all|every|the|both|\d+)\s+(?:[\w/-]+\s+){0,3}?tests?\s+(?:(?:now|all|have|has|are|is)\s+)*"
    r"(?:pass(?:es|ed|ing)?|green|succeed(?:s|ed)?)\b",
    r"\btests?\s+(?:suite\s+)?(?:(?:now|all)\s+)*pass(?:es|ed)?\b",
    r"测试(?:用例)?(?:已经?|都|全部|均|全都)*(?:通过|成功)",
)
_RAN = _pattern(
    rf"{_I}(?:ran|executed)\s+(?:the\s+)?(?:command|script|program|code|`[^`]+`)",
    r"(?:运行|执行)了\s*(?:命令|脚本|程序|代码|`[^`]+`)",
)
_WROTE_EN = r"(?:wrote|written|created|saved|generated|produced|exported|updated|edited|modified|appended|stored|added)"
_WROTE_ZH = r"(?:写入|写好|写到|写进|保存到|保存为|保存在|存到|存为|创建|新建|生成|更新|修改|导出)"
_WROTE = _pattern(rf"{_I}{_WROTE_EN}\b", _WROTE_ZH)
_BEEN = _pattern(
    rf"\b(?:has|have)\s+(?:now\s+|also\s+)?been\s+(?:successfully\s+)?{_WROTE_EN}\b(?!\s+by)",
    r"\bis\s+(?:now\s+)?(?:ready|saved|written|created)\b",
    rf"已(?:经)?(?:成功)?(?:{_WROTE_ZH}|保存)",
)
_DONE_ZH = _pattern("已|了|写好|存好")
_SAVED = _pattern(rf"{_I}saved\b", r"已(?:经)?(?:成功)?(?:保存|存好)|保存好了")
_SENT = _pattern(
    rf"{_I}(?:sent|attached|handed)\s+(?:it\b|you\b|them\b|the\b|both\b|`)",
    r"已(?:经)?(?:将|把)?[^，。\n]{0,60}?(?:发送给你|发给你|发给您|发送给您|发你)",
    r"(?:发给|发送给)(?:你|您)了",
)
_TESTS = _pattern(r"test|spec\b|nox|tox|check|jest|mocha|verify|assert|测试|\bmake\b")
_IN_ANSWER = _pattern(r"\b(?:above|below|here)\b", "上面|下面|以上|如下|上述")
_TOLD_OF_TESTS = _pattern(r"\b\d+ (?:tests? )?pass(?:ed|ing)?\b", _PASSED.pattern)
"""In what was read, such as a log: whoever says so after that has read it there."""
_SOMEBODY_ZH = _pattern("(?:函数|团队|作者|同事|日志|[他她它]们?)[^，,。；]{0,6}$")
_AND = _pattern(r"[`\"”」》]?\s*(?:,|，|、|&|and|和|与|及|以及)\s*[`\"“「《]?")
_FROM = _pattern(r"\b(?:from|of|based on|using|like)\s+\W*$", "根据|基于|从")
_BEFORE_NAME = _pattern(_WROTE_ZH, "文件|了")


def unborne(answer: str, record: Sequence[Ran]) -> tuple[Claim, ...]:
    """The claims of an answer that the record does not bear out, in its order, each sentence once."""
    found: dict[str, Claim] = {}
    for sentence in sentences(answer):
        if _plain(sentence) and (why := _against(sentence, record)):
            found.setdefault(sentence, Claim(sentence[:300], why))
    return tuple(found.values())


def wrote_in(answer: str, name: str) -> bool:
    """Does the answer plainly say that this file was made?"""
    said = (s for s in sentences(answer) if _plain(s) and (_WROTE.search(s) or _BEEN.search(s)))
    return any(name.rpartition("/")[2] in sentence for sentence in said)


def _against(sentence: str, record: Sequence[Ran]) -> str:
    """Which of `WHY` speaks against the sentence; empty where nothing does."""
    commands = [ran for ran in record if ran.executes]
    if _RAN_TESTS.search(sentence) or _PASSED.search(sentence):
        tests = [ran for ran in commands if _TESTS.search(ran.call.arguments) or _TESTS.search(ran.finished.text)]
        if not tests:
            read = any(_TOLD_OF_TESTS.search(ran.finished.text) for ran in record if not ran.may_change)
            return "" if read and not _RAN_TESTS.search(sentence) else "not_run"
        return "run_failed" if _PASSED.search(sentence) and not tests[-1].done else ""
    if _SENT.search(sentence):
        return "" if _IN_ANSWER.search(sentence) or any(ran.finished.files for ran in record) else "not_sent"
    if names := list(_names_written(sentence)):
        return "" if all(any(ran.wrote(name) for ran in record) for name in names) else "not_written"
    if _SAVED.search(sentence):
        return "" if any(ran.may_change and (ran.done or ran.executes) for ran in record) else "not_saved"
    if _RAN.search(sentence):
        return "" if commands else "not_run"
    return ""


def _names_written(sentence: str) -> Iterable[str]:
    """The files that a sentence says were written: those behind "I wrote", those before "has been written"."""
    source_end = -1  # of a name that something was made from: what is in a row with it is one, too
    for match in NAME.finditer(sentence):
        name = _bare(match[0])
        if not name:
            continue
        if source_end >= 0 and _AND.fullmatch(sentence[source_end : match.start()]):
            source_end = match.end()
            continue
        glued = match[0][: len(match[0]) - len(name)]  # Chinese puts no space between the verb and the name
        before, behind = sentence[: match.start()] + glued, sentence[match.end() :]
        said = [*_WROTE.finditer(before), *_BEEN.finditer(before)]
        source_end = match.end() if said and _FROM.search(before[said[-1].end() :]) else -1
        if (said and _is_claimed(sentence, before, said[-1])) or _BEEN.match(behind.lstrip(' `"”')):
            yield name


def _is_claimed(sentence: str, before: str, verb: re.Match[str]) -> bool:
    """Is the name behind the verb what was written, and not what it was made from?"""
    if _FROM.search(before[verb.end() :]):
        return False
    return verb[0].isascii() or bool(_DONE_ZH.search(sentence) and not _SOMEBODY_ZH.search(before[: verb.start()]))


def _bare(raw: str) -> str:
    """A name without quotes and without the words that stand before it; empty for a quotation of something else."""
    raw = raw.strip("\"'`“”‘’「」《》")
    cut = max((word.end() for word in _BEFORE_NAME.finditer(raw)), default=0)
    name = raw[cut:] if re.match(r"[\w-]", raw[cut:]) else raw
    return name if re.fullmatch(r"[^\s]{1,160}\.[A-Za-z0-9]{1,8}", name) else ""
