"""Which model answers: the one in the settings, else one found on this machine, else the demo model.

Knows the order of preference and where local servers listen. Refuses to know how any of them speaks.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Literal

import httpx2

from agent.errors import ModelError
from agent.llm.certificates import certificates
from agent.llm.client import OpenAIModel
from agent.llm.connection import ChatServer, read_models
from agent.llm.demo import DemoModel
from agent.llm.model import Model
from agent.settings import Settings

OPENAI_BASE_URL = "https://api.openai.com/v1"
LOCAL_SERVERS = (
    "http://127.0.0.1:11434/v1",  # Ollama
    "http://127.0.0.1:1234/v1",  # LM Studio
    "http://127.0.0.1:8080/v1",  # llama.cpp
    "http://127.0.0.1:8000/v1",  # vLLM
)
PROBE_S = 0.6
"""Long enough for a server on this machine, short enough not to be noticed at the start."""

_NO_CHAT = re.compile(
    r"embed|whisper|tts|speech|transcri|moderation|dall-?e|image|rerank|bge-|realtime|audio|vision-ocr|davinci|babbage"
    r"|sora|video|clip|stable-diffusion|flux",
    re.IGNORECASE,
)


async def connect(settings: Settings, local_servers: Sequence[str] = LOCAL_SERVERS) -> Model:
    """The model to use. Raises ModelError where one is configured and cannot be used, SettingsError for a bad name."""
    key = settings.api_key.get_secret_value()
    if key or settings.base_url:
        return await _configured(settings, key)
    if settings.local_model:
        # llama.cpp is 100 MB that most people do not have and do not need.
        from agent.llm.local import start_local  # noqa: PLC0415

        return await start_local(settings)
    found = await find_local(local_servers)
    if found is not None:
        base_url, model = found
        return OpenAIModel(server_for(settings, base_url, "", model))
    return DemoModel()


async def _configured(settings: Settings, key: str) -> Model:
    base_url = settings.base_url or OPENAI_BASE_URL
    model = OpenAIModel(server_for(settings, base_url, key, settings.chat_model))
    if settings.chat_model:
        return model
    try:
        names = await model.list_models()
    finally:
        await model.close()
    chosen = first_chat_model(names)
    if chosen is None:
        raise ModelError("unknown_model", "The server lists no chat model. Set OPENAI_CHAT_MODEL to the one to use.")
    return OpenAIModel(server_for(settings, base_url, key, chosen))


def first_chat_model(names: Sequence[str]) -> str | None:
    """The first that is not certainly something else, such as an embedding model."""
    return next((name for name in names if not _NO_CHAT.search(name)), None)


async def find_local(servers: Sequence[str] = LOCAL_SERVERS) -> tuple[str, str] | None:
    """Base URL and model of the first server on this machine that lists a chat model; None where there is none."""
    async with httpx2.AsyncClient(timeout=PROBE_S, trust_env=False, verify=certificates()) as http:
        found = await asyncio.gather(*(_probe(http, base_url) for base_url in servers))
    return next((hit for hit in found if hit is not None), None)


async def _probe(http: httpx2.AsyncClient, base_url: str) -> tuple[str, str] | None:
    try:
        answer = await http.get(f"{base_url}/models")
        model = first_chat_model(read_models(answer.json())) if answer.is_success else None
    except (httpx2.HTTPError, ValueError):
        return None  # nobody there, or somebody who speaks of other things
    return (base_url, model) if model else None


def model_for(server: ChatServer) -> OpenAIModel:
    """The model on this server; nothing is asked yet. Raises SettingsError for an unknown provider name."""
    return OpenAIModel(server)


def server_for(
    settings: Settings, base_url: str, key: str, model: str, protocol: Literal["auto", "tools", "json"] | None = None
) -> ChatServer:
    """A server with all that the settings say beside these. A pinned provider is pinned for its own address only."""
    own = base_url == (settings.base_url or OPENAI_BASE_URL)
    return ChatServer(
        base_url=base_url,
        api_key=key,
        model=model,
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
        first_token_timeout_s=settings.request_timeout_ms / 1000,
        idle_timeout_s=settings.idle_timeout_ms / 1000,
        provider=settings.provider if own or protocol is None else "auto",
        protocol=protocol or settings.protocol,
    )
