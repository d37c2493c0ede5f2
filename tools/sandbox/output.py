"""What a command prints: collected in constant memory, and cleaned of everything that is not text.

Knows bytes, terminals' control sequences and Unicode's traps. Knows no process, and no markdown: whoever
shows the text puts it into a code block.
"""

import re

HEAD_BYTES = TAIL_BYTES = 16 * 1024
LONGEST_LINE = 2000
"""Characters: what a model can still use, and a page can still show."""

_LONGEST_SEQUENCE = 4096
"""An unterminated sequence eats at most this much."""
_ESCAPES = re.compile(
    # CSI: colours, cursor
    r"\x1b\[[0-?]{0,256}[ -/]{0,16}[@-~]|\x9b[0-?]{0,256}[ -/]{0,16}[@-~]"
    # OSC (titles, links, clipboard), DCS, PM, APC, SOS
    rf"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]{{0,{_LONGEST_SEQUENCE}}}(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]{0,16}[0-~]?"  # two-character ones, and a bare ESC
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\x9c]*|[ -/]*)")
# Controls but tab and newline; soft hyphen; zero-width, bidi marks, embeddings, overrides and isolates; line
# and paragraph separators; invisible operators; the byte order mark; tags; lone surrogates. (Unicode TR 36,
# section 3)
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e007f\ud800-\udfff]"
)


def clean_text(text: str, longest_line: int = LONGEST_LINE) -> str:
    """Give the text as a person would have seen it, in plain characters, tabs and newlines only.

    Terminal sequences go, a line that was overwritten after a carriage return keeps its last state, invisible
    and direction-changing characters go, and each line is cut in its middle to `longest_line` characters.
    """
    text = _ESCAPES.sub("", text).replace("\r\n", "\n")
    return "\n".join(_short(_INVISIBLE.sub("", _last_state(line)), longest_line) for line in text.split("\n"))


def unfinished(text: str) -> int:
    """Give the length of the terminal sequence that has begun at the end of `text` and not ended."""
    start = text.rfind("\x1b")
    begun = start >= 0 and len(text) - start <= _LONGEST_SEQUENCE and _UNFINISHED.fullmatch(text, start)
    return len(text) - start if begun else 0


def _last_state(line: str) -> str:
    """What a terminal shows of a line with carriage returns in it: progress bars write over themselves."""
    if "\r" not in line:
        return line
    return next((part for part in reversed(line.split("\r")) if part.strip()), "")


def _short(line: str, longest: int) -> str:
    if len(line) <= longest:
        return line
    half = longest // 2
    return f"{line[:half]}[... {len(line) - 2 * half} characters ...]{line[-half:]}"


def whole_characters(data: bytes) -> int:
    """Give the length of `data` without a UTF-8 character that is cut off at its end."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:  # the first byte of a character of 2 to 4
            return len(data) - back if back < (2 if byte < 0xE0 else 3 if byte < 0xF0 else 4) else len(data)
        if byte < 0x80:
            break
    return len(data)


class HeadTail:
    """Keeps the first and the last bytes of a stream, and counts the rest. Memory: head, two tails, one
    piece."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_size, self._tail_size = head, tail
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        room = self._head_size - len(self._head)
        self._head += data[:room]
        self._tail += data[max(room, len(data) - self._tail_size) :]
        if len(self._tail) > 2 * self._tail_size:
            del self._tail[: -self._tail_size]

    @property
    def omitted(self) -> int:
        """Bytes that neither the head nor the tail holds."""
        return max(0, self.total - len(self._head) - self._tail_size)

    def raw_text(self) -> str:
        """Decode what is kept; a note stands where something is missing."""
        tail = bytes(self._tail[-self._tail_size :]) if self._tail_size else b""
        if not self.omitted:
            return bytes(self._head + tail).decode("utf-8", "replace")
        missing = f"\n[... {self.omitted} bytes omitted ...]\n"
        return self._head.decode("utf-8", "replace") + missing + tail.decode("utf-8", "replace")

    def text(self) -> str:
        """Decode and clean what is kept."""
        return clean_text(self.raw_text())
