"""What was, from the command line: a recording played in the terminal, a session written to a file.

Knows files and the store. Refuses to know how an entry looks (`terminal.py`), and what a report and an export are.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

from agent.errors import Refused
from agent.events import TurnStarted
from agent.exchange import export_lines
from agent.log import Entry
from agent.store import Store
from ui import recordings
from ui.cli import Show, say
from ui.cli_texts import CliTexts
from ui.replay import Replay
from ui.report import render_report
from ui.report_pictures import Pictures
from ui.terminal import clean
from ui.texts import Language

LATEST = "latest"
"""In the place of a session's id: the one that changed last, whoever's it is."""


async def replay_file(source: Path, speed: float, by_steps: bool, show: Show, texts: CliTexts) -> int:
    """Play a recording, or show a step at each Enter; at the end of stdin, the rest at once. Raises Refused."""
    imported = recordings.read(source)
    say(texts.replaying.format(title=clean(imported.title or source.name)))
    replay = Replay(imported.entries, speed)
    if by_steps:
        _by_steps(replay, show, texts)
        return 0
    replay.play()
    shown = 0
    async with aclosing(replay.log.follow()) as batches:
        async for batch in batches:
            for entry in batch:
                _show(entry, show)
            shown += len(batch)
            if shown == len(imported.entries):
                break
    return 0


def _by_steps(replay: Replay, show: Show, texts: CliTexts) -> None:
    while not replay.done:
        before = len(replay.log)
        replay.step()
        for entry in replay.log.since(before):
            _show(entry, show)
        if not replay.done:
            say(texts.next_step)
            if not sys.stdin.readline():
                shown = len(replay.log)
                replay.finish()
                for entry in replay.log.since(shown):
                    _show(entry, show)


def _show(entry: Entry, show: Show) -> None:
    if isinstance(entry.event, TurnStarted) and entry.event.message.source == "person":
        say(f"\n>>> {clean(entry.event.message.text)}")
    show(entry)


def write_session(
    source: str, output: Path, language: Language, open_store: Callable[[], Store], texts: CliTexts
) -> int:
    """Write a session to a file: a report, or an export where the name ends in `.jsonl`.

    `source` is the id of a kept session, `latest`, or a file that has been exported. Raises Refused or StoreError.
    """
    store = open_store()
    try:
        title, entries, outbox = _found(source, store)
        if output.suffix == ".jsonl":
            content = "".join(export_lines(title, entries, store.scrub))
        else:
            content = render_report(entries, language, title, store.scrub, Pictures(outbox).embed)
    finally:
        store.close()
    try:
        output.write_text(content, encoding="utf-8", newline="\n")
    except OSError as error:
        raise Refused(f"{output} cannot be written: {error.strerror}") from None
    say(texts.written.format(path=output))
    return 0


def _found(source: str, store: Store) -> tuple[str, list[Entry], Path]:
    """The title, the entries, and where handed-over files are."""
    if Path(source).is_file():
        imported = recordings.read(Path(source))
        return imported.title, imported.entries, Path(os.devnull)
    owner, session_id = store.whose("" if source == LATEST else source)
    return store.summary(owner, session_id).title, store.load(owner, session_id).entries, store.outbox(session_id)
