"""Handed-over files over HTTP: `GET /files/<session>/<file id>`, for the session's owner only.

Everything is an attachment. The one exception is `?show=1` for a picture that Pillow has read to its end, under a type
of our own table: HTML, SVG and whatever else could act in the page never comes inline. The bytes are the outbox's copy,
which no command can reach. Knows sessions and HTTP. Refuses to know how the page links here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from agent.errors import Refused
from agent.events import CallFinished, File
from agent.session import Session
from agent.sessions import Sessions
from ui.harden import owner_of

_SHOWN = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""Pillow's format to the type it is sent as: what the bytes are counts, not what anybody calls them."""

MAX_PIXELS = 64_000_000
"""A larger picture is not opened in place: decoding it could take a browser down."""

_HEADERS = {
    "content-security-policy": "sandbox; default-src 'none'",
    "cache-control": "private, max-age=3600",
}


def file_address(session_id: str, file_id: str, show: bool) -> str:
    """Where a handed-over file is fetched; `show` for a picture to be drawn in place."""
    return f"/files/{quote(session_id)}/{quote(file_id)}{'?show=1' if show else ''}"


class Downloads:
    """The route's endpoint: `get`."""

    def __init__(self, sessions: Sessions, owner: Callable[[Mapping[str, str]], str] = owner_of) -> None:
        """`owner` says who asks, from their cookies; empty for nobody."""
        self._sessions, self._owner = sessions, owner

    async def get(self, request: Request) -> Response:
        try:
            session = await self._sessions.open(self._owner(request.cookies), request.path_params["session"])
            file = handed_over(session, request.path_params["file"])
        except Refused:
            return PlainTextResponse("There is no such file.", 404)
        if "show" in request.query_params:
            shown_as = await asyncio.to_thread(picture_type, Path(file.path))
            if shown_as:
                return FileResponse(file.path, media_type=shown_as, headers=_HEADERS)
        return attachment(file)


def attachment(file: File) -> Response:
    """The file as something to save, whatever it is."""
    return FileResponse(file.path, media_type="application/octet-stream", filename=file.name, headers=_HEADERS)


def handed_over(session: Session, file_id: str) -> File:
    """The file that `<seq>-<index>` names in this session's log. Raises Refused where there is none to give out."""
    seq, _, index = file_id.partition("-")
    if not (seq.isascii() and seq.isdigit() and index.isascii() and index.isdigit() and len(file_id) <= 20):
        raise Refused("there is no such file")
    entries = session.log.since(int(seq))[:1]
    event = entries[0].event if entries else None
    if not isinstance(event, CallFinished) or int(index) >= len(event.files):
        raise Refused("there is no such file")
    file = event.files[int(index)]
    if not lies_in(session.outbox, file):
        raise Refused("there is no such file")
    return file


def lies_in(outbox: Path, file: File) -> bool:
    """Is this really one of the outbox's own files? A log may be somebody's, and name any path."""
    path = Path(file.path)
    return not path.is_symlink() and path.is_file() and path.resolve().is_relative_to(outbox.resolve())


def picture_type(path: Path) -> str:
    """The type to send a picture as; empty for what is none, is broken, or is too large to draw."""
    try:
        with Image.open(path, formats=list(_SHOWN)) as picture:
            if picture.width * picture.height > MAX_PIXELS:
                return ""
            picture.verify()
            return _SHOWN[picture.format or ""]
    except (OSError, SyntaxError, ValueError, KeyError, Image.DecompressionBombError):
        return ""
