"""Files that a person attaches to a message: what waits beside the message box, and what goes along when it is sent.

    page.js's sister uploads.js   picks, drops, pastes, and sends each file to `upload_door.py` as it is chosen
    this file                     tells the page what has arrived, takes it along with the message, lets go of it

What waits belongs to the conversation and lies on the server, so a reload or a second tab shows the same. Who asks has
been checked before (`ui/handlers.py`). Refuses to know HTTP, gradio and how files are kept (`Intake` does).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from agent.attached import announced, own_words
from agent.errors import NotTaken, Refused
from agent.events import File, MessageQueued
from agent.session import Session
from ui.history import Action
from ui.texts import Words, size
from ui.visits import Visit, Visits


class Limits(Protocol):
    """What may be handed in, in bytes and numbers."""

    @property
    def picture_bytes(self) -> int: ...
    @property
    def file_bytes(self) -> int: ...
    @property
    def waiting_files(self) -> int: ...


class Upload(Protocol):
    """A file that waits to be sent."""

    @property
    def id(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    @property
    def number(self) -> int:
        """Counts the session's uploads from 1."""

    @property
    def picture(self) -> File | None:
        """What a model is shown of it, if it can see."""

    @property
    def note(self) -> str:
        """Why a picture cannot be shown to a model: too_many_pixels, broken_picture, or nothing."""


class Incoming(Protocol):
    """An upload while it comes. `finish` or `abandon` ends it; NotTaken is raised by the first two."""

    def write(self, data: bytes) -> None: ...
    def finish(self) -> Upload: ...
    def abandon(self) -> None: ...


class Taken(Protocol):
    """What goes with a message."""

    @property
    def lines(self) -> tuple[str, ...]: ...
    @property
    def files(self) -> tuple[File, ...]: ...
    @property
    def images(self) -> tuple[File, ...]: ...


class Intake(Protocol):
    """Takes in what people hand over. Its methods block; they may be called from any thread."""

    @property
    def limits(self) -> Limits: ...
    def begin(self, session_id: str, outbox: Path, name: str, announced: int | None) -> Incoming:
        """An upload of so many bytes, if that was said. Raises NotTaken."""

    def waiting(self, session_id: str) -> Sequence[Upload]: ...
    def number(self, session_id: str) -> int:
        """How many have come so far."""

    def drop(self, session_id: str, upload_id: str) -> None: ...
    def take(self, session_id: str, workspace: Path, outbox: Path) -> Taken:
        """All that waits. Raises NotTaken, and then it still waits."""

    def give_back(self, session_id: str, files: tuple[File, ...], images: tuple[File, ...]) -> None:
        """The files of a message that was taken back wait again."""


class Attaching:
    """What the page's actions do with attached files."""

    def __init__(self, visits: Visits, intake: Intake | None) -> None:
        """`intake`: None where nothing is taken in."""
        self._visits, self._intake = visits, intake
        self.actions: dict[str, Action] = {"unattach": self._drop}

    async def send(self, visit: Visit, text: str, steer: bool = False, expects: tuple[str, ...] = ()) -> None:
        """Send the message with all that waits beside it. Raises Refused, and then it still waits.

        `expects`: what must be true at its end.
        """
        session = self._visits.session(visit)
        if self._intake is None or not self._intake.waiting(session.id):
            session.send(text, steer=steer, expects=expects)
            return
        try:
            taken = await asyncio.to_thread(self._intake.take, session.id, session.workspace, session.outbox)
        except NotTaken as error:
            raise Refused(visit.words[f"upload_{error.code}"]) from None
        try:
            said = announced(text, taken.lines)
            session.send(said, images=taken.images, files=taken.files, steer=steer, expects=expects)
        except Refused:
            self._intake.give_back(session.id, taken.files, taken.images)
            raise

    def waits(self, visit: Visit) -> bool:
        """Is anything attached?"""
        return self._intake is not None and bool(self._intake.waiting(visit.session.id))

    def take_back(self, session: Session, queued: Iterable[MessageQueued]) -> list[str]:
        """Messages that will not be sent: their words, for the message box. Their files wait again."""
        texts = []
        for message in queued:
            if message.files and self._intake is not None:
                self._intake.give_back(session.id, message.files, message.images)
            texts.append(shown_words(message))
        return [text for text in texts if text]

    async def _drop(self, visit: Visit, data: dict[str, Any]) -> None:
        if self._intake is not None:
            session = self._visits.session(visit)
            await asyncio.to_thread(self._intake.drop, session.id, str(data.get("id", "")))
            self._visits.ring(visit.owner)

    def facts(self, visit: Visit) -> str:
        """What waits, for the page's script; nothing where nothing can be attached."""
        if self._intake is None:
            return ""
        words, limits, id = visit.words, self._intake.limits, visit.session.id
        facts = {
            "to": f"/sessions/{quote(id)}/uploads",
            "number": self._intake.number(id),
            "fileBytes": limits.file_bytes,
            "pictureBytes": limits.picture_bytes,
            "files": limits.waiting_files,
            "waiting": [_told(words, id, upload) for upload in self._intake.waiting(id)],
            "words": {key.removeprefix("upload_"): text for key, text in _filled(words, limits).items()},
        }
        return f'<div id="gl-upload-facts" data-facts="{escape(json.dumps(facts))}"></div>'


def _filled(words: Words, limits: Limits) -> dict[str, str]:
    numbers = {
        "files": limits.waiting_files,
        "file_bytes": size(limits.file_bytes),
        "picture_bytes": size(limits.picture_bytes),
        "name": "{name}",  # filled by the script
    }
    return {key: words[key].format(**numbers) for key in words if key.startswith("upload_")}


def _told(words: Words, session_id: str, upload: Upload) -> dict[str, str]:
    shown = f"/sessions/{quote(session_id)}/uploads/{quote(upload.id)}" if upload.picture else ""
    note = words[f"upload_{upload.note}"] if upload.note else ""
    return {"id": upload.id, "name": upload.name, "size": size(upload.size), "picture": shown, "note": note}


def shown_words(message: MessageQueued) -> str:
    """What the person wrote, without what the model is told of the files."""
    return own_words(message.text) if message.files else message.text


def queued_line(message: MessageQueued) -> str:
    """A waiting message on one line, its files by name."""
    names = ", ".join(file.name for file in message.files)
    return " · ".join(part for part in (shown_words(message), names) if part)
