"""What was spent and how full the context is, in words."""

from __future__ import annotations

import pytest

from agent.events import Budget, Compacted, Meter
from agent.llm.model import Window
from agent.tokens import Filling
from ui.meters import compaction, gauge, limits, line, money, rounded, rows, under_turn, used_up
from ui.texts import TEXTS

EN, ZH = TEXTS["en"], TEXTS["zh"]
SPENT = Meter(3, 8_000, 2_000, 234, 30, True, 0.0123, "USD", 0.31, 1.2, 2.0)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (850, "850"), (999.6, "1k"), (8_234, "8.2k"), (128_000, "128k"), (1_048_576, "1M"), (1_250_000, "1.2M")],
)
def test_numbers_are_short(count: float, text: str) -> None:
    assert rounded(count) == text


def test_money_has_as_many_places_as_it_takes() -> None:
    said = [money(amount, "USD") for amount in (0, 12.345, 0.1, 0.0123, 0.00042)]
    assert said == ["$0.00", "$12.35", "$0.10", "$0.012", "$0.00042"]
    assert money(1.5, "CHF") == "1.50 CHF" and money(1.5, "<b>") == "1.50"


def test_a_turn_in_one_line_that_opens_to_all() -> None:
    assert line(EN, SPENT) == "8.2k tokens · $0.012 · 0.3 s model · 1.2 s tools"
    assert line(ZH, SPENT) == "8.2k token · $0.012 · 模型 0.3 秒 · 工具 1.2 秒"
    opened = under_turn(EN, SPENT)
    assert "Read: 8,000" in opened and "of it from the cache: 2,000" in opened and "of it thinking: 30" in opened
    assert under_turn(EN, Meter()) == ""


def test_without_a_price_there_are_tokens_only_and_it_says_so() -> None:
    unpriced = Meter(1, 900, output_tokens=100, money=None)
    assert line(EN, unpriced) == "1k tokens · 0 ms model"
    assert ("Money", EN["meter_unpriced"]) in rows(EN, unpriced)
    form = limits(
        EN, {(k, s): None for k in ("steps", "tokens", "money", "seconds") for s in ("turn", "session")}, "USD", "<m>"
    )
    assert "No price is known for &lt;m&gt;" in form


def test_what_is_estimated_says_so() -> None:
    assert line(EN, Meter(1, 900, counted=False)).startswith("~900 tokens")
    assert EN["meter_guessed"] in under_turn(EN, Meter(1, 900, counted=False))


def test_a_forecast_is_made_of_long_turns_only() -> None:
    filling = Filling(Window(128_000, "table"), 500, 1_500, 10_000, True)
    assert "12k of 128k" in gauge(EN, filling, None)
    assert "took ~" not in gauge(EN, filling, Meter(1, 300, seconds=1.0))
    assert "turns here took ~12k tokens, 40 s" in gauge(EN, filling, Meter(1, 12_000, seconds=40.0))


def test_a_compaction_opens_to_what_stands_there_now() -> None:
    title, more = compaction(EN, Compacted(96_000, 41_000, {"a": "x", "b": "y"}, ("c",), "They want tea.", 4))
    assert title == "Room was made in the context: 96k → 41k tokens"
    assert "2 old results" in more and "1 older call" in more and "up to 4" in more and "They want tea." in more
    assert (
        "because the model gave no summary"
        in compaction(EN, Compacted(9, 1, summary="x", summarised=1, by_model=False))[1]
    )


def test_the_question_names_what_is_used_up() -> None:
    asked = used_up(EN, Budget("money", "session", 0.5, 0.51), "EUR", summed_up=False)
    assert "This conversation has used up its money" in asked and "€0.51 of €0.50" in asked and 'value="0.5"' in asked
    assert EN["budget_finish"] in asked
    assert EN["budget_finish"] not in used_up(EN, Budget("steps", "turn", 30, 30), "USD", summed_up=True)
