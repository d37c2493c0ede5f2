"""Text of a model or a tool, made safe for a markdown renderer.

Three forms: `plain` shows text exactly as it is, `fence` shows it as a code block that it cannot leave, and `SafeText`
lets markdown through but nothing that loads or hides: no HTML, no image, no link whose host is not in sight.

Knows CommonMark as the page's renderer (marked) reads it. Refuses to know who wrote the text. The page's sanitizer and
its content security policy stand behind this file; none of the three is trusted to be enough alone.
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_SPECIAL = {ord(sign): f"&#{ord(sign)};" for sign in "\\`*_{}[]()#+-.!|<>&~$:\"'=@/^"}
_LINE_START_SPACES = re.compile(r"^ +", re.MULTILINE)
_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u2028\u2029]")

_FENCE_OPENS = re.compile(r"(?P<indent>\s*)(?P<marker>`{3,}(?=[^`]*$)|~{3,})\s*(?P<info>.*)")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")

_INLINE = re.compile(
    r"(?P<code>(?P<ticks>`+)(?!`)(?P<body>.{1,2000}?)(?<!`)(?P=ticks)(?!`))"
    r"|(?P<image>!\[(?P<alt>[^\[\]]{0,500})\]\((?P<source>[^()\s]{0,2000})(?:\s[^()]{0,300})?\))"
    r"|(?P<link>\[(?P<label>[^\[\]]{0,500})\]\((?P<href>[^()\s]{0,2000}(?:\([^()\s]{0,500}\)[^()\s]{0,500})?)"
    r"(?:\s+\"[^\"()]{0,300}\")?\))"
    r"|(?P<sign>!\[|\]\(|\]:|<)"
)
"""What a line of markdown may hold that is more than words. Every repetition has a bound: time stays linear."""

_SIGNS = {"![": "&#33;[", "](": "]&#40;", "]:": "]&#58;", "<": "&lt;"}
"""Left over when nothing whole was recognised: a half-written link, a reference definition, an HTML tag."""


def plain(text: str) -> str:
    """Show `text` character by character: no markdown, no HTML, no link. New lines stay."""
    escaped = _normal(text).translate(_SPECIAL)
    return _LINE_START_SPACES.sub(lambda spaces: "&#160;" * len(spaces[0]), escaped)


def one_line(text: str, limit: int) -> str:
    """The start of `text` on one line, cut at `limit` characters; not escaped."""
    line = " ".join(_normal(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def fence(text: str, language: str = "") -> str:
    """A code block around `text`, fenced by more backticks than any run of them inside."""
    clean = _normal(_ANSI.sub("", text))
    longest = max((len(run) for run in re.findall(r"`+", clean)), default=0)
    marker = "`" * max(3, longest + 1)
    return f"{marker}{language}\n{clean}\n{marker}"


def safe_markdown(text: str) -> str:
    """The safe form of a whole text."""
    safe = SafeText()
    safe.add(text)
    return safe.view()


class SafeText:
    """A text that grows piece by piece. A finished line is converted once; only the last one again at each `view`."""

    def __init__(self) -> None:
        self._settled = ""
        self._fresh: list[str] = []
        self._line: list[str] = []
        self._fence: _Fence | None = None

    def add(self, text: str) -> None:
        """Take the next piece. Costs what the piece costs, whatever came before."""
        head, newline, tail = _normal(text).rpartition("\n")
        if newline:
            for line in ("".join(self._line) + head).split("\n"):
                converted, self._fence = _convert(line, self._fence)
                self._fresh.append(converted + "\n")
            self._line.clear()
        self._line.append(tail)

    def view(self) -> str:
        """All of it so far, as safe markdown."""
        if self._fresh:
            self._settled += "".join(self._fresh)
            self._fresh.clear()
        self._line = ["".join(self._line)]
        return self._settled + _convert(self._line[0], self._fence)[0]


class _Fence:
    """An open code block: how it ends, and how far its lines are indented."""

    def __init__(self, marker: str, indent: int) -> None:
        self.marker = marker
        self.indent = re.compile(rf"\s{{0,{indent}}}")
        self.end = re.compile(re.escape(marker) + r"[~`]*")


def _convert(line: str, fence: _Fence | None) -> tuple[str, _Fence | None]:
    """One line, and the code block that is open after it.

    Code blocks are moved to the left edge: there, what we and the renderer take for a block cannot differ, whatever
    lists or quotes surround it.
    """
    if fence is not None:
        if fence.end.fullmatch(line.strip()):
            return fence.marker, None
        return fence.indent.sub("", line, count=1), fence
    opens = _FENCE_OPENS.fullmatch(line)
    if opens is None:
        return _INLINE.sub(_replace, line), None
    language = _LANGUAGE.match(opens["info"])
    return opens["marker"] + (language[0] if language else ""), _Fence(opens["marker"], len(opens["indent"]))


def _replace(found: re.Match[str]) -> str:
    if found["code"]:
        return f"<code>{plain(found['body'].strip() or found['body'])}</code>"
    if found["image"]:
        return _image(found["alt"], found["source"])
    if found["link"]:
        return _link(found["label"], found["href"])
    return _SIGNS[found["sign"]]


def _image(alt: str, source: str) -> str:
    """Never an image: one that is drawn is one that was fetched, and the address may carry what the model knows."""
    host = _host(source)
    if host:
        return plain(f"[blocked image: {host}]")
    return plain(f"[image: {alt or source[:80]}]")


def _link(label: str, href: str) -> str:
    """A link that says where it goes; text where it does not go to the web."""
    shown = label.replace("`", "&#96;").replace("<", "&lt;").replace("!", "&#33;")
    host = _host(href)
    if not host:
        return f"{shown} {plain('(' + href[:200] + ')')}" if href != label else plain(label)
    target = href.replace("&", "&amp;").replace("(", "%28").replace(")", "%29").replace("<", "%3C").replace("*", "%2A")
    suffix = "" if host in label else " " + plain(f"({host})")
    return f"[{shown}]({target}){suffix}"


def _host(address: str) -> str:
    """The host a browser would ask for this address; empty for what is no plain web address."""
    if not re.fullmatch(r"https?://[^\s\\<>\"'`]+", address, re.IGNORECASE):
        return ""
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _normal(text: str) -> str:
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
