"""A model that has lost itself."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent.errors import LoopDetected
from agent.events import Retrying
from agent.llm.circles import LEAST, LONGEST, Circle
from tests.agent.llm.serving import DONE, delta, event, says, serving

SENTENCE = "I will write the summary now. "


def closes_after(text: str, size: int = 7) -> int | None:
    """Characters until the circle is noticed."""
    circle = Circle()
    for at in range(0, len(text), size):
        if circle.closes(text[at : at + size]):
            return at + size
    return None


@pytest.mark.parametrize("stretch", ["the ", "哈", SENTENCE, "a" * 40 + "b" * (LONGEST - 41) + "c"])
@pytest.mark.parametrize("size", [1, 4, 90])
def test_a_circle_is_noticed_soon_and_not_at_once(stretch: str, size: int) -> None:
    before = "First I look at the files, then at the numbers.\n"
    noticed = closes_after(before + stretch * 2 * LEAST, size)
    assert noticed is not None
    assert LEAST <= noticed <= LEAST + len(before) + 2000


@pytest.mark.parametrize(
    "text",
    [
        "-" * 1000 + "\n" + "=" * 1000,
        "".join(f"| {i} | 0 | 0 |\n" for i in range(2000)),
        SENTENCE * 300 + "Done. " + SENTENCE * 300,
        "".join(f"{i % 10}" * 997 + "\n" for i in range(30)),
        "".join(random.Random(1).choices("abc ", k=20_000)),
        "x",
        "",
    ],
)
def test_tables_rulers_and_refrains_are_no_circles(text: str) -> None:
    assert closes_after(text) is None


@pytest.mark.parametrize("field", ["content", "reasoning_content"])
async def test_a_circle_is_left_and_the_model_asked_once_more(tmp_path: Path, field: str) -> None:
    endless = {"stream": [event(delta(**{field: SENTENCE}))] * 1000, "end": "hang", "hang_ms": 20_000}
    async with serving(tmp_path, endless, says("Done.")) as served:
        events = await served.ask()
        assert [e.code for e in events if isinstance(e, Retrying)] == ["repeating"]
        assert events[-1].message.text == "Done."
    lost = {"stream": [event(delta(**{field: SENTENCE}))] * 1000 + [event(delta("length")), DONE]}
    async with serving(tmp_path, lost, repeat=True) as served:
        with pytest.raises(LoopDetected):
            await served.ask()
        assert len(served.requests) == 2
