"""Recordings: sessions that were exported to files. Some ship with the app, any other is read by its path.

Knows files. Refuses to know how a recording is replayed (`ui/replay.py`) and what its lines mean (`agent/exchange.py`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from agent.errors import Refused
from agent.exchange import MAX_BYTES, MAX_LINE, Imported, import_lines, read_header

SHIPPED = Path(__file__).resolve().parents[1] / "recordings"
"""Where those lie that come with the app: `*.jsonl`, in the order of their names."""

MAX_PAGE = 4 * MAX_BYTES
"""Bytes of a file: a report carries its lines once more as a page, and pictures."""


@dataclass(frozen=True)
class Recording:
    name: str
    """Its file's, without the ending."""
    title: str


def listed(folder: Path = SHIPPED) -> list[Recording]:
    """The recordings of a folder; a file that is none is left out."""
    found = []
    for path in sorted(folder.glob("*.jsonl")):
        try:
            with path.open("rb") as file:
                title = read_header(file.readline(MAX_LINE)).title
        except (OSError, Refused):
            continue
        found.append(Recording(path.stem, title or path.stem))
    return found


def load(name: str, folder: Path = SHIPPED) -> Imported:
    """A listed recording. Raises Refused for any other name."""
    if name not in {recording.name for recording in listed(folder)}:
        raise Refused("there is no such recording")
    return read(folder / f"{name}.jsonl")


def read(path: Path) -> Imported:
    """An exported session, or a report that carries one. Raises Refused with what is wrong with it."""
    try:
        if path.stat().st_size > MAX_PAGE:
            raise Refused(f"{path.name} is larger than {MAX_PAGE >> 20} MB")
        content = path.read_bytes()
    except OSError as error:
        raise Refused(f"{path.name} cannot be read: {error.strerror}") from None
    return import_lines(content, time.time(), file_names=True)
