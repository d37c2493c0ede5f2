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
    whole = {"type": "object", **_inlined(schema, schema)} if plain else schema
    result: dict[str, Any] = _cut(whole, plain, profile.refused_keywords)
    if plain and "anyOf" in result:
        result = _merged(result)
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
            nodes = {name: {} if plain and item is True else item for name, item in value.items()}
            result[key] = {name: _cut(node, plain, refused) for name, node in nodes.items()}
        elif key in ("enum", "required", "default", "const", "examples"):
            result[key] = value
        else:
            result[key] = _cut(value, plain, refused)
    return result


def _plainer(schema: Mapping[str, Any]) -> dict[str, Any]:
    """As near as plainer keywords come: `nullable` or `anyOf` for a list of types, `enum` for `const`, one schema for
    all items, a type on every node, and nothing beside `anyOf`. What gets lost, the tool's own check still knows."""
    result = dict(schema)
    for part in result.pop("allOf", ()):
        result = _both(part, result)
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
    if result.get("type") == "array" or "items" in result:
        places = result.get("prefixItems") or result.get("items")
        first = places[0] if isinstance(places, list) and places else places
        result["items"] = first if isinstance(first, Mapping) else {}
    if isinstance(branches := result.get("anyOf"), list):
        shared = {key: result.pop(key) for key in _SHAPE if key in result}
        result["anyOf"] = [_both(shared, branch) for branch in branches]
    elif "type" not in result:
        result["type"] = _kind(result)
    return result


_SHAPE = ("type", "properties", "required", "items", "enum", "minimum", "maximum")
_KINDS: Mapping[type, str] = {bool: "boolean", int: "integer", float: "number"}


def _kind(schema: Mapping[str, Any]) -> str:
    """The type of a schema that names none; text where anything goes."""
    if "properties" in schema:
        return "object"
    values = schema.get("enum") or [""]
    return "array" if "items" in schema else _KINDS.get(type(values[0]), "string")


def _both(one: Any, other: Any) -> dict[str, Any]:
    """A schema that asks for both; where they contradict each other the second counts."""
    one, other = (schema if isinstance(schema, Mapping) else {} for schema in (one, other))
    result = {**one, **other}
    if "properties" in one and "properties" in other:
        result["properties"] = {**one["properties"], **other["properties"]}
    if "required" in one and "required" in other:
        result["required"] = list(dict.fromkeys([*one["required"], *other["required"]]))
    return result


def _merged(schema: Mapping[str, Any]) -> dict[str, Any]:
    """One object instead of several to choose from: parameters are always one. Only what all require is required."""
    branches = [branch for branch in schema["anyOf"] if isinstance(branch.get("properties"), Mapping)]
    result = {key: value for key, value in schema.items() if key != "anyOf"}
    result["properties"] = {name: node for branch in branches for name, node in branch["properties"].items()}
    required = [set(branch.get("required", ())) for branch in branches]
    if required and (names := set.intersection(*required)):
        result["required"] = [name for name in result["properties"] if name in names]
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
