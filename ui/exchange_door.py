"""Whole conversations over HTTP, for their owner: `GET /sessions/<id>/export` and `POST /sessions/import`.

gradio's own door for uploads is closed; this one takes one file up to a size, reads no more than that, and makes a new
conversation of it or nothing. Knows sessions and HTTP. Refuses to know what is in the file (`agent/exchange.py` does).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from agent.errors import Refused, StoreError
from agent.exchange import MAX_BYTES
from agent.sessions import Sessions

HEADER = "x-glassloop"
"""A page of another site cannot send it without being asked first, and nobody here says yes."""

_TOO_LARGE = f"the file is larger than {MAX_BYTES >> 20} MB"


class ExchangeDoor:
    """The endpoints. `owner_of` says who asks, from their cookies; empty for nobody."""

    def __init__(self, sessions: Sessions, owner_of: Callable[[Mapping[str, str]], str]) -> None:
        self._sessions, self._owner_of = sessions, owner_of

    async def export(self, request: Request) -> Response:
        owner, session_id = self._owner_of(request.cookies), request.path_params["session"]
        try:
            session = await self._sessions.open(owner, session_id)
            text = await self._sessions.export(owner, session_id)
        except (Refused, StoreError):
            return PlainTextResponse("There is no such conversation.", 404)
        name = re.sub(r"[^\w-]+", "-", session.title, flags=re.ASCII).strip("-")[:40] or "conversation"
        headers = {"content-disposition": f'attachment; filename="{name}.glassloop.jsonl"', "cache-control": "no-store"}
        return Response(text.encode(), media_type="application/octet-stream", headers=headers)

    async def import_(self, request: Request) -> Response:
        owner = self._owner_of(request.cookies)
        if not owner or HEADER not in request.headers:
            return JSONResponse({"why": "this page is not connected any more"}, 403)
        try:
            session = await self._sessions.import_(owner, await _body(request))
        except Refused as error:
            return JSONResponse({"why": str(error)}, 400)
        except ClientDisconnect:
            return Response(status_code=400)
        return JSONResponse({"id": session.id})


async def _body(request: Request) -> bytes:
    """What was sent, or Refused as soon as it is too much."""
    announced = request.headers.get("content-length", "")
    if announced.isdigit() and int(announced) > MAX_BYTES:
        raise Refused(_TOO_LARGE)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise Refused(_TOO_LARGE)
    return bytes(body)
