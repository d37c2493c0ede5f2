"""The proof at the end of a turn, in a person's words: one calm line, and the list of what was looked at.

Pure functions from facts to words and markup, for the page, the report and the terminal alike. Refuses to know gradio
and how anything was found out (`agent/proof.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from agent.events import Check, Claim, PlanItem, Proved
from agent.expectations import expectation
from ui.parts import Line
from ui.safe_text import one_line, plain
from ui.texts import Words

MAX_NAMED = 3
"""Checks that the folded line names."""
_OPEN_ENDED = ("open", "dropped")
"""What is found of an item of the plan: its text is no line of a person's."""


def headline(words: Words, proved: Proved) -> str:
    """The one line: the verdict, and what it rests on."""
    bad = [check for check in proved.checks if not check.ok]
    if proved.claims:
        facts = [claim_text(words, claim) for claim in proved.claims]
    elif bad:
        facts = [against(words, check) for check in bad]
    else:
        facts = [wanted(words, check) for check in proved.checks]
    more = len(facts) - MAX_NAMED
    named = [*facts[:MAX_NAMED], *([words["proof_more"].format(count=more)] if more > 0 else [])]
    return f"{words[f'proof_{proved.verdict}']}{words['colon']}{words['comma'].join(named)}"


def wanted(words: Words, check: Check) -> str:
    """What had to be true."""
    if check.found in _OPEN_ENDED:
        return check.what
    want = expectation(check.what)
    return words[f"proof_want_{want.kind}"].format(path=want.subject, text=want.text)


def against(words: Words, check: Check) -> str:
    """What was found where it is not so, with what it is about."""
    is_file = check.found not in _OPEN_ENDED and expectation(check.what).kind == "exists"
    return f"{check.what if is_file else wanted(words, check)}{words['colon']}{found(words, check)}"


def found(words: Words, check: Check) -> str:
    """What was found instead; empty where all is well."""
    if check.ok:
        return ""
    said = words.get(f"proof_found_{check.found}", words["proof_found"]).format(detail=check.detail)
    return said.replace(" ()", "").replace("（）", "")


def claim_text(words: Words, claim: Claim) -> str:
    return words["comma"].join(filter(None, (f"“{claim.text}”", _why(words, claim))))


def state_of(check: Check) -> str:
    return "done" if check.ok else "failed" if check.ok is False else "unknown"


def card(words: Words, proved: Proved) -> Line:
    """The card under an answer: folded to its line, opened to the list."""
    tone = "good" if proved.verdict == "verified" else "warn"
    line = f'<span class="gl-mark gl-proof-{tone}"></span> <span class="gl-proof gl-{tone}">'
    line += f"{plain(one_line(headline(words, proved), 220))}</span>"
    return Line(checklist(words, proved), title=line)


def checklist(words: Words, proved: Proved) -> str:
    """Every check with who asked for it, then the claims."""
    rows = [
        f'<li class="gl-{state_of(one)}"><span class="gl-tick"></span>'
        f"<span>{plain(_subject(words, one))}{_small(found(words, one))}</span>"
        f'<span class="gl-from">{plain(words[f"proof_from_{one.source}"])}</span></li>'
        for one in proved.checks
    ]
    claims = [f"<li><q>{plain(claim.text)}</q>{_small(_why(words, claim))}</li>" for claim in proved.claims]
    parts = [f'<ul class="gl-checks">{"".join(rows)}</ul>'] if rows else []
    if claims:
        parts.append(f'<p class="gl-quiet">{plain(words["proof_claims"])}</p>')
        parts.append(f'<ul class="gl-claims">{"".join(claims)}</ul>')
    return "".join(parts)


def _subject(words: Words, check: Check) -> str:
    return wanted(words, check) if check.ok or check.found in _OPEN_ENDED else check.what


def _why(words: Words, claim: Claim) -> str:
    return words.get(f"proof_claim_{claim.why}", "")


def _small(text: str) -> str:
    return f'<span class="gl-is">{plain(text)}</span>' if text else ""


def proof_lines(words: Words, proved: Proved) -> list[str]:
    """The same as plain lines."""
    marks = {"done": "[x]", "failed": "[ ]", "unknown": "[?]"}
    checks = [
        f"  {marks[state_of(one)]} {wanted(words, one) if one.ok else against(words, one)}" for one in proved.checks
    ]
    return [*checks, *(f"  [!] {claim_text(words, claim)}" for claim in proved.claims)]


def must_facts(words: Words) -> str:
    """For the page's script: what the box for a person's lines says of itself."""
    label, more = escape(words["must"]), escape(words["must_more"])
    return f'<div id="gl-must-facts" data-label="{label}" data-more="{more}"></div>'


def must_said(words: Words, lines: Sequence[str]) -> str:
    """Under a message: what has to be true at its end."""
    if not lines:
        return ""
    said = words["must_said"].format(lines=" · ".join(lines))
    return f'<span class="gl-said-must">{plain(said)}</span>'


# ---------------------------------------------------------------------- the plan


def counted(words: Words, plan: Sequence[PlanItem]) -> str:
    """How far it is."""
    standing = [item for item in plan if item.status != "dropped"]
    done = sum(item.status == "done" for item in standing)
    return f"{words['plan']}{words['colon']}{words['plan_count'].format(done=done, count=len(standing))}"


def plan_line(words: Words, plan: Sequence[PlanItem]) -> Line:
    """The plan of a finished turn, folded to one quiet line."""
    done = all(item.status == "done" for item in plan)
    mark = f'<span class="gl-mark gl-{"done" if done else "thought"}"></span>'
    return Line(_items(words, plan), title=f'{mark} <span class="gl-thought">{plain(counted(words, plan))}</span>')


def plan_dock(words: Words, plan: Sequence[PlanItem], folded: bool = False) -> str:
    """The plan of the running turn, pinned above the message box; folded where something there needs the room."""
    if not plan:
        return ""
    now = next((item.text for item in plan if item.status == "doing"), "")
    state = 'data-keep="plan-folded"' if folded else 'data-keep="plan" data-unfolded open'
    return (
        f'<details class="gl-todo" {state}><summary>'
        f'<span class="gl-thought">{plain(counted(words, plan))}</span>'
        f'<span class="gl-now">{plain(now)}</span></summary>'
        f"{_items(words, plan)}</details>"
    )


def plan_lines(words: Words, plan: Sequence[PlanItem]) -> list[str]:
    """The same as plain lines."""
    marks = {"open": "[ ]", "doing": "[>]", "done": "[x]", "dropped": "[-]"}
    items = [
        f"  {marks[item.status]} {item.text}" + (f" ({words['plan_why'].format(why=item.why)})" if item.why else "")
        for item in plan
    ]
    return [counted(words, plan), *items]


def _items(words: Words, plan: Iterable[PlanItem]) -> str:
    rows = (
        f'<li class="gl-{item.status}"><span class="gl-tick" title="{plain(words[f"plan_{item.status}"])}"></span>'
        f"<span>{plain(item.text)}{_small(words['plan_why'].format(why=item.why)) if item.why else ''}</span></li>"
        for item in plan
    )
    return f'<ul class="gl-checks gl-items">{"".join(rows)}</ul>'
