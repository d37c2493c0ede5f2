"""A model inside this process: llama.cpp with a GGUF file, behind an HTTP endpoint that only we can use.

Knows how to find the weights, to check them, and to start and stop the engine. Refuses to know how to talk to it: that
is `client.py`, with the JSON action protocol, because small models are lost with a list of tools. Imported only when
LOCAL_MODEL is set; needs `requirements-local.txt`.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agent.errors import SettingsError
from agent.llm.actions import decision
from agent.llm.client import OpenAIModel
from agent.llm.connection import ChatServer
from agent.llm.model import Request, ToolSpec
from agent.llm.names import Names
from agent.llm.profile import Profile
from agent.messages import UserMessage
from agent.settings import Settings

CONTEXT_TOKENS = 16_384
"""For all slots together."""
SLOTS = 2
"""One keeps the prompt for decisions in its cache, the other the one for answers."""
FIRST_TOKEN_S = 900.0
"""A long prompt takes minutes without a graphics card."""

_REPOSITORY = re.compile(r"^([\w.-]+/[\w.-]+)(?::([\w./-]+\.gguf))?$")
_PREFERRED = ("q4_k_m", "q4_k", "q4_0", "q5_k_m", "q8_0")


class LocalModel(OpenAIModel):
    """A `Model` that keeps its own engine alive."""

    def __init__(self, engine: Any, server: ChatServer) -> None:
        super().__init__(server)
        self._engine = engine

    async def warm_up(self, tools: Sequence[ToolSpec]) -> None:
        """Read the prompt for decisions about these tools once, so that the first question does not wait for it."""
        names = Names(tools)
        request = Request("", (UserMessage("Hello"),), tuple(tools))

        def question(profile: Profile) -> tuple[Request, dict[str, Any]]:
            ask, parameters = decision(request, names, profile)
            return ask, {**parameters, "max_tokens": 1}

        async for _ in self.exchange(Names(()), question):
            pass

    async def close(self) -> None:
        """Close the connections and stop the engine. The object cannot be used again."""
        await super().close()
        self._engine = None


async def start_local(settings: Settings) -> LocalModel:
    """Load LOCAL_MODEL and serve it on a free port under a random key. Raises SettingsError."""
    path = await asyncio.to_thread(find_weights, settings.local_model)
    key = secrets.token_urlsafe(24)
    engine = await asyncio.to_thread(_start, path, key)
    server = ChatServer(
        base_url=f"{engine.listening_address}/v1",
        api_key=key,
        model=path.stem,
        temperature=settings.temperature,
        max_output_tokens=settings.max_output_tokens,
        first_token_timeout_s=max(settings.request_timeout_ms / 1000, FIRST_TOKEN_S),
        idle_timeout_s=max(settings.idle_timeout_ms / 1000, FIRST_TOKEN_S),
        provider="local",
        protocol="json" if settings.protocol == "auto" else settings.protocol,
    )
    return LocalModel(engine, server)


def _start(path: Path, key: str) -> Any:
    try:
        import xllamacpp  # type: ignore[import-not-found, import-untyped, unused-ignore]  # noqa: PLC0415 100 MB that few need
    except ImportError:
        raise SettingsError(
            "LOCAL_MODEL needs a package more. Install it with: pip install -r requirements-local.txt"
        ) from None
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.model_alias = {path.stem}  # else it tells the whole path, and exports carry it
    parameters.hostnames = ["127.0.0.1"]
    parameters.port = 0
    parameters.api_keys = [key]
    parameters.cors_origins = "http://127.0.0.1"  # by default any web page may call it
    parameters.ui = False
    parameters.endpoint_slots = False
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.n_parallel = SLOTS
    parameters.verbosity = 0
    try:
        return xllamacpp.Server(parameters)
    except (RuntimeError, ValueError, OSError) as error:
        raise SettingsError(
            f"LOCAL_MODEL: {path.name} could not be loaded ({error}). Is it a whole GGUF file?"
        ) from None


# ------------------------------------------------------------------ weights


def find_weights(place: str) -> Path:
    """The GGUF file at a path, or in a Hub repository: `owner/name`, `owner/name:file.gguf`. Raises SettingsError."""
    path = Path(place).expanduser()
    if path.is_file():
        return path
    repository = _REPOSITORY.match(place)
    if repository is None or path.is_absolute():
        raise SettingsError(f"LOCAL_MODEL: there is no file {place}. For example: LOCAL_MODEL=/models/model.gguf")
    return _from_hub(repository.group(1), repository.group(2))


def _from_hub(repository: str, name: str | None) -> Path:
    """Download a file from its publisher, with the Hub's own progress bar, and compare its published hash."""
    from huggingface_hub import HfApi, hf_hub_download  # noqa: PLC0415 slow to import and seldom needed
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415

    try:
        info = HfApi().model_info(repository, files_metadata=True)
        hashes = {s.rfilename: s.lfs.sha256 for s in info.siblings or () if s.rfilename.endswith(".gguf") and s.lfs}
        chosen = name or choose_file(list(hashes))
        if chosen is None or chosen not in hashes:
            raise SettingsError(f"LOCAL_MODEL: {repository} holds no such GGUF file.")
        path = Path(hf_hub_download(repository, chosen, revision=info.sha))
    except (HfHubHTTPError, OSError) as error:
        raise SettingsError(f"LOCAL_MODEL: {repository} cannot be downloaded ({type(error).__name__}).") from None
    check_hash(path, hashes[chosen])
    return path


def choose_file(names: Sequence[str]) -> str | None:
    """The file that is a good bargain of size and sense; None where there is only one in several parts, or none."""
    whole = [name for name in names if not re.search(r"-\d{5}-of-\d{5}", name)]
    for kind in _PREFERRED:
        for name in sorted(whole):
            if kind in name.lower():
                return name
    return whole[0] if whole else None


def check_hash(path: Path, sha256: str) -> None:
    """Raises SettingsError where the file is not what its publisher published."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if not secrets.compare_digest(digest.hexdigest(), sha256):
        raise SettingsError(f"LOCAL_MODEL: {path.name} differs from what its publisher published. Delete it and retry.")
