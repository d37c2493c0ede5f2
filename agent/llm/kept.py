"""Fields of a message that a provider wants back exactly as it gave them.

Knows how they come in pieces: texts that are joined, details that share an index. Refuses to know what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.llm.growing import Growing
from agent.llm.surrogates import sound_json

SIGNED_FIELDS = ("reasoning_details", "thinking_blocks", "extra_content", "thought_signature", "signature")
_TEXTS = ("text", "summary", "data", "thinking", "signature")
"""What comes in pieces in a detail."""


class Kept:
    """The fields of one reply."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._growing: dict[tuple[int, str], tuple[dict[str, Any], Growing]] = {}
        """By detail and key: some servers send all of a text so far with each piece."""

    def add(self, delta: Mapping[str, Any]) -> None:
        """Take what one delta holds of them."""
        for name in SIGNED_FIELDS:
            if value := delta.get(name):
                self._keep(name, sound_json(value))

    def close(self) -> dict[str, Any]:
        """The fields, now that all pieces have come."""
        for (_, key), (detail, growing) in self._growing.items():
            if isinstance(text := detail[key], str):
                detail[key] = text + growing.close()
        self._growing.clear()
        return self._fields

    def _keep(self, name: str, value: Any) -> None:
        old = self._fields.get(name)
        if isinstance(value, list):
            if not isinstance(old, list):
                old = self._fields[name] = []
            for item in value:
                self._detail(old, item)
        elif isinstance(old, str) and isinstance(value, str):
            self._fields[name] = old + value
        else:
            self._fields[name] = value

    def _detail(self, details: list[Any], item: Any) -> None:
        """Pieces of one detail share an index (or follow each other): their texts are one."""
        last = details[-1] if details else None
        if not isinstance(item, dict):
            details.append(item)
            return
        if not (isinstance(last, dict) and _same(last, item)):
            last = {}
            details.append(last)
        for key, value in item.items():
            if key in _TEXTS and isinstance(value, str) and isinstance(old := last.get(key, ""), str):
                _, growing = self._growing.setdefault((id(last), key), (last, Growing()))
                last[key] = old + growing.feed(value)
            elif value is not None or key not in last:
                last[key] = value


def _same(last: Mapping[str, Any], item: Mapping[str, Any]) -> bool:
    same = all(item.get(key) == last.get(key) for key in ("type", "index"))
    return same and item.get("id", last.get("id")) == last.get("id")
