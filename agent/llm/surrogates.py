"""Halves of surrogate pairs: JSON can spell them one by one, UTF-8 cannot carry them.

Knows how to join two halves that arrive in two pieces, and what to put where one never comes. Refuses to know anything
else about text.
"""

from __future__ import annotations

import math
import re
from typing import Any

REPLACEMENT = "\ufffd"
_HIGH = re.compile("[\ud800-\udbff]$")


def sound(text: str) -> str:
    """The text with pairs joined and lone halves replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def sound_json(value: Any) -> Any:
    """JSON data that can be sent: every text in it made sound, null for NaN and infinities, which are not JSON."""
    if isinstance(value, str):
        return sound(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [sound_json(item) for item in value]
    if isinstance(value, dict):
        return {sound(key): sound_json(item) for key, item in value.items()}
    return value


class Joiner:
    """Makes a text sound that arrives in pieces: a first half at the end of a piece waits for the next piece."""

    def __init__(self) -> None:
        self._half = ""

    def feed(self, piece: str) -> str:
        if self._half:
            piece, self._half = self._half + piece, ""
        try:
            piece.encode()
        except UnicodeEncodeError:
            if _HIGH.search(piece):
                piece, self._half = piece[:-1], piece[-1]
            return sound(piece)
        return piece

    def close(self) -> str:
        """What still waits, replaced."""
        half, self._half = self._half, ""
        return REPLACEMENT if half else ""
