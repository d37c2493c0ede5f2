"""A page to test with: the real server in a thread, real tools, and a model that does what the message asks for.

Each message has its own script, so tests share one server and never wait for one another.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Union

from PIL import Image
from pydantic import SecretStr

from agent.agent import Agent
from agent.attached import own_words
from agent.delegation import delegate
from agent.errors import ModelError
from agent.events import File, RequestSent, Retrying, TextDelta
from agent.llm.chosen import ChosenModels
from agent.llm.model import ModelEvent, Request
from agent.log import EventLog
from agent.memory import MEMORY_TOOLS
from agent.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from agent.policy import Policy, Verdict
from agent.proof import Prover
from agent.session import Session
from agent.sessions import Sessions
from agent.settings import Settings
from agent.store import Store
from agent.tool import Effect, Tool, Toolbox, ToolContext, ToolResult, tool
from tests.scripted import Reply, ScriptedModel
from tools.background import background_tools
from tools.checkpoint import Checkpoints
from tools.command_line import atoms
from tools.desk import Desk
from tools.intake import Uploads
from tools.processes import Processes
from tools.sandbox import CommandLimits, Fence
from ui.handlers import Handlers
from ui.page import Server, address_of, listen, web_app
from ui.panels import Status

PAGE_BYTES = b"<script>document.title = 'owned'</script>\x00\xff"

HOSTILE = """<img src="http://evil.test/1.png" onerror="document.title='owned'"><script>document.title='owned'</script>
![x](http://evil.test/2.png?q=secret) [![y](http://evil.test/3.png)](http://evil.test/4)
<div style="position:fixed;inset:0;background:url(http://evil.test/5.png)">over everything</div>
<form action="http://evil.test/6"><input name="p"></form> [click](javascript:document.title='owned')
![z][ref] <svg onload="document.title='owned'"></svg> [bank](https://bank.test@evil.test/)

[ref]: http://evil.test/7.png

```html
<img src="http://evil.test/8.png">
```
~~~ a`b
<img src="http://evil.test/9.png">
~~~
<video src="http://evil.test/10.mp4" autoplay></video> $$\\href{http://evil.test/11}{x}$$
> ```
> <img src="http://evil.test/12.png">
<img src="http://evil.test/13.png">
"""


class Gate:
    """Holds a script until the test opens it."""

    def __init__(self) -> None:
        self._open = threading.Event()

    def open(self) -> None:
        self._open.set()

    async def wait(self) -> None:
        while not self._open.is_set():
            await asyncio.sleep(0.01)


Play = Callable[[Request], AsyncGenerator[ModelEvent, None]]
Step = Union[Reply, Play]


class Playbook:
    """A model that follows the script of the person's last message, one step for each of its own replies since."""

    name = "playbook"

    def __init__(self) -> None:
        self.scripts: dict[str, tuple[Step, ...]] = {}

    async def stream(self, request: Request) -> AsyncGenerator[ModelEvent, None]:
        said = [*request.messages]
        yield RequestSent(self.name, {"model": self.name, "stream": True}, 0, tuple(as_sent(m) for m in said))
        if not request.tools:  # what was said earlier is to be summed up
            said = [UserMessage("sum up")]
        spoken = 0
        while not (isinstance(said[-1], UserMessage) and said[-1].source == "person"):
            spoken += isinstance(said.pop(), AssistantMessage)
        step = self.scripts[own_words(said[-1].text)][spoken]
        playing = (
            step(request) if callable(step) and not isinstance(step, type) else ScriptedModel(step).stream(request)
        )
        async with aclosing(playing) as events:
            async for event in events:
                yield event


def as_sent(message: Message) -> dict[str, Any]:
    if isinstance(message, UserMessage):
        return {"role": "user", "content": message.text}
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    calls = [{"id": c.id, "function": {"name": c.name, "arguments": c.arguments}} for c in message.tool_calls]
    return {"role": "assistant", "content": message.text, **({"tool_calls": calls} if calls else {})}


class Stage:
    """The server, the sessions behind it, and what the tools saw."""

    def __init__(
        self,
        folder: Path,
        language: str = "auto",
        exposure: str = "share",
        token: str = "",
        fence: Fence | None = None,
        tools: Sequence[Tool] = (),
        prover: Prover | None = None,
    ) -> None:
        """`exposure`: share, where each visitor has sessions of their own, or local, where all are one person's, who
        may keep a model in `.env` in the folder. `token`: what programs must bring. `fence`: the agent has the real
        tools for processes in the background, behind it. `tools`: more that the agent has. `prover`: what looks
        whether it is done."""
        self.model = Playbook()
        self.store = Store(folder, scrub=lambda text: text)
        self.sessions = Sessions(self.store, self._build)
        self.running: set[str] = set()
        """Commands that run now."""
        self.ran: list[str] = []
        """Commands that ran to their end."""
        self.warmed_up = False
        self._folder = folder
        self.checkpoints = Checkpoints(folder / "checkpoints")
        processes = Processes(fence, max_life_s=600) if fence else None
        started = background_tools(processes, CommandLimits(), look_s=0.1) if processes else []
        self._agent = Agent(
            self.model,
            Toolbox([*self._tools(), *started, *tools, delegate, *MEMORY_TOOLS], around=self.checkpoints.around),
            policy=Policy({Effect.SPEND: Verdict("ask", "it costs money")}),
            background=processes,
            checkpoints=self.checkpoints,
            prover=prover,
        )
        status = Status("playbook", True, "Nothing holds commands here.", "none", exposure)
        settings = Settings(port=0, language=language, api_token=SecretStr(token))  # type: ignore[arg-type]
        self.models = ChosenModels(self.model, settings, exposure == "local", folder / ".env")
        desk = Desk(1 << 30, 10_000)
        self.handlers = Handlers(self.sessions, self.sessions.create, status, language, self.models, Uploads(), desk)
        self._listener = listen("127.0.0.1", 0)
        self.address = address_of(self._listener, "127.0.0.1")
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(settings, ready), name="stage")
        self._thread.start()
        assert ready.wait(30), "the server did not start"

    def script(self, message: str, *steps: Step) -> str:
        """What the model does after this message."""
        self.model.scripts[message] = steps
        return message

    def on_loop(self, call: Callable[[], Any] | Coroutine[Any, Any, Any]) -> Any:
        """Run a function or a coroutine in the server's event loop and return its result."""

        async def run() -> Any:
            return call() if callable(call) else await call

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    def workspace(self, session_id: str) -> Path:
        """Where the session's tools work."""
        return self._folder / session_id / "workspace"

    def until(self, condition: Callable[[], bool], seconds: float = 40) -> None:
        """Wait until this is true in the server's event loop."""
        deadline = time.monotonic() + seconds
        while not self.on_loop(condition):
            assert time.monotonic() < deadline, "it did not happen in time"
            time.sleep(0.02)

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._listener.close()
        self.checkpoints.close()
        self.store.close()

    def _serve(self, settings: Settings, ready: threading.Event) -> None:
        async def serve() -> None:
            self._loop = asyncio.get_running_loop()  # gradio, where it finds none, makes several and closes none
            app, page = web_app(self.handlers, self.sessions, settings)
            self._server = Server(app, page, self.handlers, self.sessions, ready.set, self._warm_up)
            await self._server.serve([self._listener])

        asyncio.run(serve())

    async def _warm_up(self) -> None:
        self.warmed_up = True
        raise ModelError("unreachable", "An engine that does not run.")

    def _build(self, owner: str, id: str, log: EventLog) -> Session:
        workspace, outbox = self.workspace(id), self._folder / id / "outbox"
        workspace.mkdir(parents=True, exist_ok=True)
        outbox.mkdir(exist_ok=True)
        if not (workspace / "notes.md").exists():  # a conversation that is opened again finds what it left
            (workspace / "notes.md").write_text("three\nlines\nhere\n")
        agent, memory = replace(self._agent, model=self.models.of(id)), self.store.memories(owner)
        return Session(agent, workspace, outbox, owner, log, id, memory=memory)

    def _tools(self) -> list[Any]:
        def reach(values: Mapping[str, Any]) -> Effect:
            return Effect.SPEND if "pay" in values["command"] else Effect.EXECUTE

        @tool(Effect.EXECUTE, reach=reach, atoms=atoms)
        async def run_command(context: ToolContext, command: str) -> ToolResult:
            """Pretend to run a command; one with `sleep` in it never ends by itself."""
            self.running.add(command)
            try:
                for number in range(3):
                    context.emit(f"line {number} of {command}\n")
                    await asyncio.sleep(0.02)
                if "sleep" in command:
                    await asyncio.Event().wait()
            finally:
                self.running.discard(command)
            self.ran.append(command)
            return ToolResult(f"output of {command}", details={"exit_code": 0, "lines": 12})

        @tool(Effect.READ)
        async def send_file(context: ToolContext, name: str) -> ToolResult:
            """Hand over a file of this name."""
            path = context.outbox / name.replace("/", "_")
            mime = "text/html"
            if name.endswith(".png"):
                Image.new("RGB", (60, 40), "teal").save(path)
                mime = "image/png"
            else:
                path.write_bytes(PAGE_BYTES)
            return ToolResult("sent", files=(File(str(path), name, mime, path.stat().st_size),))

        @tool(Effect.WRITE)
        async def write_file(context: ToolContext, path: str, text: str) -> ToolResult:
            """Write a text file in the workspace."""
            await asyncio.to_thread((context.workspace / path).write_text, text)
            return ToolResult(f"wrote {path}")

        @tool(Effect.WRITE)
        async def write_files(context: ToolContext, paths: list[str], text: str) -> ToolResult:
            """Write the same text into several files."""
            for path in paths:
                await asyncio.to_thread((context.workspace / path).write_text, text)
            return ToolResult(f"wrote {len(paths)} files")

        return [run_command, send_file, write_file, write_files]


def calls(*named: tuple[str, dict[str, Any]], text: str = "", key: str = "") -> AssistantMessage:
    """A reply with calls whose ids are its own."""
    unique = key or secrets.token_hex(4)
    made = (ToolCall(f"{unique}_{i}", name, json.dumps(values)) for i, (name, values) in enumerate(named))
    return AssistantMessage(text, tool_calls=tuple(made))


def streamed(*pieces: str | Gate, reply: str) -> Play:
    """Pieces with gates between them, then the whole reply."""

    async def play(request: Request) -> AsyncGenerator[ModelEvent, None]:
        for piece in pieces:
            if isinstance(piece, Gate):
                await piece.wait()
            else:
                yield TextDelta(piece)
        async with aclosing(ScriptedModel(reply).stream(request)) as events:
            async for event in events:
                if not isinstance(event, TextDelta):
                    yield event

    return play


def retried(gate: Gate, reply: str) -> Play:
    """One attempt that fails, and one that does not."""

    async def play(request: Request) -> AsyncGenerator[ModelEvent, None]:
        yield TextDelta("half a wrong answ")
        yield Retrying("rate_limited", "429", 8.0, 2)
        await gate.wait()
        async with aclosing(ScriptedModel(reply).stream(request)) as events:
            async for event in events:
                yield event

    return play
