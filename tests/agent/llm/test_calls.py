"""Pieces of calls: by index, by id, by name, by all, by none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.llm.assembly import Assembly
from agent.llm.faults import Scrubber
from agent.llm.names import Names
from tests.agent.llm.serving import TOOLS, call_delta, delta

OSLO, BERN = '{"city": "Oslo"}', '{"city": "Bern"}'
W = "get_weather"


def assemble(*chunks: Any, taken: tuple[str, ...] = ()) -> Any:
    assembly = Assembly(Names(TOOLS), taken, Scrubber(""))
    for chunk in chunks:
        assembly.add(chunk)
    assembly.close()
    return assembly.reply()


def p(arguments: Any = None, name: str | None = None, **fields: Any) -> Any:
    return call_delta(name, arguments, **fields)


ONE_CALL = {
    "index only": [p("", W, index=0), p('{"city": ', index=0), p('"Oslo"}', index=0)],
    "rising index": [p("", W, index=0, id="a"), p('{"city": ', index=1), p('"Oslo"}', index=2)],
    "rising index, id repeated": [
        p("", W, index=0, id="a"),
        p('{"city": ', index=1, id="a"),
        p('"Oslo"}', index=2, id="a"),
    ],
    "all repeated": [p("{", W, index=0, id="a"), p('"city": ', W, index=0, id="a"), p('"Oslo"}', W, index=0, id="a")],
    "ids change": [p("", W, index=0, id="a"), p('{"city": ', index=0, id="b"), p('"Oslo"}', index=0, id="c")],
    "ids change, no index": [p("", W, id="a"), p('{"city": ', id="b"), p('"Oslo"}', id="c")],
    "ids and names repeated": [
        p('{"ci', W, index=0, id="a"),
        p('ty": ', W, index=0, id="b"),
        p('"Oslo"}', W, index=0, id="c"),
    ],
    "no marks": [p("", W), p('{"city": '), p('"Oslo"}')],
    "name in parts": [p("", "get", index=0), p("", "_", index=0), p(OSLO, "weather", index=0)],
    "name grows": [p("", "get", index=0), p("", "get_wea", index=0), p(OSLO, W, index=0)],
    "name late": [p("", index=0, id="a"), p('{"city": ', index=0), p(None, W, index=0), p('"Oslo"}', index=0)],
    "whole once more": [p('{"city": ', W, index=0, id="a"), p('"Oslo"}', index=0), p(OSLO, W, index=0, id="a")],
    "empty object first": [p("{}", W, index=0, id="a"), p(OSLO, index=0)],
    "an object": [p({"city": "Oslo"}, W, index=0, id="a")],
    "nameless rest": [p(OSLO, W, index=0, id="a"), p("", index=1, id="b")],
    "index in words": [p('{"city": ', W, index="0", id="a"), p('"Oslo"}', index="0")],
    "not in a list": [delta(tool_calls={"id": "a", "function": {"name": W, "arguments": OSLO}})],
    "no function": [delta(tool_calls=[{"id": "a", "name": W, "arguments": OSLO}])],
    "old style": [delta(function_call={"name": W, "arguments": ""}), delta(function_call={"arguments": OSLO})],
}

TWO_CALLS = {
    "by index": [p(OSLO, W, index=0, id="a"), p(BERN, W, index=1, id="b")],
    "index 0, ids": [p("", W, index=0, id="a"), p(OSLO, index=0), p("", W, index=0, id="b"), p(BERN, index=0)],
    "index 0, whole": [p(OSLO, W, index=0), p(BERN, W, index=0)],
    "index 0, pieces": [p("", W, index=0), p(OSLO, index=0), p("", W, index=0), p(BERN, index=0)],
    "no marks": [p(OSLO, W), p(BERN, W)],
    "no marks, one chunk": [delta(tool_calls=[{"function": {"name": W, "arguments": a}} for a in (OSLO, BERN)])],
    "same id": [
        p("", W, index=0, id="a"),
        p(OSLO, index=0, id="a"),
        p("", W, index=1, id="a"),
        p(BERN, index=1, id="a"),
    ],
    "ids alternate": [
        *(p("", W, id="a"), p("", W, id="b"), p('{"city":', id="a"), p('{"city":', id="b")),
        *(p(' "Oslo"}', id="a"), p(' "Bern"}', id="b")),
    ],
    "ids alternate, index 0": [
        *(p("", W, index=0, id="a"), p("", W, index=0, id="b"), p('{"city":', index=0, id="a")),
        *(p('{"city":', index=0, id="b"), p(' "Oslo"}', index=0, id="a"), p(' "Bern"}', index=0, id="b")),
    ],
}


@pytest.mark.parametrize("kind", ONE_CALL)
def test_one_call(kind: str) -> None:
    [call] = assemble(*ONE_CALL[kind]).message.tool_calls
    assert (call.name, json.loads(call.arguments), call.fault) == (W, {"city": "Oslo"}, None)


@pytest.mark.parametrize("kind", TWO_CALLS)
def test_two_calls(kind: str) -> None:
    found = assemble(*TWO_CALLS[kind]).message.tool_calls
    assert [(c.name, json.loads(c.arguments)["city"], c.fault) for c in found] == [(W, "Oslo", None), (W, "Bern", None)]
    assert len({c.id for c in found}) == 2 and all(c.id for c in found)


def test_calls_without_arguments_do_not_swallow_each_other() -> None:
    found = assemble(p("", "ping", index=0), p(OSLO, W, index=0), p("", "ping", index=0, id="x")).message.tool_calls
    assert [c.name for c in found] == ["ping", W, "ping"]


def test_an_id_that_was_given_before_is_replaced() -> None:
    [call] = assemble(p(OSLO, W, id="call_0"), taken=("call_0",)).message.tool_calls
    assert call.id and call.id != "call_0"


def test_unknown_fields_are_kept() -> None:
    chunk = delta(tool_calls=[{"id": "a", "extra": {"x": 1}, "function": {"name": W, "arguments": OSLO, "sig": "s"}}])
    [call] = assemble(chunk).message.tool_calls
    assert call.extra == {"extra": {"x": 1}, "function": {"sig": "s"}}


def test_of_two_calls_cut_at_the_limit_only_the_last_is_in_doubt() -> None:
    chunks = [p(OSLO, W, index=0, id="a"), p('{"path": "a", "content": "b"}', "write_file", index=1, id="b")]
    reply = assemble(*chunks, delta("length"))
    assert [bool(c.fault) for c in reply.message.tool_calls] == [False, True]
    assert reply.finish == "length"


VARIANTS = """\
functions.get_weather
GET_WEATHER
get-weather
getWeather
functions.get_weather:0
 "get_weather"\x20
get_weather<|channel|>commentary
default_api.get_weather
mcp__town__get_weather
tools/get_weather
"""


@pytest.mark.parametrize("written", VARIANTS.splitlines())
def test_a_name_that_is_certainly_one_tools(written: str) -> None:
    [call] = assemble(p(OSLO, written, index=0)).message.tool_calls
    assert call.name == W and call.repairs


@pytest.mark.parametrize("written", ["get_weathers", "weather", "write", "delete_file", "get_weather_now"])
def test_a_near_miss_stays_as_it_was_written(written: str) -> None:
    [call] = assemble(p(OSLO, written, index=0)).message.tool_calls
    assert call.name == written


def test_a_call_without_a_name_does_not_run() -> None:
    [call] = assemble(p(OSLO, index=0, id="a")).message.tool_calls
    assert call.fault
