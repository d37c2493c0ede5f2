"""What a checkpoint changed, as facts for people: which files, how many lines, the differences.

Knows how two contents compare. Refuses to know where contents are kept, and who made a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import SequenceMatcher
from typing import Any

from agent.errors import ToolError
from tools.checkpoint.objects import Difference, Objects, State
from tools.entries import size_text
from tools.names import shown
from tools.text_files import decode
from tools.text_files import diff as text_diff

MAX_LISTED = 200
"""Files that are named in a list of changes; beyond it only their number is told."""

_MAX_COUNTED_BYTES = 1_000_000
"""Of a file: larger ones are listed without their lines, a call is waiting."""

_MAX_MATCHED_LINES = 300
"""Of each side: up to this the lines are matched in order, as a diff does; beyond it only counted."""


def told(path: str) -> str:
    """A path as it goes into the log and to the page: exact where it is sound text, escaped where it is not."""
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def changed(objects: Objects, differences: Iterable[Difference]) -> dict[str, Any]:
    """`{"changed": [{"path", "change", "bytes", "added", "removed"}, ...], "changed_total": n}`.

    `change` is added, modified or deleted; `bytes` the size afterwards, 0 for what is gone. `added` and `removed` are
    lines, and missing for what is no text or too long to count. Folders are not listed.
    """
    files = [difference for difference in differences if not difference.path.endswith("/")]
    return {"changed": [_fact(objects, file) for file in files[:MAX_LISTED]], "changed_total": len(files)}


def _fact(objects: Objects, file: Difference) -> dict[str, Any]:
    change = "added" if file.old is None else "deleted" if file.new is None else "modified"
    fact: dict[str, Any] = {"path": told(file.path), "change": change, "bytes": _size(objects, file.new)}
    if max(_size(objects, file.old), fact["bytes"]) <= _MAX_COUNTED_BYTES:
        old, new = _text(objects, file.old), _text(objects, file.new)
        if old is not None and new is not None:
            fact["added"], fact["removed"] = _count(old, new)
    return fact


def _size(objects: Objects, state: State | None) -> int:
    if state is None:
        return 0
    return objects.note(state)[0] if state.noted else len(objects.get(state))


def _text(objects: Objects, state: State | None) -> str | None:
    """The text, empty where nothing stands; None for what is no text or not stored."""
    if state is None:
        return ""
    if state.noted:
        return None
    try:
        return decode(objects.get(state), "").text
    except ToolError:
        return None


def _count(old: str, new: str) -> tuple[int, int]:
    """Lines added and removed."""
    left, right = old.splitlines(), new.splitlines()
    start = next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    left, right = left[start:], right[start:]
    if max(len(left), len(right)) > _MAX_MATCHED_LINES:
        before, after = Counter(left), Counter(right)
        return (after - before).total(), (before - after).total()
    same = sum(block.size for block in SequenceMatcher(None, left, right, autojunk=False).get_matching_blocks())
    return len(right) - same, len(left) - same


def difference(objects: Objects, path: str, old: State | None, new: State | None) -> str:
    """Unified diff of one path, or a line in [brackets] that says why there is none. Ends with a line end."""
    head = _mode_line(old, new)
    if old is not None and new is not None and old.id == new.id:
        return head
    texts = _text(objects, old), _text(objects, new)
    if texts[0] is None or texts[1] is None:
        return f"{head}[{_described(objects, old)} became {_described(objects, new)}]\n"
    if texts[0] == texts[1] and old is not None and new is not None:
        return head + "[only the encoding or the line ends changed]\n"
    return head + text_diff(path, texts[0], texts[1])


def _mode_line(old: State | None, new: State | None) -> str:
    if old is None or new is None or old.mode == new.mode or old.noted or new.noted:
        return ""
    if old.link != new.link:
        return f"[{'a link' if old.link else 'a file'} became {'a link' if new.link else 'a file'}]\n"
    return f"[permissions {old.mode & 0o777:o} became {new.mode & 0o777:o}]\n"


def _described(objects: Objects, state: State | None) -> str:
    if state is None:
        return "nothing"
    if state.noted:
        size, why = objects.note(state)
        return f"{size_text(size)}, {why}"
    data = objects.get(state)
    return f"{'text' if _text(objects, state) is not None else 'binary'}, {size_text(len(data))}"


def listed(paths: Iterable[str], limit: int = 10) -> str:
    """Paths in one line, for a message to a person."""
    names = [shown(told(path)) for path in paths]
    rest = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + rest
