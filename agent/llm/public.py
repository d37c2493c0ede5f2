"""Only public addresses: the way to a server that a stranger has named.

Whoever reaches the page of an app must not reach what only the app's machine can: its own services, its network, a
cloud's metadata. So the name is looked up once for each request, every address it has must be public, and the
connection goes to one that was looked at: a name that points elsewhere a moment later changes nothing. Redirects come
through here, too. And since the server is somebody's, what it sends has an end and is not packed: it must not fill
this machine's memory. Knows addresses. Refuses to know what is asked there.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from typing import Union

import httpx2

from agent.errors import Refused

_Address = Union[ipaddress.IPv4Address, ipaddress.IPv6Address]

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Addresses that hold an IPv4 address in their last four bytes (RFC 6052)."""

_NOT_GLOBAL = tuple(map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "64:ff9b:1::/48", "fec0::/10")))
"""What `is_global` takes for public in some versions of Python (RFC 6890, RFC 7526, RFC 8215, RFC 3879)."""


MAX_ANSWER_BYTES = 32 << 20
"""A long reply, with all that is around each of its words, is a few."""


class BadWish(Refused):
    """A server that cannot be had, with a code for the page's words."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def is_public(text: str) -> bool:
    """May a stranger have us connect to this IP address? Addresses that hold another one count as that one, too."""
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(map(_is_public, _reached(address)))


def _is_public(address: _Address) -> bool:
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    return not any(address in network for network in _NOT_GLOBAL)


def _reached(address: _Address) -> list[_Address]:
    """The address that a packet to this one gets to; for a tunnel's, also what it holds."""
    if isinstance(address, ipaddress.IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    if address in _NAT64:
        return [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)]
    return [one for one in (address, address.sixtofour, *(address.teredo or ())) if one is not None]


async def public_addresses(host: str) -> list[str]:
    """The IP addresses of a host. Raises BadWish where it has none, and where any of them is not public."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise BadWish("unknown_host", "the server's name is not known") from None
    addresses = list(dict.fromkeys(str(item[4][0]) for item in found))
    if not addresses or not all(map(is_public, addresses)):
        raise BadWish("private", "the server's address is not a public one")
    return addresses


class PublicTransport(httpx2.AsyncHTTPTransport):
    """HTTP to public addresses only. What is refused looks like a server that cannot be reached."""

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            addresses = await public_addresses(request.url.host)
        except Refused as refused:
            raise httpx2.ConnectError(str(refused), request=request) from None
        failed: httpx2.ConnectError | None = None
        for address in addresses:
            # The certificate and the Host header are still those of the name.
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=_asking_unpacked(request),
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": request.url.host},
            )
            try:
                response = await super().handle_async_request(pinned)
            except httpx2.ConnectError as error:  # nothing was sent yet; the next may be of the other IP version
                failed = error
            else:
                return await with_an_end(response, request)
        raise failed or httpx2.ConnectError("the server's name has no address", request=request)


def _asking_unpacked(request: httpx2.Request) -> httpx2.Headers:
    headers = httpx2.Headers(request.headers)
    headers["accept-encoding"] = "identity"
    return headers


async def with_an_end(response: httpx2.Response, request: httpx2.Request) -> httpx2.Response:
    """The answer, which breaks off where it is too long. Raises ConnectError for a packed one."""
    stream = response.stream
    assert isinstance(stream, httpx2.AsyncByteStream)
    if response.headers.get("content-encoding", "identity") != "identity":
        await stream.aclose()
        raise httpx2.ConnectError("the server packs what it sends, though it was asked not to", request=request)
    response.stream = _Bounded(stream)
    return response


class _Bounded(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = MAX_ANSWER_BYTES
        async for piece in self._stream:
            left -= len(piece)
            if left < 0:
                raise httpx2.ReadError(f"the server sent more than {MAX_ANSWER_BYTES >> 20} MB")
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()
