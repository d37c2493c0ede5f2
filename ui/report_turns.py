"""A turn of a report: what was said, each step with its calls, and the exact requests, as HTML.

Knows how a looked-back-at turn looks. Refuses to know files and secrets: what it is given can be shown.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agent.events import (
    BudgetRaised,
    Compacted,
    File,
    FinishRequested,
    Nudged,
    Recalled,
    RequestSent,
    Steered,
    TurnEnded,
    TurnResumed,
    Undone,
    Usage,
)
from ui.meters import amount, compaction, line
from ui.proof import headline, plan_lines, proof_lines
from ui.render import receipt_line
from ui.report_markup import Span, bar, diff, folded, markdown, note, one_line, pre, text
from ui.report_texts import REPORT_TEXTS
from ui.rows import glimpse, pretty, summary
from ui.texts import TEXTS, Language, duration, size
from ui.timeline import Call, Note, Step, Turn

Picture = Callable[[int, int, bool], str]
"""A data URI for a file of the log, by its entry, its place in there, and True for one that the model was shown;
empty for what is not shown as a picture."""


class TurnMarkup:
    """Makes the markup of a report's turns, in their order."""

    def __init__(self, language: Language, picture: Picture) -> None:
        self._words = TEXTS[language]
        self._says = REPORT_TEXTS[language]
        self._picture = picture
        self._body: Mapping[str, Any] | None = None  # of the request before

    def turn(self, turn: Turn) -> str:
        number, message = turn.started.turn, turn.started.message
        spoken = (
            f'<div class="mine">{text(message.text)}</div>'
            if message.source == "person"
            else note(text(self._words["resumed"]))
        )
        return "".join(
            [
                f'<section class="turn" id="turn-{number}"><h2>{text(self._says["turn"].format(number=number))}',
                f"<small>{text(self._facts(turn))}</small></h2>",
                "" if turn.grows else note(text(self._branch(turn))),
                self._bar(turn),
                spoken,
                self._parts(turn),
                self._plan(turn),
                self._proof(turn),
                self._end(turn.ended),
                "</section>",
            ]
        )

    def _parts(self, turn: Turn) -> str:
        return "".join(self._step(part) if isinstance(part, Step) else self._note(part) for part in turn.parts)

    # ------------------------------------------------------------------ around the steps

    def _facts(self, turn: Turn) -> str:
        facts = [self.counted("count_steps", len(turn.steps))]
        calls = sum(len(step.calls) for step in turn.steps)
        if calls:
            facts.append(self.counted("count_calls", calls))
        if turn.ended_at is not None:
            facts.append(duration(self._words, max(0.0, turn.ended_at - turn.at)))
        if turn.ended and turn.ended.meter and (spent := line(self._words, turn.ended.meter)):
            facts.append(spent)
        return self._words["comma"].join(facts)

    def counted(self, key: str, count: int) -> str:
        """A number of things in words."""
        return self._says[key if count != 1 else f"{key}_one"].format(count=f"{count:,}")

    def _branch(self, turn: Turn) -> str:
        parent = turn.started.parent
        return self._says["other_start"] if parent is None else self._says["other_branch"].format(number=parent)

    def _bar(self, turn: Turn) -> str:
        spans = list(_spans(turn))
        model, tools = (sum(s.end - s.start for s in spans if s.kind == kind) for kind in ("model", "tool"))
        facts = [self._says["model_time"].format(duration=duration(self._words, model))]
        facts.append(self._says["tool_time"].format(duration=duration(self._words, tools)))
        end = turn.ended_at if turn.ended_at is not None else max((s.end for s in spans), default=turn.at)
        return bar(spans, turn.at, end, self._words["comma"].join(facts)) if spans else ""

    def _note(self, event: Note) -> str:
        if isinstance(event, Nudged):
            said = self._words.get(f"nudge_{event.code}", self._words["nudge"])
            return note(f"{text(said)} {text(event.text)}")
        if isinstance(event, Steered):
            return f'<div class="mine">{text(event.message.text)}</div>'
        if isinstance(event, Recalled):
            told = "".join(f"<li>{text(memory.text)}</li>" for memory in event.memories)
            said = self._words["recalled_one" if len(event.memories) == 1 else "recalled"]
            return folded(text(said.format(count=len(event.memories))), f"<ul>{told}</ul>", "quiet")
        if isinstance(event, Compacted):
            said, more = compaction(self._words, event)
            return folded(text(said), pre(more, self._says["cut"]), "quiet")
        if isinstance(event, BudgetRaised):
            by, kind = amount(self._words, event.kind, event.by, ""), self._words[f"budget_{event.kind}"]
            return note(text(self._words["budget_raised"].format(by=by, kind=kind)))
        if isinstance(event, FinishRequested):
            return note(text(self._words["budget_finishing"]))
        if isinstance(event, Undone):
            return note(f"{text(self._words['undone'])} {text(', '.join(_paths(event.details)))}")
        assert isinstance(event, TurnResumed)
        return note(text(self._words["resumed"]))

    def _plan(self, turn: Turn) -> str:
        if not turn.plan:
            return ""
        first, *items = plan_lines(self._words, turn.plan)
        return folded(text(first), pre("\n".join(item.strip() for item in items), self._says["cut"]))

    def _proof(self, turn: Turn) -> str:
        if turn.proved is None:
            return ""
        lines = [line.strip() for line in proof_lines(self._words, turn.proved)]
        kind = "proof" if turn.proved.verdict == "verified" else "proof warn"
        return folded(text(headline(self._words, turn.proved)), pre("\n".join(lines), self._says["cut"]), kind)

    def _end(self, ended: TurnEnded | None) -> str:
        if ended is None:
            return note(text(self._says["not_ended"]))
        if ended.reason == "answered":
            return note(text(self._words["ended_answered"]))
        if ended.fault is None:
            done = receipt_line(self._words, ended.receipt) if ended.receipt else ""
            more = f"<p>{text(done)}</p>" if done else ""
            return f'<div class="end">{text(self._words[f"ended_{ended.reason}"])}{more}</div>'
        said = self._words.get(f"fault_{ended.fault.code}", ended.fault.message)
        detail = ended.fault.detail or ended.fault.message
        return f'<div class="end error">{text(said)}<p>{text(detail)}</p></div>'

    # ------------------------------------------------------------------ a step

    def _step(self, step: Step) -> str:
        facts = []
        if step.replied is not None:
            spent = duration(self._words, max(0.0, step.replied - step.started))
            facts.append(self._says["model_time"].format(duration=spent))
        if step.reply and step.reply.usage:
            facts.append(self.usage(step.reply.usage))
        return "".join(
            [
                f'<section class="step"><h3>{text(self._says["step"].format(number=step.number))}',
                f"<small>{text(self._words['comma'].join(facts))}</small></h3>",
                *(self._retry(code) for code in (retry.code for retry in step.retries)),
                self._reply(step),
                *(self._call(call) for call in step.calls),
                *(self._request(request) for request in step.requests),
                "</section>",
            ]
        )

    def usage(self, usage: Usage) -> str:
        """Tokens, as the server counted them."""
        return self._says["usage_cached" if usage.cached_tokens else "usage"].format(
            input=f"{usage.input_tokens:,}", cached=f"{usage.cached_tokens:,}", output=f"{usage.output_tokens:,}"
        )

    def _retry(self, code: str) -> str:
        reason = self._words.get(f"retry_{code}", self._words["retry"])
        return note(text(self._words["retry_now"].format(reason=reason)))

    def _reply(self, step: Step) -> str:
        if step.reply is None:
            said = markdown(step.partial, self._says["cut"]) if step.partial.strip() else ""
            return said + note(text(self._says["cut_off" if said else "no_reply"]))
        message = step.reply.message
        reasoning = message.reasoning.strip()
        thought = folded(text(self._says["reasoning"]), pre(reasoning, self._says["cut"]), "quiet") if reasoning else ""
        return thought + (markdown(message.text, self._says["cut"]) if message.text.strip() else "")

    def _request(self, request: RequestSent) -> str:
        parts = []
        if request.kept:
            parts.append(note(text(self._says["request_kept"].format(count=request.kept))))
        parts += [self._message(message) for message in request.messages]
        if self._body == request.body:
            parts.append(note(text(self._says["request_same"])))
        else:
            body = json.dumps(request.body, ensure_ascii=False, indent=2)
            parts.append(folded(text(self._says["request_rest"]), pre(body, self._says["cut"])))
        self._body = request.body
        return folded(f"{text(self._says['request'])} <small>{text(request.model)}</small>", "".join(parts), "quiet")

    def _message(self, message: Mapping[str, Any]) -> str:
        shown = json.dumps(message, ensure_ascii=False, indent=2)
        content = message.get("content")
        start = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
        line = f'<span class="name">{text(str(message.get("role", "?")))}</span>'
        return folded(f'{line} <span class="glimpse">{one_line(start)}</span>', pre(shown, self._says["cut"]))

    # ------------------------------------------------------------------ a call

    def _call(self, call: Call) -> str:
        state = call.finished.status if call.finished else "waiting" if call.awaiting else "ready"
        details = call.finished.details if call.finished else {}
        seen = glimpse(call.call.arguments)
        facts = [self._words[f"state_{state}"], *summary(self._words, details, seen)]
        if call.started is not None and call.ended is not None:
            facts.append(duration(self._words, max(0.0, call.ended - call.started)))
        line = (
            f'<span class="name">{one_line(call.call.name, 60)}</span> <span class="glimpse">{one_line(seen)}</span> '
            f'<span class="state {state}">{text(self._words["comma"].join(facts))}</span>'
        )
        return folded(line, "".join(self._inside(call)), "call") + "".join(self._files(call))

    def _inside(self, call: Call) -> Iterator[str]:
        """What went in and what came out."""
        cut = self._says["cut"]
        if call.call.repairs:
            yield note(text(self._words["repaired"].format(repairs="; ".join(call.call.repairs))))
        if call.call.fault:
            yield note(text(call.call.fault))
        yield f"<h4>{text(self._words['arguments'])}</h4>{pre(pretty(call.call.arguments)[0], cut)}"
        yield from self._approval(call)
        if call.inside:
            told = "".join(self._parts(turn) + self._end(turn.ended) for turn in call.inside.turns)
            yield f'<h4>{text(self._words["sub_agent_did"])}</h4><div class="inside">{told}</div>'
        if call.finished is None:
            return
        details = call.finished.details
        changed = _paths(details)
        if changed:
            yield note(text(self._says["changed_files"].format(files=", ".join(changed))))
        if isinstance(shown := details.get("diff"), str) and shown.strip():
            yield f"<h4>{text(self._words['changes'])}</h4>{diff(shown, cut)}"
        yield f"<h4>{text(self._words['result'])}</h4>{pre(pretty(call.finished.text)[0], cut)}"

    def _approval(self, call: Call) -> Iterator[str]:
        if call.awaiting:
            yield note(text(self._says["asked"].format(why=call.awaiting.why).strip()))
        elif call.by_rules:
            yield note(text(self._says["by_rules"]))
        elif call.started is not None:
            yield note(text(self._says["not_asked"]))
        for rule in call.rules:
            yield note(text(self._says["granted"].format(rule=f"{rule.tool} {rule.text}".strip())))
        decided = call.decided
        if decided and decided.allowed and decided.arguments is not None:
            yield note(text(self._says["changed"])) + pre(pretty(decided.arguments)[0], self._says["cut"])
        elif decided and decided.allowed:
            yield note(text(self._says["allowed"]))
        elif decided:
            said = self._says["refused_because"].format(reason=decided.reason) if decided.reason else ""
            yield note(text(said or self._says["refused"]))

    def _files(self, call: Call) -> Iterator[str]:
        if call.finished is None:
            return
        for index, file in enumerate(call.finished.files):
            yield self._file(file, self._picture(call.finished_seq, index, False))
        handed = {(file.name, file.size) for file in call.finished.files}
        for index, file in enumerate(call.finished.images):
            if (file.name, file.size) not in handed:
                shown = self._picture(call.finished_seq, index, True)
                yield self._file(file, shown, self._says["shown_to_model"].format(name=file.name))

    def _file(self, file: File, picture: str, caption: str = "") -> str:
        named = f"{text(caption or file.name)} · {size(file.size)} · {text(file.mime)}"
        if picture:
            return f'<figure><img src="{picture}" alt="{text(file.name)}"><figcaption>{named}</figcaption></figure>'
        missing = f"<br>{text(self._says['no_picture'])}" if file.mime.startswith("image/") else ""
        return f'<div class="file"><span>{named}{missing}</span></div>'


def _spans(turn: Turn) -> Iterator[Span]:
    for step in turn.steps:
        if step.replied is not None:
            yield Span("model", step.started, step.replied)
        for call in step.calls:
            if call.started is not None and call.ended is not None:
                yield Span("tool", call.started, call.ended)


def _paths(details: Mapping[str, Any]) -> list[str]:
    """The files that a call or an undo changed, from its facts."""
    changed = details.get("changed")
    facts = changed if isinstance(changed, (list, tuple)) else []
    return [str(fact["path"]) for fact in facts if isinstance(fact, Mapping) and "path" in fact]
