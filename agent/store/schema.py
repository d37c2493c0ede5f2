"""The database: its tables, and how an older one becomes this one.

Plain numbered steps in code instead of Alembic: an installation is one file on one machine that upgrades itself at
start, there are no parallel lines of development to merge, and a reader should see the schema on one screen.

Knows tables and versions. Refuses to know what is written into them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence

from sqlalchemy import (
    Boolean,
    Column,
    Connection,
    Double,
    ForeignKey,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    inspect,
    select,
)
from sqlalchemy.exc import DBAPIError

from agent.errors import StoreError

metadata = MetaData()

schema_version = Table("schema_version", metadata, Column("version", Integer, nullable=False))

sessions = Table(
    "sessions",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("id", String(64), nullable=False, unique=True),  # what a browser may know of it
    Column("owner", String(200), nullable=False, index=True),
    Column("title", Text, nullable=False),
    Column("pinned", Boolean, nullable=False),
    Column("ended", String(32)),  # how the last turn ended; NULL while one runs
    Column("created_at", Double, nullable=False),  # seconds since the epoch, here and below
    Column("changed_at", Double, nullable=False),
    Column("deleted_at", Double),  # a tombstone: out of sight, purged later
)

entries = Table(  # the log: one row for each event
    "entries",
    metadata,
    Column("session", ForeignKey("sessions.key"), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("type", String(32), nullable=False),
    Column("data", Text, nullable=False),  # the event's fields as JSON
    sqlite_with_rowid=False,
)

said = Table(  # what can be searched; derived from the log
    "said",
    metadata,
    Column("key", Integer, primary_key=True),
    Column("session", ForeignKey("sessions.key"), nullable=False, index=True),
    Column("seq", Integer, nullable=False),
    Column("who", String(16), nullable=False),  # person, model, tool
    Column("text", Text, nullable=False),
)

audit = Table(  # `agent/audit.py` says what the columns mean; outlives the session
    "audit",
    metadata,
    Column("n", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("owner", String(200), nullable=False),
    Column("session_id", String(64), nullable=False),
    Column("turn", Integer, nullable=False),
    Column("call_id", Text, nullable=False),
    Column("tool", Text, nullable=False),
    Column("arguments", Text, nullable=False),
    Column("arguments_hash", String(64), nullable=False),
    Column("verdict", String(16), nullable=False),
    Column("decided_by", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("seconds", Double),
    Column("bytes", Integer),
    Column("previous", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
)

audit_head = Table(  # the chain's last row, so that a row missing at the end is missed
    "audit_head", metadata, Column("n", Integer, nullable=False), Column("hash", String(64), nullable=False)
)

memories = Table(  # what is remembered of an owner; `agent/store/memories.py` says what the columns mean
    "memories",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("owner", String(200), nullable=False, index=True),
    Column("text", Text, nullable=False),
    Column("always", Boolean, nullable=False),
    Column("session_id", String(64), nullable=False),  # no key: a memory outlives the session it comes from
    Column("at", Double, nullable=False),
    Column("used_at", Double),
    Column("deleted_at", Double),
)

owners = Table(  # what an owner has chosen; who has chosen nothing has no row
    "owners",
    metadata,
    Column("owner", String(200), primary_key=True),
    Column("remembers", Boolean, nullable=False),
)

SQLITE_SEARCH = (
    "CREATE VIRTUAL TABLE said_index USING fts5(text, content='said', content_rowid='key', tokenize='trigram')",
    "CREATE TRIGGER said_added AFTER INSERT ON said BEGIN"
    " INSERT INTO said_index(rowid, text) VALUES (new.key, new.text); END",
    "CREATE TRIGGER said_removed AFTER DELETE ON said BEGIN"
    " INSERT INTO said_index(said_index, rowid, text) VALUES ('delete', old.key, old.text); END",
)
POSTGRES_SEARCH = (
    "CREATE EXTENSION IF NOT EXISTS pg_trgm",
    "CREATE INDEX said_text ON said USING gin (text gin_trgm_ops)",
)

Migration = Callable[[Connection], None]


def _with_memories(connection: Connection) -> None:
    """Version 2. In words of its own: the tables above go on changing, what this version looked like does not."""
    for statement in (
        "CREATE TABLE memories (id VARCHAR(32) NOT NULL PRIMARY KEY, owner VARCHAR(200) NOT NULL, text TEXT NOT NULL,"
        " always BOOLEAN NOT NULL, session_id VARCHAR(64) NOT NULL, at DOUBLE PRECISION NOT NULL,"
        " used_at DOUBLE PRECISION, deleted_at DOUBLE PRECISION)",
        "CREATE INDEX ix_memories_owner ON memories (owner)",
        "CREATE TABLE owners (owner VARCHAR(200) NOT NULL PRIMARY KEY, remembers BOOLEAN NOT NULL)",
    ):
        connection.exec_driver_sql(statement)


MIGRATIONS: Sequence[Migration] = (_with_memories,)
"""`MIGRATIONS[i]` makes version i + 2 out of version i + 1. Append only; the tables above are always the newest."""

OLDEST_SQLITE = (3, 35)
"""The trigram index came with 3.34, RETURNING with 3.35."""


def prepare(connection: Connection, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the database to this version within the caller's transaction: create it, upgrade it, or leave it alone.

    Raises StoreError, having changed nothing, for one that is newer or not ours.
    """
    newest = len(migrations) + 1
    found = _version(connection)
    if found == 0:
        _create(connection, newest)
    elif found > newest:
        raise StoreError(
            f"The database was written by a newer version of this app (its format is {found}, this one knows {newest})."
            " Nothing was changed. Update the app, or point GLASSLOOP_DATA or DATABASE_URL somewhere else."
        )
    elif found < newest:
        for migrate in migrations[found - 1 :]:
            migrate(connection)
        connection.execute(schema_version.update().values(version=newest))


def _version(connection: Connection) -> int:
    """0 for an empty database."""
    names = inspect(connection).get_table_names()
    if not names:
        return 0
    if schema_version.name not in names:
        raise StoreError("The database belongs to another program. Nothing was changed. Point DATABASE_URL elsewhere.")
    return int(connection.execute(select(schema_version.c.version)).scalar_one())


def _create(connection: Connection, version: int) -> None:
    metadata.create_all(connection)
    connection.execute(schema_version.insert().values(version=version))
    connection.execute(audit_head.insert().values(n=0, hash=""))
    if connection.dialect.name == "sqlite":
        if sqlite3.sqlite_version_info < OLDEST_SQLITE:
            raise StoreError(f"SQLite {sqlite3.sqlite_version} is too old; 3.35 or newer is needed.")
        for statement in SQLITE_SEARCH:
            connection.exec_driver_sql(statement)
    elif connection.dialect.name == "postgresql":
        try:
            with connection.begin_nested():
                for statement in POSTGRES_SEARCH:
                    connection.exec_driver_sql(statement)
        except DBAPIError:  # not allowed, or not installed: search reads every row then
            return
