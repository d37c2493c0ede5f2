"""What a turn and a session may spend, what was spent, and what becomes of a turn that has spent it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.agent import Agent
from agent.errors import Refused, SettingsError
from agent.events import Budget, BudgetKind, Event, Meter, Nudged, Replied, TurnEnded, TurnResumed, Usage
from agent.limits import Limits, budgets, what_is_left
from agent.log import EventLog, dump_entry, load_entry
from agent.messages import AssistantMessage, ToolCall
from agent.prices import Price, Prices, load_prices
from agent.session import Session
from agent.tool import Effect, Toolbox, ToolContext, tool
from tests.scripted import ScriptedModel

PRICES = Prices({"m": Price(input=1_000.0, output=2_000.0, cached=100.0)}, "EUR")
"""A tenth of a cent for a token that is read."""


class Clock:
    """A second goes by at each look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@tool(Effect.READ)
async def look(context: ToolContext, at: int) -> str:
    """Look somewhere."""
    return f"nothing at {at}"


def step(number: int, model: str = "m") -> Replied:
    call = ToolCall(f"c{number}", "look", f'{{"at": {number}}}')
    return Replied(AssistantMessage("", "", (call,)), "tool_calls", Usage(100, 10, 50, 5), model)


def answer(text: str = "done", model: str = "m") -> Replied:
    return Replied(AssistantMessage(text), "stop", Usage(100, 10, 50, 5), model)


def steps(count: int, first: int = 0, **more: Any) -> list[Replied]:
    return [step(first + number, **more) for number in range(count)]


def make_session(tmp_path: Path, limits: Limits, *script: Any, log: EventLog | None = None) -> Session:
    agent = Agent(ScriptedModel(*script), Toolbox([look]), limits=limits, prices=PRICES)
    return Session(agent, tmp_path, tmp_path, log=log or EventLog(clock=Clock()), id="s")


def restarted(session: Session, *script: Any) -> Session:
    """The same from its log, as it was written down, in another process."""
    entries = [load_entry(dump_entry(entry)) for entry in session.log.since(0)]
    clock = Clock()
    clock.now = entries[-1].at
    return make_session(session.workspace, session.agent.limits, *script, log=EventLog(entries, clock=clock))


def run(session: Session, act: Any = lambda session: session.send("go")) -> None:
    async def scenario() -> None:
        act(session)
        await asyncio.wait_for(session.wait(), 20)

    asyncio.run(scenario())


def events(session: Session, kind: type[Event] | Any) -> list[Any]:
    return [e.event for e in session.log.since(0) if isinstance(e.event, kind)]


LIMITS: dict[str, tuple[Limits, BudgetKind]] = {
    "turn tokens": (Limits(max_tokens=500), "tokens"),  # 110 a step
    "turn money": (Limits(max_cost=0.4), "money"),  # 0.075 a step
    "turn seconds": (Limits(max_seconds=40.0), "seconds"),
    "session tokens": (Limits(session_tokens=500), "tokens"),
    "session money": (Limits(session_cost=0.4), "money"),
    "session seconds": (Limits(session_seconds=40.0), "seconds"),
    "session steps": (Limits(session_steps=5), "steps"),
}


@pytest.mark.parametrize("which", LIMITS)
def test_a_turn_that_has_used_something_up_pauses_and_goes_on_after_a_restart(tmp_path: Path, which: str) -> None:
    limits, kind = LIMITS[which]
    session = make_session(tmp_path, limits, *steps(30))
    run(session)
    ended = events(session, TurnEnded)[-1]
    assert ended.reason == "budget" and ended.budget.kind == kind and ended.budget.scope == which.split()[0]
    assert ended.budget.spent >= ended.budget.limit
    made = session.turn.steps
    assert 1 < made < 12 and not session.open_calls()
    warned = [e.code for e in events(session, Nudged)]
    assert warned == [f"budget_{kind}"]  # once, at four fifths

    again = restarted(session, *steps(2, first=made), answer("there"))
    assert (again.turn.ended, again.turn.budget) == ("budget", ended.budget)
    with pytest.raises(Refused):
        again.raise_budget("steps" if kind == "tokens" else "tokens", 10)
    with pytest.raises(Refused):
        again.raise_budget(kind, -1)
    run(again, lambda session: session.raise_budget(kind, 10_000))
    assert again.turn.ended == "answered" and again.turn.number == 1 and again.turn.steps == made + 3
    assert [e.code for e in events(again, Nudged)] == warned


@pytest.mark.parametrize("which", LIMITS)
def test_or_it_says_how_far_it_got(tmp_path: Path, which: str) -> None:
    limits, _ = LIMITS[which]
    session = make_session(tmp_path, limits, *steps(30))
    run(session)
    again = restarted(session, answer("so far: nothing"))
    run(again, lambda session: session.finish())
    assert again.turn.ended == "answered" and again.transcript.messages[-1].text == "so far: nothing"
    (request,) = again.agent.model.requests  # type: ignore[attr-defined]
    assert request.tool_choice == "none"


def test_or_it_stays_where_it_is(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(max_tokens=300), *steps(30))
    run(session)
    session.give_up()
    assert session.turn.ended == "stopped" and restarted(session).turn.ended == "stopped"
    with pytest.raises(Refused):
        session.finish()


def test_a_queued_message_waits_while_a_person_is_asked(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(max_tokens=300), *steps(3), answer("a"), answer("b"))

    def send_two(session: Session) -> None:
        session.send("go")
        session.send("and then this")

    run(session, send_two)
    assert session.turn.ended == "budget" and len(session.turn.queue) == 1
    run(session, lambda session: session.raise_budget("tokens", 1_000))
    assert [e.reason for e in events(session, TurnEnded)] == ["budget", "answered", "answered"]


def test_more_steps_after_the_last_one(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(max_steps=2), *steps(2), answer("half"), *steps(1, first=2), answer("all"))
    run(session)
    assert session.turn.ended == "step_limit" and session.transcript.messages[-1].text == "half"
    again = restarted(session, *steps(1, first=2), answer("all"))
    run(again, lambda session: session.raise_budget("steps", 3))
    assert again.turn.ended == "answered" and again.transcript.messages[-1].text == "all"
    assert again.agent.model.requests[0].tool_choice == "auto"  # type: ignore[attr-defined]


def test_a_limit_that_the_person_has_set_counts_from_the_next_turn_on_and_after_a_restart(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(max_tokens=300), *steps(5), answer())
    session.set_budget("tokens", "turn", None)
    session.set_budget("steps", "session", 4)
    run(session)
    again = restarted(session)
    assert again.turn.budget == Budget("steps", "session", 4, 4)
    assert [(b.kind, b.scope, b.limit) for b in budgets(again, again.agent)] == [
        ("steps", "turn", 30),
        ("steps", "session", 4),
    ]


def test_a_sub_agent_may_spend_what_the_turn_has_left(tmp_path: Path) -> None:
    session = make_session(
        tmp_path,
        Limits(max_tokens=300, session_cost=1.0),
        *steps(2),
        Replied(AssistantMessage("so"), "stop", Usage(10, 5), "m"),
    )
    run(session)
    left = what_is_left(session, session.agent, 9)
    assert (left.max_tokens, left.max_steps, left.session_cost) == (65, 9, None)
    assert left.max_cost == pytest.approx(1.0 - 2 * 0.075 - 0.02)


# ------------------------------------------------------------------ the meter


def test_what_was_spent_is_in_the_end_of_the_turn(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(), *steps(2), answer(), answer())
    run(session)
    meter = events(session, TurnEnded)[0].meter
    assert (meter.steps, meter.input_tokens, meter.cached_tokens, meter.output_tokens) == (3, 300, 150, 30)
    assert meter.reasoning_tokens == 15 and meter.counted and meter.currency == "EUR"
    assert meter.money == pytest.approx(3 * (50 * 0.001 + 50 * 0.0001 + 10 * 0.002))
    assert meter.model_s >= 3 and meter.tool_s >= 2 and meter.seconds >= meter.model_s + meter.tool_s
    run(session)
    total = session.spent_in_all()
    assert (total.steps, total.tokens) == (4, 440)
    assert restarted(session).spent_in_all().money == pytest.approx(total.money)


def test_a_model_without_a_price_is_counted_in_tokens_only(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(max_cost=0.001), *steps(2, model="nobody"), answer(model="m"))
    run(session)
    meter = events(session, TurnEnded)[0].meter
    assert meter.money is None and meter.tokens == 330 and session.turn.ended == "answered"


def test_a_server_that_counts_nothing_is_estimated(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(), Replied(AssistantMessage("word " * 50), "stop"))
    run(session)
    meter = events(session, TurnEnded)[0].meter
    assert not meter.counted and meter.output_tokens == pytest.approx(54, abs=3)


def test_waiting_for_a_person_takes_no_time(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(max_tokens=300), *steps(30))
    run(session)
    spent = session.spent().seconds
    session.log._clock.now += 1_000  # type: ignore[attr-defined]
    session.agent.model.script[:] = [answer()]  # type: ignore[attr-defined]
    run(session, lambda session: session.raise_budget("tokens", 1_000))
    assert events(session, TurnResumed) and spent < session.spent().seconds < spent + 30


def test_a_forecast_needs_three_turns(tmp_path: Path) -> None:
    session = make_session(tmp_path, Limits(), *[answer()] * 2, *steps(3), answer())
    for _ in range(2):
        run(session)
    assert session.meters.forecast() is None
    run(session)
    likely = session.meters.forecast()
    assert isinstance(likely, Meter) and likely.tokens == 110


# ------------------------------------------------------------------ prices


def test_names_of_the_same_model_have_its_price_and_others_have_none() -> None:
    prices = Prices({"gpt-5": Price(input=1, output=2)})
    for name in ("gpt-5", "openai/gpt-5", "GPT-5-2025-08-07", "gpt-5@v2", "gpt-5:latest"):
        assert prices.of(name) is not None
    for name in ("gpt-5-mini", "gpt-5.5", "my-gpt-5", "", "/"):
        assert prices.of(name) is None


def test_the_first_folder_with_a_table_wins_and_a_broken_one_is_named(tmp_path: Path) -> None:
    mine, app = tmp_path / "data", Path(__file__).resolve().parents[2]
    mine.mkdir()
    shipped = load_prices(mine, app)
    assert shipped.of("gpt-4o-mini") is not None and shipped.currency == "USD"
    (mine / "prices.json").write_text('{"currency": "CNY", "models": {"M": {"input": 1, "output": 2}}}')
    assert load_prices(mine, app) == Prices({"m": Price(input=1, output=2)}, "CNY")
    (mine / "prices.json").write_text('{"models": {"M": {"input": -1, "output": 2}}}')
    with pytest.raises(SettingsError, match=r"prices\.json"):
        load_prices(mine, app)


def test_strangers_cannot_raise_what_the_operator_has_limited(tmp_path: Path) -> None:
    limits = Limits(max_tokens=300, session_tokens=500, binding=True)
    session = make_session(tmp_path, limits, *steps(30))
    run(session)
    for refused in (
        lambda: session.raise_budget("tokens", 301),
        lambda: session.set_budget("tokens", "session", 501),
        lambda: session.set_budget("tokens", "turn", None),
    ):
        with pytest.raises(Refused):
            refused()
    run(session, lambda session: session.raise_budget("tokens", 300))  # as another message would
    assert session.turn.budget is not None and session.turn.budget.scope == "session"
    with pytest.raises(Refused):
        session.raise_budget("tokens", 1)
