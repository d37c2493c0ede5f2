"""Changed files, as HTML: what an undo would do, before it is done, and what each step did to which file.

Pure functions from facts to markup. Refuses to know gradio, where facts come from, and what an undo does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from agent.events import FromTurn, OneUndo, UndoTarget
from agent.undo import Preview, changed_files
from ui.markup import button, none_yet
from ui.rows import Row, glimpse, line_counts
from ui.safe_text import one_line
from ui.texts import Words

MAX_FILES = 12
"""Files that are named before the rest is a number."""

MAX_DIFF_CHARS = 20_000
"""Of one file."""


# ---------------------------------------------------------------------- before an undo


@dataclass(frozen=True)
class Undoing:
    """An undo that the person looks at and has not agreed to."""

    target: UndoTarget
    preview: Preview
    paths: tuple[str, ...] | None = None
    """The only files it is about; None: all that the target changed."""


def undo_card(words: Words, undoing: Undoing) -> str:
    """What would happen, and the question."""
    preview, target = undoing.preview, undoing.target
    again = isinstance(target, OneUndo)
    title = words[_title_of(undoing)]
    parts = [f"<h2>{escape(title)}</h2>"]
    if preview.turns and not again:
        count = len(preview.turns)
        text = words["undo_turns_one" if count == 1 else "undo_turns"].format(count=count)
        parts.append(f"<p>{escape(text)}</p><p>{escape(words['undo_kept'])}</p>")
    disputed = {str(fact["path"]) for fact in preview.conflicts}
    quiet = [fact for fact in preview.changes if str(fact["path"]) not in disputed]
    if quiet:
        parts.append(f"<h3>{escape(words['undo_files'])}</h3>{_planned(words, quiet, 'undo', 'change')}")
    elif not disputed:
        parts.append(f"<p>{escape(words['undo_no_files'])}</p>")
    if disputed:
        choice = _planned(words, preview.conflicts, "reason", "reason")
        parts.append(f'<h3 class="gl-warn">{escape(words["undo_conflicts"])}</h3>{choice}')
    if preview.cannot:
        files = words["comma"].join(one_line(path, 60) for path in list(preview.cannot)[:MAX_FILES])
        parts.append(f"<p>{escape(words['undo_cannot'].format(files=files))}</p>")
    if preview.without_checkpoint:
        parts.append(f"<p>{escape(words['undo_without'].format(count=len(preview.without_checkpoint)))}</p>")
    parts.append(f'<div class="gl-answer">{_choices(words, bool(disputed), again)}</div>')
    return f'<section class="gl-card" aria-label="{escape(title)}">{"".join(parts)}</section>'


def _title_of(undoing: Undoing) -> str:
    if isinstance(undoing.target, OneUndo):
        return "redo_title"
    if isinstance(undoing.target, FromTurn):
        return "undo_title"
    return "undo_title_step" if undoing.paths is None else "undo_title_file"


def _choices(words: Words, disputed: bool, again: bool) -> str:
    cancel = button(words["cancel"], kind="gl-secondary", do="undo_cancel")
    if not disputed:
        do = words["redo_do" if again else "undo_do"]
        return button(do, kind="gl-primary", do="undo_go", value="refuse") + cancel
    keep = button(words["keep_mine"], kind="gl-primary", do="undo_go", value="keep_mine")
    return keep + button(words["overwrite"], kind="gl-secondary gl-bad", do="undo_go", value="overwrite") + cancel


def _planned(words: Words, facts: Sequence[Mapping[str, Any]], prefix: str, key: str) -> str:
    lines = "".join(
        f'<li><span class="gl-path">{escape(str(fact["path"]))}</span>'
        f'<span class="gl-small">{escape(words.get(f"{prefix}_{fact.get(key)}", ""))}</span></li>'
        for fact in facts[:MAX_FILES]
    )
    rest = len(facts) - MAX_FILES
    return f'<ul class="gl-plan">{lines}</ul>{_more(words, rest)}'


def _more(words: Words, count: int) -> str:
    return none_yet(words["changes_more"].format(count=count)) if count > 0 else ""


# ---------------------------------------------------------------------- the panel


def all_changes(words: Words, rows: Sequence[Row]) -> str:
    """Every step that changed a file, the latest first."""
    if not rows:
        return none_yet(words["changes_none"])
    return "".join(_step(words, row) for row in reversed(rows))


def _step(words: Words, row: Row) -> str:
    facts = _facts(row)
    files = "".join(
        f'<li><span class="gl-path">{escape(str(fact.get("path", "")))}</span>'
        f'<span class="gl-counts">{escape(line_counts(words, fact))}</span></li>'
        for fact in facts[:MAX_FILES]
    )
    call_id = row.call.id if row.call else ""
    return (
        f'<button class="gl-change" data-do="changes" data-value="{escape(call_id)}"><span class="gl-change-head">'
        f"{_head(words, row)}</span></button>"
        f'<ul class="gl-plan">{files}</ul>{_more(words, _total(row) - min(len(facts), MAX_FILES))}'
    )


def one_step(words: Words, row: Row, diffs: Sequence[tuple[str, str]]) -> str:
    """What one step did to each file: `diffs` are paths with their differences."""
    counts = {str(fact.get("path", "")): line_counts(words, fact) for fact in _facts(row)}
    files = "".join(
        f'<section class="gl-diff"><h3><span class="gl-path">{escape(path)}</span>'
        f'<span class="gl-counts">{escape(counts.get(path, ""))}</span>{_way_of_file(words, row, path)}</h3>'
        f"{diff(text)}</section>"
        for path, text in diffs
    )
    call_id = row.call.id if row.call else ""
    way = (
        button(words["redo"], kind="gl-secondary", do="redo", value=row.undone_by)
        if row.undone_by
        else button(words["undo_step"], kind="gl-secondary", do="undo_step", value=call_id)
    )
    back = button(words["changes_all"], kind="gl-flat gl-word", do="changes", value="")
    return (
        f'<div class="gl-turner">{back}<span class="gl-space"></span>{way}</div>'
        f'<p class="gl-change-head">{_head(words, row)}</p>{files}{_more(words, _total(row) - len(diffs))}'
    )


def _way_of_file(words: Words, row: Row, path: str) -> str:
    """Back, or forth again, for one file of several; of a step that is undone, its own button does that."""
    if row.undone_by or _total(row) < 2 or row.call is None:
        return ""
    if undone_by := row.files_undone_by.get(path):
        tag = f'<span class="gl-tag">{escape(words["undone_short"])}</span>'
        return tag + button(words["redo"], kind="gl-flat gl-word", do="redo", value=undone_by)
    label = f"{words['undo_file']}: {path}"
    undo = button(words["undo"], kind="gl-flat gl-word", do="undo_file", value=row.call.id, file=path)
    return undo.replace("<button ", f'<button title="{escape(label)}" aria-label="{escape(label)}" ', 1)


def diff(text: str) -> str:
    """A unified diff with its lines coloured; what is not one is shown as it is."""
    cut = text[:MAX_DIFF_CHARS]
    lines = [line for line in cut.splitlines() if not line.startswith(("--- ", "+++ "))]
    shown = "".join(f'<span class="{_KINDS.get(line[:1], "gl-same")}">{escape(line) or " "}</span>' for line in lines)
    return f"<pre>{shown}{'…' if len(cut) < len(text) else ''}</pre>"


_KINDS = {"+": "gl-plus", "-": "gl-minus", "@": "gl-hunk", "[": "gl-hunk"}


def _facts(row: Row) -> Sequence[Mapping[str, Any]]:
    return changed_files(row.result.details) if row.result else ()


def _total(row: Row) -> int:
    return int(row.result.details.get("changed_total", 0)) if row.result else 0


def _head(words: Words, row: Row) -> str:
    undone = f'<span class="gl-tag">{escape(words["undone_short"])}</span>' if row.undone_by else ""
    return (
        f"<b>{escape(one_line(row.name, 40))}</b> "
        f'<span class="gl-glimpse">{escape(glimpse(row.arguments))}</span>{undone}'
    )
