"""The directions of the house, read from the source: who may import whom, and what only one room may do.

    app ─► ui ─► agent ◄─ tools

Reads text, runs nothing, so that a rule holds for code that no test reaches.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ATTACKER = "tools/sandbox/attack.py"
"""Runs behind the fence, as a program of its own: it has nobody's environment, and printing is how it reports."""

TOOLS_MAY_KNOW = {"agent.tool", "agent.errors", "agent.events.File"}
"""What the tools import of the engine: the tool interface, errors, and the card of a file."""

PROCESS_MODULES = {"subprocess", "multiprocessing", "pty", "pexpect"}
PROCESS_CALLS = {"system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp", "startfile"}
PROCESS_CALLS |= {
    f"{kind}{end}" for kind in ("exec", "spawn") for end in ("l", "le", "lp", "lpe", "v", "ve", "vp", "vpe")
}
PROCESS_CALLS |= {"create_subprocess_exec", "create_subprocess_shell", "subprocess_exec", "subprocess_shell"}
ENVIRONMENT = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


@dataclass(frozen=True)
class Import:
    name: str
    """Dotted, with the name that is taken from the module: `agent.events.File`."""
    line: int
    nested: bool
    """Inside a function."""

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


class Source:
    def __init__(self, path: Path) -> None:
        self.name = path.relative_to(ROOT).as_posix()
        self.room = self.name.partition("/")[0].removesuffix(".py")
        self.text = path.read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.tree = ast.parse(self.text)
        self.imports = list(self._imports())

    def _imports(self) -> Iterator[Import]:
        inside = {
            id(node)
            for function in ast.walk(self.tree)
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
            for node in ast.walk(function)
        }
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, node.lineno, id(node) in inside) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                module = ".".join([*self.name.split("/")[: -node.level], node.module or ""] if node.level else [])
                module = module or node.module or ""
                yield from (Import(f"{module}.{a.name}", node.lineno, id(node) in inside) for a in node.names)

    def uses(self, owners: set[str], names: set[str]) -> Iterator[int]:
        """The lines that say `owner.name`, or import the name from there."""
        wanted = {f"{owner}.{name}" for owner in owners for name in names}
        said = [node for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)]
        yield from (node.lineno for node in said if ast.unparse(node) in wanted)
        yield from (found.line for found in self.imports if found.name in wanted)

    def calls(self, name: str) -> Iterator[int]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
                yield node.lineno


@pytest.fixture(scope="module")
def sources() -> list[Source]:
    paths = [path for folder in ("agent", "tools", "ui") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(paths) > 50
    return [Source(path) for path in [*paths, ROOT / "app.py"]]


def test_imports_go_one_way(sources: list[Source]) -> None:
    forbidden = {
        "agent": {"tools", "ui", "app", "gradio", "PIL"},
        "tools": {"ui", "app", "gradio"},
        "ui": {"tools", "app"},
        "app": set[str](),
    }
    wrong = [f"{s.name}:{i.line} {i.name}" for s in sources for i in s.imports if i.top in forbidden[s.room]]
    assert wrong == []


def test_tools_know_only_the_tool_interface(sources: list[Source]) -> None:
    def allowed(name: str) -> bool:
        return name in TOOLS_MAY_KNOW or name.rpartition(".")[0] in TOOLS_MAY_KNOW

    known = [(s, i) for s in sources if s.room == "tools" for i in s.imports if i.top == "agent"]
    assert [f"{s.name}:{i.line} {i.name}" for s, i in known if not allowed(i.name)] == []


def test_only_the_llm_room_imports_openai(sources: list[Source]) -> None:
    others = [s for s in sources if not s.name.startswith("agent/llm/")]
    assert [f"{s.name}:{i.line}" for s in others for i in s.imports if i.top == "openai"] == []


def test_only_the_settings_read_the_environment(sources: list[Source]) -> None:
    others = [s for s in sources if s.name not in ("agent/settings.py", ATTACKER)]
    assert [f"{s.name}:{line}" for s in others for line in s.uses({"os"}, ENVIRONMENT)] == []


def test_only_the_sandbox_starts_processes(sources: list[Source]) -> None:
    others = [s for s in sources if not s.name.startswith("tools/sandbox/")]
    calls = [f"{s.name}:{line}" for s in others for line in s.uses({"os", "asyncio", "loop"}, PROCESS_CALLS)]
    imports = [f"{s.name}:{i.line}" for s in others for i in s.imports if i.top in PROCESS_MODULES]
    assert calls + imports == []


def test_an_import_in_a_function_gives_its_reason(sources: list[Source]) -> None:
    mark = "# noqa: PLC0415"

    def reason(source: Source, found: Import) -> str:
        """Behind the mark, at the first of several marked lines, or in a comment above them."""
        at = found.line - 1
        while mark in source.lines[at]:
            if behind := source.lines[at].partition(mark)[2].strip(" ()"):
                return behind
            at -= 1
        above = source.lines[at].strip()
        return above if above.startswith("#") and at < found.line - 1 else ""

    nested = [(s, i) for s in sources for i in s.imports if i.nested]
    wrong = [f"{s.name}:{i.line} {i.name}" for s, i in nested if len(reason(s, i).split()) < 3]
    assert wrong == [], "write: # noqa: PLC0415 (why it cannot stand on top)"


def test_only_the_command_line_prints(sources: list[Source]) -> None:
    others = [s for s in sources if s.name not in ("app.py", "ui/cli.py", ATTACKER)]
    assert [f"{s.name}:{line}" for s in others for line in s.calls("print")] == []


def test_every_file_says_what_it_is_for(sources: list[Source]) -> None:
    assert [s.name for s in sources if s.text.strip() and not ast.get_docstring(s.tree)] == []


@pytest.mark.parametrize(
    ("module", "never"),
    [
        ("ui.render", "gradio"),
        ("ui.cli", "gradio"),
        ("ui.arguments", "pydantic"),  # or `--help` waits for it
        ("agent.session", "openai"),
        ("tools", "gradio"),
    ],
)
def test_what_a_module_never_loads(module: str, never: str) -> None:
    """Also not through others."""
    check = f"import sys, {module}; sys.exit({never!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT, timeout=120).returncode == 0
