"""The outbox: files for the person, each named by the SHA-256 of its bytes, so that a changed one is noticed.

Knows names and bytes. Refuses to know who may see a file.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path

from agent.events import File
from agent.tool import ToolResult


async def name_by_content(result: ToolResult, outbox: Path) -> ToolResult:
    """The same result, its files renamed. Raises OSError where a file is not there."""
    if not result.files and not result.images:
        return result
    paths = {file.path for file in (*result.files, *result.images)}
    names = await asyncio.to_thread(lambda: {path: _rename(Path(path), outbox) for path in paths})

    def renamed(files: tuple[File, ...]) -> tuple[File, ...]:
        return tuple(replace(file, path=str(names[file.path])) for file in files)

    return replace(result, files=renamed(result.files), images=renamed(result.images))


def content_name(path: Path) -> str:
    """The SHA-256 of the bytes, then the file's own suffix where it is a plain one."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest() + (path.suffix if re.fullmatch(r"\.[A-Za-z0-9]{1,10}", path.suffix) else "")


def _rename(path: Path, outbox: Path) -> Path:
    if not path.is_relative_to(outbox):
        return path  # not ours to move
    named = outbox / content_name(path)
    os.replace(path, named)
    if path.parent != outbox and not any(path.parent.iterdir()):
        path.parent.rmdir()
    return named
