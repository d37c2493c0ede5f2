"""What is learned from a refusal, in the words of many servers."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent.events import File
from agent.llm.faults import Scrubber, from_response
from agent.llm.model import Request
from agent.llm.names import Names
from agent.llm.profile import PROFILES, Profile, guess_profile
from agent.llm.refusals import learn
from agent.llm.schemas import keywords, server_schema
from agent.llm.wire import Options, build_body
from agent.messages import AssistantMessage, ToolCall, ToolMessage, UserMessage
from tests.agent.llm.serving import TOOLS

HISTORY = (
    UserMessage("go"),
    AssistantMessage(
        "",
        "thinking",
        (ToolCall("call_7mQ2xR9bT4kd", "ping", "{}", extra={"sig": "s"}),),
        {"reasoning_field": "reasoning"},
    ),
    ToolMessage("call_7mQ2xR9bT4kd", "ping", "pong"),
    UserMessage("and?"),
)


def body_for(profile: Profile, *messages: Any, **parameters: Any) -> dict[str, Any]:
    request = Request("Be brief.", messages or HISTORY, TOOLS)
    options = Options("m", temperature=0.2, max_output_tokens=1000, parameters=parameters)
    return build_body(request, Names(TOOLS), profile, options)


def learned(message: Any, status: int = 400, profile: Profile | None = None, **parameters: Any) -> Profile | None:
    profile = profile or Profile()
    raw = json.dumps(message if not isinstance(message, str) else {"error": {"message": message}})
    failure = from_response(status, {}, raw, Scrubber(""))
    return learn(profile, failure, body_for(profile, **parameters))


# ruff: noqa: E501 servers' own words
LESSONS = [
    ("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
     {"output_limit": "max_completion_tokens"}),
    ("Unrecognized request argument supplied: max_tokens", {"output_limit": "max_completion_tokens"}),
    ("max_tokens is too large: 1000. This model supports at most 512 completion tokens", {"most_output_tokens": 512}),
    ("Invalid max_tokens value, the valid range of max_tokens is [1, 512]", {"most_output_tokens": 512}),
    ("Unsupported value: 'temperature' does not support 0.2 with this model. Only the default (1) value is supported.",
     {"refused_parameters": frozenset({"temperature"})}),
    ("invalid temperature: only 1 is allowed for this model", {"refused_parameters": frozenset({"temperature"})}),
    ("Unknown parameter: 'stream_options'.", {"refused_parameters": frozenset({"stream_options"})}),
    ({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted", "type": "extra_forbidden"}]},
     {"refused_parameters": frozenset({"stream_options"})}),
    ("tools is not supported with stream=True", {"stream": False}),
    ("Streaming is not supported for this model", {"stream": False}),
    ("This model doesn't support tool use in streaming mode.", {"stream": False, "tools": True}),
    ({"detail": [{"loc": ["body", "stream"], "msg": "Input should be False", "type": "literal_error"}]}, {"stream": False}),
    ("max_tokens is too large: 9,000. This model supports at most 1,024 completion tokens.", {"most_output_tokens": None}),
    ("The maximum tokens you requested exceeds the model limit of 512. Try again with a lower value.", {"most_output_tokens": 512}),
    ("too many tokens: max tokens must be less than or equal to 512, the maximum output length", {"most_output_tokens": 512}),
    ({"detail": "`temperature` may only be set to 1 when thinking is enabled."}, {"refused_parameters": frozenset({"temperature"})}),
    ({"error": {"message": "Object fields require at least one of: 'properties' or 'anyOf'.", "param": "tools"}}, {"schemas": "plain"}),
    ("Missing parameter 'name': messages with role 'tool' must have a 'name'.", {"name_in_results": True}),
    ("registry.ollama.ai/library/gemma:2b does not support tools", {"tools": False}),
    ("No endpoints found that support tool use. Try disabling \"get_weather\".", {"tools": False}),
    ('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set', {"tools": False}),
    ("Unrecognized request argument supplied: tools", {"tools": False}),
    ({"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted"}]}, {"tools": False}),
    ("Function calling is not enabled for this model", {"tools": False}),
    ("该模型不支持工具调用", {"tools": False}),
    ("当前模型不支持 function call", {"tools": False}),
    ("tools 参数不支持", {"tools": False}),
    ("tool_calls is not implemented", {"tools": False}),
    ("Unsupported role: tool", {"tools": False}),
    ("messages[3].role: 'tool' is not one of ['system', 'assistant', 'user']", {"tools": False}),
    ({"detail": [{"loc": ["body", "messages", 3, "role"], "msg": "Input should be 'system', 'user' or 'assistant'", "input": "tool"}]},
     {"tools": False}),
    ("role 参数错误，只支持 user、assistant、system", {"tools": False}),
    ("Only user and assistant roles are supported!", {"system_role": "user", "tools": True}),
    ("不支持当前stream值", {"stream": False}),
    ("参数 stream_options 不合法", {"refused_parameters": frozenset({"stream_options"})}),
    ("messages 参数非法。请检查文档。", {"content_beside_calls": "empty"}),
    ("the message at position 2 with role 'assistant' must not be empty", {"content_beside_calls": "empty"}),
    ("Function call is missing a thought_signature in functionCall parts.", {"signed_calls": True}),
    ("Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0].function_declarations[0]'",
     {"schemas": "plain"}),
    ("Invalid schema for function 'get_weather': In context=(), 'additionalProperties' is required", {"schemas": "plain"}),
    ("reasoning_content of thinking mode has to be passed back", {"reasoning_back": True}),
    ("thinking is enabled but reasoning_content is missing in assistant tool call message at index 2", {"reasoning_back": True}),
    ("Missing reasoning_details: they must be preserved", {"reasoning_back": True}),
    ("messages.2.tool_calls.0.sig: Extra inputs are not permitted", {"extras_back": False}),
    ("invalid message content type: <nil>", {"content_beside_calls": "empty"}),
    ("messages[2].content: Input should be a valid string, got None", {"content_beside_calls": "empty"}),
    ("content is required for assistant messages", {"content_beside_calls": "empty"}),
    ("Tool call id was call_7mQ2xR9bT4kd but must be a-z, A-Z, 0-9, with a length of 9.", {"id_format": "nine"}),
    ("tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'", {"id_format": "plain"}),
    ("Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40", {"id_format": "plain"}),
    ("Unexpected role 'user' after role 'tool'", {"answer_before_user": True}),
    ("After the optional system message, conversation roles must alternate user/assistant", {"answer_before_user": True}),
    ("This model only supports single tool-calls at once!", {"parallel_calls": False}),
    ("GenerateContentRequest.contents[2].parts[0].function_response.name: Name cannot be empty.", {"name_in_results": True}),
    ("Unsupported value: 'messages[0].role' does not support 'system' with this model.", {"system_role": "user"}),
    ("System role not supported", {"system_role": "user"}),
    ("This model does not support system messages. Use 'developer'.", {"system_role": "developer"}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "changes"), LESSONS)
def test_a_refusal_teaches(message: Any, changes: dict[str, Any]) -> None:
    better = learned(message)
    assert better is not None
    assert {name: getattr(better, name) for name in changes} == changes


NOTHING = [
    ("messages with role 'tool' must be a response to a preceding message with 'tool_calls'", 400),
    ("The following tool_call_ids did not have response messages: call_1", 400),
    ("Incorrect API key provided", 401),
    ("Rate limit reached for tools", 429),
    ("This model's maximum context length is 4096 tokens", 400),
    ("Something went wrong", 500),
    ("The model `x` does not exist", 404),
    ("I like turtles", 400),
    ("Input image data may contain inappropriate content.", 400),
]


@pytest.mark.parametrize(("message", "status"), NOTHING)
def test_other_refusals_teach_nothing(message: str, status: int) -> None:
    assert learned(message, status) is None


def test_a_second_refusal_goes_further() -> None:
    once = learned("invalid message content type: <nil>")
    assert once is not None
    twice = learned("chat content is empty (2013)", profile=once)
    assert twice is not None and twice.content_beside_calls == "words"
    assert body_for(twice)["messages"][2]["content"]


def test_response_format_is_given_up_in_steps() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {}}}
    once = learned("This response_format type is unavailable now", response_format=schema)
    assert once is not None and once.json_output == "object"
    twice = learned("response_format is not supported", profile=once, response_format={"type": "json_object"})
    assert twice is not None and twice.json_output == "none"


def test_keywords_the_server_names_go_after_the_uncommon_ones() -> None:
    assert learned("Invalid schema: keyword anyOf is not supported", profile=Profile(schemas="plain")) is None
    tools = [{"function": {"name": "x", "parameters": {"type": "object", "properties": {"a": {"enum": [1]}}}}}]
    failure = from_response(400, {}, '{"error": {"message": "schema keyword enum is unknown"}}', Scrubber(""))
    better = learn(Profile(schemas="plain"), failure, {"messages": [], "tools": tools})
    assert better is not None and better.refused_keywords == {"enum"}


def test_images_are_left_out_for_a_model_that_cannot_see(tmp_path: Any) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG")
    image = File(str(picture), "a.png", "image/png", 4)
    history = (*HISTORY[:2], ToolMessage("call_7mQ2xR9bT4kd", "ping", "", images=(image,)))
    body = body_for(Profile(), *history)
    assert body["messages"][-1]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    failure = from_response(400, {}, '{"error": {"message": "this model does not support image input"}}', Scrubber(""))
    better = learn(Profile(), failure, body)
    assert better is not None and not better.images
    assert [m["role"] for m in body_for(better, *history)["messages"]] == ["system", "user", "assistant", "tool"]


def test_adapting_always_ends() -> None:
    """Every message of the list, over and over: no profile comes back."""
    for message, _ in LESSONS:
        profile, seen = Profile(), [Profile()]
        while (better := learned(message, profile=profile)) is not None:
            assert better not in seen
            seen.append(better)
            profile = better
            assert len(seen) < 8


def test_profiles_are_guessed_from_the_address() -> None:
    assert guess_profile("https://api.deepseek.com/v1").reasoning_back
    assert guess_profile("https://api.mistral.ai/v1").id_format == "nine"
    assert guess_profile("http://localhost:11434/v1").provider == "ollama"
    assert guess_profile("https://models.example.com/v1") == Profile(provider="models.example.com")
    assert guess_profile("https://evil-openai.com/v1").output_limit == "max_tokens"
    assert guess_profile("https://x.example", "gemini") is PROFILES["gemini"]


def test_a_plain_schema_means_the_same() -> None:
    schema = {
        "type": "object",
        "$schema": "x",
        "$defs": {"P": {"type": "object", "properties": {"title": {"type": "string"}}}},
        "properties": {
            "a": {"type": ["integer", "null"], "exclusiveMinimum": 0},
            "b": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
            "c": {"$ref": "#/$defs/P"},
            "d": {"const": "x"},
            "pattern": {"type": "string", "pattern": "^a"},
        },
        "required": [],
    }
    plain = server_schema(schema, Profile(schemas="plain"))
    assert plain["properties"] == {
        "a": {"type": "integer", "nullable": True},
        "b": {"type": "string", "nullable": True},
        "c": {"type": "object", "properties": {"title": {"type": "string"}}},
        "d": {"type": "string", "enum": ["x"]},
        "pattern": {"type": "string"},
    }
    assert keywords(plain) <= {"type", "properties", "nullable", "enum"}
