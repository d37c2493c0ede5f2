"""What can be learned from a refusal: one change of the profile, so that the next request is accepted.

Knows what servers say when they do not take a parameter, a role, a field, an order. Refuses to act: it reads words and
gives a changed profile, or None where nothing can be learned. Every rule leads somewhere new, so adapting always ends.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from agent.llm.faults import Failure
from agent.llm.profile import Profile
from agent.llm.schemas import PLAIN_KEYWORDS, keywords

Body = Mapping[str, Any]
Rule = Callable[[str, Profile, Body], "Profile | None"]

_NOT_TAKEN = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed|extra (?:inputs|fields)"
    r"|invalid|not valid|only the default|must be|cannot|can't|not enabled|does not|no such|too large|exceed|deprecated"
    r"|forbidden|not implemented|out of range|should be|may only|not configurable"
    r"|仅支持|只支持|不支持|无效|非法|不合法|不正确|未知|不能|不允许|有误|错误|超出",
    re.IGNORECASE,
)
_NOT_OURS = ("wrong_key", "quota_exhausted", "content_filtered")
"""No other form of the request helps. Leaving out the pictures that a filter refuses would hide what it said."""
_DROPPABLE = ("stream_options", "temperature", "repeat_penalty")
_ROLES = re.compile(
    r"(?:one of|should be|must be|expected|(?:only|仅|只)\s?(?:supports?|支持)?)[^\w.;]{0,6}"
    r"((?:(?:system|user|assistant|developer|tool|function)(?![_\w]*_)[^\w.;]{0,6}(?:(?:or|and)\b[^\w.;]{0,3})?){2,})",
    re.IGNORECASE,
)
"""A list of the roles that a server takes."""
_KNOWN_FIELDS = {"role", "content", "tool_calls", "tool_call_id", "name", "id", "type", "function", "arguments"}


def learn(profile: Profile, failure: Failure, body: Body) -> Profile | None:
    """The profile that would have been right, or None. `body` is the request that was refused."""
    if failure.status in (None, 401, 402, 408, 429) or failure.code in _NOT_OURS:
        return None
    raw = json.dumps(failure.body, ensure_ascii=False, default=str) if failure.body else ""
    words = f"{failure.detail} {raw}"
    rules = (_room,) if failure.code == "context_overflow" else RULES
    changes = (rule(words, profile, body) for rule in rules)
    return next((changed for changed in changes if changed is not None and changed != profile), None)


def _says(words: str, *patterns: str) -> bool:
    return any(re.search(pattern, words, re.IGNORECASE | re.DOTALL) for pattern in patterns)


def _names(words: str, field: str) -> bool:
    """Is the field named, as a word of its own and not as the beginning of a path?"""
    return re.search(rf"(?<![\w.]){re.escape(field)}(?![\w\[])", words) is not None


# ------------------------------------------------------------------ parameters


def _stream(words: str, profile: Profile, body: Body) -> Profile | None:
    unsupported = (
        r"(?:not|n't) (?:yet |currently )?(?:support|allow|available|implement|enabled)|unsupported|cannot|不支持"
        r"|must be|should be"
    )
    about = (
        r"\bstream(?:ing)?['\"`]?(?: mode)?(?: is| are|=true)? (?:not|un)",
        r"support \w* ?stream(?!_)",
        r"with\w* stream(?!_)",
        r"\bin streaming mode",
        r"\bbody\.stream(?![\w.])",
        r"\"param\": \"stream\"",
        r"不支持.{0,4}(?:流|stream(?!_))",
    )
    taken = "stream" in body and _says(words, unsupported) and _says(words, *about)
    return replace(profile, stream=False) if taken else None


def _tool_choice(words: str, profile: Profile, body: Body) -> Profile | None:
    taken = "tool_choice" in body and _says(words, r"tool[_ ]choice")
    return replace(profile, tool_choice_none=False) if taken else None


def _response_format(words: str, profile: Profile, body: Body) -> Profile | None:
    about = _says(words, r"response_?format", "json_schema", "json_object", "json mode", "grammar", r"\bschema\b")
    if "response_format" not in body or not about:
        return None
    return replace(profile, json_output="object" if profile.json_output == "schema" else "none")


_LIMIT = r"max(?:imum)?[_ ](?:completion[_ ]|output[_ ]|new[_ ])?tokens"


def _output_limit(words: str, profile: Profile, body: Body) -> Profile | None:
    limit = profile.output_limit
    if limit not in body or not _says(words, _LIMIT, "max_output"):
        return None
    other = "max_completion_tokens" if limit == "max_tokens" else "max_tokens"
    if not _names(words, other) and (most := _most_tokens(words, body[limit])):
        return replace(profile, most_output_tokens=most)
    if not _NOT_TAKEN.search(words):
        return None
    refused = profile.refused_parameters | {limit}
    if other in refused:
        return replace(profile, refused_parameters=refused)
    return replace(profile, refused_parameters=refused, output_limit=other)  # type: ignore[arg-type]


def _most_tokens(words: str, asked: Any) -> int | None:
    """The largest number of tokens the server takes, where it says one."""
    found = re.search(
        r"(?:at most|less than or equal to|<=|maximum(?: value)?(?: is| of)?|up to|limit(?: is| of)?|range(?: of)?"
        r"|between|supports|(?:more|greater|larger) than|不超过|范围)[^\d]{0,40}(?:\[?\d\s?,\s?)?(\d{2,})",
        re.sub(r"(?<![\d\[(])(\d{1,3}),(\d{3})(?![\d,\])])", r"\1\2", words),  # 4,096
        re.IGNORECASE,
    )
    value = int(found.group(1)) if found else None
    return value if value and isinstance(asked, int) and value < asked else None


def _room(words: str, profile: Profile, body: Body) -> Profile | None:
    """Too long, but not because of what was said: so much room was asked for the answer that hardly any is left."""
    asked = body.get(profile.output_limit)
    if not isinstance(asked, int):
        return None
    most = _most_tokens(words, asked) if _says(words, r"max[_ ](?:completion[_ ]|new[_ ])?tokens") else None
    context = re.search(r"context (?:length|size|window)\D{0,40}(\d[\d,]+)", words, re.IGNORECASE)
    if most is None and context and asked > (size := int(context.group(1).replace(",", ""))) // 2:
        most = size // 4
    return replace(profile, most_output_tokens=most) if most else None


def _parameter(words: str, profile: Profile, body: Body) -> Profile | None:
    """A parameter that can be left out is left out."""
    for name in _DROPPABLE:
        if name in body and _says(words, rf"\b{name}\b") and _NOT_TAKEN.search(words):
            return replace(profile, refused_parameters=profile.refused_parameters | {name})
    return None


# ------------------------------------------------------------------ tools and schemas


def _tools(words: str, profile: Profile, body: Body) -> Profile | None:
    if "tools" not in body:
        return None
    tool = r"(?:tools?|functions?|tool_calls|function_call)"
    refused = (
        rf"(?:not|n't|cannot|endpoints found that) (?:currently |yet )?support\w* (?:the )?(?:use of )?{tool}\b(?!\[)",
        rf"\b{tool}(?: use| calling| calls?)?(?: is| are)? ?(?:not|un) ?-?(?:support|enabl|avail|allow|implement)",
        r"(?:unknown|unsupported|unrecogni[sz]ed|unexpected|invalid)(?: \w+){0,3}:? ['\"`]?tools['\"`]?(?![\w\[.])",
        r"(?<![\w.])(?:body\.)?tools['\"`]?:? (?:extra|unsupported|is not|are not|not permitted|unexpected)",
        r"(?<![\w.])tools\b(?![\[.])[^.]{0,40}(?:not|un) ?-?(?:support|enabl|avail|allow)",
        r"enable-auto-tool-choice|requires? --jinja|tools? param(?:eter)? requires",
        r"不支持.{0,2}(?:工具|函数|(?:tools?|function)(?![a-z_\[.]))",
        r"(?:工具|函数|(?<![\w.])(?:tools|function[ _]?calls?))(?:参数|调用|功能)?.{0,4}(?:不支持|不可用|未开通)",
    )
    return replace(profile, tools=False) if _says(words, *refused) else None


def _tools_wanted(words: str, profile: Profile, body: Body) -> Profile | None:
    """A history with calls is not taken without the tools, as Bedrock and Anthropic have it."""
    about = (
        r"must define tools|toolconfig[^.]{0,20} must be defined|without `?tools=?`?|`?tools=`? param to be passed"
        r"|pass `?tools=`?",
    )
    wanted = "tools" not in body and profile.tools and _says(words, *about)
    return replace(profile, tools_with_calls=True) if wanted else None


def _schema(words: str, profile: Profile, body: Body) -> Profile | None:
    """The first time everything that is not common ground goes; after that, what the server names."""
    about = _says(
        words,
        "schema",
        r"function[_ ](?:declaration|parameter)",
        r"tools?[\[.]\d",
        "grammar",
        "keyword",
        "json payload",
    )
    by_name = _says(words, r"\"param\": \"tools\"")
    if "tools" not in body or not (about or by_name):
        return None
    if profile.schemas == "full":
        return replace(profile, schemas="plain")
    used = set().union(*(keywords(tool["function"].get("parameters", {})) for tool in body["tools"]))
    named = {word for word in used & PLAIN_KEYWORDS if _says(words, rf"(?<![\w$]){re.escape(word)}(?!\w)")}
    refused = named - {"type", "properties", "description", "items", "required"}
    if not refused - profile.refused_keywords and by_name:
        return replace(profile, tools=False)  # nothing is left to leave out
    return replace(profile, refused_keywords=profile.refused_keywords | refused)


def _description(words: str, profile: Profile, body: Body) -> Profile | None:
    pattern = r"description.{0,90}?(?:maximum length|at most|max\w*|longer than|exceed\w*)\D{0,20}(\d{2,5})"
    found = re.search(pattern, words, re.IGNORECASE | re.DOTALL)
    return replace(profile, longest_description=int(found.group(1))) if found and "tools" in body else None


# ------------------------------------------------------------------ fields of messages


def _signatures(words: str, profile: Profile, body: Body) -> Profile | None:
    wanted = _says(words, r"missing[^.]{0,30}thought_?signature", r"thought_?signature[^.]{0,20}(?:missing|required)")
    return replace(profile, signed_calls=True, extras_back=True) if wanted else None


def _reasoning(words: str, profile: Profile, body: Body) -> Profile | None:
    field = re.search(r"reasoning_content|reasoning_details|reasoning|thinking|thought", words)
    if field is None:
        return None
    wanted = _says(
        words,
        r"(?:passed|pass|sent|send) back",
        r"(?:must|has to|have to|should|needs? to) (?:be |also )?(?:pass|includ|provid|present|sen[dt]|preserv)",
        r"missing|is required|lacks|but found|回传|缺少",
    )
    if wanted and not (profile.reasoning_back and profile.extras_back):
        name = "reasoning_content" if field.group() == "reasoning_content" else ""
        return replace(profile, reasoning_back=True, extras_back=True, reasoning_field=name)
    if wanted and not profile.reasoning_always:
        return replace(profile, reasoning_always=True)
    if not wanted and profile.reasoning_back and _NOT_TAKEN.search(words):
        return replace(profile, reasoning_back=False)
    return None


def _extras(words: str, profile: Profile, body: Body) -> Profile | None:
    refused = profile.extras_back and _NOT_TAKEN.search(words)
    return (
        replace(profile, extras_back=False)
        if refused and any(_says(words, rf"\b{f}\b") for f in _extra_fields(body))
        else None
    )


def _extra_fields(body: Body) -> Iterator[str]:
    for message in body["messages"]:
        yield from set(message) - _KNOWN_FIELDS
        for call in message.get("tool_calls") or ():
            yield from (set(call) | set(call["function"])) - _KNOWN_FIELDS


def _content(words: str, profile: Profile, body: Body) -> Profile | None:
    bare = any(m.get("tool_calls") and not m.get("content") for m in body["messages"])
    about = (
        r"content\b[^.]{0,60}(?:nil|null|none|empty|missing|required|string|text|type|valid|length|blank)",
        r"<nil>|(?:empty|null|missing|invalid|blank|nonetype)[^.]{0,40}content|(?:内容|content).{0,6}空",
        r"role ['\"`]?assistant['\"`]?[^.]{0,20}empty|messages?.{0,4}(?:非法|不合法)",
    )
    if not bare or not _says(words, *about):
        return None
    if profile.content_beside_calls == "empty" and _says(words, r"(?:must|should|expected)[^.]{0,12} null"):
        return replace(profile, content_beside_calls="null")
    return replace(profile, content_beside_calls="empty" if profile.content_beside_calls == "null" else "words")


def _ids(words: str, profile: Profile, body: Body) -> Profile | None:
    if not _says(words, r"(?:tool|call|use)[_ ]?(?:call)?[_. ]?ids?\b", r"\bids?\b"):
        return None
    if _says(words, r"length (?:of|is|must be) ?9|9 char|nine|exactly 9"):
        return replace(profile, id_format="nine")
    unfit = (r"too long|maximum length|pattern|must match|alphanumeric|invalid character|characters|at most \d+",)
    return replace(profile, id_format="plain") if profile.id_format == "as_is" and _says(words, *unfit) else None


def _images(words: str, profile: Profile, body: Body) -> Profile | None:
    sent = any(isinstance(m.get("content"), list) for m in body["messages"])
    about = (
        r"image|vision|multi-?modal|content[^.]{0,30}(?:type|must be|should be|string)|图|多模态",
        r"expected a string.{0,15}\[",
    )
    return replace(profile, images=False) if sent and _says(words, *about) else None


# ------------------------------------------------------------------ order and roles


_NAME_IN_RESULTS = (
    r"tool[^.]{0,60}\bname\b[^.]{0,30}(?:required|missing|empty)",
    r"role ['\"`]?tool[^.]{0,30}must have an? ['\"`]?name",
)


def _order(words: str, profile: Profile, body: Body) -> Profile | None:
    single = r"single tool[- ]call|one tool call|(?:multiple|parallel) (?:tool|function)[- ]?calls?"
    if _says(words, single, r"only supports? (?:one|a single)"):
        return replace(profile, parallel_calls=False)
    if _says(words, r"function_response\.name", *_NAME_IN_RESULTS):
        return replace(profile, name_in_results=True)
    if _says(words, r"after (?:role )?['\"`]?tool", r"tool[^.]{0,40}followed by[^.]{0,20}assistant"):
        return replace(profile, answer_before_user=True)
    if _says(words, r"alternat"):
        if not profile.answer_before_user and any(m["role"] == "tool" for m in body["messages"]):
            return replace(profile, answer_before_user=True)
        return replace(profile, system_role="user")
    return None


def _role(words: str, profile: Profile, body: Body) -> Profile | None:
    """A role that is not known: the system prompt gets another one; without the tools' role only JSON is left."""
    sent = {message["role"] for message in body["messages"]}
    listed = _ROLES.search(words)
    known = set(re.findall(r"[a-z]+", listed.group(1).lower())) if listed else sent
    system = profile.system_role
    both = _says(words, r"developer (?:instruction|message|role)s?[^.]{0,30}not")  # said of both roles
    if system in sent and system != "user" and (both or system not in known or _refuses_role(words, system, known)):
        if both:
            return replace(profile, system_role="user")
        if system == "developer":
            return replace(profile, system_role="system")
        return replace(profile, system_role="developer" if _says(words, r"developer", r"\bo1\b") else "user")
    if "tool" in sent and ("tool" not in known or _refuses_role(words, "tool", known)):
        return replace(profile, tools=False)
    return None


def _refuses_role(words: str, role: str, known: set[str]) -> bool:
    if _ROLES.search(words) and role in known:
        return False
    return _says(
        words,
        rf"['\"`]{role}['\"`] (?:role )?[^.{{}}]{{0,40}}(?:\bnot\b|n't|\bun|invalid)",
        rf"not support[^.{{}}]{{0,20}}['\"`]?{role}\b",
        rf"\b{role}['\"`]? (?:role|message|instruction|prompt)s?[^.{{}}]{{0,30}}(?:\bnot|\bun)[ -]?"
        r"(?:support|allow|enabl|known)",
        rf"(?:unknown|unsupported|invalid|unexpected|no) [^.:]{{0,20}}role:? ['\"`]?{role}\b|\b{role} is not one of",
        rf"(?:unknown|unsupported|invalid|unexpected|no) ['\"`]?{role}['\"`]? (?:role|message|prompt)",
        rf"{role}.{{0,8}}不支持|不支持.{{0,12}}\b{role}(?![a-z_])",
    )


RULES: tuple[Rule, ...] = (
    _stream,
    _tool_choice,
    _response_format,
    _output_limit,
    _parameter,
    _tools,
    _tools_wanted,
    _images,
    _signatures,
    _reasoning,
    _extras,
    _order,
    _ids,
    _role,
    _description,
    _content,
    _schema,
)
"""From the particular to the general; the first that changes something counts."""
