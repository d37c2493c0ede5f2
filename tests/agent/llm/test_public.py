"""What a stranger may have us connect to: public addresses, and nothing else, whatever the name says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from agent.errors import ModelError
from agent.llm.client import OpenAIModel
from agent.llm.connection import ChatServer
from agent.llm.public import MAX_ANSWER_BYTES, BadWish, PublicTransport, is_public, public_addresses, with_an_end
from tests.small_server import SmallServer

PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
NOT_PUBLIC = [
    *("127.0.0.1", "127.9.9.9", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254"),
    *("192.0.2.1", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "192.0.0.8"),
    *("::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1"),
    # addresses that hold one of the others
    *("::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::7f00:1"),
    *("2002:7f00:1::", "2002:a00:1::1", "::127.0.0.1"),
    *("", "localhost", "0x7f000001", "2130706433", "127.1"),  # not IP addresses: only what a resolver gave is judged
]


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert is_public(address)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "0x7f000001", "2130706433", "127.1", "[::1]", "0"])
async def test_a_name_is_what_the_resolver_makes_of_it(host: str) -> None:
    with pytest.raises(BadWish) as refused:
        await public_addresses(host.strip("[]"))
    assert refused.value.code in ("private", "unknown_host")


@pytest.fixture
def here() -> Iterator[SmallServer]:
    with SmallServer("the-key") as server:
        yield server


async def test_a_server_that_a_stranger_named_is_reached_at_public_addresses_only(here: SmallServer) -> None:
    model = OpenAIModel(ChatServer(here.url, "the-key", "small-1", public_only=True))
    with pytest.raises(ModelError) as failed:
        await model.list_models()
    await model.close()
    assert failed.value.fault is not None and failed.value.fault.code == "unreachable"
    assert here.asked == []
    open_to_all = OpenAIModel(ChatServer(here.url, "the-key", "small-1"))
    assert await open_to_all.list_models()
    await open_to_all.close()


class FromFarAway(PublicTransport):
    """A public server, `start.test`, that sends everybody on to another address."""

    def __init__(self, leads_to: str) -> None:
        super().__init__()
        self._leads_to = leads_to

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.host == "start.test":
            return httpx2.Response(302, headers={"location": self._leads_to}, request=request)
        return await super().handle_async_request(request)


async def test_a_redirect_leads_to_no_private_address(here: SmallServer) -> None:
    async with httpx2.AsyncClient(transport=FromFarAway(f"{here.url}/models"), follow_redirects=True) as client:
        with pytest.raises(httpx2.ConnectError, match="not a public one"):
            await client.get("http://start.test/v1/models")
    assert here.asked == []


class Endless(httpx2.AsyncByteStream):
    def __init__(self) -> None:
        self.sent, self.closed = 0, False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.sent += 1 << 20
            yield bytes(1 << 20)

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("packed", [False, True])
async def test_what_a_strangers_server_sends_has_an_end_and_is_not_packed(packed: bool) -> None:
    endless, request = Endless(), httpx2.Request("GET", "http://start.test/v1/models")
    answer = httpx2.Response(200, headers={"content-encoding": "gzip"} if packed else {}, stream=endless)
    with pytest.raises(httpx2.TransportError):
        await (await with_an_end(answer, request)).aread()
    await answer.aclose()
    assert endless.closed and endless.sent <= (0 if packed else MAX_ANSWER_BYTES + (1 << 20))
