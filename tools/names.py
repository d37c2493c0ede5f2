"""From the path a model writes to the names it is made of.

Knows what a name may be: the same rules on every system, so that a workspace can move between them. Refuses to touch a
disk: whether a name leads anywhere, and where, is found out by walking (`workspace.py`).
"""

from __future__ import annotations

from pathlib import PurePath

from pathvalidate import ValidationError, validate_filename

from agent.errors import ToolError

MAX_DEPTH = 32
MAX_PATH_CHARS = 1024
MAX_NAME_BYTES = 255

_CONSOLE_NAMES = ("CONIN$", "CONOUT$")
"""Reserved on Windows, and missing from pathvalidate's table."""


_WIDE_SPACE = "\u3000"
"""Usual in Chinese and Japanese names; Python does not count it as printable."""


def split(path: str, root: PurePath) -> tuple[str, ...]:
    """The names from the workspace's root to `path`; empty for the root itself.

    `root` is only there to understand an absolute path that names the workspace (or "/workspace", which models like to
    write): compared as text, because the walk decides where it leads. Raises ToolError for every other path that is
    not plainly inside.
    """
    if len(path) > MAX_PATH_CHARS:
        raise ToolError(f"the path is longer than {MAX_PATH_CHARS} characters")
    names = _relative_names(path, root)
    if len(names) > MAX_DEPTH:
        raise ToolError(f"the path is deeper than {MAX_DEPTH} folders")
    for name in names:
        _check(name, path)
    return names


def shown(name: str) -> str:
    """A name or path in characters that people and models can see; the others could pass for layout."""
    visible = (c if c.isprintable() or c == _WIDE_SPACE else ascii(c)[1:-1] for c in name)
    return "".join(visible)


def _relative_names(path: str, root: PurePath) -> tuple[str, ...]:
    if path.startswith("~"):
        raise ToolError(f"'~' has no meaning here: paths start at the workspace. Write {_bare(path)!r} instead.")
    if path.startswith("/") or path.startswith(root.anchor or "/"):
        return _below_root(path, root)
    return _plain(path.split("/"))


def _below_root(path: str, root: PurePath) -> tuple[str, ...]:
    names = _plain(path.replace("\\", "/").split("/") if root.anchor != "/" else path.split("/"))
    for prefix in (_plain(root.as_posix().split("/")), ("workspace",)):
        if names[: len(prefix)] == prefix:
            return names[len(prefix) :]
    raise ToolError(
        f"{shown(path)!r} is outside the workspace, and only files in the workspace can be reached. Paths are relative "
        f"to it: write {_bare(path)!r} if that is the file you mean."
    )


def _plain(names: list[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name not in ("", "."))


def _bare(path: str) -> str:
    """The last name of a path, to suggest."""
    return shown(path.rstrip("/").rpartition("/")[2].lstrip("~")) or "."


def _check(name: str, path: str) -> None:
    if name == "..":
        raise ToolError(
            "'..' is not allowed: write the path as it is seen from the workspace, such as 'folder/file.txt'"
        )
    if "\\" in name:
        raise ToolError(f"write '/' between folders, not '\\': {shown(path.replace(chr(92), '/'))!r}")
    try:
        too_long = len(name.encode("utf-8")) > MAX_NAME_BYTES
    except UnicodeEncodeError:
        raise ToolError(f"{shown(name)!r} is not a sound text, so it cannot be a name") from None
    if too_long:
        raise ToolError(f"a name may have {MAX_NAME_BYTES} bytes at most; {shown(name[:40])!r}... has more")
    try:
        validate_filename(name, platform="universal", max_len=MAX_NAME_BYTES)
    except ValidationError as error:
        raise ToolError(f"{shown(name)!r} cannot be used as a name: {_reason(error)}") from None
    if name.partition(".")[0].rstrip(" ").upper() in _CONSOLE_NAMES:
        raise ToolError(f"{shown(name)!r} cannot be used as a name: Windows keeps it for itself")


def _reason(error: ValidationError) -> str:
    if error.reserved_name:
        return "Windows keeps it for itself"
    return (
        'on some systems a name may not hold : * ? " < > | or control characters, and not begin or end with a space or '
        "end with a dot. A file that a command made under such a name has to be renamed by a command"
    )
