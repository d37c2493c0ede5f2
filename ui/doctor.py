"""The doctor: what works on this machine, what does not, and what to do about it.

Knows what the app needs and how to try it for real: it writes a file, asks the server for its models, for a streamed
reply and for a tool call. Refuses to spend more than two short replies, and to show a key. The sandbox is attacked by
others; what came of it is handed in.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from agent.errors import ModelError, Refused, SettingsError
from agent.events import Replied, TextDelta
from agent.llm.demo import DemoModel
from agent.llm.late import Connect, close
from agent.llm.model import Model, Request, ToolSpec
from agent.messages import UserMessage
from agent.settings import Settings, env_file_warnings
from ui.cli_texts import DoctorTexts

State = Literal["ok", "warn", "bad"]

OLDEST_PYTHON, NEWEST_PYTHON = (3, 10), (3, 13)
"""What the tests run on."""
MIN_FREE_BYTES = 200 << 20
"""Below this a few pictures or a pip install fill the disk."""


@dataclass(frozen=True)
class Finding:
    state: State
    subject: str
    text: str
    advice: str = ""
    error: ModelError | SettingsError | Refused | None = None
    """What `text` says, where that is a failure."""


class LayerFound(Protocol):
    """One thing a command might do, and whether it is kept from it."""

    @property
    def name(self) -> str: ...
    @property
    def active(self) -> bool: ...
    @property
    def covers(self) -> str: ...
    @property
    def why_not(self) -> str: ...


@runtime_checkable
class ListsModels(Model, Protocol):
    """A model whose server can say which models it has."""

    async def list_models(self) -> Sequence[str]: ...


def machine(env_file: Path, settings: Settings, words: DoctorTexts) -> Iterator[Finding]:
    """Python, `.env`, folders, room on the disk."""
    version = ".".join(map(str, sys.version_info[:3]))
    supported = OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON
    yield Finding("ok" if supported else "warn", "Python", version, "" if supported else words["python_advice"])
    yield from _env_file(env_file, words)
    for subject, folder in ((words["workspace"], settings.workspace_dir), (words["data"], settings.data_dir)):
        yield _writable(subject, folder, words)
    free = shutil.disk_usage(_existing(settings.data_dir)).free
    enough = free >= MIN_FREE_BYTES
    text = words["free"].format(mib=free >> 20)
    yield Finding("ok" if enough else "warn", words["disk"], text, "" if enough else words["disk_advice"])


def _env_file(env_file: Path, words: DoctorTexts) -> Iterator[Finding]:
    if not env_file.is_file():
        yield Finding("ok", ".env", words["env_missing"])
        return
    warnings = env_file_warnings(env_file)
    yield from (Finding("warn", ".env", warning) for warning in warnings)
    if not warnings:
        yield Finding("ok", ".env", words["env_read"].format(path=env_file))


def _writable(subject: str, folder: Path, words: DoctorTexts) -> Finding:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
    except OSError as error:
        text = words["not_writable"].format(path=folder, reason=error.strerror)
        return Finding("bad", subject, text, words["not_writable_advice"])
    return Finding("ok", subject, words["writable"].format(path=folder))


def _existing(folder: Path) -> Path:
    return next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())


def sandbox(line: str, layers: Sequence[LayerFound], shell: str, words: DoctorTexts) -> Iterator[Finding]:
    """What holds commands, layer by layer. `shell` is what follows for them: on, ask or off."""
    yield Finding("ok" if shell == "on" else "warn", words["sandbox"], line, words[f"shell_{shell}"])
    for layer in layers:
        state: State = "ok" if layer.active else "warn"
        yield Finding(state, f"  {layer.name}", layer.covers, "" if layer.active else layer.why_not)


async def model_server(connect: Connect, settings: Settings, words: DoctorTexts) -> AsyncGenerator[Finding, None]:
    """The model: is it reached, does it stream, does it call tools?"""
    try:
        model = await connect()
    except (ModelError, SettingsError, Refused) as error:
        yield Finding("bad", words["model"], str(error), words["model_advice"], error)
        return
    try:
        if isinstance(model, DemoModel):
            yield Finding("warn", words["model"], words["demo"], words["demo_advice"])
        else:
            yield Finding("ok", words["model"], words["model_used"].format(name=model.name))
        if isinstance(model, ListsModels):
            yield await _listed(model, settings, words)
        yield await _tried(words["streaming"], model, _REPLY, words)
        yield await _tried(words["tool_calls"], model, _CALL, words)
    finally:
        await close(model)


def images(model: str, offered: bool, words: DoctorTexts) -> Finding:
    """Whether there are pictures. None is asked for: it costs money."""
    if not offered:
        return Finding("warn", words["images"], words["images_none"], words["images_advice"])
    return Finding("ok", words["images"], words["images_set"].format(model=model))


async def _listed(model: ListsModels, settings: Settings, words: DoctorTexts) -> Finding:
    try:
        names = await model.list_models()
    except ModelError as error:
        return Finding("warn", words["models"], str(error), words["models_advice"], error)
    if settings.chat_model and settings.chat_model not in names:
        text = words["model_not_listed"].format(name=settings.chat_model, names=", ".join(names[:10]))
        return Finding("warn", words["models"], text, words["model_not_listed_advice"])
    return Finding("ok", words["models"], words["models_listed"].format(count=len(names), names=", ".join(names[:10])))


_ECHO = ToolSpec(
    "current_time",
    "Tell the current time in a time zone.",
    {"type": "object", "properties": {"zone": {"type": "string"}}, "required": ["zone"]},
)
_REPLY = Request("Answer in one short sentence.", (UserMessage("Hello! Who are you?"),))
_CALL = Request("Use the tool.", (UserMessage("What time is it in Tokyo?"),), (_ECHO,))


async def _tried(subject: str, model: Model, request: Request, words: DoctorTexts) -> Finding:
    """One real request, and whether what came back is of the kind that was asked for."""
    pieces, reply = 0, None
    try:
        async with aclosing(model.stream(request)) as events:
            async for event in events:
                pieces += isinstance(event, TextDelta)
                reply = event if isinstance(event, Replied) else reply
    except ModelError as error:
        return Finding("bad", subject, str(error), words["model_advice"], error)
    if reply is None or not (reply.message.text.strip() or reply.message.tool_calls):
        return Finding("bad", subject, words["empty"], words["model_advice"])
    if request.tools:
        if not reply.message.tool_calls:
            return Finding("warn", subject, words["no_call"], words["no_call_advice"])
        return Finding("ok", subject, words["called"].format(name=reply.message.tool_calls[0].name))
    return Finding("ok", subject, words["streamed"].format(pieces=pieces))
