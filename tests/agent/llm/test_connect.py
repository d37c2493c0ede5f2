"""Which model answers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from agent.errors import ModelError, SettingsError
from agent.llm.client import ChatServer, OpenAIModel
from agent.llm.connect import connect, find_local, first_chat_model
from agent.llm.demo import DemoModel
from agent.llm.model import Window
from agent.settings import Settings


class Listing:
    """A server that lists models, and nothing else."""

    def __init__(self, answer: Any) -> None:
        body = answer if isinstance(answer, str) else json.dumps(answer)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path == "/v1/models" else 404)
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: Any) -> None:
                return

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def listing(request: pytest.FixtureRequest) -> Iterator[Listing]:
    server = Listing(request.param)
    yield server
    server.close()


MODELS = {"data": [{"id": "nomic-embed-text"}, {"id": "qwen3:8b"}]}


@pytest.mark.parametrize("listing", [{"data": [{"id": "m", "max_model_len": 65_536}]}], indirect=True)
async def test_a_model_reads_what_its_server_says_and_a_dead_one_says_nothing(listing: Listing) -> None:
    model = OpenAIModel(ChatServer(listing.url, "", "m"))
    assert model.window == Window(32_768, "default")
    await model.ask_window()
    assert model.window == Window(65_536, "server")
    await model.close()
    dead = OpenAIModel(ChatServer(nobody(), "", "m"))
    await dead.ask_window()
    assert dead.window == Window(32_768, "default")
    await dead.close()


def nobody() -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


def load(**variables: str) -> Settings:
    return Settings.load(environ=variables)


async def test_without_anything_the_demo_answers() -> None:
    assert isinstance(await connect(Settings(), [nobody()]), DemoModel)


@pytest.mark.parametrize("listing", [MODELS], indirect=True)
async def test_a_server_on_this_machine_is_found(listing: Listing) -> None:
    model = await connect(Settings(), [nobody(), listing.url])
    assert isinstance(model, OpenAIModel) and model.name == "qwen3:8b" and model.server.base_url == listing.url


@pytest.mark.parametrize(
    "listing", ["<html>a page</html>", {"data": []}, {"data": [{"id": "bge-m3"}]}, [1]], indirect=True
)
async def test_a_server_that_speaks_of_other_things_is_none(listing: Listing) -> None:
    assert await find_local([listing.url]) is None


@pytest.mark.parametrize("listing", [MODELS], indirect=True)
async def test_without_a_name_the_first_chat_model_is_taken(listing: Listing) -> None:
    settings = load(OPENAI_API_KEY="k" * 20, OPENAI_BASE_URL=listing.url, OPENAI_IDLE_TIMEOUT_MS="5000")
    model = await connect(settings)
    assert isinstance(model, OpenAIModel) and model.name == "qwen3:8b"
    assert model.server.idle_timeout_s == 5 and "k" * 20 not in repr(model.server)


async def test_a_server_that_was_named_and_is_not_there_is_an_error() -> None:
    with pytest.raises(ModelError):
        await connect(load(OPENAI_BASE_URL=nobody()))


async def test_a_provider_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(SettingsError, match="OPENAI_PROVIDER"):
        await connect(load(OPENAI_BASE_URL=nobody(), OPENAI_CHAT_MODEL="m", OPENAI_PROVIDER="nonsense"))


async def test_a_local_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no file"):
        await connect(load(LOCAL_MODEL=str(tmp_path / "none.gguf")))


def test_what_is_no_chat_model() -> None:
    assert (
        first_chat_model(["text-embedding-3-small", "whisper-1", "gpt-image-2", "tts-1", "gpt-5.5-mini"])
        == "gpt-5.5-mini"
    )
    assert first_chat_model([]) is None
