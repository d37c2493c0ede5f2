"""What a person does and sees on the page, for the tests in a real browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page


def send(page: Page, message: str) -> None:
    page.fill("#gl-box textarea", message)
    page.press("#gl-box textarea", "Enter")


def see(page: Page, text: str, where: str = "#gl-scroll") -> Locator:
    found = page.locator(where).get_by_text(text, exact=False).first
    found.wait_for()
    return found


def idle(page: Page) -> None:
    page.wait_for_function("() => document.querySelector('#gl-facts')?.dataset.running === ''")


def act(page: Page, what: str, which: str | int) -> None:
    """Click one of the quiet links in the conversation; they show when the mouse is over their message."""
    link = page.locator(f"a[href='#do-{what}-{which}']").first
    link.scroll_into_view_if_needed()
    link.locator("xpath=ancestor::div[contains(@class, 'message-row')]").hover()
    link.click()
