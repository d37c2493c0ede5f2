"""From a Python signature to a JSON schema, and from a model's arguments to values that fit it.

Knows pydantic and JSON Schema. Refuses to know what a tool does. The schema of a decorated function comes from
pydantic; a schema that was handed in (another program's tool) is checked with `jsonschema`.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

import jsonschema
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from agent.errors import ToolError

JsonObject = Mapping[str, Any]
Check = Callable[[dict[str, Any]], dict[str, Any]]
"""Takes parsed arguments, returns them as the function wants them, raises ToolError in words for the model."""


def signature_model(function: Callable[..., Any], skip: frozenset[str]) -> type[BaseModel]:
    """A pydantic model of the function's parameters, without those in `skip`. Unknown arguments are refused."""
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in skip:
            default = ... if parameter.default is inspect.Parameter.empty else parameter.default
            fields[name] = (hints[name], default)
    return create_model(function.__name__, __config__=ConfigDict(extra="forbid"), **fields)


def parameters_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The model's JSON schema without pydantic's titles, which only cost the reader tokens."""
    cleaned: dict[str, Any] = _untitled(model.model_json_schema())
    return cleaned


def _untitled(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    cleaned = {key: _untitled(value) for key, value in schema.items() if key not in ("title", "properties")}
    if "properties" in schema:  # its keys are names, and a parameter may well be called "title"
        cleaned["properties"] = {name: _untitled(value) for name, value in schema["properties"].items()}
    return cleaned


def check_by_model(model: type[BaseModel]) -> Check:
    """Validation by pydantic. Nested values arrive in the function as its annotations say."""

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            valid = model.model_validate(arguments)
        except ValidationError as error:
            raise ToolError(_explain(error)) from None
        return {name: getattr(valid, name) for name in model.model_fields}

    return check


def check_by_schema(schema: JsonObject) -> Check:
    """Validation by the schema as it stands. Raises `jsonschema.SchemaError` at once for a schema that is none."""
    cls = jsonschema.validators.validator_for(schema)
    cls.check_schema(dict(schema))
    validator = cls(dict(schema))

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        faults = sorted(validator.iter_errors(arguments), key=lambda fault: fault.json_path)
        if faults:
            raise ToolError("bad arguments: " + "; ".join(f"{f.json_path}: {f.message}" for f in faults[:5]))
        return arguments

    return check


def _explain(error: ValidationError) -> str:
    faults = (f"{'.'.join(map(str, fault['loc'])) or 'arguments'}: {fault['msg']}" for fault in error.errors())
    return "bad arguments: " + "; ".join(faults)


def fit(value: Any, schema: JsonObject, root: JsonObject | None = None) -> Any:
    """Undo what models do to types: `"5"` for 5, `"true"` for true, `"[1]"` for [1], null for "not given".

    Only where the schema leaves no doubt: a value that the schema allows as it stands is never touched, and a text
    stays a text where a text is allowed. What cannot be fitted comes back unchanged, for the check to refuse.
    """
    root = schema if root is None else root
    schema = _resolve(schema, root)
    allowed = _types(schema, root)
    if isinstance(value, str) and allowed and "string" not in allowed:
        value = _from_text(value, allowed)
    if isinstance(value, float) and value.is_integer() and "integer" in allowed and "number" not in allowed:
        value = int(value)
    if isinstance(value, dict) and "properties" in schema:
        return _fit_object(value, schema, root)
    if isinstance(value, list) and isinstance(schema.get("items"), dict):
        return [fit(item, schema["items"], root) for item in value]
    return value


def _fit_object(value: dict[str, Any], schema: JsonObject, root: JsonObject) -> dict[str, Any]:
    known, required = schema["properties"], schema.get("required", [])
    fitted = {}
    for name, item in value.items():
        if name in known:
            optional_null = item is None and name not in required
            if optional_null and "null" not in _types(_resolve(known[name], root), root):
                continue  # null for an optional argument means that it was not given
            item = fit(item, known[name], root)
        fitted[name] = item
    return fitted


def _resolve(schema: JsonObject, root: JsonObject) -> JsonObject:
    """Follow local references; a reference to anywhere else stays as it is."""
    seen = 0
    while isinstance(schema.get("$ref"), str) and schema["$ref"].startswith("#/") and seen < 20:
        target: Any = root
        for part in schema["$ref"][2:].split("/"):
            target = target.get(part, {}) if isinstance(target, dict) else {}
        schema, seen = target, seen + 1
    return schema


def _types(schema: JsonObject, root: JsonObject) -> set[str]:
    """The JSON types the schema allows; empty where it does not say."""
    named = schema.get("type")
    if isinstance(named, str):
        return {named}
    if isinstance(named, list):
        return set(named)
    found: set[str] = set()
    for branch in [*schema.get("anyOf", ()), *schema.get("oneOf", ())]:
        branch_types = _types(_resolve(branch, root), root)
        if not branch_types:
            return set()
        found |= branch_types
    return found


def _from_text(text: str, allowed: set[str]) -> Any:
    """The value that `text` spells, if the schema allows its type; else the text."""
    try:
        value = json.loads(text.strip().lower() if "boolean" in allowed else text)
    except ValueError:
        return text
    spelled = {
        bool: {"boolean"},
        int: {"integer", "number"},
        float: {"number"},
        list: {"array"},
        dict: {"object"},
        type(None): {"null"},
    }
    return value if spelled.get(type(value), set()) & allowed else text
