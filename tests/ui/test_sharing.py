"""Sharing without a tunnel to share through: what is said, and under which names the page answers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx
import pytest
from gradio.exceptions import ChecksumMismatchError, ShareCertificateWriteError

import app
from tests.test_app import settings_in
from ui.arguments import parse_arguments
from ui.cli_texts import CLI_TEXTS
from ui.harden import LOCAL_NAMES, Harden
from ui.sharing import Share, why


def opened(tunnel: object, names: set[str]) -> tuple[list[str], list[str]]:
    good: list[str] = []
    bad: list[str] = []
    Share(good.append, bad.append, tunnel).begin("127.0.0.1", 7860, names).join(20)  # type: ignore[arg-type]
    return good, bad


def test_the_public_name_is_answered_to_from_then_on() -> None:
    names = set(LOCAL_NAMES)
    asked: list[tuple[str, int]] = []

    def tunnel(host: str, port: int, token: str) -> str:
        assert len(token) >= 32
        asked.append((host, port))
        return "https://abc.share.test"

    assert opened(tunnel, names) == (["https://abc.share.test"], [])
    assert asked == [("127.0.0.1", 7860)] and names == {*LOCAL_NAMES, "abc.share.test"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx.ConnectError("no"), "offline"),
        (OSError("no"), "offline"),
        (RuntimeError("no"), "offline"),
        (PermissionError("no"), "folder"),
        (ShareCertificateWriteError("no"), "folder"),
        (ChecksumMismatchError("no"), "damaged"),
        (ValueError("no"), "refused"),
    ],
)
def test_a_tunnel_that_does_not_open_is_told_and_opens_nothing(error: Exception, code: str) -> None:
    names = set(LOCAL_NAMES)

    def tunnel(host: str, port: int, token: str) -> str:
        raise error

    assert opened(tunnel, names) == ([], [code]) and names == LOCAL_NAMES
    assert why(error) == code and all(code in texts.tunnel for texts in CLI_TEXTS.values())


def test_only_the_page_is_shared(capsys: pytest.CaptureFixture[str]) -> None:
    assert parse_arguments(["--share"]).share and not parse_arguments([]).share
    for others in (["--task", "x"], ["doctor"]):
        with pytest.raises(SystemExit):
            parse_arguments(["--share", *others])
    assert "--share goes with the browser app" in capsys.readouterr().err


def test_a_shared_app_has_strangers_from_its_first_moment(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    assert app.exposure_of(settings) == "local" and app.exposure_of(settings, share=True) == "share"


def test_a_space_is_open_to_the_outside_unless_it_is_told_otherwise(tmp_path: Path) -> None:
    assert settings_in(tmp_path, SPACE_ID="ann/space").host == "0.0.0.0"
    assert settings_in(tmp_path, SPACE_ID="ann/space", GLASSLOOP_HOST="127.0.0.1").host == "127.0.0.1"


@pytest.mark.parametrize(
    ("framed", "flags"),
    [(True, "SameSite=None; Secure; Partitioned"), (False, "SameSite=Lax")],
)
def test_the_cookie_reaches_a_page_in_a_frame_only_where_it_must(framed: bool, flags: str) -> None:
    async def nothing(scope: object, receive: object, send: object) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})  # type: ignore[operator]
        await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]

    async def ask() -> httpx.Response:
        skin = Harden(nothing, names=None if framed else LOCAL_NAMES, framed=framed)
        transport = httpx.ASGITransport(skin)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get("/")

    answer = asyncio.run(ask())
    assert answer.headers["set-cookie"].endswith(f"HttpOnly; {flags}")
    assert ("frame-ancestors" in answer.headers["content-security-policy"]) is not framed
