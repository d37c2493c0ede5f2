"""Pictures in a real browser: an image service on this machine draws, changes, refuses; the page shows it."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from PIL import Image

from agent.llm.images import ImageServer, OpenAIImages
from tests.agent.llm.test_images import StandIn, events
from tests.scripted import call
from tests.ui.page_steps import idle, see, send
from tests.ui.stage import Stage
from tools.images import image_tools

if TYPE_CHECKING:
    from playwright.sync_api import Page


def encoded(colour: str) -> str:
    written = io.BytesIO()
    Image.new("RGB", (640, 400), colour).save(written, "PNG")
    return base64.b64encode(written.getvalue()).decode()


@pytest.fixture(scope="module")
def service() -> Iterator[StandIn]:
    made = StandIn(lambda body: (200, {"data": [{"b64_json": encoded("teal")}]}))
    yield made
    made.close()


@pytest.fixture(scope="module")
def stage(service: StandIn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    folder = tmp_path_factory.mktemp("stage")
    client = OpenAIImages(ImageServer(base_url=f"{service.url}/v1", api_key="sk-none", model="gpt-image-2"))
    made = Stage(folder, language="en", tools=image_tools(client, folder / "images"))
    yield made
    made.close()


def allow(page: Page) -> None:
    page.click(".gl-approval [data-do=allow]")


def shown(page: Page) -> str:
    found = page.get_attribute("#gl-facts", "data-session")
    assert found
    return found


def test_a_picture_is_drawn_changed_and_refused_on_the_page(
    stage: Stage, service: StandIn, visitor: Callable[..., Page]
) -> None:
    page = visitor(stage.address)
    partial = {"type": "image_generation.partial_image", "b64_json": encoded("gold"), "partial_image_index": 0}
    whole = {"type": "image_generation.completed", "b64_json": encoded("teal"), "revised_prompt": "a teal sea"}
    service.answer = lambda body: (200, events(partial, whole))
    send(page, stage.script("draw", call("generate_image", prompt="a sea <b>at dawn</b>"), "Here it is."))
    allow(page)
    see(page, "Here it is.")
    page.wait_for_function("() => document.querySelector('#gl-live .gl-image img')?.naturalWidth === 640")
    assert page.locator("#gl-live .gl-image img").count() == 1  # the unfinished one has gone
    assert "a sea <b>at dawn</b>" in page.inner_text(".gl-prompt") and "a teal sea" in page.inner_text(".gl-prompt")
    assert page.locator(".gl-gallery img").count() == 1
    workspace = stage.workspace(shown(page))
    [path] = [str(found.relative_to(workspace)) for found in workspace.glob("images/*")]

    page.locator("a[href*='do-picture-rework']").click()
    page.wait_for_function("() => document.querySelector('#gl-box textarea').value.startsWith('Change this in')")
    assert page.input_value("#gl-box textarea") == f"Change this in `{path}`: "
    page.fill("#gl-box textarea", "")
    service.answer = lambda body: (200, {"data": [{"b64_json": encoded("navy")}, {"b64_json": encoded("plum")}]})
    send(page, stage.script("edit", call("edit_image", prompt="at night", images=[path], count=2), "Two of them."))
    allow(page)
    see(page, "Two of them.")
    page.wait_for_function("() => document.querySelectorAll('.gl-gallery img').length === 3")
    sent: dict[str, Any] = service.bodies[-1]
    assert sent["path"] == "/v1/images/edits" and sent["n"] == "2"
    with Image.open(io.BytesIO(sent["image"])) as source:
        assert source.size == (640, 400)

    blocked = {"code": "moderation_blocked", "message": "not this one"}
    service.answer = lambda body: (400, {"error": blocked})
    send(page, stage.script("no", call("generate_image", prompt="x"), "It was refused."))
    allow(page)
    see(page, "It was refused.")
    idle(page)
    page.reload()
    page.wait_for_function("() => document.querySelectorAll('.gl-gallery img').length === 3")
