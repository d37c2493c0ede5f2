"""What a message says of the files that came with it: one line at its end that the model reads.

The line is a part of the text, so it is searched, exported, replayed and sent to every kind of model like any other
word of the message; the page shows the person's own words without it. Knows the line. Refuses to know files.
"""

from __future__ import annotations

from collections.abc import Iterable

_HEAD, _END = "[Attached: ", "]"
_GAP = "\n\n"


def announced(text: str, files: Iterable[str]) -> str:
    """The message's text with its files, each told as `uploads/a.pdf (application/pdf, 2 MiB)` on one line."""
    return reworded(_HEAD + "; ".join(files) + _END, text)


def own_words(text: str) -> str:
    """The text of a message with files, without the line about them."""
    return _parted(text)[0]


def reworded(text: str, words: str) -> str:
    """The same message in other words: what was attached to `text` stays attached."""
    line = _parted(text)[1]
    return _GAP.join(part for part in (words.rstrip(), line) if part.strip())


def _parted(text: str) -> tuple[str, str]:
    words, _, line = text.rpartition(_GAP)
    if line.startswith(_HEAD) and line.endswith(_END):
        return words, line
    return text, ""
