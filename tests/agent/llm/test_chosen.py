"""Which model answers in which session, and where a key goes."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from dotenv import dotenv_values
from pydantic import SecretStr

from agent.agent import Agent
from agent.errors import ModelError, Refused
from agent.llm.chosen import ChosenModels, Wish
from agent.llm.demo import DemoModel
from agent.llm.public import BadWish
from agent.session import Session
from agent.settings import Settings, save_in_env_file
from agent.tool import Toolbox
from tests.small_server import MODELS, SmallServer

KEY = "sk-small-0123456789"


@pytest.fixture
def server() -> Iterator[SmallServer]:
    with SmallServer(KEY) as small:
        yield small


def session_of(models: ChosenModels, folder: Path, id: str) -> Session:
    return Session(Agent(models.of(id), Toolbox([])), folder, folder, id=id)


async def said(session: Session, text: str) -> str:
    session.send(text)
    await session.wait()
    return session.transcript.messages[-1].text


async def test_a_choice_counts_from_the_next_turn_and_goes_back(server: SmallServer, tmp_path: Path) -> None:
    models = ChosenModels(DemoModel(0), Settings())
    session = session_of(models, tmp_path, "s1")
    chosen = await models.named(await models.look_up(session, Wish(server.url, KEY, "", "auto")))
    assert chosen.model == "small-1"  # the first chat model of the list
    models.choose(session, chosen)
    assert (await said(session, "Hello")).strip() == "The small model speaks."
    assert server.asked[-1] == ("/v1/chat/completions", KEY)
    assert session_of(models, tmp_path, "s2").agent.model.name == "small-1"  # at home new sessions have it, too
    models.go_back(session)
    before = len(server.asked)
    assert "small model" not in await said(session, "Hello")
    assert len(server.asked) == before
    await models.close()


async def test_a_key_goes_to_its_own_server_only(server: SmallServer, tmp_path: Path) -> None:
    with SmallServer("another") as other:
        models = ChosenModels(DemoModel(0), Settings(api_key=SecretStr(KEY), base_url=server.url))
        session = session_of(models, tmp_path, "s1")
        known = await models.look_up(session, Wish(f"{server.url}/chat/completions/", "", "", "auto"))
        assert await models.list_models(known) == list(MODELS)  # the key of the settings, at its own address
        elsewhere = await models.look_up(session, Wish(other.url, "", "", "auto"))
        with pytest.raises(ModelError):
            await models.list_models(elsewhere)
        assert KEY not in {key for _, key in other.asked}
        assert KEY not in f"{known!r} {models.server('s1')!r} {Wish('http://x', KEY, '', '')!r}"
        await models.close()


async def test_strangers_bring_their_own_and_share_nothing(server: SmallServer, tmp_path: Path) -> None:
    own = Settings(api_key=SecretStr(KEY), base_url=server.url)
    models = ChosenModels(DemoModel(0), own, at_home=False, env_file=tmp_path / ".env")
    session = session_of(models, tmp_path, "s1")
    with pytest.raises(BadWish) as refused:
        await models.look_up(session, Wish(server.url, "mine", "small-1", "auto"))
    assert refused.value.code == "private" and server.asked == []
    public = await models.look_up(session, Wish("https://8.8.8.8/v1", "mine", "some-model", "auto"))
    assert public.public_only
    models.choose(session, public)
    assert session_of(models, tmp_path, "s2").agent.model.name == DemoModel.name
    assert not models.has_key("s2", "https://8.8.8.8/v1") and not models.has_key("s1", server.url)
    with pytest.raises(Refused):
        models.save(public)
    await models.close()


@pytest.mark.parametrize(
    ("wish", "code"),
    [
        (Wish("", "", "", ""), "address"),
        (Wish("file:///etc/passwd", "", "", ""), "address"),
        (Wish("http://[::1", "", "", ""), "address"),
        (Wish("https://me:secret@host/v1", "", "", ""), "address_more"),
        (Wish("https://host/v1?key=1", "", "", ""), "address_more"),
        (Wish("https://host/v1", "a\nb", "", ""), "line_break"),
        (Wish("https://host/v1", "schlüssel", "", ""), "key"),
    ],
)
async def test_a_wish_that_makes_no_sense(wish: Wish, code: str, tmp_path: Path) -> None:
    models = ChosenModels(DemoModel(0), Settings())
    with pytest.raises(BadWish) as refused:
        await models.look_up(session_of(models, tmp_path, "s"), wish)
    assert refused.value.code == code


# ------------------------------------------------------------------ kept for the next start


def test_env_keeps_the_rest_of_the_file_and_no_old_key(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text("# mine\nWORKSPACE_DIR=here\nOPENAI_API_KEY=old\n")
    values = {"OPENAI_BASE_URL": "http://h/v1", "OPENAI_API_KEY": "new $x 'y'", "OPENAI_CHAT_MODEL": "m"}
    assert save_in_env_file(path, values) == []
    assert dotenv_values(path, interpolate=False) == {"WORKSPACE_DIR": "here", **values}
    assert path.read_text().startswith("# mine\n") and stat.S_IMODE(path.stat().st_mode) == 0o600
    loaded = Settings.load(path)
    assert (loaded.base_url, loaded.api_key.get_secret_value(), loaded.chat_model) == tuple(values.values())
