"""What has to be true at the end of a turn, as lines that a person can read and write.

    report.md                        is there and not empty
    report.md contains TEXT          holds these words
    data.json json                   can be read as such; also csv, image, python
    $ pytest -q                      exits with 0

Such a line comes from the person, who wrote it, or from a task's own words and the plan, which name a file that is to
be made ("write report.md", "保存为 结果.csv"). Words are read with caution: a file that is only read, or may be, is not
expected, and what is in doubt is left out. Knows sentences and lines. Refuses to look whether any of it is true
(`agent/proof.py` does).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from agent.errors import Refused

MAX_LINES = 20
MAX_LINE_CHARS = 1_000
MAX_READ_CHARS = 8_000
"""Of a text that is read for names: what is longer was pasted, and it is the material, not the task."""

MAX_SENTENCE_CHARS = 600
"""The time to read one grows with its square."""

Kind = Literal["exists", "contains", "json", "csv", "image", "python", "command"]
Source = Literal["message", "plan", "person"]


@dataclass(frozen=True)
class Expectation:
    line: str
    source: Source
    kind: Kind
    subject: str
    """A path in the workspace; of a command, its text."""
    text: str = ""
    """What the file must contain."""


def lines_in(text: str) -> tuple[str, ...]:
    """The lines a person has written. Raises Refused for too many or too long ones."""
    lines = tuple(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if len(lines) > MAX_LINES or any(len(line) > MAX_LINE_CHARS for line in lines):
        raise Refused(f"what must be true at the end may have {MAX_LINES} lines of {MAX_LINE_CHARS} characters")
    return lines


def expectation(line: str, source: Source = "person") -> Expectation:
    """What a line means. Every line means something: what is nothing else is a path."""
    line = line.strip()
    if line.startswith("$"):
        return Expectation(line, source, "command", line[1:].strip())
    if found := re.fullmatch(r"(?P<path>.+?)\s+(?:contains|包含)\s+(?P<text>.+)", line):
        return Expectation(line, source, "contains", _unquoted(found["path"]), _unquoted(found["text"]))
    if found := re.fullmatch(r"(?P<path>.+?)\s+(?P<kind>json|csv|image|python)", line, re.IGNORECASE):
        kind: Kind = found["kind"].lower()  # type: ignore[assignment]
        return Expectation(line, source, kind, _unquoted(found["path"]))
    return Expectation(line, source, "exists", _unquoted(line))


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if re.fullmatch(_QUOTED, text) else text


# ---------------------------------------------------------------------- files that a text names

_SUFFIXES = """
txt md rst log csv tsv json jsonl yaml yml toml ini cfg conf env xml html htm css scss js mjs ts tsx jsx vue py ipynb r
jl java kt c h cc cpp hpp cs go rs rb php swift lua pl sh bash bat ps1 sql db sqlite png jpg jpeg gif webp svg bmp pdf
doc docx xls xlsx ppt pptx odt ods epub tex bib zip gz tar mp3 wav mp4 webm srt vtt ics patch diff
"""
_SUFFIX = rf"\.(?:{'|'.join(sorted(_SUFFIXES.split(), key=len, reverse=True))})(?![A-Za-z0-9])(?!\.[A-Za-z0-9])"
_QUOTES = ('""', "''", "``", "“”", "‘’", "「」", "《》")
_QUOTED = "|".join(rf"{pair[0]}[^{pair[1]}\n]{{1,200}}{pair[1]}" for pair in _QUOTES)
NAME = re.compile(
    rf"(?:{_QUOTED})|(?<![\w./@~*<>{{}}-])[\w.-][\w./-]{{0,120}}?{_SUFFIX}(?!/)",
    re.IGNORECASE,
)
"""What may be the name of a file: in quotes, or with an ending that we know. A version, a domain, "e.g." are none."""

_URL = re.compile(r"\b(?:https?|ftp|file)://\S+|\bwww\.\S+", re.IGNORECASE)
_CODE = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)


def _any(words: str) -> str:
    return "|".join(words.split())


_OUT_EN = _any("write create make save generate produce export output draft build compose record store add put name")
_INTO_EN = _any("to into as called named in")
_WORKS_EN = _any("""
convert turn translate transform copy rename move summari[sz]e extract append download render collect dump merge combine
list""")
_IN_EN = _any("""
from of read open using use with about on by than like for see summari[sz]e analy[sz]e send check test run execute fix
edit update change compare look delete remove translate convert copy rename move append review explain sure that which
whether if does is are has via through inside containing contains saying against import imports""")
_OUT_ZH = _any("""
保存为 保存到 保存成 保存在 存为 存到 存成 写入 写到 写进 写成 另存为 创建 新建 建立 生成 导出为 导出到 导出
输出到 输出为 输出成 整理成 转换为 转换成 转成 转为 翻译成 汇总到 记录到 命名为 名为 叫做 制作 做成 撰写 编写 写""")
_IN_ZH = _any("""
读取 阅读 读 打开 查看 根据 基于 按照 依据 参考 参照 分析 比较 对比 从 用 使用 利用 把 将 对 总结 概括 汇总 检查 修改
编辑 更新 运行 执行 测试 发送 发给 下载 删除 解释 翻译 追加到 添加到 如果 是否 在""")
_WORD = re.compile(
    rf"(?P<out>\b(?:{_OUT_EN})\b|{_OUT_ZH})"  # a file that is made comes next
    rf"|(?P<into>\b(?:{_INTO_EN})\b)"  # one that is made, if the words before are about making
    rf"|(?P<in>\b(?:{_IN_EN})\b|{_IN_ZH})",  # one that is there already
    re.IGNORECASE,
)
_BEFORE_ZH = re.compile(rf"{_OUT_ZH}|{_IN_ZH}|一个|一份|一张|文件|和|与")
_WORKS = re.compile(rf"\b(?:{_OUT_EN}|{_WORKS_EN})\b", re.IGNORECASE)
_WILL = re.compile(r"\b(?:that|which|who|will|would|it|script|program|function)\s+$", re.IGNORECASE)
_JOINED = re.compile(r"\s*(?:,|，|、|;|and|&|和|与|以及|及|还有|,\s*and)\s*", re.IGNORECASE)
_SENTENCE = re.compile(r"(?<=[.!?。！？\n])\s+|(?<=[。！？])|\n+")
_NOT_ASKED = re.compile(
    r"\bhow (?:do|can|to|would|does)\b|\be\.g\.|\b(?:what|why|when|where|never|without|if|unless|suppose|already)\b|"
    r"\b(?:don't|do not|instead of|for example|such as)\b|怎么|如何|为什么|什么|不要|别|无需|不用|如果|假如|"
    r"例如|比如|已经|吗[？?]?$",
    re.IGNORECASE,
)
_OF_IT = re.compile(r"\s*(?:的(?!文件|脚本|报告|文档|表格|图片|页面|网页)|'s\b|’s\b)")


def outputs_named(text: str) -> list[str]:
    """The files that a text asks to be made, each once, in order; paths as they are written, below the workspace."""
    found: dict[str, None] = {}
    for sentence in _SENTENCE.split(_URL.sub(" ", _CODE.sub("\n", text[:MAX_READ_CHARS]))):
        if not _NOT_ASKED.search(sentence):
            found.update(dict.fromkeys(_outputs(sentence[:MAX_SENTENCE_CHARS])))
    return list(found)


def _outputs(sentence: str) -> Iterable[str]:
    made, end = False, 0
    for match in NAME.finditer(sentence):
        start, name = _trimmed(sentence, match)
        if name is None:
            continue
        before = sentence[end:start]
        if not (end and _JOINED.fullmatch(before)):  # in a row of names all stand for the same
            made = _is_made(sentence[:start])
        end = match.end()
        if made and not _OF_IT.match(sentence, end) and (path := _path(name)):
            yield path


def _trimmed(sentence: str, match: re.Match[str]) -> tuple[int, str | None]:
    """Where a name begins and what it is; None for quotes around something else. Chinese puts no space before it."""
    raw = match[0]
    if re.fullmatch(_QUOTED, raw):
        inner = raw[1:-1].strip()
        return match.start(), inner if re.fullmatch(rf"[^\s*<>|?:]{{1,120}}{_SUFFIX}", inner, re.IGNORECASE) else None
    ends = (word.end() for word in _BEFORE_ZH.finditer(raw))
    cut = max((end for end in ends if re.match(r"[\w-]", raw[end:])), default=0)  # something of a name must be left
    return match.start() + cut, raw[cut:]


def _is_made(before: str) -> bool:
    """Do the words before a name say that it is to be made? The nearest one that says anything counts."""
    words = list(_WORD.finditer(before))
    if not words:
        return False
    nearest = words[-1]
    if nearest["out"]:
        return not _WILL.search(before[: nearest.start()])  # "a script that will write a.csv" is a script
    if not nearest["into"]:
        return False
    if nearest["into"].lower() == "in":  # "save it in a.md", and not "fix the bug in a.py"
        return bool(re.search(r"\b(?:save|store|put|record|write)\b", before, re.IGNORECASE))
    return bool(_WORKS.search(before[: nearest.start()]))


def _path(name: str) -> str | None:
    """The path below the workspace; None where it is none that can be looked for."""
    name = name.removeprefix("./")
    outside = name.startswith(("/", "~", "-")) or ".." in name.split("/") or "\\" in name
    return None if outside or any(sign in name for sign in "*?<>|{}$") else name
