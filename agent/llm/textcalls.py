"""Calls written as text: found while the answer streams, taken out of it, run like any other.

Knows the envelopes, and when a text is about a call and not one: in backticks, in quotation marks, in a fence that
explains, in the middle of a sentence. Text that may become a call is held back only until that is decided. Refuses to
run anything a reader would take for an example. The inside of the envelopes is read in `dialects.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice

from agent.llm.arguments import read_arguments
from agent.llm.dialects import ARGUMENT_KEYS, NAME_KEYS, WRAPPER_KEYS, NoCall, WrittenCall, broken_call, read_calls
from agent.llm.names import Names
from agent.llm.thinking import partial_end

_TAGS = ("tool_call", "tool_calls", "function_call", "function_calls", "tool_use", "TOOLCALL", "tools", "execute_tool")
_SPACES = ("minimax", "seed", "antml", "steptml", "xai")
_ENVELOPES: dict[str, tuple[str, ...]] = {
    **{f"<{tag}>": (f"</{tag}>",) for tag in _TAGS},
    **{f"<{space}:{tag}>": (f"</{space}:{tag}>",) for space in _SPACES for tag in ("tool_call", "function_calls")},
    "<longcat_tool_call>": ("</longcat_tool_call>",),
    "<|tool_call|>": ("<|/tool_call|>", "</|tool_call|>", "<|tool_call_end|>"),
    "<|tool_call>": ("<tool_call|>",),
    "<|tool_call_start|>": ("<|tool_call_end|>",),
    "<|tool_calls_section_begin|>": ("<|tool_calls_section_end|>",),
    "<|tool_call_begin|>": ("<|tool_call_end|>",),
    "<｜tool▁calls▁begin｜>": ("<｜tool▁calls▁end｜>",),
    "<｜tool▁call▁begin｜>": ("<｜tool▁call▁end｜>",),
    "<|tool▁calls▁begin|>": ("<|tool▁calls▁end|>",),
    **{
        f"<{bar}DSML{bar}{tag}>": (f"</{bar}DSML{bar}{tag}>",)
        for bar in "｜|"
        for tag in ("function_calls", "tool_calls")
    },
    "<｜tool_calls_begin｜>": ("<｜tool_calls_end｜>",),
    "<|python_start|>": ("<|python_end|>",),
    "<|tools_prefix|>": ("<|tools_suffix|>",),
    "<|action_start|>": ("<|action_end|>",),
    "<|START_ACTION|>": ("<|END_ACTION|>",),
    "<start_function_call>": ("<end_function_call>",),
    "<|open|>tools<|sep|>": ("<|close|>tools<|sep|>",),
    **{f"<|open|>{word} tool=": ("<|close|>call<|sep|>",) for word in ("call", "toolscall")},
    "[TOOL_CALL]": ("[/TOOL_CALL]",),
    "[TOOL_CALLS]": ("[/TOOL_CALLS]",),
    "[TOOL_REQUEST]": ("[END_TOOL_REQUEST]",),
    "<|python_tag|>": ("<|eom_id|>", "<|eot_id|>"),
    "<|channel|>commentary to=": ("<|call|>", "<|end|>"),
    "<|start|>assistant to=": ("<|call|>", "<|end|>"),
    "<|start|>assistant<|channel|>commentary to=": ("<|call|>", "<|end|>"),
    "<function=": ("</function>",),
    "<function name=": ("</function>",),
    "<invoke name=": ("</invoke>",),
    **{f"<{space}:invoke name=": (f"</{space}:invoke>",) for space in _SPACES},
    "<xai:function_call name=": ("</xai:function_call>",),
    **{f"<{bar}DSML{bar}invoke name=": (f"</{bar}DSML{bar}invoke>",) for bar in "｜|"},
    "<tool_call name=": ("</tool_call>",),
    "<tool name=": ("</tool>",),
}
_BODY_IS_ALL = (
    "<function=",
    "<function name=",
    "<invoke name=",
    *(f"<{space}:invoke name=" for space in _SPACES),
    "<xai:function_call name=",
    *(f"<{bar}DSML{bar}invoke name=" for bar in "｜|"),
    "<tool_call name=",
    "<tool name=",
    "<|open|>call tool=",
    "<|open|>toolscall tool=",
)
"""Openings that belong to the call themselves."""

_STRAY_END = re.compile(
    r"\s*(?:</(?:\w+:)?(?:tool_calls?|function_calls?|function|invoke|tool_use|tools)>|<function>|\[/TOOL_CALLS?\]"
    r"|<\|close\|>\w*<\|sep\|>|<[|｜][^<>|｜]*(?:end|end_of_turn|eot_id|eom_id|call|im_end)[|｜]>|</s>)+"
)
_EXPLAINS = re.compile(
    r"\bhow (?:it|this|that|the \w+|an? \w+) (?:looks?|works?|is)"
    r"|\bfor (?:example|instance)|\be\.g\.|\bexamples?\b|\blooks? like|\blike this|\bformat|\bsyntax"
    r"|\bwould (?:write|look|be|emit|output|call)|\bwrites?\b|\bwritten\b|\bsuch as\b|\btemplate\b"
    r"|例如|比如|示例|例子|格式|形如|写成|写作|语法|如下所示",
    re.IGNORECASE,
)
_ANNOUNCES = re.compile(
    r"\bI(?:'ll|'m|\b)|\blet(?:'s| me| us)\b|\bnow\b|\bnext\b|\bfirst\b|我|让我们?|现在|接下来|首先|先", re.IGNORECASE
)
"""Work that begins, also where it is on an example or a format."""
_SHOWS = re.compile(r"\b(?:show|demonstrat|illustrat|explain)|展示|演示|说明|解释", re.IGNORECASE)
_FENCE = re.compile(r"```([\w+-]*)[ \t]*\n")
_FENCE_CALLS = {"", "json", "json5", "tool_call", "tool_calls", "tool_code", "tool", "function_call", "xml", "python"}
_ACTION = re.compile(r"Action:[ \t]*`?([\w.\-]+)`?[ \t]*\n+[ \t]*Action Input:[ \t]*", re.IGNORECASE)
_FIRST_KEY = re.compile(r"^[{\[\s]*\{?\s*[\"']([\w.\-]*)([\"']?)")
_FIRST_NAME = re.compile(rf"[\"'](?:{'|'.join(NAME_KEYS)})[\"']\s*:\s*[\"']([^\"']*)[\"']")
_QUOTES = ('"', "'", "“", "‘", "「", "『", "«", "(", "（")
_SPECIAL = frozenset("<[\n")
"""What may matter in the middle of a line."""
_MOST_ENDS = 50
"""Closing tags that are tried for one opening: the text of a call may hold some."""
_MOST_FAILED = 50
"""Stretches that looked like calls and were none: a reply with so many is about something else, and each costs time."""
_LEAD = 500
"""Characters before a call that may announce an example."""
_HEAD = 2_000
"""Characters at the beginning of JSON by which is seen that it can be no call."""


@dataclass(frozen=True)
class _Verdict:
    """What a held stretch is: `calls` that end at `end`, or text up to `end`. No verdict yet: None."""

    end: int
    calls: tuple[WrittenCall, ...] = ()


class TextCalls:
    """A gate for the text of one reply: text comes out, calls stay behind."""

    def __init__(self, names: Names) -> None:
        self.calls: list[WrittenCall] = []
        self._names = names
        self._held = ""
        self._line = ""
        self._line_before = ""
        self._fenced = False
        self._after_call = False
        self._ends: tuple[str, ...] = ()
        """What the held stretch waits for; nothing else that comes can decide it."""
        self._failed = 0
        alternatives = "|".join(re.escape(n) for n in names.tools)
        self._function = re.compile(rf"\[?\s*(?:\w+\.)?(?:{alternatives})\(") if alternatives else None
        self._envelopes = {**_ENVELOPES, **{f"<{name}>": (f"</{name}>",) for name in names.tools}}
        self._opening = re.compile("|".join(re.escape(o) for o in sorted(self._envelopes, key=len, reverse=True)))

    def feed(self, piece: str) -> str:
        """The text that can be shown by now."""
        if not self._names.tools:
            return piece
        if self._line and not self._held and _SPECIAL.isdisjoint(piece):
            self._line += piece
            return piece
        before = len(self._held)
        self._held += piece
        if self._ends and not any(self._held.find(end, max(0, before - len(end))) >= 0 for end in self._ends):
            return ""
        self._ends = ()
        return self._sift(at_end=False)

    def close(self) -> str:
        """The rest of the text, now that no more comes."""
        return self._sift(at_end=True)

    def _sift(self, at_end: bool) -> str:
        shown: list[str] = []
        while self._held:
            if self._after_call and self._swallow(at_end):
                break
            start = self._candidate(at_end) if self._failed < _MOST_FAILED else len(self._held)
            if start is None:
                break
            self._show(shown, start)
            if not self._held or not self._is_candidate():
                continue
            verdict = self._judge(at_end)
            if verdict is None:
                break
            if verdict.calls:
                self.calls += verdict.calls
                self._held = self._held[verdict.end :]
                self._after_call = True
            else:
                self._show(shown, max(1, verdict.end))
        return "".join(shown)

    def _swallow(self, at_end: bool) -> bool:
        """Drop closing tags left over after a call; True while it cannot be said whether there are any."""
        if stray := _STRAY_END.match(self._held):
            self._held = self._held[stray.end() :]
        rest = self._held.strip()
        opened = rest.startswith("<|close|>") or not set(">]") & set(rest)
        waits = not rest or (rest[0] in "<[" and len(rest) < 40 and opened)
        self._after_call = waits
        return waits and not at_end

    def _show(self, shown: list[str], length: int) -> None:
        """Let so much of what is held pass as text, and keep track of lines and code."""
        text, self._held = self._held[:length], self._held[length:]
        if not text:
            return
        shown.append(text)
        *lines, last = (self._line + text).split("\n")
        for line in lines:
            if line.lstrip().startswith("```"):
                self._fenced = not self._fenced
            self._line_before = line if line.strip() else self._line_before
        self._line = last

    # ------------------------------------------------------------------ where a call may begin

    def _candidate(self, at_end: bool) -> int | None:
        """How much is plain text before the next place to look at; None where the rest has to wait."""
        if self._is_candidate():
            return 0
        held = self._held
        newline = held.find("\n")
        line_end = newline + 1 if newline >= 0 else len(held)
        if opening := self._opening.search(held, 1, line_end):
            return opening.start()
        if newline >= 0:
            return line_end
        if at_end:
            return len(held)
        wait = partial_end(held, self._envelopes)
        if not self._line.strip() and not self._fenced and self._may_grow(held.lstrip()):
            wait = len(held)
        return len(held) - wait or None

    def _may_grow(self, start: str) -> bool:
        """Could this beginning of a line become a fence, an action or a call in Python's way?"""
        literals = ["```", "Action: ", "[", "functools[", *(f"{name}(" for name in self._names.tools)]
        return not start or (len(start) < 90 and any(literal.startswith(start) for literal in literals))

    def _is_candidate(self) -> bool:
        held = self._held
        if self._opening.match(held):
            return True
        if self._fenced or self._line.strip():
            return False
        start = held.lstrip(" \t")
        return bool(
            start.startswith(("{", "[", "```", "functools["))
            or _ACTION.match(start)
            or start[:7].lower() == "action:"
            or (self._function and self._function.match(start))
        )

    # ------------------------------------------------------------------ what it is

    def _judge(self, at_end: bool) -> _Verdict | None:
        if opening := self._opening.match(self._held):
            return self._judge_envelope(opening.group(), at_end)
        if not at_end and any(envelope.startswith(self._held.lstrip(" \t")) for envelope in self._envelopes):
            return None
        indent = len(self._held) - len(self._held.lstrip(" \t"))
        start = self._held[indent:]
        if start.startswith("```"):
            return self._judge_fence(start, indent, at_end)
        if start[:7].lower() == "action:":
            return self._judge_action(start, indent, at_end)
        return self._judge_bare(start, indent, at_end)

    def _judge_envelope(self, opening: str, at_end: bool) -> _Verdict | None:
        as_text = _Verdict(len(opening))
        if self._fenced or self._quoted() or self._explains():
            return as_text
        whole = self._is_part(opening)
        inside = 0 if whole else len(opening)
        closings = re.compile("|".join(map(re.escape, self._envelopes[opening])))
        for closing in islice(closings.finditer(self._held, inside), _MOST_ENDS):
            end = closing.end()
            body = self._held[inside : end if whole else closing.start()]
            try:
                calls, rest = read_calls(body, self._names, closed=True)
            except NoCall:
                continue
            if not rest.strip():
                return self._unless_in_sentence(_Verdict(end, tuple(calls)), at_end)
        if not at_end:
            self._ends = self._envelopes[opening]
            return None
        try:
            calls, rest = read_calls(self._held[inside:], self._names)
        except NoCall:
            self._failed += 1
            broken = broken_call(self._held)
            return _Verdict(len(self._held), (broken,)) if broken and not self._line.strip() else as_text
        return self._unless_in_sentence(_Verdict(len(self._held) - len(rest), tuple(calls)), at_end)

    def _is_part(self, opening: str) -> bool:
        """Does the opening belong to the call itself?"""
        return opening in _BODY_IS_ALL or opening not in _ENVELOPES

    def _unless_in_sentence(self, verdict: _Verdict, at_end: bool) -> _Verdict | None:
        """A call in the middle of a line is one only where the line ends with it; and none has a sentence go on."""
        after = self._held[verdict.end :]
        after = after[stray.end() :] if (stray := _STRAY_END.match(after)) else after
        line, newline, _ = after.partition("\n")
        follows = line.strip()
        if not follows:
            return verdict if newline or at_end else None
        if self._opening.match(follows):
            return verdict
        goes_on = bool(self._line.strip()) or follows[0].islower() or follows[0] in ",;，；是就表即"
        return _Verdict(verdict.end) if goes_on else verdict

    def _judge_fence(self, start: str, indent: int, at_end: bool) -> _Verdict | None:
        """A fence is a call where it holds nothing else, ends the answer, and nothing says that it explains."""
        header = _FENCE.match(start)
        if header is None:
            waits = not at_end and re.fullmatch(r"```[\w+-]{0,20}[ \t]*", start)
            return None if waits else _Verdict(indent + 3)
        as_text = _Verdict(indent + header.end())
        body = start[header.end() :]
        if header.group(1).lower() not in _FENCE_CALLS or self._explains() or not self._may_be_call(body):
            return as_text
        closing = re.search(r"\n[ \t]*```[ \t]*(?=\n|$)", body)
        if closing is None:
            self._ends = () if at_end or len(body) < _HEAD else ("```",)
            return as_text if at_end else None
        if body[closing.end() :].strip():
            return as_text
        if not at_end:
            return None
        calls = self._real_calls(body[: closing.start()])
        return _Verdict(len(self._held), calls) if calls else as_text

    def _judge_bare(self, start: str, indent: int, at_end: bool) -> _Verdict | None:
        """JSON or Python's call syntax without any envelope: a call where nothing follows it."""
        as_text = _Verdict(indent + 1)
        start = start.removeprefix("functools")
        in_example = self._line_before.strip() in self._envelopes  # the opening tag passed as text
        if in_example or self._explains() or not self._may_be_call(start):
            return as_text
        if not at_end:
            return None
        calls = self._real_calls(start)
        self._failed += not calls
        return _Verdict(len(self._held), calls) if calls else as_text

    def _judge_action(self, start: str, indent: int, at_end: bool) -> _Verdict | None:
        as_text = _Verdict(indent + 1)
        action = _ACTION.match(start)
        if action is None:
            words = re.fullmatch(r"Action:[^\n]*\n*[^\n]{0,16}", start, re.IGNORECASE)
            return None if words and not at_end else as_text
        name = self._names.real(action.group(1))
        if name is None or self._explains():
            return as_text
        if not at_end:
            return None
        written = re.split(r"\n\s*Observation:", start[action.end() :], maxsplit=1, flags=re.IGNORECASE)[0].strip()
        call = WrittenCall(name, written)
        return _Verdict(len(self._held), (call,)) if self._fits(call) else as_text

    # ------------------------------------------------------------------ what speaks against it

    def _quoted(self) -> bool:
        line = self._line
        return line.lstrip().startswith(">") or line.endswith(_QUOTES) or line.replace("```", "").count("`") % 2 == 1

    def _explains(self) -> bool:
        """Does the beginning of this line, or a line before it that leads on to this one, announce an example?"""
        before = (self._line if self._line.strip() else self._line_before)[-_LEAD:]
        if not _EXPLAINS.search(before) or (_ANNOUNCES.search(before) and not _SHOWS.search(before)):
            return False
        return bool(self._line.strip()) or before.rstrip().endswith((":", "："))

    def _may_be_call(self, text: str) -> bool:
        """As far as the text goes: could it still become JSON, tags or code that call one of the tools?"""
        text = text.lstrip()[:_HEAD]
        if not text or text.startswith("<"):
            return True
        if self._function and self._function.match(text):
            return True
        if text.startswith("[") and (inner := text.lstrip("[ \r\n")) and inner[0] not in "{\"'":
            return self._names.begins_a_name(inner.split("(")[0])
        if not text.startswith(("{", "[")):
            head = text.split("(")[0]
            return len(head) < 90 and ("print".startswith(head) or self._names.begins_a_name(head) or "." in head)
        named = _FIRST_NAME.search(text)
        wrapped = any(f'"{word}"' in text for word in WRAPPER_KEYS)
        if named and not wrapped and self._names.real(named.group(1)) is None:
            return False
        key = _FIRST_KEY.match(text)
        if key is None:
            return not text.strip("{[ \t\r\n")
        keys = (*NAME_KEYS, *ARGUMENT_KEYS, *WRAPPER_KEYS, "type", "id", "thought", "reasoning", *self._names.tools)
        return key.group(1) in keys if key.group(2) else any(k.startswith(key.group(1)) for k in keys)

    def _real_calls(self, body: str) -> tuple[WrittenCall, ...]:
        """Without an envelope only calls of real tools with arguments they know are believed."""
        try:
            calls, rest = read_calls(body, self._names)
        except NoCall:
            return ()
        rest = rest[stray.end() :] if (stray := _STRAY_END.match(rest)) else rest
        return tuple(calls) if not rest.strip() and all(map(self._fits, calls)) else ()

    def _fits(self, call: WrittenCall) -> bool:
        tool = self._names.tools.get(self._names.real(call.name) or "")
        arguments = read_arguments(call.arguments).value
        if tool is None or arguments is None:
            return False
        known, required = tool.parameters.get("properties", {}), tool.parameters.get("required", ())
        return set(arguments) <= set(known) and set(required) <= set(arguments)
