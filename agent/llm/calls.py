"""Calls that arrive in pieces: which piece belongs to which call.

Servers mark the pieces of a call by index, by id, by name, by several of these, or by none, and each of these marks
lies somewhere. So all of them decide together, with one more witness that cannot lie: whether the JSON of the
arguments so far is complete. Knows pieces and open calls; refuses to know tools' meanings and servers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.llm.arguments import is_whole
from agent.llm.names import Names
from agent.llm.surrogates import Joiner, sound, sound_json

_ARGUMENTS = ("arguments", "parameters", "args", "input")
"""Where servers put the arguments; the first is the right one."""
_KNOWN_IN_CALL = {"index", "id", "type", "function", "custom", "name", *_ARGUMENTS}
_KNOWN_IN_FUNCTION = {"name", *_ARGUMENTS}
_NOTHING = (None, "", "null", "None")
"""What stands for a mark that is not there; some servers write it as text."""


@dataclass(frozen=True)
class Piece:
    """One entry of a delta's `tool_calls`, read without trusting it."""

    index: int | None
    id: str
    name: str
    arguments: str
    extra: Mapping[str, Any]

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> Piece:
        function = _unpacked(entry.get("function") or entry.get("custom"))
        inner: Mapping[str, Any] = function if isinstance(function, Mapping) else entry
        arguments = next((inner[key] for key in _ARGUMENTS if inner.get(key) is not None), "")
        if not isinstance(arguments, str):
            arguments = json.dumps(arguments, ensure_ascii=True)
        index, id_, name = entry.get("index"), entry.get("id"), inner.get("name") or entry.get("name")
        return cls(
            index=index if isinstance(index, int) else None,
            id=sound(str(id_)) if id_ not in _NOTHING else "",
            name=sound(name) if isinstance(name, str) and name not in _NOTHING else "",
            arguments=arguments,
            extra=_extra(entry, function),
        )


def entries(calls: Any) -> list[Mapping[str, Any]]:
    """The entries of a delta's `tool_calls`: a list, numbered in an object, or one alone; JSON text at any depth."""
    calls = _unpacked(calls)
    if isinstance(calls, Mapping) and calls and all(key.isdigit() for key in calls):
        calls = list(calls.values())
    found = map(_unpacked, calls) if isinstance(calls, list) else [calls]
    return [entry for entry in found if isinstance(entry, Mapping)]


def _unpacked(value: Any) -> Any:
    try:
        return json.loads(value, strict=False) if isinstance(value, str) else value
    except ValueError:
        return None


def _extra(entry: Mapping[str, Any], function: Any) -> Mapping[str, Any]:
    """Fields we do not know, such as a thought signature: kept to be sent back as they came."""
    extra = {k: sound_json(v) for k, v in entry.items() if k not in _KNOWN_IN_CALL and v is not None}
    if isinstance(function, Mapping):
        inner = {k: sound_json(v) for k, v in function.items() if k not in _KNOWN_IN_FUNCTION and v is not None}
        if inner:
            extra["function"] = inner
    return extra


@dataclass
class OpenCall:
    """A call that is still being written."""

    position: int
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    next_name: str = ""
    """A name that came after the arguments were complete: the next arguments open a call of that name."""
    joiner: Joiner = field(default_factory=Joiner)
    mixed: bool = False
    """Two indexes took turns in it: what looked like a count of pieces were several calls that nothing tells apart."""
    _last_index: int | None = None
    _grows: bool = True
    """Has each piece begun with the whole piece before it?"""

    def take(self, piece: str) -> str:
        """Add one more piece of the arguments; gives what is new in it."""
        last = self.pieces[-1] if self.pieces else ""
        self._grows = self._grows and piece.startswith(last)
        self.pieces.append(piece)
        return piece[len(last) :] if self._grows else piece

    def count(self, index: int) -> None:
        """Note the index of one more piece. A server that counts pieces never goes back."""
        self.mixed = self.mixed or (self._last_index is not None and index < self._last_index)
        self._last_index = index

    @property
    def arguments(self) -> str:
        """All pieces; where each repeats what came before and only so it can be read, the last of them."""
        joined = "".join(self.pieces)
        repeats = self._grows and len(self.pieces) > 1 and not is_whole(joined)
        return self.pieces[-1] if repeats else joined

    @property
    def blank(self) -> bool:
        return not any(piece.strip() for piece in self.pieces)

    @property
    def whole(self) -> bool:
        return self._may_be_whole() and is_whole(self.arguments)

    @property
    def unfinished(self) -> bool:
        return not self.blank and not self.whole

    def _may_be_whole(self) -> bool:
        """A cheap no, without putting all pieces together."""
        last = next((piece for piece in reversed(self.pieces) if piece.strip()), "")
        return last.rstrip().endswith("}")


class CallPieces:
    """Puts the pieces of one reply's calls together."""

    def __init__(self, names: Names) -> None:
        self.calls: list[OpenCall] = []
        self._names = names
        self._by_index: dict[int, OpenCall] = {}
        self._by_id: dict[str, OpenCall] = {}

    def add(self, piece: Piece) -> tuple[OpenCall, str]:
        """The call the piece belongs to, and the new piece of its arguments."""
        pointed = self._pointed_at(piece)
        call = pointed
        if pointed is None or self._opens(pointed, piece):
            call = self._open(name=pointed.next_name if pointed else "")
        assert call is not None
        if piece.index is not None:
            self._by_index[piece.index] = call
            call.count(piece.index)
        call.id = call.id or piece.id
        if call.id == piece.id:
            self._by_id[call.id] = call
        self._name(call, piece)
        for key, value in piece.extra.items():
            old = call.extra.get(key)
            call.extra[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
        added = call.joiner.feed(piece.arguments)
        return call, call.take(added) if added else ""

    def _open(self, name: str) -> OpenCall:
        call = OpenCall(len(self.calls), name=name)
        self.calls.append(call)
        return call

    def _pointed_at(self, piece: Piece) -> OpenCall | None:
        """The open call that index and id point at; None where they point at a new one."""
        last = self.calls[-1] if self.calls else None
        with_id = self._by_id.get(piece.id) if piece.id else None
        if piece.index is None:
            return with_id or last
        at_index = self._by_index.get(piece.index)
        if at_index is not None:
            return at_index if not piece.id or at_index.id == piece.id else with_id or at_index
        # An index not seen before. It may only be counting pieces: then the call it goes on with is not finished.
        goes_on = with_id or (None if piece.id else last)
        if goes_on is None or not (goes_on.unfinished or (not piece.name and (with_id or goes_on.blank))):
            return None
        return goes_on if not piece.name or (piece.name == goes_on.name and _continues(piece)) else None

    def _opens(self, call: OpenCall, piece: Piece) -> bool:
        """Does this piece open a call of its own, although `call` is where its marks point?"""
        new_id = bool(piece.id and call.id and piece.id != call.id)
        if not piece.name:
            return bool(call.next_name and piece.arguments.strip()) or (new_id and call.whole)
        if self._is_another(call.name, piece.name):
            return True
        if new_id:  # with a name it opens a call, unless both are repeated in the middle of the arguments
            return not (call.unfinished and _continues(piece))
        if not call.whole or _continues(piece) or not piece.arguments.strip():
            return False
        again = piece.id and piece.arguments.strip() == call.arguments.strip()
        return not again  # the same id with the same arguments: the whole call once more

    def _is_another(self, known: str, written: str) -> bool:
        """Another name, rather than the same again, or the next part of it?"""
        if not known or written.startswith(known):
            return False
        joined = known + written
        return self._names.real(known) is not None and not self._names.begins_a_name(joined)

    def _name(self, call: OpenCall, piece: Piece) -> None:
        if piece.name == call.name:
            if piece.name and call.whole and not piece.arguments.strip():
                call.next_name = piece.name  # the name once more, or a call whose arguments are still to come
        elif piece.name.startswith(call.name):
            call.name = piece.name  # a late name, or the name so far, growing
        else:
            call.name += piece.name


def _continues(piece: Piece) -> bool:
    """Text in the middle of arguments, not the beginning of some."""
    text = piece.arguments.strip()
    return bool(text) and not text.startswith("{")
