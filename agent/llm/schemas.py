"""A tool's JSON schema as a server takes it.

Knows which keywords are common ground. Refuses to know tools: the schema that arguments are checked against stays the
full one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent.llm.profile import Profile

PLAIN_KEYWORDS = frozenset(
    {"type", "description", "properties", "required", "items", "enum", "nullable", "minimum", "maximum", "anyOf"}
)
"""What Gemini's function declarations and the grammars of local servers have in common."""

_NAME_MAPS = ("properties", "$defs", "definitions", "patternProperties", "dependentSchemas")
"""Keywords whose keys are names and not keywords."""


def server_schema(schema: Mapping[str, Any], profile: Profile) -> dict[str, Any]:
    """The schema of one object of parameters, as far as this server knows it."""
    plain = profile.schemas == "plain"
    result: dict[str, Any] = _cut(_inlined(schema, schema) if plain else schema, plain, profile.refused_keywords)
    result.setdefault("type", "object")
    result.setdefault("properties", {})
    return result


def keywords(schema: Any) -> set[str]:
    """Every keyword that stands somewhere in a schema."""
    if isinstance(schema, list):
        return set().union(*map(keywords, schema)) if schema else set()
    if not isinstance(schema, Mapping):
        return set()
    found = set(schema)
    for key, value in schema.items():
        inner = value.values() if key in _NAME_MAPS and isinstance(value, Mapping) else [value]
        found = found.union(*map(keywords, inner)) if inner else found
    return found


def _cut(schema: Any, plain: bool, refused: frozenset[str]) -> Any:
    if isinstance(schema, list):
        return [_cut(item, plain, refused) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    result: dict[str, Any] = {}
    for key, value in _plainer(schema).items() if plain else schema.items():
        if key in refused or (plain and key not in PLAIN_KEYWORDS) or (key == "required" and not value):
            continue
        if key in _NAME_MAPS and isinstance(value, Mapping):
            result[key] = {name: _cut(item, plain, refused) for name, item in value.items()}
        elif key in ("enum", "required", "default", "const", "examples"):
            result[key] = value
        else:
            result[key] = _cut(value, plain, refused)
    return result


def _plainer(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same meaning in plainer keywords: a list of types as `nullable` or `anyOf`, `const` as `enum`."""
    result = dict(schema)
    kinds = result.get("type")
    if isinstance(kinds, list):
        others = [kind for kind in kinds if kind != "null"]
        if len(others) < len(kinds):
            result["nullable"] = True
        if len(others) == 1:
            result["type"] = others[0]
        else:
            result.pop("type")
            result["anyOf"] = [{"type": kind} for kind in others]
    branches = result.pop("oneOf", None) or result.get("anyOf")
    if isinstance(branches, list):
        others = [b for b in branches if not (isinstance(b, Mapping) and b.get("type") == "null")]
        if len(others) < len(branches):
            result["nullable"] = True
        result.pop("anyOf", None)
        if len(others) == 1 and isinstance(others[0], Mapping):
            result = {**others[0], **result}
        else:
            result["anyOf"] = others
    if "const" in result:
        result.setdefault("enum", [result["const"]])
    return result


def _inlined(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Any:
    """Local references written out, as deep as makes sense."""
    if isinstance(schema, list):
        return [_inlined(item, root, depth) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference.startswith("#/") and depth < 6:
        target: Any = root
        for part in reference[2:].split("/"):
            target = target.get(part, {}) if isinstance(target, Mapping) else {}
        others = {key: value for key, value in schema.items() if key != "$ref"}
        return _inlined({**target, **others}, root, depth + 1) if isinstance(target, Mapping) else others
    return {key: _inlined(value, root, depth) for key, value in schema.items() if key not in ("$defs", "definitions")}
