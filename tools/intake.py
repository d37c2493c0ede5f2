"""Files that a person hands in: taken from the network into the outbox, and with the message into the workspace.

    begin, write, finish    an upload, counted while it comes; nothing of one that fails is left
    waiting, drop           what has come and was not sent yet
    take                    it goes with a message: a copy in `uploads/` for the tools, the original stays in the outbox
    give_back               a message was taken back: its files wait again

What a person hands in may be hostile, or be named so: a name becomes one that is plain on every system, a picture is
drawn anew before any model sees it, and nothing is opened beyond that. Implements `ui.attaching.Intake`. Knows files
and limits. Refuses to know HTTP and who may send.
"""

from __future__ import annotations

import errno
import hashlib
import re
import secrets
import shutil
import threading
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pathvalidate import sanitize_filename

from agent.errors import NotTaken, ToolError
from agent.events import File
from tools.entries import size_text
from tools.kinds import LOOK_BYTES, looks_like_picture, mime_of
from tools.names import shown
from tools.pictures import NotSeen, for_looking
from tools.workspace import Workspace

FOLDER = "uploads"
"""In the workspace."""
_INCOMING = "incoming"
"""In the outbox: what was not sent yet."""
_MAX_NAME_BYTES = 120
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True)
class IntakeLimits:
    """What may be handed in."""

    picture_bytes: int = 25_000_000
    file_bytes: int = 100_000_000
    waiting_files: int = 20
    waiting_bytes: int = 300_000_000
    """Of one session, not sent yet."""
    quota_bytes: int = 2048 << 20
    """Of a session's workspace, and of its outbox."""
    quota_files: int = 100_000
    spare_bytes: int = 200_000_000
    """What is left free on the disk."""


@dataclass(frozen=True)
class Upload:
    """A file that waits to be sent."""

    id: str
    name: str
    size: int
    mime: str
    path: Path
    """In the outbox."""
    number: int = 0
    """Counts the session's uploads from 1."""
    picture: File | None = None
    """What a model is shown of it."""
    note: str = ""
    """Why a picture cannot be shown to a model, as a code."""
    place: str = ""
    """Where it lies in the workspace, if it was sent once already."""


@dataclass(frozen=True)
class Taken:
    """What goes with a message."""

    lines: tuple[str, ...] = ()
    """One for each file: where it is, what it is."""
    files: tuple[File, ...] = ()
    images: tuple[File, ...] = ()


@dataclass
class _Session:
    waiting: dict[str, Upload] = field(default_factory=dict)
    coming: set[str] = field(default_factory=set)
    number: int = 0


class Uploads:
    """What was handed in and not sent yet, of all sessions. Its methods block, and may be called from any thread."""

    def __init__(self, limits: IntakeLimits | None = None) -> None:
        self.limits = limits or IntakeLimits()
        self._sessions: dict[str, _Session] = {}
        self._lock = threading.Lock()
        self._drawing = threading.Lock()
        """One picture is decoded at a time: each may take hundreds of megabytes while it is."""
        self._taking = threading.Lock()
        """What waits goes with one message, not with two that are sent at once."""

    # ------------------------------------------------------------------ an upload

    def begin(self, session_id: str, outbox: Path, name: str, announced: int | None) -> Incoming:
        """An upload begins; `announced` is its length in bytes where that was said. Raises NotTaken."""
        limits, folder = self.limits, outbox / _INCOMING
        if (announced or 0) > limits.file_bytes:
            raise NotTaken("too_large")
        with self._lock:
            if session_id not in self._sessions:
                shutil.rmtree(folder, ignore_errors=True)  # left by a process that is gone
            of = self._sessions.setdefault(session_id, _Session())
            held = sum(upload.size for upload in of.waiting.values())
            if len(of.waiting) + len(of.coming) >= limits.waiting_files or held > limits.waiting_bytes:
                raise NotTaken("too_many")
            upload_id = secrets.token_urlsafe(12)
            of.coming.add(upload_id)
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if _bytes_in(outbox) + (announced or 0) > limits.quota_bytes:
                raise NotTaken("full")
            if shutil.disk_usage(folder).free < limits.spare_bytes + (announced or 0):
                raise NotTaken("disk_full")
            return Incoming(self, session_id, upload_id, safe_name(name), folder / upload_id)
        except BaseException as error:
            self._ended(session_id, upload_id)
            if isinstance(error, OSError):
                raise NotTaken("disk_full" if error.errno in _NO_ROOM else "failed") from error
            raise

    def _arrived(self, session_id: str, upload: Upload) -> Upload:
        if looks_like_picture(_start(upload.path)):
            with self._drawing:
                upload = _with_picture(upload)
        with self._lock:
            of = self._sessions[session_id]
            of.number += 1
            upload = replace(upload, number=of.number)
            of.waiting[upload.id] = upload
        return upload

    def _ended(self, session_id: str, upload_id: str) -> None:
        with self._lock:
            self._sessions[session_id].coming.discard(upload_id)

    # ------------------------------------------------------------------ what waits

    def waiting(self, session_id: str) -> Sequence[Upload]:
        """What has come and was not sent, in the order in which it came."""
        with self._lock:
            of = self._sessions.get(session_id)
            return tuple(of.waiting.values()) if of else ()

    def number(self, session_id: str) -> int:
        """How many have come so far."""
        with self._lock:
            of = self._sessions.get(session_id)
            return of.number if of else 0

    def drop(self, session_id: str, upload_id: str) -> None:
        """The person does not want to send it. Safe to call again."""
        with self._taking, self._lock:
            of = self._sessions.get(session_id)
            upload = of.waiting.pop(upload_id, None) if of else None
        if upload is not None and not upload.place:
            _remove(upload)

    def take(self, session_id: str, workspace: Path, outbox: Path) -> Taken:
        """All that waits goes with a message now. Raises NotTaken, and then all of it still waits."""
        with self._taking:
            return self._take(session_id, workspace, outbox)

    def _take(self, session_id: str, workspace: Path, outbox: Path) -> Taken:
        uploads = self.waiting(session_id)
        if not uploads:
            return Taken()
        room = Workspace(workspace)
        held = room.usage()
        fresh = [upload for upload in uploads if not upload.place]
        if (
            held.bytes + sum(upload.size for upload in fresh) > self.limits.quota_bytes
            or held.files + len(fresh) > self.limits.quota_files
        ):
            raise NotTaken("full")
        placed: list[Upload] = []
        try:
            for upload in fresh:
                placed.append(_placed(upload, room))
        except NotTaken:
            for upload in placed:
                with suppress(ToolError):
                    room.remove(upload.place)
            raise
        with self._lock:
            of = self._sessions[session_id]
            for upload in uploads:
                of.waiting.pop(upload.id, None)
        by_id = {upload.id: _kept(upload, outbox) for upload in placed}
        kept = [by_id.get(upload.id, upload) for upload in uploads]
        return Taken(
            tuple(f"{one.place} ({one.mime}, {size_text(one.size)})" for one in kept),
            tuple(File(str(one.path), one.name, one.mime, one.size) for one in kept),
            tuple(one.picture for one in kept if one.picture is not None),
        )

    def give_back(self, session_id: str, files: tuple[File, ...], images: tuple[File, ...]) -> None:
        """A message was taken back before it was sent: its files wait again, where they are."""
        pictures = {picture.name: picture for picture in images}
        with self._lock:
            of = self._sessions.setdefault(session_id, _Session())
            for file in files:
                of.number += 1
                upload_id = secrets.token_urlsafe(12)
                of.waiting[upload_id] = Upload(
                    upload_id,
                    file.name,
                    file.size,
                    file.mime,
                    Path(file.path),
                    of.number,
                    pictures.get(file.name),
                    place=f"{FOLDER}/{file.name}",
                )


class Incoming:
    """One upload while it comes. Exactly one of `finish` and `abandon` ends it."""

    def __init__(self, uploads: Uploads, session_id: str, upload_id: str, name: str, path: Path) -> None:
        """Raises OSError."""
        self._uploads, self._session_id, self._id, self._name, self._path = uploads, session_id, upload_id, name, path
        self._file = path.open("xb")
        self._size = 0
        self._limit = uploads.limits.file_bytes

    def write(self, data: bytes) -> None:
        """The next piece. Raises NotTaken; `abandon` has to follow."""
        if self._size == 0 and looks_like_picture(data[:LOOK_BYTES]):
            self._limit = min(self._limit, self._uploads.limits.picture_bytes)
        self._size += len(data)
        if self._size > self._limit:
            whole = self._limit == self._uploads.limits.file_bytes
            raise NotTaken("too_large" if whole else "picture_too_large")
        try:
            self._file.write(data)
        except OSError as error:
            raise NotTaken("disk_full" if error.errno in _NO_ROOM else "failed") from error

    def finish(self) -> Upload:
        """All has come. Raises NotTaken; `abandon` has to follow."""
        try:
            self._file.close()
            upload = Upload(self._id, self._name, self._size, mime_of(self._path, self._name), self._path)
            upload = self._uploads._arrived(self._session_id, upload)
        except OSError as error:
            raise NotTaken("disk_full" if error.errno in _NO_ROOM else "failed") from error
        self._uploads._ended(self._session_id, self._id)
        return upload

    def abandon(self) -> None:
        """It broke off, or is not wanted: nothing of it is left."""
        with suppress(OSError):  # a full disk: what could not be written is thrown away anyhow
            self._file.close()
        self._path.unlink(missing_ok=True)
        self._uploads._ended(self._session_id, self._id)


def safe_name(name: str) -> str:
    """A name that is plain on every system, from somebody's: no folders, nothing invisible, not too long."""
    last = re.split(r"[/\\]", unicodedata.normalize("NFC", name.encode("utf-8", "replace").decode()))[-1]
    visible = "".join(c for c in last if shown(c) == c)
    plain = str(sanitize_filename(visible, platform="universal", replacement_text="_")).strip(" .")
    if visible.startswith(".") and plain and not plain.startswith("."):
        plain = f".{plain}"
    stem, dot, suffix = plain.rpartition(".") if "." in plain[1:] else (plain, "", "")
    suffix = _cut(suffix, 16)
    stem = _cut(stem, _MAX_NAME_BYTES - len(suffix.encode()) - 1).rstrip(" .")
    return f"{stem or 'file'}{dot}{suffix}"


def _cut(text: str, limit: int) -> str:
    """At most so many bytes of UTF-8, and no half character."""
    return text.encode()[:limit].decode(errors="ignore")


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LOOK_BYTES)


def _bytes_in(outbox: Path) -> int:
    return sum(path.stat().st_size for path in outbox.rglob("*") if path.is_file())


def _with_picture(upload: Upload) -> Upload:
    """The upload with what a model may see of it, or with why there is nothing."""
    try:
        data, mime = for_looking(upload.path)
    except NotSeen as reason:
        return replace(upload, note=reason.why)
    seen = upload.path.with_name(f"{upload.id}.seen")
    seen.write_bytes(data)
    return replace(upload, picture=File(str(seen), upload.name, mime, len(data)))


def _remove(upload: Upload) -> None:
    upload.path.unlink(missing_ok=True)
    if upload.picture is not None:
        Path(upload.picture.path).unlink(missing_ok=True)


def _placed(upload: Upload, room: Workspace) -> Upload:
    """With its copy in the workspace, under the name that was free."""
    try:
        place = room.copy_in(upload.path, FOLDER, upload.name)
    except ToolError as error:
        cause = error.__context__
        no_room = isinstance(cause, OSError) and cause.errno in _NO_ROOM
        raise NotTaken("disk_full" if no_room else "failed") from error
    name = place.rpartition("/")[2]
    picture = replace(upload.picture, name=name) if upload.picture else None
    return replace(upload, place=place, name=name, picture=picture)


def _kept(upload: Upload, outbox: Path) -> Upload:
    """With its files where a log may point to them: named by their bytes, as all in the outbox."""
    suffix = Path(upload.name).suffix
    path = _named_by_content(upload.path, outbox, suffix if re.fullmatch(r"\.[A-Za-z0-9]{1,10}", suffix) else "")
    if upload.picture is None:
        return replace(upload, path=path)
    seen = _named_by_content(Path(upload.picture.path), outbox, ".seen")
    return replace(upload, path=path, picture=replace(upload.picture, path=str(seen)))


def _named_by_content(path: Path, outbox: Path, suffix: str) -> Path:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return path.replace(outbox / f"{digest.hexdigest()}{suffix}")
