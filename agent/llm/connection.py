"""One request over the network: bytes in time, or a Failure.

Knows the openai client, statuses, and two clocks: how long a server may take to begin, how long it may be silent
after. Refuses to know what the bytes mean beyond their framing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
import openai

from agent.llm.certificates import certificates
from agent.llm.faults import Failure, Scrubber, cut, from_connection, from_response
from agent.llm.public import PublicTransport
from agent.llm.sse import EventStream, Unreadable

CONNECT_TIMEOUT_S = 15.0
MOST_UNREAD = 64 << 20
"""Bytes without one payload: no server needs so many for one, and all of them are held."""
GRACE_S = 2.0
"""After the reason for the end has come, only the token counts can follow; a server that keeps the line open then is
not waited for any longer than this."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class ChatServer:
    """Where a model lives, and how long to wait for it."""

    base_url: str
    """Up to and including /v1."""
    api_key: str = field(repr=False)
    """Empty for a server that wants none."""
    model: str
    temperature: float | None = None
    max_output_tokens: int | None = None
    first_token_timeout_s: float = 120
    idle_timeout_s: float = 60
    provider: str = "auto"
    """A name of `profile.PROFILES`, or `auto`: guessed from the address, corrected by what the server refuses."""
    protocol: Literal["auto", "tools", "json"] = "auto"
    public_only: bool = False
    """A stranger named it: it is reached at public addresses only."""

    @property
    def host(self) -> str:
        """What the person is told instead of the address."""
        parts = urlsplit(self.base_url)
        return f"{parts.hostname}:{parts.port}" if parts.port else parts.hostname or self.base_url


class Connection:
    """Requests to one server. Belongs to the event loop it is first used in."""

    def __init__(self, server: ChatServer) -> None:
        self.scrub = Scrubber(server.api_key)
        self._server = server
        self._client: openai.AsyncOpenAI | None = None

    def _open(self) -> openai.AsyncOpenAI:
        """The client, made when it is first needed."""
        if self._client is None:
            host = urlsplit(self._server.base_url).hostname
            timeout = httpx2.Timeout(self._server.first_token_timeout_s, connect=CONNECT_TIMEOUT_S)
            if self._server.public_only:
                transport = PublicTransport(verify=certificates())
                http = openai.DefaultAsyncHttpxClient(timeout=timeout, trust_env=False, transport=transport)
            else:  # a proxy from the environment must not come between us and this machine
                trust_env = host not in LOOPBACK
                http = openai.DefaultAsyncHttpxClient(timeout=timeout, trust_env=trust_env, verify=certificates())
            self._client = openai.AsyncOpenAI(
                api_key=self._server.api_key or "none",
                base_url=self._server.base_url,
                max_retries=0,
                timeout=timeout,
                http_client=http,
            )
        return self._client

    @asynccontextmanager
    async def send(self, body: Mapping[str, Any]) -> AsyncGenerator[Answer, None]:
        """Post a chat request. Raises Failure for a refusal, also while the answer is read."""
        content = json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        try:
            # A stream of the SDK is asked for only to get at its bytes; they are decoded here.
            stream: openai.AsyncStream[Any] = await self._open().post(
                "/chat/completions",
                cast_to=object,
                content=content,
                options={"headers": {"Content-Type": "application/json"}},
                stream=True,
                stream_cls=openai.AsyncStream[Any],
            )
        except openai.APIStatusError as error:
            raise from_response(error.status_code, error.response.headers, error.response.text, self.scrub) from None
        except openai.APITimeoutError as error:
            raise _timeout(error, self._server.first_token_timeout_s) from None
        except openai.APIConnectionError as error:
            raise from_connection(error) from None
        stream.response.request.extensions["timeout"]["read"] = None  # from here on the answer's own clock counts
        answer = Answer(stream.response, self._server, self.scrub)
        try:
            yield answer
        finally:
            answer.stop_clock()
            await stream.response.aclose()

    async def list_models(self) -> list[str]:
        """The ids the server lists, in its order. Raises ModelError."""
        return (await self.models())[0]

    async def models(self) -> tuple[list[str], Any]:
        """The ids the server lists, in its order, and the list as it came. Raises ModelError."""
        try:
            listed = (await self._open().get("/models", cast_to=httpx2.Response)).json()
            return read_models(listed), listed
        except openai.APIStatusError as error:
            failure = from_response(error.status_code, error.response.headers, error.response.text, self.scrub)
            raise failure.stop(self._server.host) from None
        except openai.APIConnectionError as error:
            raise from_connection(error).stop(self._server.host) from None
        except (ValueError, RecursionError):
            raise Failure("malformed_response", "the list of models is not JSON").stop(self._server.host) from None

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()


class Answer:
    """The bytes of one answer, with a clock beside them.

    The clock closes the line when it runs out; the read that waits for bytes then fails. That is done instead of
    cancelling, because a cancellation could not be told from the person's Stop.
    """

    def __init__(self, response: httpx2.Response, server: ChatServer, scrub: Scrubber) -> None:
        self._response = response
        self._server = server
        self._scrub = scrub
        self._loop = asyncio.get_running_loop()
        self._began = self._heard = self._loop.time()
        self._allowed = server.first_token_timeout_s
        self._handle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None
        self.ended = False
        """Set by the reader once the server has said why it ended: from then on a lost line loses nothing, and silence
        is borne only for a short while."""
        self.stray: list[str] = []

    async def payloads(self) -> AsyncGenerator[list[Any], None]:
        """JSON payloads as they come, in batches. Raises Failure for a broken line, silence, or broken JSON."""
        events = EventStream()
        self.stray = events.stray
        self._tick()
        unread = 0
        try:
            async for piece in self._response.aiter_bytes():
                batch = events.feed(piece)
                self._heard = self._loop.time()
                unread = 0 if batch else unread + len(piece)
                if unread > MOST_UNREAD:
                    raise Failure("malformed_response", f"{MOST_UNREAD >> 20} MiB came without an answer in them")
                if batch:
                    yield batch
                    self._allow(GRACE_S if self.ended else self._server.idle_timeout_s)
            if self._closing is None:
                yield events.close()
        except (Unreadable, RecursionError) as error:
            raise Failure("malformed_response", cut(self._scrub(f"broken JSON: {error}"))) from None
        except httpx2.HTTPError as error:
            if self._closing is None and not self.ended:
                raise Failure("connection_lost", cut(str(error) or type(error).__name__)) from None
        if self._closing is not None and not self.ended:
            raise Failure("timeout", f"nothing came for {self._allowed:g} seconds")

    def _allow(self, seconds: float) -> None:
        """From now on this much silence is allowed."""
        self._began = self._heard = self._loop.time()
        if seconds != self._allowed:
            self._allowed = min(seconds, self._server.idle_timeout_s)
            self.stop_clock()
            self._tick()

    def _tick(self) -> None:
        """Look whether time is up, else look again when it could be.

        Comments that keep the line alive count as a sign of life, but not for longer than a first token may take.
        """
        now = self._loop.time()
        deadline = min(
            self._heard + self._allowed, self._began + max(self._allowed, self._server.first_token_timeout_s)
        )
        if now < deadline:
            self._handle = self._loop.call_later(deadline - now + 0.01, self._tick)
        else:
            self._closing = self._loop.create_task(self._cut_line())

    async def _cut_line(self) -> None:
        line = self._response.extensions.get("network_stream")
        if line is not None:
            await line.aclose()

    def stop_clock(self) -> None:
        if self._handle is not None:
            self._handle.cancel()


def _timeout(error: openai.APITimeoutError, allowed: float) -> Failure:
    if isinstance(error.__cause__, httpx2.ConnectTimeout):
        return Failure("unreachable", f"no connection within {CONNECT_TIMEOUT_S:g} seconds")
    return Failure("timeout", f"no answer began within {allowed:g} seconds")


def read_models(listed: Any) -> list[str]:
    """Ids from a list of models in any of its shapes. Raises ValueError where there is none."""
    entries = listed.get("data", listed.get("models")) if isinstance(listed, Mapping) else listed
    if not isinstance(entries, list):
        raise ValueError("not a list of models")
    named = (e.get("id") or e.get("name") or e.get("model") if isinstance(e, Mapping) else e for e in entries)
    return [name for name in named if isinstance(name, str) and name]
