"""Results that are too long for a model: kept whole in the workspace, to be read in parts.

Knows where they are kept. Refuses to decide what is too long: the toolbox does.
"""

from __future__ import annotations

import re
from hashlib import sha256

from agent.errors import ToolError
from agent.tool import ToolContext
from tools.workspace import OWN_FOLDER, Workspace


def keep_whole(context: ToolContext, text: str) -> str:
    """Keep a call's whole result; return how to read it, in one sentence. What fails is said, not raised."""
    path = f"{OWN_FOLDER}/results/{_file_name(context.call_id)}"
    try:
        Workspace(context.workspace).write_bytes(path, text.encode("utf-8", "replace"))
    except ToolError as error:
        return f"It could not be kept: {error}."
    lines = text.count("\n") + 1
    return (
        f"The whole result ({lines} lines) is in {path}: read it in parts with read_file and start_line, or search it."
    )


def _file_name(call_id: str) -> str:
    """A plain name for any id a server may make up; long and strange ones by their hash."""
    plain = re.fullmatch(r"[A-Za-z0-9_-]{1,80}", call_id)
    return f"{call_id if plain else sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:32]}.txt"
