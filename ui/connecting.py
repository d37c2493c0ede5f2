"""What a person does in the model panel: list what a server has, try it, use it here, go back to the app's own.

What takes time is a task of the visit, so that the page is never kept waiting; what comes of it stands in the panel.
Who asks has been checked before (`ui/handlers.py`). Refuses to know gradio and how anything looks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from agent.errors import ModelError, Refused, SettingsError
from agent.llm.chosen import ChosenModels, Wish
from agent.llm.connect import model_for
from agent.llm.connection import ChatServer
from agent.llm.model import Model
from agent.llm.public import BadWish
from agent.session import Session
from agent.settings import Settings
from ui import doctor, model_panel
from ui.begun import Connecting
from ui.cli_texts import DOCTOR_TEXTS
from ui.doctor import Finding
from ui.history import Action
from ui.model_panel import Connection, Form
from ui.panels import Status
from ui.refused import why
from ui.replay import ReplaySession
from ui.texts import Words
from ui.visits import Visit, Visits

MAX_FIELD = 4_000
"""Characters of what is written into the form."""

_ADVICE = ("model_advice", "models_advice", "model_not_listed_advice", "no_call_advice")
"""What the doctor says for `.env`, and the panel for its own fields."""


class Connections:
    """The panel and its actions, by the name that a button gives."""

    def __init__(self, visits: Visits, models: ChosenModels, status: Status) -> None:
        self._visits, self._models, self._status = visits, models, status
        self.actions: dict[str, Action] = {
            "models": self._open,
            "models_close": self._close,
            "models_list": self._list,
            "models_test": self._test,
            "models_use": self._use,
            "models_back": self._back,
        }

    async def _open(self, visit: Visit, data: dict[str, Any]) -> None:
        if isinstance(visit.session, ReplaySession):
            raise Refused("this is a recording")
        self._end(visit)
        visit.connecting = Connecting(self._form(visit.session))
        visit.panel_bell.set()

    async def _close(self, visit: Visit, data: dict[str, Any]) -> None:
        self._end(visit)
        visit.panel_bell.set()

    async def _list(self, visit: Visit, data: dict[str, Any]) -> None:
        async def listed(connecting: Connecting, server: ChatServer) -> None:
            connecting.names = model_panel.listed_names(await self._models.list_models(server))

        self._begin(visit, data, "list", listed)

    async def _test(self, visit: Visit, data: dict[str, Any]) -> None:
        async def tested(connecting: Connecting, server: ChatServer) -> None:
            words: Mapping[str, str] = {
                **DOCTOR_TEXTS[visit.language],
                **{name: visit.words[f"test_{name}"] for name in _ADVICE},
            }

            async def connect() -> Model:
                return model_for(await self._models.named(server))

            settings = Settings(chat_model=server.model)
            async with aclosing(doctor.model_server(connect, settings, words)) as found:
                async for finding in found:
                    connecting.findings.append(_in_words(visit.words, finding))
                    visit.panel_bell.set()

        self._begin(visit, data, "test", tested)

    async def _use(self, visit: Visit, data: dict[str, Any]) -> None:
        async def used(connecting: Connecting, server: ChatServer) -> None:
            server = await self._models.named(server)
            session = self._visits.session(visit)
            saved = [visit.words["connect_used"].format(model=server.model)]
            if session.running:
                saved.append(visit.words["connect_used_later"])
            self._models.choose(session, server)
            connecting.form, connecting.form_number = self._form(session), connecting.form_number + 1
            if data.get("save") == "1":
                overruled = await asyncio.to_thread(self._models.save, server)
                saved.append(visit.words["connect_saved"])
                if overruled:
                    saved.append(visit.words["connect_overruled"].format(names=", ".join(overruled)))
            connecting.done = " ".join(saved)
            self._visits.ring(visit.owner)

        self._begin(visit, data, "use", used)

    async def _back(self, visit: Visit, data: dict[str, Any]) -> None:
        session = self._visits.session(visit)
        self._models.go_back(session)
        number = visit.connecting.form_number + 1 if visit.connecting else 0
        self._end(visit)
        visit.connecting = Connecting(self._form(session), number)
        visit.connecting.done = visit.words["connect_used"].format(model=session.agent.model.name)
        self._visits.ring(visit.owner)

    def _begin(
        self, visit: Visit, data: dict[str, Any], busy: str, work: Callable[[Connecting, ChatServer], Awaitable[None]]
    ) -> None:
        """Do this with the server that the form names, beside everything else; what goes wrong is said in the panel."""
        connecting = visit.connecting
        if connecting is None:
            return
        connecting.close()
        wish = Wish(*(str(data.get(name, ""))[:MAX_FIELD] for name in ("base_url", "key", "model", "protocol")))
        connecting.form = Form(wish.base_url.strip(), wish.model.strip(), wish.protocol)
        connecting.busy, connecting.problem, connecting.done = busy, "", ""
        connecting.findings = []
        session = self._visits.session(visit)

        async def run() -> None:
            try:
                await work(connecting, await self._models.look_up(session, wish))
            except (BadWish, ModelError, SettingsError, Refused) as error:
                connecting.problem = trouble(visit.words, error)
            finally:
                connecting.busy = ""
                visit.panel_bell.set()

        connecting.task = asyncio.create_task(run(), name=f"{busy} a model")
        visit.panel_bell.set()

    def _end(self, visit: Visit) -> None:
        if visit.connecting is not None:
            visit.connecting.close()
            visit.connecting = None

    def _form(self, session: Session) -> Form:
        """What the form starts with: where strangers come, nothing of the app's own."""
        server = self._models.server(session.id) or (self._models.own_server() if self._models.at_home else None)
        return Form(server.base_url, server.model, server.protocol) if server is not None else Form()

    # ------------------------------------------------------------------ markup

    def panel(self, visit: Visit) -> str:
        """The open panel; empty where none is."""
        connecting, session = visit.connecting, visit.session
        if connecting is None:
            return ""
        server = self._models.server(session.id)
        now = Connection(
            answers=session.agent.model.name,
            host=server.host if server is not None else "",
            demo=is_demo(self._status, session),
            own=server is None,
            key_known=self._models.has_key(session.id, connecting.form.base_url.rstrip("/")),
            at_home=self._models.at_home,
            may_save=self._models.env_file is not None,
            form_number=connecting.form_number,
            busy=connecting.busy,
            problem=connecting.problem,
            done=connecting.done,
            names=connecting.names,
            findings=tuple(connecting.findings),
        )
        return model_panel.panel(visit.words, connecting.form, now)

    def welcome(self, visit: Visit) -> str:
        """What an empty conversation says about the model: only where it is none."""
        return model_panel.invitation(visit.words) if is_demo(self._status, visit.session) else ""


def is_demo(status: Status, session: Session) -> bool:
    """Does a stand-in answer in this session?"""
    return status.demo and session.agent.model.name == status.model_name


def trouble(words: Words, error: BadWish | ModelError | SettingsError | Refused) -> str:
    """What went wrong, in the page's language, with the server's own words behind."""
    if isinstance(error, BadWish):
        return words[f"connect_no_{error.code}"]
    if isinstance(error, ModelError) and error.fault is not None:
        code = error.fault.code
        return f"{words.get(f'connect_fault_{code}', words[f'fault_{code}'])} {error.fault.detail}".strip()
    return words["refused"].format(why=why(words, error))


def _in_words(words: Words, finding: Finding) -> Finding:
    """A finding about a failure says so in the page's language."""
    if finding.error is None:
        return finding
    return replace(finding, text=trouble(words, finding.error), advice="")
