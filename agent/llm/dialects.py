"""How models write calls as text: one reader for the inside of all dialects.

Knows JSON objects and lists, function and parameter tags, names with JSON after them, key and value tags, Python call
syntax. Which envelope they stood in, and whether a text is a call at all, is decided in `textcalls.py`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import json_repair

from agent.llm.arguments import is_cut, with_end
from agent.llm.names import Names

NAME_KEYS = ("name", "tool_name", "tool", "function_name", "function", "recipient_name", "action", "tool_call")
ARGUMENT_KEYS = (
    *("arguments", "parameters", "args", "input", "params", "tool_input", "action_input", "kwargs"),
    *("tool_args", "action_parameters", "tool_parameters", "parameter", "argument"),
)
WRAPPER_KEYS = ("tool_calls", "tool_call", "function_call", "function_calls", "calls", "actions", "tool_uses")
_OTHER_KEYS = ("type", "id", "index", "call_id", "tool_call_id", "thought", "thoughts", "reasoning", "description")

_NAME = r"[A-Za-z_][\w.\-:/]*"
_FUNCTION_TAG = re.compile(
    rf"<(?:[|｜]?DSML[|｜]|\w+:)?(?:function|invoke|tool_call|function_call|tool)(?:\s+name\s*=\s*|[=(])[\"']?({_NAME})[\"']?\)?"
)
_FUNCTION_END = re.compile(r"</(?:[|｜]?DSML[|｜]|\w+:)?(?:function|invoke|tool|tool_call|function_call)>")
_NAME_TAG = re.compile(rf"<({_NAME})>")
_ANY_TAG = re.compile(r"<(\w+)>(.*?)</\1>", re.DOTALL)
_PYTHON_LIST = re.compile(rf"\[\s*{_NAME}\(")
_PARAMETER = re.compile(
    r"<(?:[|｜]?DSML[|｜]|\w+:)?(?:parameter|param|arg)(?:=|\s+name\s*=\s*)[\"']?([^\"'>\s]+)[\"']?(?P<more>[^>]*)>"
    r"(.*?)(?:</(?:[|｜]?DSML[|｜]|\w+:)?(?:parameter|param|arg)>|(?=<(?:[|｜]?DSML[|｜]|\w+:)?(?:parameter|param|arg)[=\s])"
    r"|(?=</(?:[|｜]?DSML[|｜]|\w+:)?(?:function|invoke)>)|$)",
    re.DOTALL,
)
_OPEN_CALL = re.compile(r"<\|open\|>(?:tools)?call tool=\"([^\"]+)\"[^<]*<\|sep\|>")
_OPEN_ARGUMENT = re.compile(
    r"\s*<\|open\|>argument key=\"([^\"]+)\"[^<]*<\|sep\|>(.*?)<\|close\|>argument<\|sep\|>\s*", re.DOTALL
)
_KEY_VALUE = re.compile(
    r"<(?:\w+_)?arg_key>(.*?)</(?:\w+_)?arg_key>\s*<(?:\w+_)?arg_value>(.*?)(?:</(?:\w+_)?arg_value>|$)", re.DOTALL
)
_KEYED_CALL = re.compile(rf"({_NAME})\s*(?=<(?:\w+_)?arg_key>)")
_NAME_AND_ARGUMENTS = re.compile(
    rf"<((?:tool_|function_)?name)>\s*({_NAME})\s*</\1>\s*<(arguments|parameters|args|input)>(.*?)</\3>", re.DOTALL
)
_NAMED_JSON = re.compile(
    rf"(?:call:|to=)?({_NAME})(?:\s|\[CALL_ID\][\w-]*|\[ARGS\]|<[|｜][^<>]*[|｜]>|```(?:json)?|json\b|code\b|=)*(?=\{{)"
)
_QUOTE_TOKEN = re.compile(r"<escape>|<\|\"\|>")
_BARE_NAME = re.compile(rf"({_NAME})\s*(?=$|</|<[|｜])")
_NOISE = re.compile(
    r"(?:\s|[,;]|<[|｜](?!DSML|open\|)[^<>]*[|｜]>|```(?:json|tool_call|tool_code|xml)?|\bfunction(?=<)|\[/?TOOL_CALLS?\]"
    r"|</?(?:[\w]+:)?(?:tool_calls?|function_calls?|tool_use|tools)>|</(?:function|invoke|tool)>)+"
)


@dataclass(frozen=True)
class WrittenCall:
    """A call found in text: the name as written, the arguments as JSON text (or what was meant to be)."""

    name: str
    arguments: str


class NoCall(ValueError):
    """The text does not read as calls."""


def read_calls(body: str, names: Names, closed: bool = False) -> tuple[list[WrittenCall], str]:
    """All calls at the beginning of a text, and what follows the last one. Raises NoCall where there is none.

    `closed`: the text is all there is, so a bracket that is missing at its end was forgotten and not cut off.
    """
    if closed and body.lstrip()[:1] in ("{", "[") and not is_cut(body):
        body = with_end(body)
    calls: list[WrittenCall] = []
    rest = body
    while True:
        rest = rest[found.end() :] if (found := _NOISE.match(rest)) else rest
        if not rest:
            break
        try:
            more, rest = _next(rest, names)
        except NoCall:
            if calls:
                break
            raise
        calls += more
    if not calls:
        raise NoCall(body)
    return calls, rest


def _next(text: str, names: Names) -> tuple[list[WrittenCall], str]:
    if found := _FUNCTION_TAG.match(text):
        return _tagged(text, found, names)
    if found := _NAME_AND_ARGUMENTS.match(text):
        return [_from_tags(found.group(2), found.group(4).strip(), names)], text[found.end() :]
    if (found := _NAME_TAG.match(text)) and names.real(found.group(1)):
        return _named_by_tag(text, found, names)
    if found := _OPEN_CALL.match(text):
        return _opened(text, found, names)
    if text[0] in "{[" and not _PYTHON_LIST.match(text):
        return _json_calls(text, names)
    if found := _KEYED_CALL.match(text):
        end = max((m.end() for m in _KEY_VALUE.finditer(text)), default=found.end())
        pairs = {k.strip(): v for k, v in _KEY_VALUE.findall(text[:end])}
        return [_call(found.group(1), _typed(found.group(1), pairs, names))], text[end:]
    if found := _NAMED_JSON.match(text):
        value, end = json_value(text, found.end())
        return [WrittenCall(found.group(1), _arguments_text(value))], text[end:]
    return _python_calls(text, names)


def _tagged(text: str, opening: re.Match[str], names: Names) -> tuple[list[WrittenCall], str]:
    """`<function=name>` with parameter tags, or JSON, inside."""
    name = opening.group(1)
    inside = text[opening.end() :].lstrip(" ,(").removeprefix(">")
    stripped = inside.lstrip()
    if stripped.startswith("{"):
        at = len(text) - len(stripped)
        value, end = json_value(text, at)
        closing = _FUNCTION_END.search(text, end)
        return [WrittenCall(name, _arguments_text(value))], text[closing.end() if closing else end :]
    start = len(text) - len(inside)
    closing = _FUNCTION_END.search(text, _after_parameters(text, start))
    end = closing.end() if closing else len(text)
    body = text[start : closing.start() if closing else end]
    pairs = {m.group(1): m.group(3) for m in _PARAMETER.finditer(body)} or _by_tags(body)
    return [_call(name, _typed(name, pairs, names))], text[end:]


def _opened(text: str, opening: re.Match[str], names: Names) -> tuple[list[WrittenCall], str]:
    """`<|open|>call tool="name"<|sep|>`, arguments in the same way, `<|close|>call<|sep|>`."""
    inside, closing, rest = text[opening.end() :].partition("<|close|>call<|sep|>")
    pairs = dict(_OPEN_ARGUMENT.findall(inside))
    if not closing or _OPEN_ARGUMENT.sub("", inside).strip():
        raise NoCall(text)
    return [_call(opening.group(1), _typed(opening.group(1), pairs, names))], rest


def _named_by_tag(text: str, opening: re.Match[str], names: Names) -> tuple[list[WrittenCall], str]:
    """`<name><key>value</key></name>`"""
    inside, closing, rest = text[opening.end() :].partition(f"</{opening.group(1)}>")
    if not closing:
        raise NoCall(text)
    return [_call(opening.group(1), _typed(opening.group(1), _by_tags(inside), names))], rest


def _from_tags(name: str, inside: str, names: Names) -> WrittenCall:
    """`<name>name</name><arguments>...</arguments>`: JSON or a tag for each parameter inside."""
    if inside.startswith("{"):
        return WrittenCall(name, inside)
    return _call(name, _typed(name, _by_tags(inside), names))


def _by_tags(inside: str) -> dict[str, str]:
    """`<key>value</key>`, and nothing else. Raises NoCall."""
    if _ANY_TAG.sub("", inside).strip():
        raise NoCall(inside)
    return dict(_ANY_TAG.findall(inside))


def _after_parameters(text: str, start: int) -> int:
    """Where a run of parameters ends: a closing function tag inside a value does not count."""
    end = start
    while found := _PARAMETER.match(text, end + len(text[end:]) - len(text[end:].lstrip())):
        end = found.end()
    return end


def _json_calls(text: str, names: Names) -> tuple[list[WrittenCall], str]:
    try:
        value, end = json_value(text, 0)
    except NoCall:
        return _python_calls(text, names)
    items = value if isinstance(value, list) else [value]
    calls = [call for item in items for call in calls_of(item, names)]
    if not calls:
        raise NoCall(text)
    return calls, text[end:]


def calls_of(value: Any, names: Names) -> list[WrittenCall]:
    """The calls a JSON value means. Raises NoCall for an object that is none."""
    if not isinstance(value, dict):
        raise NoCall(str(value))
    for key in WRAPPER_KEYS:
        if isinstance(inner := value.get(key), (dict, list)):
            return [c for item in (inner if isinstance(inner, list) else [inner]) for c in calls_of(item, names)]
    if isinstance(inner := value.get("function"), dict):
        return calls_of(inner, names)
    named = next(((key, value[key]) for key in NAME_KEYS if isinstance(value.get(key), str) and value[key]), None)
    if named is None:
        if len(value) == 1:
            [(key, inner)] = value.items()
            if names.real(key) and isinstance(inner, dict):
                return [_call(key, inner)]
        raise NoCall(str(value))
    key, name = named
    for argument_key in ARGUMENT_KEYS:
        if argument_key in value and argument_key != key:
            return [WrittenCall(name, _arguments_text(value[argument_key]))]
    rest = {k: v for k, v in value.items() if k != key and k not in _OTHER_KEYS}
    return [_call(name, rest)]


def json_value(text: str, start: int) -> tuple[Any, int]:
    """One JSON value, or something near it, and where it ends. Raises NoCall where it is not all there."""
    try:
        value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
    except ValueError:
        end = _balanced_end(text, start)
    else:
        return value, end
    piece = text[start:end]
    try:
        value = ast.literal_eval(piece)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = json_repair.loads(_QUOTE_TOKEN.sub('"', piece))
    if not isinstance(value, (dict, list)) or (not value and len(piece) > 4):
        raise NoCall(piece)
    return value, end


def _balanced_end(text: str, start: int) -> int:
    """The end of the brackets that open at `start`. Raises NoCall where they do not close."""
    depth, quote = 0, ""
    for found in re.finditer(r"\\.|[\"'{}\[\]]", text[start:], re.DOTALL):
        mark = found.group()
        if quote:
            quote = "" if mark == quote else quote
        elif mark == '"' or (mark == "'" and _opens_quote(text, start + found.start())):
            quote = mark
        elif mark in "{[":
            depth += 1
        elif mark in "}]":
            depth -= 1
            if depth == 0:
                return start + found.end()
    raise NoCall(text[start:])


def _opens_quote(text: str, at: int) -> bool:
    """An apostrophe in a word is no quotation mark."""
    return text[:at].rstrip()[-1:] in ("{", "[", ",", ":", "(", "=")


def _python_calls(text: str, names: Names) -> tuple[list[WrittenCall], str]:
    """`name(key=value)`, alone or in a list, also inside `print(...)`."""
    end = _python_end(text)
    try:
        tree = ast.parse(text[:end].strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        if (found := _BARE_NAME.match(text)) and names.real(found.group(1)):
            return [WrittenCall(found.group(1), "{}")], text[found.end() :]
        raise NoCall(text) from None
    nodes = tree.elts if isinstance(tree, (ast.List, ast.Tuple)) else [tree]
    calls = [_python_call(node, names) for node in nodes]
    if not calls:
        raise NoCall(text)
    return calls, text[end:]


def _python_end(text: str) -> int:
    depth = 0
    for found in re.finditer(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[()\[\]{}]", text, re.DOTALL):
        mark = found.group()
        depth += (mark in "([{") - (mark in ")]}") if len(mark) == 1 else 0
        if depth == 0 and len(mark) == 1:
            return found.end()
    return len(text)


def _python_call(node: ast.expr, names: Names) -> WrittenCall:
    if not isinstance(node, ast.Call):
        raise NoCall(ast.dump(node))
    name = ast.unparse(node.func)
    if name == "print" and len(node.args) == 1:
        return _python_call(node.args[0], names)
    tool = names.tools.get(names.real(name) or "")
    keys = list(tool.parameters.get("properties", {})) if tool else []
    try:
        values = dict(zip(keys, (ast.literal_eval(arg) for arg in node.args), strict=False))
        values |= {k.arg: ast.literal_eval(k.value) for k in node.keywords if k.arg}
        return WrittenCall(name.removesuffix(".call"), json.dumps(values, ensure_ascii=False))
    except (ValueError, TypeError, SyntaxError):
        raise NoCall(name) from None


def _typed(name: str, pairs: Mapping[str, str], names: Names) -> dict[str, Any]:
    """Tag values are text; where the schema wants no text they are read as JSON."""
    tool = names.tools.get(names.real(name) or "")
    properties = tool.parameters.get("properties", {}) if tool else {}
    values: dict[str, Any] = {}
    for key, text in pairs.items():
        text = text.removeprefix("\n").removesuffix("\n")
        schema = properties.get(key)
        wanted = schema.get("type") if isinstance(schema, Mapping) else None
        values[key] = text
        if wanted is not None and wanted != "string" and "string" not in wanted:
            try:
                values[key] = json.loads(text)
            except ValueError:
                continue  # for the tool's own check to refuse
    return values


def _call(name: str, arguments: Mapping[str, Any]) -> WrittenCall:
    return WrittenCall(name, json.dumps(arguments, ensure_ascii=False))


def _arguments_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def call_in_name(name: str, names: Names) -> WrittenCall | None:
    """A whole call that a server left in the name of one, with tags or brackets; None where it is only a name."""
    if not re.search(r"arg_key>|[({]", name):
        return None
    try:
        [call], rest = read_calls(name, names)
    except ValueError:  # NoCall, or several
        return None
    return call if not rest.strip() else None


def broken_call(body: str) -> WrittenCall | None:
    """A call that was certainly meant but cannot be read: its name, and arguments that are not whole."""
    keys = "|".join(("name", "tool_name", "tool", "function_name"))
    found = re.search(rf"\"(?:{keys})\"\s*:\s*\"({_NAME})\"", body) or _FUNCTION_TAG.search(body)
    if not found:
        return None
    opening = body.find("{", found.end())
    arguments = body[opening:] if opening >= 0 else body[found.end() :]
    return WrittenCall(found.group(1), arguments if is_cut(arguments) else '{"cut": ' + arguments[:200])
