"""What a model wrote as arguments, read as one JSON object.

Knows the ways in which models and servers spoil JSON, mends those that leave no doubt and says in words what was
mended. Refuses to guess where the text may be cut off: half an instruction is never an instruction. Refuses to know
schemas: fitting values to types is `agent/schema.py`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import json_repair

from agent.llm.surrogates import sound, sound_json

_FENCE = re.compile(r"^```[\w-]*\s*\n?(.*?)\n?```$", re.DOTALL)
_JUNK_AFTER = re.compile(r"^(?:\s|</?[\w:|.-]+/?>|<[|｜][^<>]*[|｜]>|[`;,}\])])*$")
"""What may follow an object without meaning anything: closing tags, control tokens, brackets too many."""
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_CODE_POINT = re.compile(r"\\u([0-9a-fA-F]{4})")
_PUNCTUATION = re.compile(r"""\\[nrtbf]|[\s"'“”,\\]""")
_PLAIN_WORDS = re.compile(r"^[^{\[]*(?=[{\[])", re.DOTALL)


@dataclass(frozen=True)
class Arguments:
    """One object, or the reason why there is none."""

    value: dict[str, Any] | None
    repairs: tuple[str, ...] = ()
    fault: str = ""
    """For the model; empty where `value` is an object."""

    @property
    def text(self) -> str:
        """Sound JSON text of one object; `{}` where nothing could be read."""
        return json.dumps(self.value or {}, ensure_ascii=False)


@dataclass
class _Reading:
    repairs: list[str] = field(default_factory=list)

    def note(self, what: str) -> None:
        if what not in self.repairs:
            self.repairs.append(what)


def read_arguments(text: str) -> Arguments:
    """Read arguments as they came. Never raises."""
    text = sound(text).strip()
    if text in ("", "null", "None"):
        return Arguments({})
    reading = _Reading()
    try:
        value = _read(text, reading, depth=0)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return Arguments(None, fault=_fault(text))
    if value is None:
        return Arguments({}, tuple(reading.repairs))
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], dict):
        reading.note("arguments repaired: taken out of a list")
        value = value[0]
    if value == []:
        reading.note("arguments repaired: an empty list stood for no arguments")
        value = {}
    if not isinstance(value, dict):
        return Arguments(None, fault=_fault(text))
    return Arguments(sound_json(_strict(value, reading)), tuple(reading.repairs))


def is_whole(text: str) -> bool:
    """Is this one complete JSON object? A cheap no where it cannot be."""
    stripped = text.strip()
    if not (stripped.startswith("{") and stripped.endswith("}")):
        return False
    try:
        return isinstance(json.loads(stripped, strict=False), dict)
    except ValueError:
        return False


def is_cut(text: str) -> bool:
    """Does the text stop inside a string, a key or before a value, so that something is certainly missing?"""
    in_string = False
    for match in re.finditer(r'\\.|"', text, re.DOTALL):
        if match.group() == '"':
            in_string = not in_string
    tail = text.rstrip()
    return in_string or tail.endswith((":", ",", "{", "[", "\\"))


def with_end(text: str) -> str:
    """The text with the brackets closed that it left open."""
    open_marks: list[str] = []
    for found in re.finditer(r'"(?:\\.|[^"\\])*(?:"|$)|[{}\[\]]', text, re.DOTALL):
        mark = found.group()
        if mark in ("{", "["):
            open_marks.append("}" if mark == "{" else "]")
        elif mark in ("}", "]") and open_marks:
            open_marks.pop()
    return text + "".join(reversed(open_marks))


def _read(text: str, reading: _Reading, depth: int) -> Any:
    value = _parse(text, reading)
    if isinstance(value, str) and depth < 3:
        reading.note("arguments repaired: JSON text inside JSON text")
        inner = value.strip()
        return _read(inner, reading, depth + 1) if inner else {}
    return value


def _parse(text: str, reading: _Reading) -> Any:
    """From the strictest reading to the most lenient."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        value = json.loads(text, strict=False)
        reading.note("arguments repaired: bare line breaks or tabs inside a string")
        return value
    except ValueError:
        pass
    if fenced := _FENCE.match(text):
        reading.note("arguments repaired: taken out of a code fence")
        return _parse(fenced.group(1).strip(), reading)
    if (value := _first_object(text, reading)) is not None:
        return value
    try:
        value = ast.literal_eval(text)
        if isinstance(value, dict):
            reading.note("arguments repaired: a Python dict, not JSON")
            return json.loads(json.dumps(value))
    except (ValueError, SyntaxError, TypeError):
        pass
    return _mend(text, reading)


def _first_object(text: str, reading: _Reading) -> Any:
    """An object followed by something that adds nothing: a tag, a bracket, itself again. None where that is not so."""
    decoder = json.JSONDecoder(strict=False)
    try:
        first, end = decoder.raw_decode(text)
    except ValueError:
        return None
    rest = text[end:].strip()
    if not isinstance(first, dict):
        return None
    if _JUNK_AFTER.match(rest):
        reading.note("arguments repaired: what followed the object was cut off")
        return first
    try:
        second, end = decoder.raw_decode(rest)
    except ValueError:
        return None
    if not _JUNK_AFTER.match(rest[end:]) and rest[end:].strip() != rest[:end]:
        return None
    if second in ({}, first) or (isinstance(second, str) and _is_json_of(second, first)):
        reading.note("arguments repaired: what came after the object added nothing")
        return first
    if first == {} and isinstance(second, dict):
        reading.note("arguments repaired: an empty object before the real one")
        return second
    return None


def _is_json_of(text: str, value: Any) -> bool:
    try:
        return bool(json.loads(text) == value)
    except ValueError:
        return False


def _mend(text: str, reading: _Reading) -> Any:
    """The last resort: `json_repair`, kept from inventing the end of a text that was cut off."""
    start = _PLAIN_WORDS.match(text)
    inner = text[start.end() :] if start else text
    if not inner.startswith("{") or is_cut(inner) or _several(inner):
        raise ValueError("not an object, or not all of it")
    ended = with_end(inner)
    try:
        value = json.loads(ended, strict=False)
    except ValueError:
        if ended != inner:
            raise
        value = json_repair.loads(inner)
    if not isinstance(value, dict) or not value:
        raise ValueError("not an object")
    if not _says_the_same(ended, value):
        raise ValueError("nobody knows what was meant")
    reading.note("arguments repaired: the JSON was not sound")
    return value


def _says_the_same(text: str, value: Any) -> bool:
    """Was only punctuation mended? Or did words get lost, made up, or moved from one text into another?

    Quotation marks that were not escaped count as part of a text only where they stand in pairs around something.
    """
    if _bare(text) != _bare(json.dumps(value, ensure_ascii=False)):
        return False
    texts = list(_texts(value))
    if sum(t.count('"') for t in texts) == text.count('\\"'):
        return True
    return all(t.count('"') % 2 == 0 and not any(part[-1:].isalnum() for part in t.split('"')[:-1:2]) for t in texts)


def _bare(text: str) -> str:
    """What is left without comments, quotation marks, commas, escapes and white space."""
    text = _COMMENT.sub(lambda found: found.group(1) or "", text)
    text = _CODE_POINT.sub(lambda found: chr(int(found.group(1), 16)), text)
    return _PUNCTUATION.sub("", text).casefold().replace("none", "null")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for item in value:
            yield from _texts(item)
        for item in value.values() if isinstance(value, dict) else ():
            yield from _texts(item)


def _several(text: str) -> bool:
    """Two different objects in a row: nobody knows which one was meant."""
    try:
        _, end = json.JSONDecoder(strict=False).raw_decode(text)
    except ValueError:
        return False
    return text[end:].lstrip().startswith("{")


def _strict(value: Any, reading: _Reading) -> Any:
    """NaN and infinities are not JSON."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        reading.note("arguments repaired: NaN is not JSON, null stands for it")
        return None
    if isinstance(value, list):
        return [_strict(item, reading) for item in value]
    if isinstance(value, dict):
        return {str(key): _strict(item, reading) for key, item in value.items()}
    return value


def _fault(text: str) -> str:
    shown = text if len(text) <= 200 else text[:100] + " ... " + text[-90:]
    return f"The arguments of this call are not one JSON object, so it did not run. Send them again. They read: {shown}"
