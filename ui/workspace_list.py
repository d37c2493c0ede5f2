"""What lies in a workspace, read without following any link.

Knows directories. Refuses to know what is in a file, and to look further than a page can show.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_ENTRIES = 200
MAX_DEPTH = 4


@dataclass(frozen=True)
class Found:
    name: str
    depth: int
    is_folder: bool
    size: int
    """Bytes; 0 for a folder."""


def list_workspace(root: Path) -> tuple[list[Found], int]:
    """The first entries in reading order, folders before files, and how many more there are at least.

    Hidden names are left out, links are listed as files of no size, and a folder that cannot be read is empty.
    """
    found: list[Found] = []
    more = 0
    for entry in _walk(root, 0):
        if len(found) < MAX_ENTRIES:
            found.append(entry)
        else:
            more += 1
            if more >= 10 * MAX_ENTRIES:
                break
    return found, more


def _walk(folder: Path, depth: int) -> Iterator[Found]:
    try:
        with os.scandir(folder) as scanned:
            entries = [entry for entry in scanned if not entry.name.startswith(".")]
    except OSError:
        return
    entries.sort(key=lambda entry: (not entry.is_dir(follow_symlinks=False), entry.name))
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        yield Found(entry.name, depth, is_folder, 0 if is_folder else _size(entry))
        if is_folder and depth + 1 < MAX_DEPTH:
            yield from _walk(Path(entry.path), depth + 1)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size if entry.is_file(follow_symlinks=False) else 0
    except OSError:
        return 0
