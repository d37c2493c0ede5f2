"""The quiet links inside the conversation: edit, retry, other versions, undo.

They are ordinary links to `#do-<what>-<which>`, since the chat component lets nothing else through; `page.js` turns a
click into the event that the handlers read. Nothing the model or the person writes can become such a link: their
addresses are never fragments (`safe_text.py`). Knows what is offered where. Refuses to know what it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import quote

from agent.events import Undone
from agent.undo import changed_files
from ui.safe_text import one_line, plain
from ui.texts import Words

MAX_NAMED = 8
"""Files that a line names; the changes panel has all of them."""


def link(words: Words, key: str, do: str, which: str | int, shown: str = "") -> str:
    """One link. `key` names its words; `shown`, where given, stands in their place and they are read out."""
    label = plain(words[key])
    named = f' title="{label}" aria-label="{label}"' if shown else ""
    return f'<a class="gl-act" href="#do-{do}-{quote(str(which), safe="")}"{named}>{shown or label}</a>'


def under_message(words: Words, turn: int, versions: Sequence[int]) -> str:
    """Under a message of the person: `versions` are the turns that stand in each other's place, `turn` among them."""
    links = [link(words, "edit", "edit", turn), link(words, "undo_from", "undo", turn)]
    return f'<span class="gl-acts">{"".join(links)}{_versions(words, turn, versions)}</span>'


def under_answer(words: Words, turn: int) -> str:
    """Under the last word of a turn."""
    return (
        f'<span class="gl-acts gl-acts-answer">{link(words, "copy", "copy", turn)}'
        f"{link(words, 'ask_again', 'retry', turn)}</span>"
    )


def _versions(words: Words, turn: int, versions: Sequence[int]) -> str:
    if len(versions) < 2:
        return ""
    at = versions.index(turn)
    before = link(words, "version_before", "branch", versions[at - 1], "‹") if at else _no_way("‹")
    after = link(words, "version_after", "branch", versions[at + 1], "›") if at + 1 < len(versions) else _no_way("›")
    other = versions[at - 1] if at else versions[1]
    compare = link(words, "compare", "compare", f"{turn}.{other}")
    return f'{compare}<span class="gl-versions">{before}<span>{at + 1}/{len(versions)}</span>{after}</span>'


def _no_way(sign: str) -> str:
    return f'<span class="gl-act gl-no-way">{sign}</span>'


def undone_line(words: Words, event: Undone, forth: bool, acts: bool) -> str:
    """What an undo did, and the way back; `forth`: it took back an undo."""
    details = event.details
    names = [one_line(str(fact.get("path", "")), 60) for fact in changed_files(details)]
    text = words[("redone" if forth else "undone") if names else ("redone_talk" if forth else "undone_talk")]
    said = [text.format(files=_named(words, names, int(details.get("changed_total", len(names)))))]
    for key in ("kept", "cannot", "failed"):
        if left := _paths(details.get(key)):
            said.append(words[f"undone_{key}"].format(files=_named(words, left, len(left))))
    if missed := details.get("without_checkpoint"):
        said.append(words["undone_without"].format(count=len(missed)))
    way = link(words, "undo" if forth else "redo", "redo", event.id) if acts else ""
    return f'<span class="gl-quiet">{plain(" ".join(said))} {way}</span>'


def _paths(facts: object) -> list[str]:
    """The paths in a list of facts or of paths."""
    found = facts if isinstance(facts, (list, tuple)) else ()
    return [one_line(str(fact["path"] if isinstance(fact, dict) else fact), 60) for fact in found]


def _named(words: Words, names: Sequence[str], total: int) -> str:
    shown = words["comma"].join(names[:MAX_NAMED])
    rest = total - min(len(names), MAX_NAMED)
    return words["files_more"].format(files=shown, count=rest) if rest > 0 else shown
