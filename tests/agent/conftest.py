"""Databases to keep things in."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.store import Store
from tests.agent import postgres


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    if reason := postgres.why_not():
        pytest.skip(reason)
    with postgres.cluster() as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Of an empty database: a SQLite file in the test's folder (an empty URL means that), and a PostgreSQL database."""
    if request.param == "sqlite":
        yield ""
        return
    with postgres.database(request.getfixturevalue("postgres_url")) as url:
        yield url


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 400 kB."""
    folder = tmp_path / "data"
    folder.mkdir()
    if sys.platform != "linux" or os.system(f"mount -t tmpfs -o size=400k none '{folder}' 2>/dev/null") != 0:
        pytest.skip("a small file system needs root on Linux")
    yield folder
    os.system(f"umount -l '{folder}'")


def scrub(text: str) -> str:
    return text.replace("s3cret", "***")


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Opens stores in the test's folder and closes them."""
    opened: list[Store] = []

    def open_one(database_url: str = "") -> Store:
        opened.append(Store(tmp_path / "data", scrub, database_url))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def store(open_store: Callable[..., Store], database_url: str) -> Store:
    """A store on each kind of database."""
    return open_store(database_url)
