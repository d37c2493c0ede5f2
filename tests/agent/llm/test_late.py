"""A model that is connected where it is used: one loop looks, another one talks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.errors import ModelError
from agent.events import Replied
from agent.llm.client import OpenAIModel
from agent.llm.connection import ChatServer
from agent.llm.demo import DemoModel
from agent.llm.late import close, connect_late
from agent.llm.model import Model, Request
from agent.messages import UserMessage
from tests.wire.replay import Replay

WIRE = Path(__file__).resolve().parents[2] / "wire"
REQUEST = Request("", (UserMessage("Hello"),))


@pytest.fixture
def replay() -> Iterator[Replay]:
    with Replay(WIRE) as server:
        yield server


async def answer(model: Model) -> str:
    replies = [event async for event in model.stream(REQUEST) if isinstance(event, Replied)]
    return replies[-1].message.text


def test_one_loop_looks_and_another_talks(replay: Replay) -> None:
    async def connect() -> Model:
        model = OpenAIModel(ChatServer(replay.url, "", "comments"))
        await model.list_models()  # opens a connection, which dies with its loop
        return model

    late, problem = asyncio.run(connect_late(connect))
    assert (late.name, problem) == ("comments", "")

    async def talk() -> str:
        late_answer = await answer(late)
        await close(late)
        return late_answer

    assert asyncio.run(talk())


async def test_a_server_that_is_down_at_the_start_is_tried_again_with_each_message() -> None:
    answers: list[Model | ModelError] = [
        ModelError("unreachable", "Nobody there."),
        ModelError("unreachable", "Still."),
    ]

    async def connect() -> Model:
        found = answers.pop(0) if answers else DemoModel(0)
        if isinstance(found, ModelError):
            raise found
        return found

    late, problem = await connect_late(connect, "wanted")
    assert (late.name, problem) == ("wanted", "Nobody there.")
    with pytest.raises(ModelError, match="Still"):
        await answer(late)
    assert "Glassloop" in await answer(late)
    assert late.name == "demo"


async def test_many_first_requests_make_one_connection() -> None:
    made: list[Model] = []

    async def connect() -> Model:
        await asyncio.sleep(0)
        made.append(DemoModel(0))
        return made[-1]

    late, _ = await connect_late(connect)
    made.clear()
    await asyncio.gather(*(answer(late) for _ in range(5)))
    assert len(made) == 1
