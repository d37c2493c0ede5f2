"""Call ids of our own, for calls that came without one: nine letters and digits, which every server takes."""

from __future__ import annotations

import secrets
import string
from collections.abc import Container

_LETTERS = string.ascii_letters + string.digits


def fresh_id(taken: Container[str]) -> str:
    """An id that is not among those taken."""
    while (made := "".join(secrets.choice(_LETTERS) for _ in range(9))) in taken:
        continue
    return made
