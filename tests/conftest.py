"""The order of the tests, alone or side by side (`pytest -n 2 --dist loadgroup`)."""

from __future__ import annotations

import pytest

LONG = ("test_conversations.py", "test_page.py")
"""The longest of the files with browser tests begin first: nobody waits for them alone at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Browser tests come last: playwright's event loop stays on the thread, and no other can run there after it.

    Side by side, the tests of one file stay together, for they share what is slow to set up; those of its tests that
    need a browser are a group of their own, so that no worker goes back to other tests after them.
    """
    items.sort(key=lambda item: (_needs_browser(item), item.path.name not in LONG))
    for item in items:
        kind = "browser" if _needs_browser(item) else "plain"
        item.add_marker(pytest.mark.xdist_group(f"{item.path}:{kind}"))


def _needs_browser(item: pytest.Item) -> bool:
    return "browser" in getattr(item, "fixturenames", ())
