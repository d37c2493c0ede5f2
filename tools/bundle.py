"""A folder of the workspace as one ZIP file: the same files give the same bytes.

Knows how such a file is written. Links are not followed, and what cannot be opened safely is left out and counted.
Refuses to know who gets it.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from agent.errors import ToolError
from tools.entries import size_text
from tools.names import MAX_DEPTH, shown
from tools.workspace import MAX_COPY_BYTES, UNLISTED, Workspace

MAX_FILES = 5_000
_WHEN = (1980, 1, 1, 0, 0, 0)
"""The first moment a ZIP file can name: times would make two bundles of the same files differ."""
_PERMISSIONS = 0o100644 << 16
_PIECE = 1 << 20


@dataclass(frozen=True)
class Bundle:
    names: tuple[str, ...]
    """What is in it, in order."""
    left_out: int


def bundle(workspace: Workspace, path: str, target: Path) -> Bundle:
    """Write the folder's files to the new ZIP file `target`. Raises ToolError, also for one that is too large."""
    listing = workspace.walk(path, MAX_DEPTH)
    entries = [e for e in listing.entries if e.path.split("/")[0] not in UNLISTED and e.kind != "folder"]
    files = [entry for entry in entries if entry.kind == "file"]
    if listing.truncated or len(files) > MAX_FILES or sum(entry.size for entry in files) > MAX_COPY_BYTES:
        raise ToolError(
            f"{shown(path)!r} holds more than {size_text(MAX_COPY_BYTES)} or {MAX_FILES} files, too much for one ZIP "
            "file. Send a part of it"
        )
    inner = len("/".join(workspace.names(path))) + 1 if workspace.names(path) else 0
    if not files:
        raise ToolError(f"there are no files in {shown(path)!r}")
    target.parent.mkdir(parents=True, mode=0o700)
    names: dict[str, None] = {}
    left = MAX_COPY_BYTES
    with zipfile.ZipFile(target, "x", zipfile.ZIP_DEFLATED) as package:
        for entry in files:
            name = shown(entry.path[inner:]).replace("\\", "_")
            try:
                with workspace.open_read(entry.path) as source:
                    if name in names:
                        continue
                    about = zipfile.ZipInfo(name, _WHEN)
                    about.external_attr, about.create_system = _PERMISSIONS, 3
                    about.compress_type = zipfile.ZIP_DEFLATED
                    with package.open(about, "w") as part:
                        while piece := source.read(_PIECE):
                            left -= len(piece)
                            if left < 0:
                                raise ToolError(f"{shown(path)!r} grew while it was packed; it is too large now")
                            part.write(piece)
            except ToolError:
                if left < 0:
                    raise
                continue  # gone, swapped or a second name of something: not ours to pack
            names[name] = None
    if not names:
        raise ToolError(f"there are no files in {shown(path)!r}")
    return Bundle(tuple(names), len(entries) - len(names) + listing.closed)
