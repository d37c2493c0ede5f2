"""The Images API: one picture from one prompt, from any server that speaks it.

Knows the API's parameters, the two ways in which a picture comes back (base64, or an address to fetch it from), and how
a server says no. Refuses to know what becomes of the bytes: they are handed on unchecked. It works inside a tool, so
its errors are ToolErrors, worded for the model; the key is in none of them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai

from agent.errors import ToolError
from agent.llm.pictures import at_most, fetch_picture, from_base64

OPENAI_BASE_URL = "https://api.openai.com/v1"
MAX_ANSWER_BYTES = 64 << 20
_MAX_DETAIL_CHARS = 500

_UNKNOWN_PARAMETER = re.compile(
    r"unknown (parameter|field|name|argument)|unrecogni[sz]ed|unsupported parameter|unexpected keyword"
    r"|extra (inputs|fields)|not permitted",
    re.IGNORECASE,
)
_MODERATED = ("moderation_blocked", "content_policy_violation", "content_filter", "safety")


@dataclass(frozen=True)
class ImageServer:
    """Where pictures come from, and what the operator wants them to be like."""

    base_url: str = OPENAI_BASE_URL
    """Up to and including /v1."""
    api_key: str = field(default="", repr=False)
    model: str = "gpt-image-2"
    size: str = "auto"
    """Width x height in pixels, or auto: the server's own choice."""
    quality: str = "auto"
    timeout_s: float = 180.0
    """For one picture. The slow models take a minute or two."""


@dataclass(frozen=True)
class GeneratedImage:
    """A picture as the server sent it."""

    data: bytes = field(repr=False)
    """Encoded, in whatever format, and not checked."""
    revised_prompt: str = ""
    """What the server made of the prompt; empty where it does not say."""


class OpenAIImages:
    """A client of one server. It learns which optional parameters the server refuses, and holds no connection."""

    def __init__(self, server: ImageServer) -> None:
        self.server = server
        self._refused: set[str] = set()

    async def generate(self, prompt: str, size: str | None = None, quality: str | None = None) -> GeneratedImage:
        """One picture. `size` and `quality` of None are the server's settings. Raises ToolError.

        Never asked for twice: a second try may be charged for, so that is the model's decision.
        """
        chosen = {name: value for name, value in (("size", size), ("quality", quality)) if value}
        options = {"size": self.server.size, "quality": self.server.quality} | chosen
        options = {name: value for name, value in options.items() if value != "auto" and name not in self._refused}
        answering = self._picture_for(prompt, options, frozenset(chosen))
        try:
            return await asyncio.wait_for(answering, self.server.timeout_s)
        except (asyncio.TimeoutError, openai.APITimeoutError):
            raise ToolError(
                f"the image service took longer than {self.server.timeout_s:g} s. A smaller size or a lower quality "
                "is faster"
            ) from None

    async def _picture_for(self, prompt: str, options: dict[str, str], chosen: frozenset[str]) -> GeneratedImage:
        return await self._picture(await self._answer(prompt, options, chosen))

    async def _answer(self, prompt: str, options: dict[str, str], chosen: frozenset[str]) -> Mapping[str, Any]:
        """Ask, each time without the option that was refused, until the server is content."""
        async with openai.AsyncOpenAI(
            api_key=self.server.api_key or "none",
            base_url=self.server.base_url or OPENAI_BASE_URL,
            timeout=self.server.timeout_s,
            max_retries=0,
        ) as client:
            while True:
                try:
                    return await self._ask(client, prompt, options)
                except openai.APIStatusError as error:
                    name = _refused_option(error, options, chosen)
                    if name is None:
                        raise ToolError(self._explain(error)) from None
                    self._refused.add(name)
                    options = {key: value for key, value in options.items() if key != name}
                except openai.APITimeoutError:
                    raise
                except (openai.APIConnectionError, httpx2.HTTPError):
                    raise ToolError("the image service cannot be reached. Trying again later may help") from None

    async def _ask(self, client: openai.AsyncOpenAI, prompt: str, options: dict[str, str]) -> Mapping[str, Any]:
        images: Any = client.images.with_streaming_response  # typed for the values that OpenAI's own server knows
        async with images.generate(model=self.server.model, prompt=prompt, **options) as response:
            raw = await at_most(response.iter_bytes(), MAX_ANSWER_BYTES)
        try:
            answer = json.loads(raw)
        except ValueError:
            raise ToolError("the image service sent something that is no answer (not JSON)") from None
        if not isinstance(answer, dict):
            raise ToolError("the image service sent an answer without a picture")
        return answer

    # ------------------------------------------------------------------ what came back

    async def _picture(self, answer: Mapping[str, Any]) -> GeneratedImage:
        entries = answer.get("data") or answer.get("images")
        entry = entries[0] if isinstance(entries, list) and entries else None
        if not isinstance(entry, dict):
            said = answer.get("error") or answer.get("message") or "nothing about why"
            raise ToolError(f"the image service sent no picture. It said: {self._words(said)}")
        encoded, url = entry.get("b64_json"), entry.get("url")
        if isinstance(encoded, str) and encoded:
            data = from_base64(encoded)
        elif isinstance(url, str) and url:
            data = await fetch_picture(url, self.server.base_url)
        else:
            raise ToolError("the image service sent an answer without a picture")
        revised = entry.get("revised_prompt")
        return GeneratedImage(data, revised if isinstance(revised, str) else "")

    # ------------------------------------------------------------------ when the server says no

    def _explain(self, error: openai.APIStatusError) -> str:
        said = self._words(_said(error))
        if _is_moderation(error):
            return (
                "the image service refused this prompt for safety reasons. Tell the user, or describe something "
                f"else; the same words will be refused again. It said: {said}"
            )
        if error.status_code in (401, 403):
            return (
                "the image service refused the key, and only the user can put that right (OPENAI_IMAGE_API_KEY or the "
                f"right to use this model). It said: {said}"
            )
        if error.status_code == 404:
            return (
                f"the image service knows no model {self.server.model!r} or has no Images API, and only the user can "
                f"put that right (OPENAI_IMAGE_MODEL, OPENAI_IMAGE_BASE_URL). It said: {said}"
            )
        if error.status_code == 429:
            return f"the image service takes no more requests now (rate limit or quota). It said: {said}"
        if error.status_code >= 500:
            return (
                f"the image service failed (status {error.status_code}). Trying again later may help. It said: {said}"
            )
        return f"the image service refused the request. It said: {said}"

    def _words(self, said: Any) -> str:
        """The server's own words, short and without the key."""
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str)
        if self.server.api_key:
            text = text.replace(self.server.api_key, "[key]")
        return text[:_MAX_DETAIL_CHARS]


def _refused_option(error: openai.APIStatusError, options: Mapping[str, str], chosen: frozenset[str]) -> str | None:
    """The option to leave out from now on; None where the refusal is about something else.

    A value that the model chose and the server does not like is the model's to change, so it is not left out.
    """
    if error.status_code not in (400, 422) or _is_moderation(error):
        return None
    said = _said(error)
    name = error.param if error.param in options else next((o for o in options if re.search(rf"\b{o}\b", said)), None)
    unknown = error.code in ("unknown_parameter", "unsupported_parameter") or _UNKNOWN_PARAMETER.search(said)
    return None if name in chosen and not unknown else name


def _said(error: openai.APIStatusError) -> str:
    """The server's own words: its message, or the whole of an answer that has another shape."""
    if isinstance(error.body, Mapping):
        message = error.body.get("message")
        return message if isinstance(message, str) else json.dumps(error.body, ensure_ascii=False, default=str)
    return error.message


def _is_moderation(error: openai.APIStatusError) -> bool:
    return any(word in (error.code or "") for word in _MODERATED) or "safety system" in _said(error)
