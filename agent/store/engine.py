"""Reaching a database: SQLite in the data folder, or another one by its URL.

Knows drivers, transactions and what their errors mean. Refuses to know any table.

What is committed survives the death of the app at any instant. A power cut may take the last moment of it, from both
databases alike (`synchronous=NORMAL`, `synchronous_commit=off`); waiting for the disk at each event would make the
page wait as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, NoSuchModuleError

from agent.errors import NotKept, StoreError

DATABASE_NAME = "glassloop.db"

BUSY_MS = 5_000
"""How long to wait for another process that writes, in milliseconds. Transactions take a few at most."""


def connect(database_url: str, data_dir: Path) -> Engine:
    """An engine for `database_url`; where that is empty, for the SQLite file in `data_dir`. Raises StoreError."""
    if not database_url:
        return _sqlite(URL.create("sqlite", database=str(_private_file(data_dir / DATABASE_NAME))))
    try:
        url = make_url(database_url)
        if url.get_backend_name() == "sqlite":
            return _sqlite(url)
        if url.drivername in ("postgres", "postgresql"):
            url = url.set(drivername="postgresql+psycopg")
        options = {"options": "-c synchronous_commit=off"} if url.get_backend_name() == "postgresql" else {}
        return create_engine(url, pool_pre_ping=True, connect_args=options)
    except (ArgumentError, NoSuchModuleError, ImportError) as error:
        # the URL holds a password: name the kind of error, not the text
        raise StoreError(
            f"DATABASE_URL cannot be used ({type(error).__name__}): it must be like postgresql://user:password@host/name"
            " and its driver installed (for PostgreSQL: pip install 'psycopg[binary]')."
        ) from None


def _private_file(path: Path) -> Path:
    """What people said to their agent is for nobody else on the machine."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except OSError as error:
        raise StoreError(f"The database {path} cannot be opened for writing: {error.strerror}.") from None
    return path


def _sqlite(url: URL) -> Engine:
    engine = create_engine(url)

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # the driver would not begin a transaction before CREATE or SELECT
        for pragma in ("journal_mode=WAL", "synchronous=NORMAL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}"):
            connection.execute(f"PRAGMA {pragma}").close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


@contextmanager
def reading(engine: Engine) -> Iterator[Connection]:
    """A connection whose errors are a StoreError."""
    try:
        with engine.begin() as connection:
            yield connection
    except DBAPIError as error:
        raise StoreError(f"The database cannot be read: {_words(error)}. Nothing in it was changed.") from None


@contextmanager
def writing(engine: Engine) -> Iterator[Connection]:
    """One transaction whose errors are a NotKept: all of it is written, or nothing."""
    try:
        with engine.begin() as connection:
            yield connection
    except IntegrityError:
        raise NotKept(
            "storage_failed", "Another process writes to this session. Reload it; nothing was overwritten."
        ) from None
    except DBAPIError as error:
        if _disk_full(error):
            raise NotKept("disk_full", "The disk is full. Make room, then go on; what was kept is safe.") from None
        raise NotKept("storage_failed", "The database does not answer as it should.", _words(error)) from None


def _words(error: DBAPIError) -> str:
    """The driver's own words, without the statement and its values."""
    return str(error.orig).strip().split("\n")[0]


def _disk_full(error: DBAPIError) -> bool:
    return getattr(error.orig, "sqlstate", "") == "53100" or "disk is full" in str(error.orig)
