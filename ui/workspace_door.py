"""The workspace over HTTP, for the session's owner: `GET /sessions/<id>/workspace?path=…` saves a file,
`GET /sessions/<id>/look/<look>` shows the copy that the panel looks at, `POST /sessions/<id>/workspace?name=…` puts a
file in.

Everything is an attachment; only a looked-at picture, sound or film comes inline, as `ui/downloads.py` decides. Knows
sessions and HTTP. Refuses to know how files are touched (`Desk` does).
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response, StreamingResponse

from agent.errors import Refused, StoreError
from agent.session import Session
from agent.sessions import Sessions
from ui.browsing import Browser
from ui.downloads import HEADERS, type_in_place
from ui.exchange_door import HEADER
from ui.replay import ReplaySession

MAX_BYTES = 100_000_000
"""Of one file that is put in."""
SPARE_BYTES = 200_000_000
"""What is left free where files arrive."""
_PIECE = 1 << 20


class WorkspaceDoor:
    """The endpoints. `owner_of` says who asks, from their cookies; `ring` is told whose pages have news."""

    def __init__(
        self,
        sessions: Sessions,
        owner_of: Callable[[Mapping[str, str]], str],
        browser: Browser,
        ring: Callable[[str], None],
    ) -> None:
        self._sessions, self._owner_of, self._browser, self._ring = sessions, owner_of, browser, ring

    async def save(self, request: Request) -> Response:
        """A file as it is now, as an attachment."""
        path = request.query_params.get("path", "")
        try:
            session, desk = await self._session(request), self._browser.desk
            if desk is None:
                raise Refused("there is no such file")
            file, size = await asyncio.to_thread(desk.handle, session.workspace, path)
        except (Refused, StoreError):
            return _nothing()
        named = f"attachment; filename*=utf-8''{quote(path.rpartition('/')[2], safe='')}"
        headers = {**HEADERS, "content-length": str(size), "content-disposition": named}
        return StreamingResponse(_pieces(file, size), media_type="application/octet-stream", headers=headers)

    async def look(self, request: Request) -> Response:
        """The copy that a page of the session shows."""
        try:
            session = await self._session(request)
        except (Refused, StoreError):
            return _nothing()
        file = self._browser.look(session, request.path_params["look"])
        if file is None or not (shown_as := await asyncio.to_thread(type_in_place, Path(file.path))):
            return _nothing()
        return FileResponse(file.path, media_type=shown_as, headers=HEADERS)

    async def put(self, request: Request) -> Response:
        """One file, into the workspace."""
        if HEADER not in request.headers:
            return JSONResponse({"why": "this page is not connected any more"}, 403)
        try:
            session, desk = await self._session(request), self._browser.desk
            if desk is None or isinstance(session, ReplaySession):
                raise Refused("there is no such session")
            with tempfile.NamedTemporaryFile(prefix="glassloop-") as kept:
                await _received(request, kept)  # type: ignore[arg-type]
                name = request.query_params.get("name", "")[:1_000]
                path = await asyncio.to_thread(desk.added, session.workspace, Path(kept.name), "", name)
        except (Refused, StoreError) as error:
            return JSONResponse({"why": str(error)}, 400, headers={"connection": "close"})
        except OSError as error:
            return JSONResponse({"why": f"the disk says: {error.strerror}"}, 507, headers={"connection": "close"})
        except ClientDisconnect:
            return Response(status_code=400)
        self._ring(session.owner)
        return JSONResponse({"path": path})

    async def _session(self, request: Request) -> Session:
        return await self._sessions.open(self._owner_of(request.cookies), request.path_params["session"])


async def _received(request: Request, target: BinaryIO) -> None:
    """The whole body, or Refused as soon as it is too much."""
    announced = request.headers.get("content-length", "")
    too_large = Refused(f"the file is larger than {MAX_BYTES // 1_000_000} MB")
    if announced.isdigit() and int(announced) > MAX_BYTES:
        raise too_large
    if shutil.disk_usage(tempfile.gettempdir()).free < MAX_BYTES + SPARE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    held = 0
    async for data in request.stream():
        held += len(data)
        if held > MAX_BYTES:
            raise too_large
        await asyncio.to_thread(target.write, data)
    await asyncio.to_thread(target.flush)


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """As many bytes as were announced: what is written to it meanwhile is not sent."""
    with file:
        while size > 0 and (piece := file.read(min(_PIECE, size))):
            size -= len(piece)
            yield piece


def _nothing() -> Response:
    return PlainTextResponse("There is no such file.", 404)
