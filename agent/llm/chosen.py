"""Which model answers in which session: the app's own, until the person of the session connects another.

A choice is the session's alone. At home the latest one also starts new sessions, and can be written into `.env` for
the next start; where strangers come, each brings an address and a key of their own, reaches public addresses with it
and nothing of the app's. Keys stay in this process's memory and go to the server they were given for, to no other.

Knows choices. Refuses to know what a form looks like and how a model is asked.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agent.errors import Refused
from agent.llm.connect import OPENAI_BASE_URL, first_chat_model, model_for, server_for
from agent.llm.connection import ChatServer
from agent.llm.late import close
from agent.llm.model import Model
from agent.llm.public import BadWish, public_addresses
from agent.session import Session
from agent.settings import Settings, save_in_env_file

MOST_CHOICES = 1_000
"""Sessions whose choice is remembered; the oldest are forgotten first, and answer with the app's model again."""

Protocol = Literal["auto", "tools", "json"]
PROTOCOLS: tuple[Protocol, ...] = ("auto", "tools", "json")


@dataclass(frozen=True)
class Wish:
    """What a person asks for, as they wrote it."""

    base_url: str
    key: str
    """Empty: the one that is known for this address, if any."""
    model: str
    """Empty: the first chat model that the server lists."""
    protocol: str

    def __repr__(self) -> str:
        return f"Wish({self.base_url!r}, key=***, {self.model!r}, {self.protocol!r})"


class ChosenModels:
    """Of all sessions. Belongs to one event loop."""

    def __init__(self, default: Model, settings: Settings, at_home: bool = True, env_file: Path | None = None) -> None:
        """`env_file`: where a choice may be kept for the next start; None: nowhere."""
        self.default = default
        self.at_home = at_home
        self.env_file = env_file if at_home else None
        self._settings = settings
        self._of: OrderedDict[str, ChatServer] = OrderedDict()
        """By session."""
        self._last: ChatServer | None = None
        self._keys: dict[str, str] = {}
        """By address, at home: what the person of this machine has given."""
        self._models: dict[ChatServer, Model] = {}
        self._closing: set[asyncio.Task[None]] = set()
        if settings.api_key.get_secret_value():
            self._keys[settings.base_url or OPENAI_BASE_URL] = settings.api_key.get_secret_value()

    def of(self, session_id: str) -> Model:
        """The model for a session that comes into memory, new or opened again."""
        server = self._of.get(session_id) or self._last
        if server is None:
            return self.default
        self._remember(session_id, server)
        return self._model(server)

    def server(self, session_id: str) -> ChatServer | None:
        """Where the session's model is, if it was chosen; None: it is the app's own."""
        return self._of.get(session_id)

    def own_server(self) -> ChatServer | None:
        """Where the app's own model is, as far as the settings say."""
        settings = self._settings
        if not (settings.api_key.get_secret_value() or settings.base_url):
            return None
        return server_for(settings, settings.base_url or OPENAI_BASE_URL, "", settings.chat_model)

    def has_key(self, session_id: str, base_url: str) -> bool:
        """Is a key known that may go to this address for this session?"""
        return bool(self._known_key(session_id, base_url))

    async def look_up(self, session: Session, wish: Wish) -> ChatServer:
        """The server that is wished for; nothing is asked yet. Raises BadWish for what makes no sense or may not be."""
        base_url = _address(wish.base_url)
        protocol: Protocol = next((one for one in PROTOCOLS if one == wish.protocol), "auto")
        if not self.at_home:
            await public_addresses(urlsplit(base_url).hostname or "")
        key = _one_line(wish.key) or self._known_key(session.id, base_url)
        if not key.isascii():
            raise BadWish("key", "a key has no signs of this kind")
        server = server_for(self._settings, base_url, key, _one_line(wish.model), protocol)
        return replace(server, public_only=not self.at_home)

    async def list_models(self, server: ChatServer) -> list[str]:
        """What the server lists. Raises ModelError."""
        model = model_for(server)
        try:
            return await model.list_models()
        finally:
            await model.close()

    async def named(self, server: ChatServer) -> ChatServer:
        """The same with a model's name, if it has none. Raises BadWish where none is found, ModelError."""
        if server.model:
            return server
        name = first_chat_model(await self.list_models(server))
        if name is None:
            raise BadWish("no_model", "the server lists no chat model; write the name of the one to use")
        return replace(server, model=name)

    def choose(self, session: Session, server: ChatServer) -> None:
        """From its next turn on the session is answered by this one; a turn that runs finishes with the old one."""
        model = self._model(server)
        before = self._of.pop(session.id, None)
        self._remember(session.id, server)
        if self.at_home:
            self._last = server
            self._keys[server.base_url] = server.api_key
        session.agent = replace(session.agent, model=model)
        self._let_go(before, session)

    def go_back(self, session: Session) -> None:
        """To the app's own model."""
        before = self._of.pop(session.id, None)
        if self.at_home:
            self._last = None
        session.agent = replace(session.agent, model=self.default)
        self._let_go(before, session)

    def save(self, server: ChatServer) -> list[str]:
        """Keep it for the next start. Gives the variables that the environment overrules.

        Raises Refused where there is no file for it, SettingsError where it cannot be written.
        """
        if self.env_file is None:
            raise Refused("it can be kept only by an app that is yours alone")
        values = {
            "OPENAI_BASE_URL": server.base_url,
            "OPENAI_API_KEY": server.api_key,
            "OPENAI_CHAT_MODEL": server.model,
            "AGENT_PROTOCOL": server.protocol,
        }
        return save_in_env_file(self.env_file, values)

    async def close(self) -> None:
        """Close every connection."""
        for task in list(self._closing):
            task.cancel()
        for model in [*self._models.values(), self.default]:
            await close(model)
        self._models.clear()

    # ------------------------------------------------------------------ inside

    def _known_key(self, session_id: str, base_url: str) -> str:
        server = self._of.get(session_id)
        if server is not None and server.base_url == base_url:
            return server.api_key
        return self._keys.get(base_url, "") if self.at_home else ""

    def _remember(self, session_id: str, server: ChatServer) -> None:
        self._of[session_id] = server
        self._of.move_to_end(session_id)
        if len(self._of) > MOST_CHOICES:
            _, forgotten = self._of.popitem(last=False)
            self._let_go(forgotten)

    def _model(self, server: ChatServer) -> Model:
        if server not in self._models:
            self._models[server] = model_for(server)
        return self._models[server]

    def _let_go(self, server: ChatServer | None, session: Session | None = None) -> None:
        """Close what no session uses any more, after the turn that still does."""

        async def let_go() -> None:
            if session is not None:
                await session.wait()
            if server is not None and server not in self._of.values() and server != self._last:
                model = self._models.pop(server, None)
                if model is not None:
                    await close(model)

        task = asyncio.create_task(let_go(), name="close a model")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _address(text: str) -> str:
    """A base URL in its plain form. Raises BadWish for what is none."""
    text = _one_line(text).rstrip("/").removesuffix("/chat/completions").rstrip("/")
    try:
        parts = urlsplit(text)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        sound = False
    if not sound or len(text) > 2_000:
        raise BadWish("address", "the server's address must start with http:// or https://, and mostly ends in /v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadWish("address_more", "the address holds more than an address; a key belongs in its own field")
    return text


def _one_line(text: str) -> str:
    """What a person has pasted, without blanks and line ends around it. Raises BadWish for several lines."""
    text = text.strip()
    if any(not char.isprintable() for char in text):
        raise BadWish("line_break", "a field holds a line break or another sign that cannot be seen")
    return text
