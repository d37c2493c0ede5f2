"""What can be said on the command line.

Knows flags and the variables they stand for. Imports nothing that takes time, so that `--help` answers at once.
"""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

Door = Literal["page", "task", "doctor", "sandbox", "audit", "replay", "report"]

_DESCRIPTION = "Glassloop: an agent loop you can see through. Without a command it opens the browser app."
_EPILOG = """\
exit codes of --task:
  0  answered, and no fact is     3    not finished: step limit, budget, loop, empty,
     against it                        cut off or filtered answer
  1  the model or the app failed  4    a call waits for approval and nobody could be asked
  2  wrong usage or settings      5    answered, but what had to be true is not, or not all of it
                                       (partly done, not verified, could not be done)
                                  130  stopped (Ctrl-C, SIGTERM)

--expect says what must be true at the end; each line is one of
  report.md   report.md contains TEXT   data.json json|csv|image|python   $ COMMAND (must exit with 0)

All settings are in .env.example; flags win over the environment, which wins over .env.

  python app.py                               the browser app
  python app.py --share                       the same, with a public address: others can use it, by strangers' rules
  python app.py --task "List the files."      one task in the terminal
  python app.py --task - --json < task.txt    task from stdin, events as JSON lines
  python app.py doctor                        what works here, what does not, what to do
  python app.py sandbox -- ls -la /           run one command behind the fence
  python app.py audit verify                  was a row of the audit trail changed, removed or added
  python app.py audit export --csv            the audit trail on stdout
  python app.py replay recordings/demo.jsonl  a recording in the terminal, at its own pace
  python app.py report latest -o report.html  the latest session as one HTML file; -o x.jsonl: as a recording
"""


@dataclass(frozen=True)
class Arguments:
    door: Door = "page"
    task: str = ""
    """`-` for stdin."""
    expects: tuple[str, ...] = ()
    """What must be true at the end of the task."""
    json: bool = False
    script: str = ""
    """What `sandbox` runs, as one line for the shell."""
    audit: Literal["", "verify", "export"] = ""
    csv: bool = False
    source: str = ""
    """What `replay` and `report` read: a file; for `report` also a session's id, or `latest`."""
    speed: float = 1.0
    step: bool = False
    output: str = ""
    share: bool = False
    """Open a public address for the page."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Settings given as flags, by the name of their variable."""


def parse_arguments(argv: Sequence[str]) -> Arguments:
    """Read the command line without the program's name. Exits with 2 where it makes no sense."""
    parser = _parser()
    found = parser.parse_args(argv)
    if found.json and found.task is None:
        parser.error("--json goes with --task")
    if found.expect and found.task is None:
        parser.error("--expect goes with --task")
    if found.task is not None and found.command:
        parser.error(f"--task does not go with {found.command}")
    door: Door = found.command or ("page" if found.task is None else "task")
    words, csv = getattr(found, "words", []), getattr(found, "csv", False)
    if csv and found.what != "export":
        parser.error("--csv goes with audit export")
    if found.share and door != "page":
        parser.error("--share goes with the browser app")
    return Arguments(
        door=door,
        task=found.task or "",
        expects=tuple(found.expect),
        json=found.json,
        audit=getattr(found, "what", ""),
        csv=csv,
        source=getattr(found, "source", ""),
        speed=getattr(found, "speed", 1.0),
        step=getattr(found, "step", False),
        output=getattr(found, "output", ""),
        share=found.share,
        script=words[0] if len(words) == 1 else shlex.join(words),
        overrides={variable: value for variable in _VARIABLES if (value := getattr(found, variable, None))},
    )


_VARIABLES = {
    "GLASSLOOP_PORT": ("--port", "N", "the port of the browser app (0: any free one)"),
    "GLASSLOOP_HOST": ("--host", "ADDRESS", "the address to listen on; 127.0.0.1 keeps others out"),
    "WORKSPACE_DIR": ("--workspace", "FOLDER", "the folder the agent works in"),
    "OPENAI_CHAT_MODEL": ("--model", "NAME", "the model's name as its server knows it"),
    "GLASSLOOP_LANGUAGE": ("--language", "en|zh|auto", "the language of the page and the terminal"),
}


def _parser() -> argparse.ArgumentParser:
    settings = argparse.ArgumentParser(add_help=False)
    for variable, (flag, example, meaning) in _VARIABLES.items():
        convert = _folder if variable == "WORKSPACE_DIR" else str
        settings.add_argument(
            flag, dest=variable, metavar=example, help=meaning, type=convert, default=argparse.SUPPRESS
        )
    parser = argparse.ArgumentParser(
        "app.py",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        parents=[settings],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--task", metavar="TEXT", help="do this one task in the terminal; - reads it from stdin")
    parser.add_argument(
        "--expect",
        metavar="LINE",
        action="append",
        default=[],
        help="with --task, repeatable: what must be true at the end, such as report.md or '$ pytest -q'",
    )
    parser.add_argument("--json", action="store_true", help="with --task: print the events as JSON lines")
    parser.add_argument("--share", action="store_true", help="give the browser app a public address for a while")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    commands.add_parser("doctor", help="check settings, sandbox and model server", parents=[settings])
    sandbox = commands.add_parser("sandbox", help="run one command behind the fence: sandbox -- COMMAND")
    sandbox.add_argument("words", nargs="+", metavar="COMMAND", help="one word: a line for the shell")
    audit = commands.add_parser(
        "audit", help="the trail of all tool calls: verify it, or export it", parents=[settings]
    )
    audit.add_argument("what", choices=("verify", "export"))
    audit.add_argument("--csv", action="store_true", help="with export: CSV instead of JSON lines")
    replay = commands.add_parser("replay", help="play a recording in the terminal", parents=[settings])
    replay.add_argument("source", metavar="FILE", help="an exported session, or a report")
    pace = replay.add_mutually_exclusive_group()
    pace.add_argument("--speed", metavar="N", type=_speed, default=1.0, help="so many times faster than it was")
    pace.add_argument("--step", action="store_true", help="one step at each Enter")
    report = commands.add_parser("report", help="write a session to one HTML file", parents=[settings])
    report.add_argument("source", metavar="SESSION|FILE", help="a session's id, latest, or an exported session")
    report.add_argument("-o", "--output", metavar="OUT", required=True, help="OUT.html, or OUT.jsonl for a recording")
    return parser


def _speed(text: str) -> float:
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < math.inf:
        raise argparse.ArgumentTypeError("must be a number above 0")
    return speed


def _folder(text: str) -> str:
    """Relative to where the person is, not to where the app lies."""
    return str(Path(text).absolute())
