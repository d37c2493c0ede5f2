"""A tool is a decorated function: name, docstring and signature are all there is to say.

    @tool(Effect.READ)
    def read_file(context: ToolContext, path: Annotated[str, Field(description="inside it")]) -> ToolResult:
        "Read a text file."

Knows how a function becomes something a model can call, and how a call becomes a result. Refuses to know any tool by
name, who judges a call, and where results are shown.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agent.errors import ToolError
from agent.events import File
from agent.messages import ToolCall
from agent.schema import Check, check_by_model, check_by_schema, fit, parameters_schema, signature_model

if TYPE_CHECKING:
    from agent.session import Session

logger = logging.getLogger(__name__)

MAX_RESULT_CHARS = 12_000
"""What the model gets of one result at most: about 3,000 tokens of English, enough to go on with."""


class Effect(str, Enum):
    """How far a tool reaches: what policy judges by, together with the arguments."""

    READ = "read"
    WRITE = "write"
    EXECUTE = "execute"
    NETWORK = "network"
    SPEND = "spend"
    REMEMBER = "remember"
    """It lasts beyond the session in the person's name, and touches no file."""


NO_FILES = frozenset({Effect.READ, Effect.REMEMBER})
"""Effects that leave every file as it is."""


@dataclass(frozen=True)
class ToolResult:
    """What a tool gives back."""

    text: str
    """For the model. Cut to MAX_RESULT_CHARS on the way, the whole is kept where the model can read it in parts."""
    files: tuple[File, ...] = ()
    """For the person: cards to open or download."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """For the person: JSON facts for the one-line summary and the opened step (`exit_code`, `lines`, `diff`, ...)."""
    ok: bool = True
    """False where the tool did its work and the outcome is a failure, such as an exit code other than 0."""
    images: tuple[File, ...] = ()
    """For the model to look at, if it can see; in the outbox, like files."""


@dataclass
class ToolContext:
    """What a running call may know of its surroundings."""

    session_id: str
    call_id: str
    workspace: Path
    """The folder the tools work in, absolute."""
    outbox: Path
    """Where files for the person are copied to, absolute, outside the workspace."""
    emit: Callable[[str], None] = lambda text: None
    """Show output while the call runs. From the event loop's thread only."""
    show: Callable[[File], None] = lambda file: None
    """Show a picture that is not finished yet, from the outbox. From the event loop's thread only."""
    stop_note: str = ""
    """A tool that is cancelled says here what it left behind ("killed 3 processes"); the result carries it."""
    facts: dict[str, Any] = field(default_factory=dict)
    """What was found out beside the call, however it ends, such as what it changed; the result's details get it."""
    session: Session | None = None
    """The conversation the call belongs to. For the engine's own tools: the others have no business in it."""


@dataclass(frozen=True)
class Atom:
    """One elementary thing that a call does, as words: what a person's rule is compared with."""

    words: tuple[str, ...]
    """Such as `("git", "diff", "HEAD")`, exactly as the thing will be done."""
    stem: int
    """How many of the leading words a rule must at least name: 2 of these, so that no rule for all of git covers it."""


Reach = Callable[[Mapping[str, Any]], Effect]
"""How far a call with these arguments reaches, where that is further than the tool's own effect."""

Atoms = Callable[[Mapping[str, Any]], "tuple[Atom, ...] | None"]
"""All that a call with these arguments does; None or nothing where that cannot be told from the arguments."""


@dataclass(frozen=True)
class Tool:
    """A function the model can call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of one object."""
    effect: Effect
    check: Check
    run: Callable[..., Awaitable[ToolResult | str]]
    """Called with the context, then the arguments by name."""
    reach: Reach | None = None
    atoms: Atoms | None = None
    """None: a rule can cover no more than exactly one call of this tool."""
    speaks: Literal["world", "app"] = "world"
    """Whose words its results are: `app` only where nothing from outside can be in them, such as the time."""

    @property
    def may_change(self) -> bool:
        """Is there any call of it that may leave a file or a process other than it was?"""
        return self.effect not in NO_FILES or self.reach is not None

    def effects(self, arguments: Mapping[str, Any]) -> frozenset[Effect]:
        """All effects of a call with these arguments, as `parse` gives them: the arguments can add, never take away."""
        return frozenset({self.effect} if self.reach is None else {self.effect, self.reach(arguments)})

    def parse(self, call: ToolCall) -> dict[str, Any]:
        """The call's arguments as the function takes them. Raises ToolError, worded for the model."""
        return self.check(fit(json.loads(call.arguments), self.parameters))

    @classmethod
    def from_schema(
        cls,
        name: str,
        description: str,
        parameters: Mapping[str, Any],
        effect: Effect,
        run: Callable[..., Awaitable[ToolResult | str]],
    ) -> Tool:
        """A tool whose schema somebody else wrote."""
        return cls(name, description, parameters, effect, check_by_schema(parameters), run)


def tool(
    effect: Effect,
    reach: Reach | None = None,
    atoms: Atoms | None = None,
    speaks: Literal["world", "app"] = "world",
) -> Callable[[Callable[..., Any]], Tool]:
    """Make a Tool of a function whose first parameter is the ToolContext.

    The function's name is the tool's, its docstring the description, its other parameters the schema (describe them
    with `Annotated[..., pydantic.Field(description=...)]`). A plain function runs in a thread, so that it may block.
    """

    def decorate(function: Callable[..., Any]) -> Tool:
        description = inspect.cleandoc(function.__doc__ or "")
        if not description:
            raise TypeError(f"tool {function.__name__} has no docstring: the model reads it")
        context_name = next(iter(inspect.signature(function).parameters))
        model = signature_model(function, skip=frozenset({context_name}))
        return Tool(
            name=function.__name__,
            description=description,
            parameters=parameters_schema(model),
            effect=effect,
            check=check_by_model(model),
            run=function if inspect.iscoroutinefunction(function) else _in_thread(function),
            reach=reach,
            atoms=atoms,
            speaks=speaks,
        )

    return decorate


def _in_thread(function: Callable[..., Any]) -> Callable[..., Awaitable[Any]]:
    async def run(context: ToolContext, **arguments: Any) -> Any:
        return await asyncio.to_thread(function, context, **arguments)

    return run


KeepWhole = Callable[[ToolContext, str], str]
"""Keeps a text that is too long for the model; returns how the model can read it in parts, in one sentence."""

Around = Callable[[ToolContext], AbstractAsyncContextManager[None]]
"""Stands around a call that may change something; what it finds out goes into `ToolContext.facts`. Raises nothing."""


class Toolbox:
    """The tools an agent has, in the order the model is told of them."""

    def __init__(
        self, tools: Iterable[Tool], keep_whole: KeepWhole | None = None, around: Around | None = None
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._around = around
        self._keep_whole = keep_whole

    def __iter__(self) -> Any:
        return iter(self._tools.values())

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def without(self, names: Collection[str]) -> Toolbox:
        """The same without these tools."""
        return Toolbox((tool for tool in self if tool.name not in names), self._keep_whole, self._around)

    def keep(self, context: ToolContext, text: str) -> str:
        """Keep a result where the model can read it again; how, in one sentence. Empty where that cannot be done."""
        return self._keep_whole(context, text) if self._keep_whole else ""

    async def run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        """Run one call. Whatever goes wrong comes back as a result that the model can read; only cancelling leaves."""
        result = await self._answer(call, context)
        return replace(result, details={**result.details, **context.facts}) if context.facts else result

    async def _answer(self, call: ToolCall, context: ToolContext) -> ToolResult:
        try:
            return self._capped(await self._run(call, context), context)
        except ToolError as error:
            return _failure(str(error))
        except Exception as error:  # a bug in a tool is ours, but it must not take the turn down with it
            logger.exception("tool %s failed", call.name)
            return _failure(f"the tool itself failed ({type(error).__name__}); another way may work")

    async def _run(self, call: ToolCall, context: ToolContext) -> ToolResult:
        if call.fault:
            raise ToolError(call.fault)
        found = self.get(call.name)
        if found is None:
            raise ToolError(f"there is no tool called {call.name!r}. The tools are: {', '.join(self._tools)}")
        arguments = found.parse(call)
        changes = not found.effects(arguments) <= NO_FILES
        async with self._around(context) if self._around and changes else nullcontext():
            result = await found.run(context, **arguments)
        return ToolResult(result) if isinstance(result, str) else result

    def _capped(self, result: ToolResult, context: ToolContext) -> ToolResult:
        if len(result.text) <= MAX_RESULT_CHARS:
            return result
        return replace(result, text=cut_middle(result.text, MAX_RESULT_CHARS, self.keep(context, result.text)))


def cut_middle(text: str, limit: int, note: str = "") -> str:
    """Head and tail of a text that is longer than `limit` characters, with a line between that says what is missing."""
    if len(text) <= limit:
        return text
    half = limit // 2
    gap = f"\n[... {len(text) - 2 * half:,} characters left out. {note}".rstrip() + " ...]\n"
    return text[:half] + gap + text[-half:]


def _failure(reason: str) -> ToolResult:
    return ToolResult(json.dumps({"ok": False, "error": reason}, ensure_ascii=False), ok=False)
