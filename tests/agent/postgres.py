"""A PostgreSQL of our own for the tests: a private cluster in a temporary folder, reached by a socket in it."""

from __future__ import annotations

import getpass
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import create_engine, make_url


def binaries() -> Path | None:
    """The folder of the newest installed server's programs; None where there is none."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    newest = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return newest[-1].parent if newest else None


def why_not() -> str:
    """One line where no server can be started; empty where one can."""
    if sys.platform == "win32" or binaries() is None:
        return "no PostgreSQL here (Debian: apt-get install postgresql)"
    return ""


@contextmanager
def cluster() -> Iterator[str]:
    """The URL of an empty database. The server refuses to run as root, so root starts it as `postgres`."""
    programs = binaries()
    assert programs is not None
    user = "postgres" if os.geteuid() == 0 else getpass.getuser()
    as_user = ["runuser", "-u", user, "--"] if os.geteuid() == 0 else []
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        if as_user:
            shutil.chown(folder, user)

        def run(*command: str) -> None:
            subprocess.run([*as_user, *command], check=True, cwd=folder, stdout=subprocess.DEVNULL)

        initdb = ("--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", f"--username={user}", "--no-sync")
        run(str(programs / "initdb"), "-D", f"{folder}/data", *initdb)
        options = f"-c fsync=off -c listen_addresses='' -c unix_socket_directories={folder}"
        pg_ctl = (str(programs / "pg_ctl"), "-D", f"{folder}/data", "-w")
        run(*pg_ctl, "-o", options, "-l", f"{folder}/server.log", "start")
        try:
            yield f"postgresql://{user}@/postgres?host={folder}"
        finally:
            run(*pg_ctl, "-m", "immediate", "stop")


@contextmanager
def database(url: str) -> Iterator[str]:
    """An empty database on the server at `url`, and its URL; it is dropped again."""
    name = f"test_{secrets.token_hex(4)}"
    engine = create_engine(make_url(url).set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE DATABASE {name}")
        try:
            yield make_url(url).set(database=name).render_as_string(hide_password=False)
        finally:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")
    engine.dispose()
