"""Tool names on the wire and back.

Knows what names a server takes, and the ways in which models write a name that is still certainly one tool's. Refuses
to guess: a name that could be two tools', or nearly one's, stays as it was written and the toolbox answers it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping

from agent.llm.model import ToolSpec

ALLOWED = re.compile(r"^[A-Za-z][A-Za-z0-9_-]{0,63}$")
"""Most servers take a digit or an underscore at the beginning; Gemini and Moonshot do not."""
_CONTROL = re.compile(r"<[|｜].*$|<｜.*$|</?[a-z_:]+>.*$", re.DOTALL)
_COUNTER = re.compile(r":\d+$")
_PREFIX = re.compile(r"^.*(?:[.:/]|__)(?=[^.:/]+$)")


class Names:
    """The names of one request's tools."""

    def __init__(self, tools: Iterable[ToolSpec]) -> None:
        self.tools: Mapping[str, ToolSpec] = {tool.name: tool for tool in tools}
        self._wire: dict[str, str] = {}
        for name in self.tools:
            self._wire[name] = name if ALLOWED.match(name) else _shorten(name)
        self._real = {wire: name for name, wire in self._wire.items()}
        self._folded: dict[str, list[str]] = {}
        for name in self.tools:
            self._folded.setdefault(_fold(name), []).append(name)

    def wire(self, name: str) -> str:
        """What the server is told; also for a name in the history that is no tool's."""
        return self._wire.get(name) or (name if ALLOWED.match(name) else _shorten(name))

    def real(self, written: str) -> str | None:
        """The one tool that is meant, or None."""
        written = _COUNTER.sub("", _CONTROL.sub("", written).strip().strip("\"'`()").strip())
        for candidate in (written, _PREFIX.sub("", written)):
            if candidate in self._real:
                return self._real[candidate]
            if candidate in self.tools:
                return candidate
            same = self._folded.get(_fold(candidate), [])
            if len(same) == 1:
                return same[0]
        return None

    def begins_a_name(self, written: str) -> bool:
        """Could more letters make this a tool's name?"""
        return any(name.startswith(written) for name in [*self.tools, *self._real])


def _fold(name: str) -> str:
    return re.sub(r"[-_\s]", "", name).casefold()


def _shorten(name: str) -> str:
    """A name the rules allow, told apart from others by a digest of the whole."""
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
    plain = re.sub(r"^[^A-Za-z]+", "", re.sub(r"[^A-Za-z0-9_-]+", "_", name))[:55].rstrip("_")
    return f"{plain}_{digest}" if plain else f"tool_{digest}"
