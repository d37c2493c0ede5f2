"""The Images API: pictures from a prompt, and from other pictures, from any server that speaks it.

Knows the API's parameters, the ways in which a picture comes back (base64, or an address to fetch it from; at once, or
as a stream of ever better ones), and how a server says no. Refuses to know what becomes of the bytes: they are handed
on unchecked. It works inside a tool, so its errors are ToolErrors, worded for the model; the key is in none of them.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai

from agent.errors import ToolError
from agent.llm.certificates import certificates
from agent.llm.pictures import fetch_picture, from_base64
from agent.llm.sse import EventStream, Unreadable

OPENAI_BASE_URL = "https://api.openai.com/v1"
MAX_ANSWER_BYTES = 64 << 20
"""For each picture that is asked for."""
PARTIALS = 2
"""Unfinished pictures that are asked for on the way: each costs a little, and more are no use to anyone."""
_MAX_DETAIL_CHARS = 500

_UNKNOWN_PARAMETER = re.compile(
    r"unknown (parameter|field|name|argument)|unrecogni[sz]ed|unsupported parameter|unexpected keyword"
    r"|extra (inputs|fields)|not permitted",
    re.IGNORECASE,
)
_STREAMING = ("stream", "partial_images")
_MODERATED = ("moderation_blocked", "content_policy_violation", "content_filter", "safety")


_UNSAFE = (
    "the image service refused this prompt for safety reasons. Tell the user, or describe something else; the same "
    "words will be refused again. It said: {said}"
)

OnPartial = Callable[[bytes], None]


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


@dataclass(frozen=True)
class _Job:
    prompt: str
    images: tuple[bytes, ...]
    mask: bytes | None
    on_partial: OnPartial | None
    chosen: frozenset[str]
    """The options that the model has set."""
    most_bytes: int


class OpenAIImages:
    """A client of one server. It learns which optional parameters the server refuses, and holds no connection."""

    def __init__(self, server: ImageServer) -> None:
        self.server = server
        self._refused: set[str] = set()

    async def draw(
        self,
        prompt: str,
        *,
        size: str | None = None,
        quality: str | None = None,
        background: str | None = None,
        count: int = 1,
        images: Sequence[bytes] = (),
        mask: bytes | None = None,
        on_partial: OnPartial | None = None,
    ) -> list[GeneratedImage]:
        """`count` pictures; None is the server's setting. With `images` (PNG) they are made from those: where `mask`
        (PNG, as large as the first) is transparent. `on_partial` gets unfinished ones, encoded and unchecked, from
        servers that send them. Raises ToolError.

        Never asked for twice: a second try may be charged for, so that is the model's decision.
        """
        given = {"size": size, "quality": quality, "background": background, "n": count if count > 1 else None}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value}
        options: dict[str, Any] = {"size": self.server.size, "quality": self.server.quality} | chosen
        if on_partial is not None and count == 1:
            options |= {"stream": True, "partial_images": PARTIALS}
        options = {name: value for name, value in options.items() if value != "auto" and name not in self._refused}
        job = _Job(prompt, tuple(images), mask, on_partial, frozenset(chosen), MAX_ANSWER_BYTES * count)
        timeout_s = self.server.timeout_s * count
        try:
            return await asyncio.wait_for(self._pictures_for(job, options), timeout_s)
        except (asyncio.TimeoutError, openai.APITimeoutError):
            raise ToolError(
                f"the image service took longer than {timeout_s:g} s. A smaller size or a lower quality is faster"
            ) from None

    async def _pictures_for(self, job: _Job, options: dict[str, Any]) -> list[GeneratedImage]:
        answer = await self._answer(job, options)
        entries = answer.get("data") or answer.get("images")
        if not isinstance(entries, list) or not entries:
            said = answer.get("error") or answer.get("message") or "nothing about why"
            raise ToolError(f"the image service sent no picture. It said: {self._words(said)}")
        return [await self._picture(entry) for entry in entries]

    async def _answer(self, job: _Job, options: dict[str, Any]) -> Mapping[str, Any]:
        """Ask, each time without the option that was refused, until the server is content."""
        async with openai.AsyncOpenAI(
            api_key=self.server.api_key or "none",
            base_url=self.server.base_url or OPENAI_BASE_URL,
            timeout=self.server.timeout_s,
            max_retries=0,
            http_client=openai.DefaultAsyncHttpxClient(verify=certificates()),
        ) as client:
            while True:
                try:
                    return await self._ask(client, job, options)
                except openai.APIStatusError as error:
                    name = _refused_option(error, options, job.chosen)
                    if name is None:
                        raise ToolError(self._explain(error)) from None
                    gone = _STREAMING if name in _STREAMING else (name,)
                    self._refused.update(gone)
                    options = {key: value for key, value in options.items() if key not in gone}
                except openai.APITimeoutError:
                    raise
                except (openai.APIConnectionError, httpx2.HTTPError):
                    raise ToolError("the image service cannot be reached. Trying again later may help") from None

    async def _ask(self, client: openai.AsyncOpenAI, job: _Job, options: dict[str, Any]) -> Mapping[str, Any]:
        images: Any = client.images.with_streaming_response  # typed for the values that OpenAI's own server knows
        wanted = {"model": self.server.model, "prompt": job.prompt, **options}
        if job.images:
            files = [(f"image-{number}.png", data, "image/png") for number, data in enumerate(job.images, start=1)]
            wanted["image"] = files[0] if len(files) == 1 else files  # some servers know no list
            if job.mask is not None:
                wanted["mask"] = ("mask.png", job.mask, "image/png")
        async with (images.edit if job.images else images.generate)(**wanted) as response:
            return await self._read(response, job)

    async def _read(self, response: Any, job: _Job) -> Mapping[str, Any]:
        """The answer, whether it came at once or as a stream."""
        stream, held, done = EventStream(), 0, []
        try:
            async for piece in response.iter_bytes():
                held += len(piece)
                if held > job.most_bytes:
                    raise ToolError(f"the image service sent more than {job.most_bytes >> 20} MiB")
                for payload in stream.feed(piece):
                    done += self._told(payload, job)
            for payload in stream.close():
                done += self._told(payload, job)
        except (Unreadable, RecursionError):
            raise ToolError("the image service sent something that is no answer (broken JSON)") from None
        if not done:
            what = "not JSON" if stream.stray else "it broke off"
            raise ToolError(f"the image service sent something that is no answer ({what})")
        return done[0] if len(done) == 1 else {"data": [entry for one in done for entry in one.get("data") or ()]}

    def _told(self, payload: Any, job: _Job) -> list[Mapping[str, Any]]:
        """What one payload adds to the answer: nothing, where it is a picture on the way. Raises ToolError for a no."""
        if not isinstance(payload, dict):
            return [] if isinstance(payload, str) else [{}]
        kind = str(payload.get("type", ""))
        encoded = payload.get("b64_json")
        if kind.endswith("partial_image"):
            if job.on_partial is not None and isinstance(encoded, str):
                job.on_partial(from_base64(encoded))
            return []
        if kind == "error" or (payload.get("error") and not payload.get("data")):
            raise ToolError(self._explain_words(payload.get("error") or payload))
        if kind.endswith("completed") and (encoded or payload.get("url")):
            return [{"data": [payload]}]
        return [] if kind else [payload]

    # ------------------------------------------------------------------ what came back

    async def _picture(self, entry: Any) -> GeneratedImage:
        if not isinstance(entry, dict):
            raise ToolError("the image service sent an answer without a picture")
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
        if _is_moderation(error.code or "", _said(error)):
            return _UNSAFE.format(said=said)
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

    def _explain_words(self, error: Any) -> str:
        """A no in the middle of a stream, or with a status that says yes."""
        code = str(error.get("code") or error.get("type") or "") if isinstance(error, dict) else ""
        message = error.get("message") if isinstance(error, dict) else error
        said = self._words(message or error)
        if _is_moderation(code, said):
            return _UNSAFE.format(said=said)
        return f"the image service sent no picture. It said: {said}"

    def _words(self, said: Any) -> str:
        """The server's own words, short and without the key."""
        text = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False, default=str)
        if self.server.api_key:
            text = text.replace(self.server.api_key, "[key]")
        return text[:_MAX_DETAIL_CHARS]


def _refused_option(error: openai.APIStatusError, options: Mapping[str, Any], chosen: frozenset[str]) -> str | None:
    """The option to leave out from now on; None where the refusal is about something else.

    A value that the model chose and the server does not like is the model's to change, so it is not left out.
    """
    if error.status_code not in (400, 422) or _is_moderation(error.code or "", _said(error)):
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


def _is_moderation(code: str, said: str) -> bool:
    return any(word in code for word in _MODERATED) or "safety system" in said
