"""The model panel in a real browser: a server is listed, tested, used and kept, and its key is seen nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.log import dump_entry
from tests.small_server import MODELS, SmallServer
from tests.ui.page_steps import idle, see, send
from tests.ui.stage import Stage

Open = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

KEY, WRONG = "qX7-kept-secret-55aa", "zz-other-91827364"


def test_another_model_is_connected_in_mid_conversation(tmp_path: Path, visitor: Open) -> None:
    stage = Stage(tmp_path, exposure="local")
    try:
        with SmallServer(KEY) as server:
            connect(stage, server, visitor, tmp_path / ".env")
    finally:
        stage.close()


def connect(stage: Stage, server: SmallServer, visitor: Open, env_file: Path) -> None:
    stage.script("before", "From the playbook.")
    page = visitor(stage.address)
    came: list[str] = []
    page.on("response", lambda answer: came.append(answer.url))
    see(page, "No model is connected.")
    send(page, "before")
    see(page, "From the playbook.")
    idle(page)
    page.click(".gl-bar .gl-model")
    panel, key = page.locator(".gl-connect"), page.locator(".gl-connect [name=key]")
    page.wait_for_function("document.activeElement.name === 'base_url'")
    page.keyboard.type(server.url)
    key.fill(WRONG)
    panel.get_by_text("List models").click()
    see(page, "The server refused the key.", ".gl-connect")
    key.fill(KEY)
    panel.get_by_text("List models").click()
    page.wait_for_selector(".gl-chip")
    assert panel.locator(".gl-chip").all_inner_texts() == list(MODELS)
    panel.get_by_text(MODELS[1], exact=True).click()
    assert panel.locator("[name=model]").input_value() == MODELS[1]
    panel.get_by_text("Test this connection").click()
    see(page, "It called current_time.", ".gl-connect")
    assert panel.locator(".gl-findings .gl-good").count() == 4

    panel.locator("[name=save]").check()
    panel.get_by_text("Use it").click()
    see(page, f"{MODELS[1]} answers from your next message on. It is in .env for the next start.", ".gl-connect")
    assert key.input_value() == "" and "Known already" in str(key.get_attribute("placeholder"))
    assert f"OPENAI_API_KEY='{KEY}'" in env_file.read_text()
    page.keyboard.press("Escape")
    page.wait_for_selector(".gl-connect", state="detached")
    assert page.locator(".gl-bar .gl-model").inner_text() == MODELS[1]
    asked = len(server.asked)
    send(page, "after")
    see(page, server.answer)
    idle(page)
    assert server.asked[asked:] == [("/v1/chat/completions", KEY)]

    (session,) = stage.on_loop(lambda: [visit.session for visit in stage.handlers.visits._by_page.values()])
    kept = "".join(json.dumps(dump_entry(entry)) for entry in session.log.since(0))
    exported = page.request.get(f"{stage.address}/sessions/{session.id}/export").text()
    assert "after" in kept and "after" in exported
    for seen in (page.content(), kept, exported, page.request.get(f"{stage.address}/config").text(), *came):
        assert KEY not in seen and WRONG not in seen


def test_a_stranger_names_no_address_of_this_machine(tmp_path: Path, visitor: Open) -> None:
    stage = Stage(tmp_path, exposure="share")
    try:
        with SmallServer(KEY) as server:
            page = visitor(stage.address)
            page.click(".gl-invitation button")
            page.fill(".gl-connect [name=base_url]", server.url)
            page.fill(".gl-connect [name=key]", KEY)
            assert page.locator(".gl-connect [name=save]").count() == 0
            for what in ("List models", "Test this connection", "Use it"):
                page.click(f".gl-connect >> text={what}")
                see(page, "This address is not a public one.", ".gl-connect")
            assert server.asked == [] and not (tmp_path / ".env").exists()
    finally:
        stage.close()
