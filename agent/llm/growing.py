"""Servers that send, in every chunk, all of the text so far instead of what is new.

Knows when chunks can be nothing else: each begins with the whole one before and goes on. Refuses to know what the text
is for.
"""

from __future__ import annotations

_SURE = 12
"""Characters, in at least `_CHUNKS` chunks, that do so before it is believed. Ordinary text hardly ever begins like
that: "1", "10", "100" would."""
_CHUNKS = 3
_WORD = 4
"""Characters of a first chunk that is not taken for the beginning of the second by chance, where no third comes."""


class Growing:
    """Reads one text; gives out what is new in each chunk. One that holds an older state of it is dropped; after one
    that does not fit at all, everything passes untouched."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._given = ""
        """What has been given out of a text that grows."""
        self._grows: bool | None = None

    def feed(self, chunk: str) -> str:
        """The new text in a chunk; empty while it is not certain yet."""
        if self._grows is False or not chunk:
            return chunk
        if self._grows:
            return self._new_in(chunk)
        if not self._seen:
            self._seen.append(chunk)
            self._given = chunk
            return chunk
        if not (chunk.startswith(self._seen[-1]) and len(chunk) > len(self._seen[-1])):
            return self._settle(False) + chunk
        self._seen.append(chunk)
        return self._settle(True) if len(self._seen) >= _CHUNKS and len(chunk) >= _SURE else ""

    def close(self) -> str:
        """What was held back, when the text is over."""
        if not self._seen[1:]:
            return ""
        return self._settle(len(self._seen) >= _CHUNKS or len(self._seen[0]) >= _WORD)

    def _settle(self, grows: bool) -> str:
        self._grows = grows
        held = self._seen[1:]
        self._seen.clear()
        return "".join(held) if not grows else self._new_in(held[-1])

    def _new_in(self, chunk: str) -> str:
        if self._given.startswith(chunk):  # once more the same, or an older one
            return ""
        if not chunk.startswith(self._given):  # it grows no more
            self._grows = False
            return chunk
        new = chunk.removeprefix(self._given)
        self._given = chunk
        return new
