"""All wire cases, run side by side once; one test a case."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.wire.__main__ import run
from tests.wire.replay import load_cases
from tests.wire.serving import Replay

PLACE = Path(__file__).parent
MORE = PLACE / "more"
NAMES = sorted(path.stem for place in (PLACE, MORE) for path in place.glob("*.json"))

Results = dict[str, list[str]]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    with Replay(PLACE, MORE) as server:
        return asyncio.run(run(server, list(server.cases.values()), tmp_path_factory.mktemp("wire")))


@pytest.mark.parametrize("name", NAMES)
def test_case(name: str, results: Results) -> None:
    assert results[name] == []


def test_a_wrong_expectation_is_noticed(tmp_path: Path) -> None:
    """The judge must be able to say no, or all of the above means nothing."""
    cases = load_cases(PLACE / "index-zero-fragments.json")
    case = cases["index-zero-fragments"]
    case["expect"]["run"]["executed"][1]["arguments"]["content"] = "beech"
    case["expect"]["tool_calls"][0]["id"] = "another"
    case["expect"]["run"]["requests"] = 3
    with Replay(PLACE / "index-zero-fragments.json") as server:
        [wrong] = asyncio.run(run(server, [case], tmp_path)).values()
    assert len(wrong) == 3
