"""The door for programs: JSON in, server-sent events out. One more reader of the log, and it posts to the session.

    POST /api/chat                    {"message", "session"?, "steer"?, "expect"?}: say something; the turn, as events
    GET  /api/sessions                the conversations
    GET  /api/sessions/<id>/events    all events, and those to come; `Last-Event-ID` goes on where a reader was cut off
    POST /api/sessions/<id>/stop      {}
    POST /api/sessions/<id>/decide    {"call_id", "arguments_hash", "allowed", "reason"?, "scope"?, "arguments"?}
    GET  /api/files/<id>              a handed-over file, as an attachment

Who may come in: whoever bears GLASSLOOP_API_TOKEN; where none is set, programs on this machine, and on an app that is
open to others nobody (404, as if there were no such door). A web page of another site never: its `Origin` is refused,
and no cookie counts here. What the events mean is in `api_events.py`.

Knows HTTP. Refuses to have any logic of its own.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from agent.errors import NotKept, Refused, StoreError
from agent.events import Event, MessageQueued, MessageWithdrawn, Steered, TurnEnded, TurnStarted
from agent.expectations import MAX_LINES, lines_in
from agent.log import Entry, EventLog
from agent.session import Session
from agent.sessions import HOME_OWNER, Sessions
from agent.settings import Settings
from agent.store.store import NO_SESSION
from ui.api_events import START, ApiEvents, Place, place_of, split_file_id
from ui.downloads import attachment, handed_over

MAX_BODY = 1 << 20
"""Bytes of one request."""

KEEP_ALIVE_S = 15.0
"""After this much silence a comment is sent, so that no proxy takes the stream for dead."""

TOKEN_OWNER = "token"
"""Whose sessions they are that come in with the token, where the app is open to others; no visitor's id looks so."""


class Chat(BaseModel):
    model_config = ConfigDict(extra="forbid")
    message: str = Field(min_length=1, max_length=400_000)
    session: str = Field(default="", max_length=100)
    """An earlier session to go on with; empty: a new one."""
    expect: list[str] = Field(default_factory=list, max_length=MAX_LINES)
    """What must be true at the end, in the lines of `agent/expectations.py`."""
    steer: bool = Field(default=False, strict=True)
    """While a turn runs there: the message enters it before its next step, instead of waiting for its end."""


class Decide(BaseModel):
    model_config = ConfigDict(extra="forbid")
    call_id: str = Field(max_length=1_000)
    arguments_hash: str = Field(max_length=100)
    allowed: bool = Field(strict=True)
    reason: str = Field(default="", max_length=2_000)
    scope: str = Field(default="once", max_length=100)
    arguments: dict[str, Any] | None = None
    """What is to run instead."""


class Nothing(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Problem(Exception):
    """A request that is not served: the HTTP status, a code for programs, a sentence for people."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.code = status, code


Endpoint = Callable[[Request], Awaitable[Response]]
Body = TypeVar("Body", bound=BaseModel)


class Api:
    """The endpoints. `at_home`: only this machine reaches the app, and its one owner is whoever sits there."""

    def __init__(self, sessions: Sessions, settings: Settings, at_home: bool) -> None:
        self._sessions = sessions
        self._token = settings.api_token.get_secret_value()
        self._at_home = at_home

    def routes(self) -> list[Route]:
        """To be mounted before whatever else answers below `/`."""
        endpoints: list[tuple[str, str, Endpoint]] = [
            ("POST", "/api/chat", self._chat),
            ("GET", "/api/sessions", self._list),
            ("GET", "/api/sessions/{id}/events", self._events),
            ("POST", "/api/sessions/{id}/stop", self._stop),
            ("POST", "/api/sessions/{id}/decide", self._decide),
            ("GET", "/api/files/{id}", self._file),
        ]
        routes = [Route(path, self._guarded(endpoint), methods=[method]) for method, path, endpoint in endpoints]
        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        return [*routes, Route("/api/{rest:path}", self._guarded(_no_such_thing), methods=methods)]

    # ------------------------------------------------------------------ endpoints

    async def _chat(self, request: Request) -> Response:
        owner, chat = self._owner(request), await _body(request, Chat)
        session = await self._sessions.open(owner, chat.session) if chat.session else self._sessions.create(owner)
        seq = len(session.log)
        try:
            session.send(chat.message, steer=chat.steer, expects=lines_in("\n".join(chat.expect)))
        except NotKept as error:
            raise Problem(503, "not_kept", str(error)) from None
        except Refused as error:
            raise Problem(400, "refused", str(error)) from None
        return _stream(session, (seq - 1, 9_999), _TurnOf(session.log.since(seq)))

    async def _events(self, request: Request) -> Response:
        session = await self._session(request)
        last = request.headers.get("last-event-id", "")
        try:
            place = place_of(last) if last else START
        except ValueError as error:
            raise Problem(400, "bad_event_id", f"Last-Event-ID: {error}.") from None
        return _stream(session, place, lambda entry: False)

    async def _list(self, request: Request) -> Response:
        owner = self._owner(request)
        kept = await asyncio.to_thread(self._sessions.summaries, owner)
        running = {session.id for session in self._sessions.of(owner) if session.running}
        rows = [
            {
                "id": one.id,
                "title": one.title,
                "running": one.id in running,
                "ended": one.ended,
                "created_at": one.created_at,
                "changed_at": one.changed_at,
            }
            for one in kept
        ]
        return JSONResponse({"sessions": rows})

    async def _stop(self, request: Request) -> Response:
        session = await self._session(request)
        await _body(request, Nothing)
        return JSONResponse({"unsent": await session.stop(), "ended": session.turn.ended})

    async def _decide(self, request: Request) -> Response:
        session = await self._session(request)
        decision = await _body(request, Decide)
        arguments = None if decision.arguments is None else json.dumps(decision.arguments, ensure_ascii=False)
        try:
            session.decide(
                decision.call_id, decision.arguments_hash, decision.allowed, decision.reason, decision.scope, arguments
            )
        except Refused as error:
            raise Problem(409, "refused", str(error)) from None
        return JSONResponse({"running": session.running, "still_waiting": len(session.waiting_calls())})

    async def _file(self, request: Request) -> Response:
        session_id, file_id = split_file_id(request.path_params["id"])
        try:
            session = await self._sessions.open(self._owner(request), session_id)
            return attachment(handed_over(session, file_id))
        except Refused:
            raise Problem(404, "not_found", "There is no such file.") from None

    # ------------------------------------------------------------------ who asks

    def _guarded(self, endpoint: Endpoint) -> Endpoint:
        """Nobody reaches an endpoint who may not come in, and every refusal is JSON."""

        async def guarded(request: Request) -> Response:
            try:
                self._owner(request)
                return await endpoint(request)
            except Problem as problem:
                return _refusal(problem)
            except Refused as error:
                unknown = str(error) == NO_SESSION
                return _refusal(
                    Problem(404, "not_found", f"{error}.") if unknown else Problem(409, "refused", str(error))
                )
            except StoreError as error:
                return _refusal(Problem(503, "not_kept", str(error)))
            except ClientDisconnect:
                return Response(status_code=400)

        return guarded

    def _owner(self, request: Request) -> str:
        """Whose sessions this request may touch. Raises Problem for one that may touch none."""
        if not self._token and not self._at_home:
            raise Problem(404, "not_found", "There is nothing here.")
        if _is_foreign(request):
            raise Problem(403, "foreign_origin", "Requests from web pages of other sites are refused.")
        if self._token:
            scheme, _, given = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not secrets.compare_digest(given.strip().encode(), self._token.encode()):
                raise Problem(401, "wrong_token", "Send the header Authorization: Bearer and GLASSLOOP_API_TOKEN.")
        elif not _is_from_this_machine(request):
            raise Problem(403, "not_local", "Without GLASSLOOP_API_TOKEN only programs on this machine are served.")
        return HOME_OWNER if self._at_home else TOKEN_OWNER

    async def _session(self, request: Request) -> Session:
        return await self._sessions.open(self._owner(request), request.path_params["id"])


async def _no_such_thing(request: Request) -> Response:
    raise Problem(404, "not_found", "There is nothing here; or it takes another method.")


def _refusal(problem: Problem) -> Response:
    headers = {"www-authenticate": "Bearer"} if problem.status == 401 else {}
    return JSONResponse({"error": {"code": problem.code, "message": str(problem)}}, problem.status, headers)


def _is_foreign(request: Request) -> bool:
    """Does a browser say that it comes from a page which is not ours? What is no browser says nothing."""
    origin = request.headers.get("origin", "")
    if origin and origin.partition("://")[2] != request.headers.get("host", ""):
        return True
    return request.headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


def _is_from_this_machine(request: Request) -> bool:
    """Not through a proxy either: it would let in whoever reaches it."""
    if {"x-forwarded-for", "x-forwarded-host", "forwarded", "via"} & set(request.headers.keys()):
        return False
    try:
        return request.client is not None and ipaddress.ip_address(request.client.host).is_loopback
    except ValueError:
        return False


async def _body(request: Request, kind: type[Body]) -> Body:
    """What was sent, checked. No more than MAX_BODY is read."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise Problem(415, "not_json", "Send JSON, with the header Content-Type: application/json.")
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY:
            raise Problem(413, "too_large", f"The request is larger than {MAX_BODY >> 20} MB.")
    try:
        return kind.model_validate_json(bytes(content) or b"{}")
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, fault['loc'])) or 'body'}: {fault['msg']}" for fault in error.errors()]
        raise Problem(400, "bad_request", "; ".join(wrong[:5])) from None


# ---------------------------------------------------------------------- the stream


class _TurnOf:
    """Tells when the turn of a message that was just sent is over: at its end, or when it is taken out of the queue.

    Of a message that steers, that is the turn which it has entered.
    """

    def __init__(self, since: Sequence[Entry]) -> None:
        """`since`: what sending it has added to the log."""
        self._queued = next((entry.event.id for entry in since if isinstance(entry.event, MessageQueued)), None)
        self._begun = False

    def __call__(self, entry: Entry) -> bool:
        event: Event = entry.event
        if isinstance(event, (TurnStarted, Steered)):
            self._begun = self._begun or event.queued_id == self._queued
        elif isinstance(event, MessageWithdrawn):
            return event.id == self._queued
        return self._begun and isinstance(event, TurnEnded)


def _stream(session: Session, after: Place, is_last: Callable[[Entry], bool]) -> Response:
    """The session's events behind a place, until the one that is the last. `is_last` sees the entries behind it."""

    async def frames() -> AsyncGenerator[bytes, None]:
        events = ApiEvents(session.id)
        async with aclosing(_batches(session.log)) as batches:
            async for batch in batches:
                if not batch:
                    yield b": still here\n\n"
                for entry in batch:
                    for event in events.add(entry):
                        if event.place > after:
                            yield event.frame()
                    if entry.seq > after[0] and is_last(entry):
                        return

    headers = {"cache-control": "no-store", "x-accel-buffering": "no", "x-glassloop-session": session.id}
    return StreamingResponse(frames(), media_type="text/event-stream", headers=headers)


async def _batches(log: EventLog) -> AsyncGenerator[Sequence[Entry], None]:
    """The log, and an empty batch after each silence."""
    following = log.follow()
    coming = asyncio.ensure_future(anext(following))
    try:
        while True:
            await asyncio.wait([coming], timeout=KEEP_ALIVE_S)
            if coming.done():
                yield coming.result()
                coming = asyncio.ensure_future(anext(following))
            else:
                yield ()
    finally:
        coming.cancel()
        await asyncio.wait([coming])
        await following.aclose()
