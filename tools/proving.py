"""Looking whether what must be true at the end is: implements `agent.proof.Prover`.

Files are opened through the workspace, so no path leads out of it, and commands run as the agent's own do. Knows what
it takes to read a file as JSON, CSV, a picture or a program. Refuses to know who expects what, and what that means.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from PIL import Image

from agent.errors import ToolError
from agent.tool import Tool, ToolContext
from tools.guards import scrubbed
from tools.reading import LIBRARY_FOLDERS
from tools.sandbox import CommandLimits, Fence, Scrubber
from tools.shell import run_command_tool
from tools.text_files import decode
from tools.workspace import UNLISTED, Workspace

Finding = tuple["bool | None", str, str]
"""Is it so (None: that cannot be told), one of `agent.proof.FOUND`, and more about it."""

TIMEOUT_S = 120
"""For a command that has to exit with 0."""
MAX_ENTRIES = 5_000
"""What the search for a name looks at most at."""
MAX_PROGRAM_BYTES = 1 << 20
MAX_PIXELS = 64_000_000
PICTURES = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO")
"""What Pillow reads by itself. For some others, such as EPS, it starts a program, and outside the fence."""
_MAX_DETAIL = 160
_Bomb = Image.DecompressionBombError


class Proving:
    """Looks at files and runs commands; holds nothing of a conversation."""

    def __init__(self, fence: Fence | None, scrubber: Scrubber | None = None) -> None:
        """`fence`: None where there are no commands."""
        self._shell: Tool | None = None
        if fence is not None:
            shell = run_command_tool(fence, CommandLimits(), scrubber)
            self._shell = scrubbed(shell, scrubber.scrub) if scrubber else shell

    def look(self, workspace: Path, kind: str, path: str, text: str) -> Finding:
        """See `Prover.look`."""
        files = Workspace(workspace)
        try:
            entry = files.stat(path)
        except ToolError as error:
            missing = "does not exist" in str(error)
            return (False, "missing", "") if missing else (None, "unreadable", _line(error))
        if entry.kind != "file":
            return False, "not_file", ""
        if entry.size == 0:
            return False, "empty", ""
        if kind == "exists":
            return True, "", ""
        try:
            data = files.read_bytes(path)
            return _holds(data, path, text) if kind == "contains" else _parses(_READERS[kind], data, path)
        except ToolError as error:
            return None, "unreadable", _line(error)

    def find(self, workspace: Path, name: str) -> str:
        """See `Prover.find`."""
        if "/" in name:
            return ""
        with suppress(ToolError):
            listing = Workspace(workspace).walk(depth=8, limit=MAX_ENTRIES, skip=LIBRARY_FOLDERS | UNLISTED)
            found = [one.path for one in listing.entries if one.kind == "file" and one.path.endswith(f"/{name}")]
            return min(found, key=lambda path: path.count("/"), default="")
        return ""

    async def run(self, context: ToolContext, command: str) -> Finding:
        """See `Prover.run`."""
        if self._shell is None:
            return None, "off", ""
        try:
            result = await self._shell.run(context, command=command, timeout_s=TIMEOUT_S)
        except ToolError as error:
            return None, "unreadable", _line(error)
        text = result if isinstance(result, str) else result.text
        first, _, rest = text.partition("\n")
        said = [line for line in rest.splitlines() if line.strip() and not line.startswith("[std")]
        ended = first.strip("[]")
        if not isinstance(result, str) and result.ok:
            return True, "", ""
        return False, "failed", _line(": ".join([ended, *said[-1:]]))


def _holds(data: bytes, path: str, wanted: str) -> Finding:
    text = decode(data, path).text
    return (True, "", "") if wanted in text or _spaced(wanted) in _spaced(text) else (False, "lacks", "")


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _parses(read: Callable[[bytes, str], None], data: bytes, path: str) -> Finding:
    try:
        read(data, path)
    except (ToolError, ValueError, SyntaxError, RecursionError, MemoryError, OSError, csv.Error, _Bomb) as error:
        return False, "invalid", _line(error) or type(error).__name__
    return True, "", ""


def _json(data: bytes, path: str) -> None:
    json.loads(decode(data, path).text)


def _csv(data: bytes, path: str) -> None:
    """Rows of one width, of at least one column. The sign between the columns is the one the first line has most of."""
    text = decode(data, path).text
    head = text.split("\n", 1)[0]
    rows = csv.reader(io.StringIO(text), delimiter=max(",;\t|", key=head.count), strict=True)
    width = 0
    for row in rows:
        if row and width and len(row) != width:
            raise ValueError(f"line {rows.line_num} has {len(row)} columns, the first one has {width}")
        width = width or len(row)
    if not width:
        raise ValueError("there is no row in it")


def _image(data: bytes, path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # the line below is stricter
        with Image.open(io.BytesIO(data), formats=PICTURES) as image:
            if image.width * image.height > MAX_PIXELS:
                raise ValueError("too many pixels")
            image.load()


def _python(data: bytes, path: str) -> None:
    if len(data) > MAX_PROGRAM_BYTES:
        raise ValueError("too large to be read as a program")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        ast.parse(data)


_READERS: Mapping[str, Callable[[bytes, str], None]] = {"json": _json, "csv": _csv, "image": _image, "python": _python}


def _line(error: Exception | str) -> str:
    return " ".join(str(error).split())[:_MAX_DETAIL]
