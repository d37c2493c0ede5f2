"""A session as one HTML file to keep, to send and to read anywhere: no network, no script, light and dark.

All of it is drawn from the same lines that the file carries, and the secrets are out of those before anything is
drawn. So the report shows nothing that its log does not hold, and the app can import and replay it.

Knows the document. Refuses to know where a session is kept and who may see it. What a turn looks like is in
`report_turns.py`.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path

from agent.errors import Refused
from agent.events import CallFinished, Delegated, File, Usage
from agent.exchange import carrier, export_lines
from agent.log import Entry, load_entry
from ui.markup import LOGO
from ui.report_markup import clean, text
from ui.report_texts import REPORT_TEXTS
from ui.report_turns import TurnMarkup
from ui.texts import TEXTS, Language, duration
from ui.timeline import Timeline, Turn, every_step

_STYLE = Path(__file__).parent / "report.css"

_TAGS = {"en": "en", "zh": "zh-CN"}

Embed = Callable[[File], str]
"""A picture's data URI; empty for what is no picture, or too large."""


def render_report(
    entries: Sequence[Entry],
    language: Language,
    title: str,
    scrub: Callable[[str], str],
    embed: Embed = lambda file: "",
) -> str:
    """The report of a log. `scrub` takes the secrets out of a text. Raises Refused where nothing has happened yet."""
    if not entries:
        raise Refused("there is nothing to report yet")
    lines = list(export_lines(clean(title), entries, scrub))
    told = ((e.seq, e.event.event if isinstance(e.event, Delegated) else e.event) for e in entries)
    files = {seq: event for seq, event in told if isinstance(event, CallFinished)}

    def picture(seq: int, index: int, for_model: bool) -> str:
        finished = files[seq]
        return embed((finished.images if for_model else finished.files)[index])

    timeline = Timeline(load_entry(json.loads(line)) for line in lines[1:])
    markup = TurnMarkup(language, picture)
    turns = "".join(markup.turn(turn) for turn in timeline.turns)
    body = _header(scrub(title), language, timeline.turns, markup) + f"<main>{turns}</main>" + carrier(lines)
    return _document(scrub(title), language, body)


def _document(title: str, language: Language, body: str) -> str:
    style = _STYLE.read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    return (
        f'<!doctype html>\n<html lang="{_TAGS[language]}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text(title)} · Glassloop</title>\n<style>{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _header(title: str, language: Language, turns: Sequence[Turn], markup: TurnMarkup) -> str:
    words, says = TEXTS[language], REPORT_TEXTS[language]
    steps = [step for turn in turns for step in turn.steps]
    counts = [markup.counted("count_turns", len(turns)), markup.counted("count_steps", len(steps))]
    counts.append(markup.counted("count_calls", sum(len(step.calls) for step in steps)))
    facts = {
        says["when"]: _moment(turns[0].at) if turns else "",
        says["lasted"]: duration(words, sum(max(0.0, (turn.ended_at or turn.at) - turn.at) for turn in turns)),
        says["models"]: words["comma"].join(_models(turns)),
        says["counts"]: words["comma"].join(counts),
        says["tokens"]: markup.usage(total) if (total := _total_usage(turns)) else "",
    }
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in facts.items() if value)
    legend = "".join(
        f'<span><svg aria-hidden="true"><rect class="{kind}" width="100%" height="100%"/></svg>'
        f"{text(says[f'legend_{kind}'])}</span>"
        for kind in ("model", "tool")
    )
    return (
        f'<header><p class="kind">{LOGO}<span>{text(says["report"])} · Glassloop</span></p>'
        f'<h1>{text(title or words["untitled"])}</h1><dl class="facts">{rows}</dl>'
        f'<p class="about">{text(says["carries"])}</p><p class="about">{text(says["scrubbed"])}</p>'
        f'<p class="legend">{legend}</p></header>'
    )


def _models(turns: Sequence[Turn]) -> list[str]:
    """The names of all models that replied, each once."""
    steps = every_step(turns)
    names = ((s.reply.model if s.reply else "") or (s.requests[-1].model if s.requests else "") for s in steps)
    return [name for name in dict.fromkeys(names) if name]


def _total_usage(turns: Sequence[Turn]) -> Usage | None:
    used = [step.reply.usage for step in every_step(turns) if step.reply and step.reply.usage]
    if not used:
        return None
    return Usage(
        sum(u.input_tokens for u in used), sum(u.output_tokens for u in used), sum(u.cached_tokens for u in used)
    )


def _moment(at: float) -> str:
    try:
        return f"{datetime.fromtimestamp(at, timezone.utc):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):  # an imported log may say any time
        return ""
