"""A real browser for the page's tests, where this machine has one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

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


USUAL: dict[str, Any] = {"locale": "en-US", "viewport": {"width": 1280, "height": 800}}


@pytest.fixture(scope="session")
def usual_context(browser: Browser) -> Iterator[BrowserContext]:
    """One for most pages: it keeps the scripts of the page as it has compiled them, which is half of a page's start."""
    context = browser.new_context(**USUAL)
    yield context
    context.close()


def enter(page: Page, address: str) -> None:
    page.set_default_timeout(40_000)
    page.goto(address)
    page.wait_for_selector(".gl-bar")


@pytest.fixture
def visitor(browser: Browser, usual_context: BrowserContext) -> Iterator[Callable[..., Page]]:
    """Open a page as a new visitor, with a browser of its own where the test has more than one."""
    contexts: list[BrowserContext] = []

    def open_page(address: str, **options: Any) -> Page:
        alone = not (options or contexts or usual_context.pages)
        context = usual_context if alone else browser.new_context(**{**USUAL, **options})
        contexts.append(context)
        page = context.new_page()
        enter(page, address)
        return page

    yield open_page
    for context in contexts:
        if context is usual_context:
            forget(context)
        else:
            context.close()


@pytest.fixture(scope="module")
def first_page(usual_context: BrowserContext) -> Iterator[Page]:
    yield usual_context.new_page()
    forget(usual_context)


@pytest.fixture
def page(first_page: Page, stage: Any) -> Page:
    """A new visitor's page; the tests of a file have it one after the other."""
    for other in first_page.context.pages:
        if other is not first_page:
            other.close()
    first_page.context.clear_cookies()
    if first_page.url.startswith("http"):  # what was being written would be there again
        first_page.evaluate("""() => {
          for (const field of document.querySelectorAll('textarea')) field.value = '';
          localStorage.clear();
        }""")
    enter(first_page, stage.address)
    return first_page


def forget(context: BrowserContext) -> None:
    """Nothing of a visitor stays."""
    for page in context.pages:
        if page.url.startswith("http"):
            page.evaluate("localStorage.clear()")
        page.close()
    context.clear_cookies()
    context.clear_permissions()
