"""Files over HTTP, one a request: `POST /sessions/<id>/uploads?name=…` and `GET /sessions/<id>/uploads/<upload>`.

gradio's own door for uploads is closed. This one asks who sends, refuses what is too large before it is read where its
length is said, and counts where it is not; what breaks off leaves nothing. Knows sessions and HTTP. Refuses to know
where the bytes go (`Intake` does).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response

from agent.errors import NotTaken, Refused, StoreError
from agent.sessions import Sessions
from ui.attaching import Incoming, Intake, Upload
from ui.downloads import HEADERS, picture_type
from ui.exchange_door import HEADER
from ui.replay import ReplaySession

PIECE_BYTES = 1 << 20
"""Written at once: each piece costs a trip to a thread."""
MAX_NAME_CHARS = 1_000

_STATUS = {"too_large": 413, "picture_too_large": 413, "too_many": 409, "full": 507, "disk_full": 507}


class UploadDoor:
    """The endpoints. `owner_of` says who asks, from their cookies; `ring` is told whose pages have news."""

    def __init__(
        self,
        sessions: Sessions,
        owner_of: Callable[[Mapping[str, str]], str],
        intake: Intake,
        ring: Callable[[str], None],
    ) -> None:
        self._sessions, self._owner_of, self._intake, self._ring = sessions, owner_of, intake, ring

    async def post(self, request: Request) -> Response:
        owner = self._owner_of(request.cookies)
        if not owner or HEADER not in request.headers:
            return _refusal("gone", 403)
        try:
            session = await self._sessions.open(owner, request.path_params["session"])
        except (Refused, StoreError):
            return _refusal("gone", 404)
        if isinstance(session, ReplaySession):
            return _refusal("gone", 404)
        name = request.query_params.get("name", "")[:MAX_NAME_CHARS]
        length = request.headers.get("content-length", "")
        announced = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
        try:
            incoming = await asyncio.to_thread(self._intake.begin, session.id, session.outbox, name, announced)
            upload = await _received(request, incoming)
        except NotTaken as error:
            return _refusal(error.code, _STATUS.get(error.code, 400))
        except ClientDisconnect:
            return Response(status_code=400)
        self._ring(owner)
        return JSONResponse({"id": upload.id, "number": upload.number})

    async def get(self, request: Request) -> Response:
        """The picture of an upload that waits, small, to be drawn in place."""
        try:
            session = await self._sessions.open(self._owner_of(request.cookies), request.path_params["session"])
        except (Refused, StoreError):
            return PlainTextResponse("There is no such file.", 404)
        for upload in self._intake.waiting(session.id):
            if upload.id == request.path_params["upload"] and upload.picture is not None:
                path = Path(upload.picture.path)
                if kind := await asyncio.to_thread(picture_type, path):
                    return FileResponse(path, media_type=kind, headers=HEADERS)
        return PlainTextResponse("There is no such file.", 404)


async def _received(request: Request, incoming: Incoming) -> Upload:
    """All of the body, written. Raises NotTaken and ClientDisconnect; then nothing of it is left."""
    piece = bytearray()
    try:
        async for data in request.stream():
            piece += data
            if len(piece) >= PIECE_BYTES:
                await asyncio.to_thread(incoming.write, bytes(piece))
                piece.clear()
        if piece:
            await asyncio.to_thread(incoming.write, bytes(piece))
        return await asyncio.to_thread(incoming.finish)
    except BaseException:
        incoming.abandon()
        raise


def _refusal(code: str, status: int) -> Response:
    return JSONResponse({"code": code}, status, headers={"connection": "close"})
