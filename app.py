#!/usr/bin/env python3
"""Start here. The browser app, the command line and the Python door: several ways to one and the same loop.

    python app.py                          the browser app
    python app.py --share                  the same, with a public address for others
    python app.py --task "List the files"  one task in the terminal
    python app.py doctor                   what works here, what does not, what to do
    python app.py sandbox -- ls /          one command behind the fence
    python app.py audit verify             is the trail of all tool calls as it was written
    python app.py replay FILE              a recording, played again
    python app.py report latest -o x.html  a session as one file

From a program of your own:

    import asyncio
    from agent.events import TurnEnded
    from app import open_session

    async def main():
        async with open_session() as session:
            session.send("What time is it?")
            async for batch in session.log.follow():
                for entry in batch:
                    print(entry.event)
                if isinstance(batch[-1].event, TurnEnded):
                    return

    asyncio.run(main())

The only file that knows every package: settings, model, fence, tools, agent and session are put together here, each
made once and handed to whoever needs it. Refuses to know how any of them does its work.
"""

from __future__ import annotations

import sys

from ui.arguments import Arguments, parse_arguments

if __name__ == "__main__":
    ARGUMENTS = parse_arguments(sys.argv[1:])

import asyncio
import io
import ipaddress
import logging
import os
import secrets
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from agent.agent import Agent
from agent.audit import as_csv, as_json_lines, verify
from agent.delegation import delegate
from agent.errors import ModelError, NotKept, Refused, SettingsError, StoreError
from agent.expectations import lines_in
from agent.limits import Limits
from agent.llm.chosen import ChosenModels
from agent.llm.connect import connect
from agent.llm.demo import DemoModel
from agent.llm.images import OPENAI_BASE_URL, ImageServer, OpenAIImages
from agent.llm.late import WarmsUp, close, connect_late
from agent.llm.model import Model, ToolSpec
from agent.log import EventLog
from agent.memory import MEMORY_TOOLS
from agent.own_workspaces import OwnWorkspaces
from agent.plan import PROMPT as PLAN_PROMPT
from agent.plan import update_plan
from agent.policy import Exposure, Policy, default_mode
from agent.prices import load_prices
from agent.prompts import system_prompt
from agent.session import Session
from agent.sessions import HOME_OWNER, Sessions
from agent.settings import Settings, env_file_warnings
from agent.store import Store
from agent.tool import Effect, Toolbox
from agent.workspace_rules import WorkspaceRules
from tools import Desk, Processes, Reader, Uploads, keep_whole, standard_tools
from tools.checkpoint import Checkpoints
from tools.proving import Proving
from tools.sandbox import Command, Fence, Scrubber, probe, seal_own_process, shell_argv, shell_rule
from tools.sandbox import Exposure as Visitors
from ui import doctor
from ui.arguments import Door
from ui.cli import ask_in_terminal, run_task, say, show_finding, show_json, show_text, show_verdict
from ui.cli_texts import CLI_TEXTS, DOCTOR_TEXTS, CliTexts, language_of

HERE = Path(__file__).resolve().parent
ENV_FILE = HERE / ".env"
"""The only one that is read: one in the workspace may be the agent's own work."""

HOME_LIFE_S, STRANGERS_LIFE_S = 4 * 3600.0, 900.0
"""How long a process may go on in the background: strangers leave, and what they started stays."""

TIDY_EVERY_S = 6 * 3600.0

logger = logging.getLogger(__name__)

DEMO = "demo"
"""As OPENAI_CHAT_MODEL or --model: the demo model, whatever else is set."""


# ------------------------------------------------------------------ the parts


def load_settings(overrides: Mapping[str, str] | None = None, env_file: Path = ENV_FILE) -> Settings:
    """The settings, with every folder absolute: a relative one lies beside this file. Raises SettingsError."""
    settings = Settings.load(env_file, overrides=overrides)
    workspace, data = ((HERE / path.expanduser()).resolve() for path in (settings.workspace_dir, settings.data_dir))
    if HERE.is_relative_to(workspace):
        raise SettingsError(f"WORKSPACE_DIR: {workspace} holds the app itself. For example: WORKSPACE_DIR=workspace")
    if data.is_relative_to(workspace):
        raise SettingsError(f"GLASSLOOP_DATA: {data} lies in the workspace, where the agent could change it.")
    found: dict[str, Path | str] = {"workspace_dir": workspace, "data_dir": data}
    if settings.space_id and "host" not in settings.model_fields_set:
        found["host"] = "0.0.0.0"  # a Space's visitors come from outside its machine
    return settings.model_copy(update=found)


def exposure_of(settings: Settings, share: bool = False) -> Exposure:
    """Who can reach the page. An address that is not certainly this machine's own counts as open to others."""
    if settings.space_id:
        return "space"
    return "local" if _is_loopback(settings.host) and not share else "share"


async def connect_model(settings: Settings) -> Model:
    """The model of this process, for the event loop it is called in. Raises ModelError or SettingsError."""
    return DemoModel() if settings.chat_model == DEMO else await connect(settings)


async def page_model(settings: Settings) -> tuple[Model, str]:
    """The model for the page's event loop, and what is wrong with it at the moment (empty: nothing)."""
    if settings.local_model:  # it takes long to load, opens no connection before it is asked, and cannot be away
        return await connect_model(settings), ""
    return await connect_late(partial(connect_model, settings), settings.chat_model)


def build_agent(
    settings: Settings,
    model: Model,
    fence: Fence,
    exposure: Exposure = "local",
    checkpoints: Checkpoints | None = None,
) -> Agent:
    """What is the same for every visitor. Where the fence is too weak for those who may come, there is no shell.

    Raises SettingsError for a system prompt or a table of prices that cannot be read.
    """
    strength = fence.boundary.strength
    policy = Policy.of(settings.mode or default_mode(strength), strength, exposure)
    shell = shell_rule(Visitors(exposure), strength) != "off" and policy.rules[Effect.EXECUTE].answer != "deny"
    at_home = exposure == "local"
    processes = Processes(fence, max_life_s=HOME_LIFE_S if at_home else STRANGERS_LIFE_S) if shell else None
    tools = standard_tools(
        fence if shell else None,
        image_client(settings, exposure),
        settings.data_dir / "images",
        scrubber=Scrubber(settings.secrets()),
        processes=processes,
        network=at_home,
        reader=Reader(fence),
    )
    if settings.memory == "on":
        tools += MEMORY_TOOLS
    habits = ""
    if settings.plan != "off":
        tools.append(update_plan)
        habits = PLAN_PROMPT
    boundary = fence.boundary.line if shell else "nowhere, they are switched off"
    return Agent(
        model=model,
        toolbox=Toolbox([*tools, delegate], keep_whole, around=checkpoints.around if checkpoints else None),
        system_prompt=system_prompt(settings.system_prompt_file, HERE, boundary, habits),
        policy=policy,
        limits=limits_of(settings, binding=exposure != "local"),
        prices=load_prices(settings.data_dir, HERE),
        background=processes,
        checkpoints=checkpoints,
        plan_first=settings.plan == "always",
        prover=Proving(fence if shell else None, scrubber=Scrubber(settings.secrets())),
    )


def limits_of(settings: Settings, binding: bool = False) -> Limits:
    """How much a turn and a session may take. `binding`: those who come cannot raise it."""
    return Limits(
        max_steps=settings.max_steps,
        max_tokens=settings.max_tokens,
        max_cost=settings.max_cost,
        max_seconds=settings.max_seconds,
        session_steps=settings.session_max_steps,
        session_tokens=settings.session_max_tokens,
        session_cost=settings.session_max_cost,
        session_seconds=settings.session_max_seconds,
        binding=binding,
        context_tokens=settings.context_tokens,
    )


def image_client(settings: Settings, exposure: Exposure = "local") -> OpenAIImages | None:
    """The image service; None where nothing says that there is one.

    The chat model's key goes to the chat model's server and to no other. Where strangers come, pictures have to be
    meant for them: the operator gives the service a key of its own.
    """
    chat_server = settings.base_url or OPENAI_BASE_URL
    base_url = settings.image_base_url or chat_server
    own_key = settings.image_api_key.get_secret_value()
    key = own_key or (settings.api_key.get_secret_value() if base_url == chat_server else "")
    if not (settings.image_base_url or key) or (exposure != "local" and not own_key):
        return None
    return OpenAIImages(
        ImageServer(
            base_url=base_url,
            api_key=key,
            model=settings.image_model,
            size=settings.image_size,
            quality=settings.image_quality,
        )
    )


def open_store(settings: Settings) -> Store:
    """Where sessions are kept. Raises StoreError."""
    return Store(settings.data_dir, Scrubber(settings.secrets()).scrub, settings.database_url.get_secret_value())


def new_session(
    agent: Agent,
    settings: Settings,
    owner: str = "",
    exposure: Exposure = "local",
    id: str = "",
    log: EventLog | None = None,
    store: Store | None = None,
) -> Session:
    """A conversation, new or opened again. At home it works in the workspace itself, strangers get one each.

    `store`: where memories of the owner are kept; None: it has no memory.
    """
    id = id or secrets.token_urlsafe(16)
    at_home = exposure == "local"
    workspace = settings.workspace_dir if at_home else own_workspaces(settings).open(id)
    workspace.mkdir(parents=True, exist_ok=True)
    rules = WorkspaceRules(settings.data_dir / "rules.json") if at_home else None
    memory = store.memories(owner) if store is not None and settings.memory == "on" else None
    return Session(agent, workspace, settings.data_dir / "files" / id, owner, log, id, rules, memory)


def own_workspaces(settings: Settings) -> OwnWorkspaces:
    """The workspaces of strangers: at first a copy of the app's, then theirs."""
    return OwnWorkspaces(settings.data_dir / "workspaces", settings.workspace_dir)


# ------------------------------------------------------------------ the doors


@asynccontextmanager
async def open_session(settings: Settings | None = None) -> AsyncIterator[Session]:
    """The Python door: one session, stopped and closed at the end, and kept where the page of this machine finds it.

    Raises SettingsError, ModelError, or StoreError.
    """
    settings = settings or load_settings()
    fence = await asyncio.to_thread(probe)
    store = open_store(settings)
    checkpoints = Checkpoints(settings.data_dir / "checkpoints")
    try:
        model = await connect_model(settings)
        if isinstance(model, DemoModel) and not sys.stderr.isatty():
            model = DemoModel(pause_s=0)  # nobody watches it write
        agent = build_agent(settings, model, fence, checkpoints=checkpoints)
        sessions = Sessions(store, lambda owner, id, log: new_session(agent, settings, owner, "local", id, log, store))
        try:
            yield sessions.create(HOME_OWNER)
        finally:
            await sessions.stop_all()
            await close(model)
    finally:
        checkpoints.close()
        store.close()


async def task_door(arguments: Arguments) -> int:
    """One task in the terminal."""
    settings = load_settings(arguments.overrides)
    texts = CLI_TEXTS[language_of(settings.language, settings.locale)]
    task = sys.stdin.read() if arguments.task == "-" else arguments.task
    if not task.strip():
        raise Refused(texts.no_task)
    expects = lines_in("\n".join(arguments.expects))
    async with open_session(settings) as session:
        if arguments.json:
            return await run_task(session, task, show_json, texts, ask=None, expects=expects)
        say(f"{texts.model.format(name=session.agent.model.name)}, {probe().boundary.line}")
        show = show_text(texts, no_color=bool(settings.no_color))
        return await run_task(session, task, show, texts, ask_in_terminal(texts), expects)


def page_door(arguments: Arguments) -> int:
    """The browser app. Comes back when it is ended."""
    settings = load_settings(arguments.overrides)
    texts = CLI_TEXTS[language_of(settings.language, settings.locale)]
    say(texts.loading)
    from ui.page import Share, Status, serve  # noqa: PLC0415 (gradio takes seconds to load, and only the page needs it)

    for warning in env_file_warnings(ENV_FILE):
        say(warning)
    fence = probe()
    say(fence.boundary.line)
    exposure = exposure_of(settings, arguments.share)
    model, problem = asyncio.run(page_model(settings))
    say(problem or texts.model.format(name=model.name))
    checkpoints = Checkpoints(settings.data_dir / "checkpoints")
    agent = build_agent(settings, model, fence, exposure, checkpoints)
    status = Status(model.name, model.name == DemoModel.name, fence.boundary.line, fence.boundary.strength, exposure)

    models = ChosenModels(model, settings, exposure == "local", ENV_FILE)

    def build(owner: str, id: str, log: EventLog) -> Session:
        return new_session(replace(agent, model=models.of(id)), settings, owner, exposure, id, log, store)

    share = Share(
        lambda url: say(texts.shared.format(url=url)), lambda why: say(texts.not_shared.format(why=texts.tunnel[why]))
    )
    store = open_store(settings)
    clear = clearing(settings, checkpoints, exposure)
    sessions = Sessions(store, build, clear)
    ended = threading.Event()
    tidying = threading.Thread(target=tidy, args=(store, checkpoints, clear, ended), name="tidy")
    tidying.start()
    try:
        announce = partial(_announce, texts, arguments.share)
        shown = [ToolSpec(tool.name, tool.description, tool.parameters) for tool in agent.toolbox]
        warm_up = partial(model.warm_up, shown) if isinstance(model, WarmsUp) else None
        shared = share if arguments.share else None
        intake = Uploads()
        desk = Desk(intake.limits.quota_bytes, intake.limits.quota_files)
        serve(sessions, sessions.create, settings, status, announce, models, shared, warm_up, intake, desk)
    except OSError as error:
        say(texts.no_port.format(reason=error.strerror or error))
        return 1
    finally:
        ended.set()
        tidying.join()
        sessions.leave_unused()
        store.close()
        checkpoints.close()
    return 0


def _announce(texts: CliTexts, share: bool, url: str) -> None:
    say(texts.address.format(url=url))
    if share:
        say(texts.sharing)


def clearing(settings: Settings, checkpoints: Checkpoints, exposure: Exposure) -> Callable[[str], None]:
    """Removes a stranger's workspace and its checkpoints; at home the workspace is the person's. Raises OSError."""
    workspaces = own_workspaces(settings)

    def clear(session_id: str) -> None:
        if exposure != "local":
            workspaces.clear(session_id)
            checkpoints.forget(workspaces.path(session_id))

    return clear


def tidy(store: Store, checkpoints: Checkpoints, clear: Callable[[str], None], ended: threading.Event) -> None:
    """Let go of what was deleted long ago and of checkpoints that are too old, now and then as the page is served."""
    while not ended.is_set():
        try:
            store.purge(clear=clear)
            checkpoints.prune()
        except (NotKept, StoreError, OSError) as error:
            logger.warning("old sessions and checkpoints were not cleared away: %s", error)
        ended.wait(TIDY_EVERY_S)


def audit_door(arguments: Arguments) -> int:
    """The audit trail: is it as it was written, or the trail itself on stdout. 1 where a row was tampered with."""
    store = open_store(load_settings(arguments.overrides))
    try:
        if arguments.audit == "export":
            for line in (as_csv if arguments.csv else as_json_lines)(store.audit_rows()):
                print(line)
            return 0
        report = verify(store)
    finally:
        store.close()
    if report.ok:
        print(f"ok: {report.rows} rows, each as it was written\nhead: {report.head or '-'}")
        return 0
    print(f"NOT ok: {report.why}\nsound up to row {report.rows}, whose hash is {report.head or '-'}")
    return 1


async def replay_door(arguments: Arguments) -> int:
    """A recording in the terminal. No model is asked and nothing runs."""
    from ui.looking_back import replay_file  # noqa: PLC0415 (reports need a web server's parts; a task does not)

    settings = load_settings(arguments.overrides)
    texts = CLI_TEXTS[language_of(settings.language, settings.locale)]
    show = show_text(texts, no_color=bool(settings.no_color))
    return await replay_file(Path(arguments.source), arguments.speed, arguments.step, show, texts)


def report_door(arguments: Arguments) -> int:
    """A session as one file: a report, or a recording."""
    from ui.looking_back import write_session  # noqa: PLC0415 (reports need a web server's parts; a task does not)

    settings = load_settings(arguments.overrides)
    language = language_of(settings.language, settings.locale)
    store = partial(open_store, settings)
    return write_session(arguments.source, Path(arguments.output), language, store, CLI_TEXTS[language])


async def doctor_door(arguments: Arguments) -> int:
    """Everything the app needs, tried for real."""
    try:
        settings = load_settings(arguments.overrides)
    except SettingsError as error:
        words = DOCTOR_TEXTS["en"]
        show_finding(doctor.Finding("bad", words["settings"], str(error), words["settings_advice"]))
        say(words["unwell"])
        return 1
    words = DOCTOR_TEXTS[language_of(settings.language, settings.locale)]
    fence = await asyncio.to_thread(probe)
    agent = build_agent(settings, DemoModel(), fence, exposure_of(settings))
    commands = {"allow": "on", "ask": "ask", "deny": "off"}[agent.policy.rules[Effect.EXECUTE].answer]
    findings = [
        *doctor.machine(ENV_FILE, settings, words),
        *doctor.sandbox(fence.boundary.line, fence.boundary.layers, commands, words),
    ]
    for finding in findings:
        show_finding(finding)
    async with aclosing(doctor.model_server(partial(connect_model, settings), settings, words)) as found:
        async for finding in found:
            findings.append(finding)
            show_finding(finding)
    pictures = doctor.images(settings.image_model, image_client(settings) is not None, words)
    show_finding(pictures)
    return show_verdict([*findings, pictures], words)


async def sandbox_door(arguments: Arguments) -> int:
    """One command, held exactly as the agent's are. Exits as the command does, with 1 where it was killed."""
    settings = load_settings(arguments.overrides)
    fence = await asyncio.to_thread(probe)
    say(fence.boundary.line)
    settings.workspace_dir.mkdir(parents=True, exist_ok=True)
    command = Command(shell_argv(arguments.script), settings.workspace_dir, settings.workspace_dir)
    outcome = await fence.run(command, on_output=lambda text: print(text, end="", flush=True))
    if outcome.reason != "exit" or outcome.error:
        say(f"{outcome.reason} {outcome.error or ''}".strip())
    return 1 if outcome.exit_code is None else outcome.exit_code


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def main(arguments: Arguments) -> int:
    """Go through the door that was asked for; the exit code."""
    seal_own_process()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that cannot show a character must not end a turn
    try:
        if arguments.door == "page":
            return page_door(arguments)
        if arguments.door == "audit":
            return audit_door(arguments)
        if arguments.door == "report":
            return report_door(arguments)
        return asyncio.run(ASYNC_DOORS[arguments.door](arguments))
    except (SettingsError, Refused) as error:
        say(str(error))
        return 2
    except (ModelError, StoreError) as error:
        say(str(error))
        return 1
    except BrokenPipeError:  # whoever read our output has gone; what is still in the buffer must not fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except KeyboardInterrupt:
        return 130


ASYNC_DOORS: Mapping[Door, Callable[[Arguments], Coroutine[None, None, int]]] = {
    "task": task_door,
    "doctor": doctor_door,
    "sandbox": sandbox_door,
    "replay": replay_door,
}

if __name__ == "__main__":
    sys.exit(main(ARGUMENTS))
