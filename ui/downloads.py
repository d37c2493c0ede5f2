"""Handed-over files over HTTP: `GET /files/<session>/<file id>`, for the session's owner only.

Everything is an attachment. The exceptions are `?show=1` for a picture that Pillow has read to its end, and for sound
and film by how they begin, under types of our own tables: HTML, SVG and whatever else could act in the page never comes
inline. The bytes are the outbox's copy, which no command can reach. A part of a file is sent where one is asked for
(players do). Knows sessions and HTTP. Refuses to know how the page links here.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from starlette.requests import Request
from starlette.responses import FileResponse, PlainTextResponse, Response

from agent.errors import Refused
from agent.events import CallFinished, File, PartialPicture, Steered, TurnStarted
from agent.session import Session
from agent.sessions import Sessions
from ui.harden import owner_of

_SHOWN = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "WEBP": "image/webp"}
"""Pillow's format to the type it is sent as: what the bytes are counts, not what anybody calls them."""

_PLAYED = {
    "audio/mpeg": rb"ID3|\xff[\xe2-\xff]",
    "audio/wav": rb"(?s)RIFF....WAVE",
    "audio/ogg": rb"OggS",
    "audio/flac": rb"fLaC",
    "video/mp4": rb"(?s)....ftyp",
    "video/webm": rb"\x1a\x45\xdf\xa3",
}
"""Types of sound and film, and how such files begin. A player plays the sound of an MP4 without film, too."""

MAX_PIXELS = 64_000_000
"""A larger picture is not opened in place: decoding it could take a browser down."""

HEADERS = {
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
            shown_as = await asyncio.to_thread(type_in_place, Path(file.path))
            if shown_as:
                return FileResponse(file.path, media_type=shown_as, headers=HEADERS)
        return attachment(file)


def attachment(file: File) -> Response:
    """The file as something to save, whatever it is."""
    return FileResponse(file.path, media_type="application/octet-stream", filename=file.name, headers=HEADERS)


def handed_over(session: Session, file_id: str) -> File:
    """The file that `<seq>-<index>` names in this session's log. Raises Refused where there is none to give out."""
    seq, _, index = file_id.partition("-")
    if not (seq.isascii() and seq.isdigit() and index.isascii() and index.isdigit() and len(file_id) <= 20):
        raise Refused("there is no such file")
    entries = session.log.since(int(seq))[:1]
    event = entries[0].event if entries else None
    files: tuple[File, ...] = ()
    if isinstance(event, CallFinished):
        files = event.files
    elif isinstance(event, PartialPicture):
        files = (event.file,)
    elif isinstance(event, (TurnStarted, Steered)):  # what the person handed over, then what a model is shown of it
        files = (*event.message.files, *event.message.images)
    if int(index) >= len(files):
        raise Refused("there is no such file")
    file = files[int(index)]
    if not lies_in(session.outbox, file):
        raise Refused("there is no such file")
    return file


def lies_in(outbox: Path, file: File) -> bool:
    """Is this really one of the outbox's own files? A log may be somebody's, and name any path."""
    path = Path(file.path)
    return not path.is_symlink() and path.is_file() and path.resolve().is_relative_to(outbox.resolve())


def type_in_place(path: Path) -> str:
    """The type under which a file may be drawn or played in the page; empty for what is only to be saved."""
    return picture_type(path) or played_type(path)


def played_type(path: Path) -> str:
    """The type to send sound or film as, by how the file begins; empty for anything else."""
    with path.open("rb") as file:
        start = file.read(64)
    return next((mime for mime, beginning in _PLAYED.items() if re.match(beginning, start)), "")


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
