"""A model that has lost itself: the same words over and over, until somebody stops it.

Knows when a text does nothing but go round. Refuses to know whose text it is, and what to do about it.
"""

from __future__ import annotations

LEAST = 10_000
"""Characters that the circle must have filled, however short the stretch is: somebody may have asked for a thousand of
something. A lost model goes on until the output limit, far beyond this."""
LONGEST = 300
"""Characters of one round. Longer stretches come back in texts that make sense, too."""
_LOOK_EVERY = 500
_PROBE = 60


class Circle:
    """Watches one text while it streams."""

    def __init__(self) -> None:
        self._tail = ""
        self._new: list[str] = []
        self._new_length = 0

    def closes(self, piece: str) -> bool:
        """Take one more piece. True where for a long time nothing came but the same stretch again, bit by bit."""
        if len(piece) > LONGEST:  # it is all there already: nothing can be saved
            self._tail, self._new, self._new_length = "", [], 0
            return False
        self._new.append(piece)
        self._new_length += len(piece)
        if self._new_length < _LOOK_EVERY:
            return False
        self._tail = (self._tail + "".join(self._new))[-LEAST - _LOOK_EVERY :]
        self._new, self._new_length = [], 0
        return _goes_round(self._tail)


def _goes_round(text: str) -> bool:
    before = text.rfind(text[-_PROBE:], 0, len(text) - 1)
    round_ = len(text) - _PROBE - before
    if before < 0 or round_ > LONGEST or len(text) < LEAST:
        return False
    filled = text[-LEAST:]
    return filled[round_:] == filled[:-round_]
