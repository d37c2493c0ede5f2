"""A model that is connected in the event loop that asks it first: connections belong to one loop.

For a server that makes its own loop: whoever starts it looks once which model it will be, and hands over this. Knows
when to connect. Refuses to know how, and to keep an app from starting: a server that cannot be reached now is tried
again with each message, and the message's turn says what is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Protocol, runtime_checkable

from agent.errors import ModelError
from agent.llm.model import Model, ModelEvent, Request, ToolSpec

Connect = Callable[[], Awaitable[Model]]
"""Gives a model for the loop it is called in. Raises ModelError where the server cannot be reached."""


@runtime_checkable
class Closes(Protocol):
    """A model that holds something open."""

    async def close(self) -> None: ...


@runtime_checkable
class WarmsUp(Protocol):
    """A model that answers the first question sooner if it may read these tools before it."""

    async def warm_up(self, tools: Sequence[ToolSpec]) -> None: ...


async def close(model: Model) -> None:
    """Close what a model holds open; some hold nothing."""
    if isinstance(model, Closes):
        await model.close()


async def connect_late(connect: Connect, name: str = "") -> tuple[LateModel, str]:
    """Look once, in a loop that may end afterwards, which model it will be.

    Gives the model, and what is wrong at the moment (empty: nothing); `name` is what it is called until it is reached.
    """
    try:
        model = await connect()
    except ModelError as error:
        return LateModel(connect, name or "?"), str(error)
    await close(model)
    return LateModel(connect, model.name), ""


class LateModel:
    """Implements `agent.llm.model.Model`. Connects when it is first asked for a reply, and again where that failed."""

    def __init__(self, connect: Connect, name: str) -> None:
        self.name = name
        self._connect = connect
        self._model: Model | None = None
        self._connecting = asyncio.Lock()

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """See `Model.stream`."""
        async with self._connecting:
            if self._model is None:
                self._model = await self._connect()
                self.name = self._model.name
        async with aclosing(self._model.stream(request)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._model is not None:
            await close(self._model)
            self._model = None
