"""Pictures on their way to us: fetched from the address a server named, or decoded from its text.

Knows which addresses may be fetched: a server's word must not make us reach into our own machine or network. Refuses to
know what is in a picture. Works inside a tool, so its errors are ToolErrors, worded for the model.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
from collections.abc import AsyncIterator
from urllib.parse import unquote_to_bytes, urljoin, urlsplit

import httpx
import safehttpx  # type: ignore[import-untyped]

from agent.errors import ToolError
from agent.llm.certificates import certificates

MAX_IMAGE_BYTES = 40 << 20
MAX_REDIRECTS = 3
_FETCH_TIMEOUT_S = 60.0


async def fetch_picture(url: str, base_url: str) -> bytes:
    """Get a picture from where the server at `base_url` says it is: a public address, or that server itself.

    Raises ToolError for every other address, after each redirect anew. The server's key is not sent along.
    """
    if url.startswith("data:"):
        return _from_data_url(url)
    for _ in range(MAX_REDIRECTS + 1):
        _check_address(url)
        own = _same_machine(url, base_url)
        transport = None if own else await _public_only(url)
        try:
            async with (
                httpx.AsyncClient(
                    transport=transport, timeout=_FETCH_TIMEOUT_S, trust_env=not own, verify=certificates()
                ) as client,
                client.stream("GET", url) as response,
            ):
                if not response.has_redirect_location:
                    if response.status_code != 200:
                        raise ToolError(f"the picture could not be fetched (status {response.status_code})")
                    return await at_most(response.aiter_bytes(), MAX_IMAGE_BYTES)
                url = urljoin(url, response.headers["location"])
        except httpx.HTTPError as error:
            raise ToolError(f"the picture could not be fetched ({type(error).__name__})") from None
    raise ToolError("the picture could not be fetched: its address leads from one to the next")


async def at_most(pieces: AsyncIterator[bytes], limit: int) -> bytes:
    """All bytes of a stream. Raises ToolError as soon as they are more than `limit`."""
    data = bytearray()
    async for piece in pieces:
        data += piece
        if len(data) > limit:
            raise ToolError(f"the image service sent more than {limit >> 20} MiB")
    return bytes(data)


def from_base64(encoded: str) -> bytes:
    if encoded.startswith("data:"):
        return _from_data_url(encoded)
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        raise ToolError("the picture that the image service sent is broken (no sound base64)") from None


def _from_data_url(url: str) -> bytes:
    head, _, rest = url.partition(",")
    return from_base64(rest) if head.endswith(";base64") else unquote_to_bytes(rest)


def _check_address(url: str) -> None:
    try:
        sound = httpx.URL(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except (httpx.InvalidURL, ValueError):
        sound = False
    if not sound:
        raise ToolError("the image service sent an address that is not a web address")


def _same_machine(url: str, base_url: str) -> bool:
    """Does the address lead to the image server itself, or to this machine where the image server runs on it too?"""
    host, own = urlsplit(url).hostname or "", urlsplit(base_url).hostname or ""
    return host == own or (_is_loopback(host) and _is_loopback(own))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _public_only(url: str) -> httpx.AsyncBaseTransport:
    """A transport that talks to the one public address the host was found to have, whatever its name says later."""
    try:
        address = await safehttpx.async_validate_url(urlsplit(url).hostname)
    except ValueError:
        raise ToolError("the image service sent an address that is not a public one, so it is not fetched") from None
    if not ipaddress.ip_address(address).is_global:
        raise ToolError("the image service sent an address that is not a public one, so it is not fetched")
    transport: httpx.AsyncBaseTransport = safehttpx.AsyncSecureTransport(address)
    return transport
