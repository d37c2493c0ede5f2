"""A real browser for the page's tests, where this machine has one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def give_up(how: str) -> NoReturn:
    """Skip with one line on what to do; where a browser is part of the deal, fail."""
    if os.environ.get("GLASSLOOP_REQUIRE_BROWSER"):
        pytest.fail(how)
    pytest.skip(how)


def chromium_path(own: str) -> str:
    """The browser on the PATH, else the one playwright has downloaded; empty where there is neither."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    return own if Path(own).exists() else ""


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright  # noqa: PLC0415 (a test requirement that users may lack)
    except ImportError:
        give_up("playwright is not installed: pip install -r requirements-dev.txt")
    with sync_playwright() as started:
        path = chromium_path(started.chromium.executable_path)
        if not path:
            give_up("no Chromium found: install one (apt-get install chromium), or run `playwright install chromium`")
        launched = started.chromium.launch(executable_path=path, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def visitor(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Open a page as a new visitor; `requests` of the page lists every address it asked for."""
    contexts = []

    def open_page(address: str, **options: Any) -> Page:
        usual = {"locale": "en-US", "viewport": {"width": 1280, "height": 800}}
        context = browser.new_context(**{**usual, **options})
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(40_000)
        page.goto(address)
        page.wait_for_selector(".gl-bar")
        return page

    yield open_page
    for context in contexts:
        context.close()
