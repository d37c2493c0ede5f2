"""What was spent and how full the context is, in words and as HTML.

Pure functions from facts to text and markup. Refuses to know gradio, sessions, and where the facts come from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import floor, log10

from agent.events import Budget, BudgetKind, BudgetScope, Compacted, Meter
from agent.tokens import Filling
from ui.markup import button
from ui.texts import Words, duration

SIGNS = {"USD": "$", "EUR": "€", "GBP": "£", "CNY": "¥", "JPY": "¥"}

KINDS: tuple[BudgetKind, ...] = ("steps", "tokens", "money", "seconds")
SCOPES: tuple[BudgetScope, ...] = ("turn", "session")

LONG_TOKENS, LONG_S = 2_000, 5.0
"""A turn that takes less is no news beforehand."""


def rounded(count: float) -> str:
    """A number of tokens as a person says it: 850, 8.2k, 128k, 1.2M."""
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if count >= size * 0.9995:
            amount = count / size
            return f"{amount:.1f}".removesuffix(".0") + letter if amount < 99.95 else f"{amount:.0f}{letter}"
    return f"{count:.0f}"


def money(amount: float, currency: str) -> str:
    """An amount with as many places as it takes to say something."""
    places = 2 if amount >= 0.1 or amount <= 0 else min(1 - floor(log10(amount)), 8)
    number = f"{amount:,.{places}f}"
    if currency in SIGNS:
        return f"{SIGNS[currency]}{number}"
    return f"{number} {currency[:8]}".strip() if currency.isalnum() else number  # an imported log may say anything


def line(words: Words, meter: Meter) -> str:
    """A meter in one line; empty where nothing was spent."""
    if not meter.steps:
        return ""
    facts = []
    if meter.tokens:
        facts.append(
            words["meter_tokens" if meter.counted else "meter_tokens_guessed"].format(count=rounded(meter.tokens))
        )
    if meter.money:
        facts.append(money(meter.money, meter.currency))
    facts.append(words["meter_model"].format(duration=duration(words, meter.model_s)))
    if meter.tool_s:
        facts.append(words["meter_tool"].format(duration=duration(words, meter.tool_s)))
    return " · ".join(facts)


def rows(words: Words, meter: Meter) -> list[tuple[str, str]]:
    """All of a meter, name by name."""
    found = [
        (words["meter_steps"], f"{meter.steps:,}"),
        (words["meter_in"], f"{meter.input_tokens:,}"),
        (words["meter_cached"], f"{meter.cached_tokens:,}"),
        (words["meter_out"], f"{meter.output_tokens:,}"),
        (words["meter_reasoning"], f"{meter.reasoning_tokens:,}"),
    ]
    unpriced = meter.money is None
    if unpriced or meter.money:
        found.append(
            (words["meter_money"], words["meter_unpriced"] if unpriced else money(meter.money or 0.0, meter.currency))
        )
    found += [
        (words["meter_model_time"], duration(words, meter.model_s)),
        (words["meter_tool_time"], duration(words, meter.tool_s)),
        (words["meter_seconds"], duration(words, meter.seconds)),
    ]
    return found


def table(words: Words, meter: Meter) -> str:
    """All of a meter."""
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows(words, meter))
    guessed = "" if meter.counted else f'<p class="gl-small">{escape(words["meter_guessed"])}</p>'
    return f'<dl class="gl-spent">{listed}</dl>{guessed}'


def under_turn(words: Words, meter: Meter) -> str:
    """Under a finished turn: one line that opens to all of it."""
    said = line(words, meter)
    if not said:
        return ""
    opened = " · ".join(f"{name}: {value}" for name, value in rows(words, meter))
    guessed = "" if meter.counted else f" {words['meter_guessed']}"
    return (
        f'<details class="gl-meter"><summary>{escape(said)}</summary>'
        f'<span class="gl-small">{escape(opened + guessed)}</span></details>'
    )


def compaction(words: Words, event: Compacted) -> tuple[str, str]:
    """A compaction as a line, and what it opens to."""
    parts = []
    for key, count in (("elided", len(event.elided)), ("left_out", len(event.left_out))):
        if count:
            parts.append(words[f"compacted_{key}_one" if count == 1 else f"compacted_{key}"].format(count=count))
    if event.summarised:
        key = "compacted_summary" if event.by_model else "compacted_quoted"
        parts += [words[key].format(turn=event.summarised), event.summary]
    title = words["compacted"].format(before=rounded(event.tokens_before), after=rounded(event.tokens_after))
    return title, "\n\n".join(parts)


# ---------------------------------------------------------------------- the context


@dataclass(frozen=True)
class Share:
    """What a part of the context takes."""

    name: str
    tokens: int
    kind: str
    """system, tools, summary, turn: its colour."""


def gauge(words: Words, filling: Filling, forecast: Meter | None) -> str:
    """A thin ring with its numbers, and what a turn here mostly takes."""
    share = min(filling.share, 1.0)
    used, window = rounded(filling.used), rounded(filling.window.tokens)
    more = escape(
        words["gauge_more"].format(
            used=f"{filling.used:,}", window=f"{filling.window.tokens:,}", share=round(share * 100)
        )
    )
    tone = "full" if share >= 0.8 else "filling" if share >= 0.6 else "free"
    ring = (
        f'<svg class="gl-ring gl-{tone}" viewBox="0 0 16 16" aria-hidden="true"><circle cx="8" cy="8" r="6"/>'
        f'<circle cx="8" cy="8" r="6" pathLength="100" stroke-dasharray="{share * 100:.0f} 100"/></svg>'
    )
    said = f"<span>{escape(words['gauge'].format(used=used, window=window))}</span>"
    likely = ""
    if forecast is not None and (forecast.tokens >= LONG_TOKENS or forecast.seconds >= LONG_S):
        spent = duration(words, forecast.seconds)
        likely = f"<span>{escape(words['forecast'].format(tokens=rounded(forecast.tokens), duration=spent))}</span>"
    return (
        f'<div class="gl-gauge"><button class="gl-flat" data-do="tab" data-value="context" data-show-right '
        f'title="{more}" aria-label="{more}">{ring}{said}</button>{likely}</div>'
    )


def context(words: Words, filling: Filling, shares: Sequence[Share]) -> str:
    """What takes how much of the window."""
    window = filling.window.tokens
    bars = "".join(
        f'<i class="gl-{share.kind}" style="width:{min(100.0, share.tokens * 100 / window):.2f}%"></i>'
        for share in shares
    )
    listed = "".join(
        f'<dt><i class="gl-{share.kind}"></i>{escape(share.name)}</dt><dd>{share.tokens:,}</dd>' for share in shares
    )
    facts = [words["gauge_counted" if filling.counted else "gauge_estimated"], words[f"window_{filling.window.source}"]]
    notes = "".join(f'<p class="gl-small">{escape(fact)}</p>' for fact in (*facts, words["gauge_room"]))
    total = words["gauge"].format(used=f"{filling.used:,}", window=f"{window:,}")
    parts = words["gauge_parts"].format(share=round(filling.share * 100))
    return (
        f"<h2>{escape(words['gauge_title'] + words['colon'] + total)}</h2>"
        f'<div class="gl-stack" role="img" aria-label="{escape(total)}">{bars}</div>'
        f'<details class="gl-message" data-keep="gauge"><summary>{escape(parts)}</summary>'
        f'<dl class="gl-spent">{listed}</dl>{notes}</details>'
    )


# ---------------------------------------------------------------------- budgets


def amount(words: Words, kind: BudgetKind, number: float, currency: str) -> str:
    """So much of one kind."""
    if kind == "money":
        return money(number, currency)
    return f"{number:,.0f}" if kind != "seconds" else f"{number:,.1f}".removesuffix(".0")


def used_up(words: Words, budget: Budget, currency: str, summed_up: bool, may_raise: bool = True) -> str:
    """The question that a turn asks which has used something up. `summed_up`: the model has said its last words."""
    kind = words[f"budget_{budget.kind}"]
    title = words[f"budget_out_{budget.scope}"].format(kind=kind)
    said = words["budget_used_steps" if summed_up else "budget_used"].format(
        spent=amount(words, budget.kind, budget.spent, currency),
        limit=amount(words, budget.kind, budget.limit, currency),
        kind=kind,
    )
    finish = "" if summed_up else button(words["budget_finish"], kind="gl-secondary", do="budget_finish")
    more = (
        f'<label class="gl-more-of"><span>{escape(words["budget_more"])}</span><input type="number" name="by" min="0" '
        f'step="any" value="{budget.limit:.6g}" data-keep="more:{budget.kind}:{budget.spent:.6g}"></label>'
        f"{button(words['budget_raise'], kind='gl-primary', do='budget_raise')}"
    )
    return (
        f'<section class="gl-card gl-used-up" role="alertdialog" aria-label="{escape(title)}" data-form '
        f'data-kind="{budget.kind}"><h2>{escape(title)}</h2><p>{escape(said)}</p><div class="gl-answer">'
        f"{more if may_raise else ''}{finish}"
        f"{button(words['budget_stop'], kind='gl-secondary', do='budget_stop')}</div></section>"
    )


def limits(words: Words, now: dict[tuple[BudgetKind, BudgetScope], float | None], currency: str, unpriced: str) -> str:
    """The form in which the limits are changed. `unpriced`: the model whose price is not known, if it is not."""

    def field(kind: BudgetKind, scope: BudgetScope) -> str:
        value = now[kind, scope]
        shown = "" if value is None else f"{value:.6g}" if value < 100_000 else f"{value:.0f}"
        label = escape(f"{words[f'budget_{kind}']}, {words[f'limits_{scope}']}")
        return (
            f'<td><input type="number" min="0" step="any" name="{scope}_{kind}" value="{shown}" aria-label="{label}" '
            f'placeholder="{escape(words["limits_none"])}" data-keep="limit:{scope}:{kind}:{shown}"></td>'
        )

    names = {kind: words[f"budget_{kind}"] for kind in KINDS} | {
        "money": words["limits_money"].format(currency=currency)
    }
    listed = "".join(
        f"<tr><th>{escape(names[kind])}</th>{''.join(field(kind, scope) for scope in SCOPES)}</tr>" for kind in KINDS
    )
    heads = "".join(f"<th>{escape(words[f'limits_{scope}'])}</th>" for scope in SCOPES)
    note = f'<p class="gl-small">{escape(words["limits_unpriced"].format(model=unpriced))}</p>' if unpriced else ""
    return (
        f'<details class="gl-message gl-limits" data-keep="limits"><summary>{escape(words["limits"])}</summary>'
        f"<div data-form><table><tr><th></th>{heads}</tr>{listed}</table>{note}"
        f"{button(words['limits_save'], kind='gl-secondary', do='budgets')}</div></details>"
    )


def spent(words: Words, meter: Meter) -> str:
    """What the conversation has taken."""
    said = line(words, meter)
    if not said:
        return ""
    return (
        f'<details class="gl-message" data-keep="spent"><summary><span>{escape(words["meter_of_session"])}</span>'
        f'<span class="gl-start">{escape(said)}</span></summary>{table(words, meter)}</details>'
    )
