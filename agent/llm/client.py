"""The model behind an OpenAI-compatible server.

One reply is one or more attempts: send, read, and where that fails either put the request right (`refusals.py`), wait
and ask again (`retry.py`), or give up with words a person can use (`faults.py`). What was learned about the server
lives in the object, so only the first conversation pays for it. Refuses to know conversations: nothing of one stays.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from agent.errors import ModelError
from agent.events import Replied, RequestSent, Retrying
from agent.llm.assembly import Assembly
from agent.llm.connection import LOOPBACK, Connection
from agent.llm.connection import ChatServer as ChatServer
from agent.llm.deciding import Deciding, Question
from agent.llm.faults import Failure
from agent.llm.model import ModelEvent, Request, Window
from agent.llm.names import Names
from agent.llm.profile import Profile, guess_profile
from agent.llm.refusals import learn
from agent.llm.retry import MORE_TRIES, pause
from agent.llm.sse import DONE
from agent.llm.windows import window_by_name, window_in_list
from agent.llm.wire import Options, build_body
from agent.messages import AssistantMessage

MOST_LESSONS = 10
"""Corrections of the profile within one reply: more than a server can have wishes."""
MOST_PRINTED = 3
"""A model that prints its calls as text so often in a row is asked in JSON from then on."""
ASK_WINDOW_S = 5.0
"""What a step may wait for a server's list of models."""


class _CalledAnyway(Failure):
    """Calls where words were asked for: `tool_choice: none` means nothing to this server."""


@dataclass
class _Tries:
    """How often one request was tried, and why again."""

    made: int = 0
    lessons: int = 0
    failures: int = 0


class OpenAIModel:
    """A `Model` for any server that speaks chat completions. One object serves all sessions of one event loop."""

    def __init__(self, server: ChatServer, connection: Connection | None = None) -> None:
        """Raises SettingsError for an unknown provider name. `connection`: another way to the server than HTTP."""
        self.server = server
        self.name = server.model
        self.profile: Profile = guess_profile(server.base_url, server.provider)
        """What is known of the server by now."""
        self._printed = 0
        self._window = window_by_name(server.model, urlsplit(server.base_url).hostname in LOOPBACK)
        self._asked_window = False
        self._connection = connection or Connection(server)

    async def list_models(self) -> list[str]:
        """The server's models. Raises ModelError."""
        return await self._connection.list_models()

    @property
    def window(self) -> Window:
        """How much the model reads, as far as that is known by now."""
        return self._window

    async def ask_window(self) -> None:
        """Look once into the server's list of models, which may say it. Raises nothing."""
        if self._asked_window:
            return
        self._asked_window = True
        try:
            _, listed = await asyncio.wait_for(self._connection.models(), ASK_WINDOW_S)
        except (ModelError, asyncio.TimeoutError):
            return  # many servers have no list
        if tokens := window_in_list(listed, self.server.model):
            self._window = Window(tokens, "server")

    async def close(self) -> None:
        """Close the connections. The object can be used again."""
        await self._connection.close()

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        """See `Model.stream`. Raises ModelError, or ContentFiltered where a filter refused the request."""
        if not self._speaks_json(request):
            async for event in self.exchange(Names(request.tools), lambda profile: (request, {})):
                yield event
                if isinstance(event, Replied):
                    return
        # Asked for, or the server turned out to know no tools.
        async for event in Deciding(self.exchange, strict=self.server.protocol == "json").stream(request):
            yield event

    def _speaks_json(self, request: Request) -> bool:
        if not request.tools or self.server.protocol == "tools":
            return False
        return self.server.protocol == "json" or not self.profile.tools or self._printed >= MOST_PRINTED

    async def exchange(self, names: Names, question: Question) -> AsyncGenerator[ModelEvent, None]:
        """One request to the server, as often as it takes. Ends without `Replied` where it must be put in JSON."""
        request, _ = question(self.profile)
        taken = [c.id for m in request.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
        tries = _Tries()
        while True:
            profile = self.profile
            body = self._body(question, names)
            others = {key: value for key, value in body.items() if key != "messages"}
            yield RequestSent(self.server.model, others, 0, tuple(body["messages"]))
            assembly = Assembly(names, taken, self._connection.scrub)
            try:
                async for event in self._attempt(body, assembly):
                    yield event
                yield self._accepted(request, profile, assembly)
                return
            except Failure as failure:
                if tries.failures >= MORE_TRIES and (salvaged := self._salvaged(failure, names, taken)):
                    yield salvaged
                    return
                again = self._again(failure, profile, body, tries)
            yield again
            if request.tools and not self.profile.tools:
                return
            await asyncio.sleep(again.seconds)

    def _again(self, failure: Failure, used: Profile, body: dict[str, Any], tries: _Tries) -> Retrying:
        """What is done about a failed attempt. Raises what the loop is told where nothing can be done."""
        tries.made += 1
        better = self._lesson(failure, used, body) if tries.lessons < MOST_LESSONS else None
        if better is not None:
            self.profile = better
            tries.lessons += 1
            return Retrying("adapting", failure.detail, 0.0, tries.made + 1)
        tries.failures += 1
        seconds = pause(failure, tries.failures)
        if seconds is None:
            raise failure.stop(self.server.host) from None
        return Retrying(failure.code, failure.detail, seconds, tries.made + 1)

    def _body(self, question: Question, names: Names) -> dict[str, Any]:
        request, parameters = question(self.profile)
        options = Options(self.server.model, self.server.temperature, self.server.max_output_tokens, parameters)
        return build_body(request, names, self.profile, options)

    async def _attempt(self, body: dict[str, Any], assembly: Assembly) -> AsyncGenerator[ModelEvent, None]:
        """The events of one answer. Raises Failure unless the answer came to its end."""
        done = False
        async with self._connection.send(body) as answer:
            async for batch in answer.payloads():
                for payload in batch:
                    if payload is DONE:
                        done = True
                        break
                    for event in _added(assembly, payload):
                        yield event
                if done:
                    break
                answer.ended = assembly.ended is not None
            if not done and assembly.ended is None:
                raise self._unfinished(assembly, answer.stray)
        for event in assembly.close():
            yield event

    def _unfinished(self, assembly: Assembly, stray: list[str]) -> Failure:
        if not assembly.anything and stray:
            return Failure("malformed_response", self._connection.scrub(stray[0][:300]))
        return Failure("incomplete_stream", "the answer stopped without an end")

    def _accepted(self, request: Request, used: Profile, assembly: Assembly) -> Replied:
        """The reply, if it is what was asked for. Raises Failure."""
        reply = assembly.reply()
        if request.tool_choice != "none" or not reply.message.tool_calls:
            self._note_printed(assembly, reply)
            return reply
        if used.tool_choice_none:
            raise _CalledAnyway("bad_request", "the model called a tool although it was asked for words")
        # It was shown no tools and still calls one: what it calls is not there.
        return replace(reply, message=replace(reply.message, tool_calls=()), finish="stop")

    def _lesson(self, failure: Failure, used: Profile, body: dict[str, Any]) -> Profile | None:
        """A better profile: the one another session has found meanwhile, or what this failure teaches."""
        if isinstance(failure, _CalledAnyway):
            return replace(self.profile, tool_choice_none=False)
        if failure.status is None:
            return None
        better = self.profile if self.profile != used else learn(used, failure, body)
        pinned = better is not None and self.server.protocol == "tools" and not better.tools
        return None if pinned else better

    def _note_printed(self, assembly: Assembly, reply: Replied) -> None:
        """Count the replies in a row whose calls were written as text; a proper call ends the row."""
        if assembly.found_in_text and self.server.protocol == "auto":
            self._printed += 1
        elif reply.message.tool_calls:
            self._printed = 0

    def _salvaged(self, failure: Failure, names: Names, taken: list[str]) -> Replied | None:
        """The calls in what the model wrote, where the server could not read it and we can."""
        if not failure.failed_generation:
            return None
        assembly = Assembly(names, taken, self._connection.scrub)
        assembly.add({"choices": [{"delta": {"content": failure.failed_generation}}]})
        assembly.close()
        reply = assembly.reply()
        return reply if reply.message.tool_calls else None


def _added(assembly: Assembly, payload: Any) -> list[ModelEvent]:
    try:
        return assembly.add(payload)
    except RecursionError:
        raise Failure("malformed_response", "JSON that is nested too deep") from None
