"""From bytes to JSON payloads, whatever the framing.

Knows server-sent events as servers really write them: any line end, with or without the space after `data:`, comments,
events without their blank line, payloads over several lines, plain JSON where events were asked for, one JSON object a
line. Refuses to know what a payload means.

An own decoder, because the payload has to be found in all of these and the usual libraries know only the first.
"""

from __future__ import annotations

import json
import re
from typing import Any

DONE = "[DONE]"
"""What `feed` gives for the marker that ends a stream."""

_DECODER = json.JSONDecoder(strict=False)
BOM = "\ufeff"
_AGAIN = re.compile(r"\A(?:data: *)+")
"""Some proxies put it before what has it already."""


MAX_LINES, MAX_CHARS = 1_000, 4_000_000
"""Of one payload over several lines. Each line may end it, so all of it is read again with each."""


class Unreadable(ValueError):
    """A payload that looks like JSON and is none."""


class EventStream:
    """Feed it bytes as they come; it gives payloads (objects, or DONE) as soon as they are whole."""

    def __init__(self) -> None:
        self.stray: list[str] = []
        """Lines that are neither an event nor JSON, such as an HTML page: words for an error message."""
        self._rest: list[bytes] = []
        self._after_cr = False
        self._data: list[str] = []
        self._body: list[str] = []
        self._event = ""

    def feed(self, piece: bytes) -> list[Any]:
        """Payloads completed by this piece. Raises Unreadable for an event whose JSON is broken."""
        self._rest.append(piece)
        if not (b"\n" in piece or b"\r" in piece or self._after_cr):
            return []  # a long line that comes in many pieces is put together once
        lines = b"".join(self._rest).splitlines(keepends=True)
        # A line without its end waits; so does one that ends in CR, whose LF may be in the next piece.
        self._rest = [lines.pop()] if lines and not lines[-1].endswith(b"\n") else []
        self._after_cr = bool(self._rest) and self._rest[0].endswith(b"\r")
        payloads: list[Any] = []
        for line in lines:
            self._line(line.decode("utf-8", "replace").rstrip("\r\n"), payloads)
        return payloads

    def close(self) -> list[Any]:
        """What is left when the stream has ended, also without a last line end."""
        payloads: list[Any] = []
        for line in b"".join(self._rest).splitlines():
            self._line(line.decode("utf-8", "replace"), payloads)
        self._rest = []
        self._end_error(payloads)
        self.stray += self._data  # an event that was cut off
        body = "\n".join(self._body).strip()
        if body:
            try:
                payloads.append(json.loads(body, strict=False))
            except ValueError:
                self.stray.append(body)
        return payloads

    def _line(self, line: str, payloads: list[Any]) -> None:
        line = line.removeprefix(BOM)
        if line.lstrip(" \t").startswith("data:"):
            line = line.lstrip(" \t")
            data = line[6:] if line.startswith("data: ") else line[5:]
            data = _AGAIN.sub("", data)
            if not self._data and self._whole(data, payloads):
                return
            self._data.append(data)
            if len(self._data) > MAX_LINES or (len(self._data) > 1 and sum(map(len, self._data)) > MAX_CHARS):
                raise Unreadable("an event of too many lines")
            if len(self._data) > 1 and self._whole("\n".join(self._data), payloads):
                self._data.clear()
        elif not line.strip():
            self._end_event(payloads)
        elif line.startswith(":") or line.partition(":")[0] in ("id", "retry"):
            return
        elif line.startswith("event:"):
            self._event = line[6:].strip()
        elif line.strip().upper() == DONE:
            payloads.append(DONE)
        elif line.startswith("error: {") and isinstance(error := _json_in(line[7:]), dict):
            payloads.append({"error": error})  # llama.cpp, for long
        elif self._in_json() or not (line.startswith("{") and self._whole(line, payloads)):
            self._body.append(line)

    def _in_json(self) -> bool:
        """Is this a line of one JSON value over several lines? A word between events is none."""
        return bool(self._body) and self._body[0].lstrip().startswith(("{", "["))

    def _whole(self, data: str, payloads: list[Any]) -> bool:
        """Take a payload that is complete as it stands, without waiting for a blank line."""
        stripped = data.strip()
        if stripped.upper() == DONE:
            payloads.append(DONE)
            return True
        if stripped.startswith(("{", "[")):
            try:
                payload, end = _DECODER.raw_decode(stripped)
            except ValueError:
                return False
            rest = stripped[end:].lstrip()
            found = [payload]
            if rest and not rest.startswith("data:") and not (rest.startswith("{") and self._whole(rest, found)):
                return False
            payloads += found
            if rest.startswith("data:"):  # the line end between two events got lost
                self._line(rest, payloads)
            return True
        if len(stripped) > 1 and stripped[0] == stripped[-1] == '"':  # a payload that was made JSON twice
            inner = str(_json_in(stripped)).strip()
            return inner.startswith(("{", DONE)) and self._whole(inner, payloads)
        return not stripped or stripped.startswith(":")  # a comment that a gateway took for data

    def _end_event(self, payloads: list[Any]) -> None:
        self._end_error(payloads)
        self._event = ""
        if not self._data:
            return
        data = "\n".join(self._data).strip()
        self._data.clear()
        if data.startswith(("{", "[")):
            raise Unreadable(data)
        if data:
            self.stray.append(data)

    def _end_error(self, payloads: list[Any]) -> None:
        """An error event may say in plain words what happened."""
        if self._event == "error" and self._data and not self._data[0].lstrip().startswith(("{", "[")):
            payloads.append({"error": "\n".join(self._data).strip()})
            self._data.clear()


def _json_in(data: str) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return ""
