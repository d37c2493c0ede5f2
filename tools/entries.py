"""What is found in a workspace, as values.

Knows how the system's answers about a file read in our words. Refuses to know where files are and how they are opened.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Literal

Kind = Literal["file", "folder", "link", "other"]


@dataclass(frozen=True)
class Entry:
    """One thing in the workspace."""

    path: str
    """From the root, with '/' between the names, as it really is on the disk."""
    kind: Kind
    size: int
    """Bytes; 0 for all but files."""
    modified: float
    """Seconds since 1970."""


@dataclass(frozen=True)
class Listing:
    """What a walk found, by path."""

    entries: tuple[Entry, ...]
    truncated: bool = False
    """There was more than the limit allows, or deeper than a path may be."""
    closed: int = 0
    """Folders that could not be opened."""


@dataclass(frozen=True)
class Usage:
    """How much a workspace holds."""

    bytes: int
    files: int
    """Files, folders, links and everything else."""


def kind_of(about: os.stat_result) -> Kind:
    if stat.S_ISREG(about.st_mode):
        return "file"
    if stat.S_ISDIR(about.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(about.st_mode) else "other"


def entry_of(path: str, about: os.stat_result) -> Entry:
    kind = kind_of(about)
    return Entry(path, kind, about.st_size if kind == "file" else 0, about.st_mtime)


def size_text(size: int) -> str:
    """Bytes for people and models: 512 bytes, 1.5 KiB, 16 MiB."""
    if size < 1024:
        return f"{size} bytes"
    if size < 1024:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, 4)
    return f"{size / 1024**power:.1f}".removesuffix(".0") + f" {('KiB', 'MiB', 'GiB', 'TiB')[power - 1]}"
