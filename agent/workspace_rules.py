"""Rules that outlive a session: one small JSON file in the app's data folder.

Knows how they are kept, and when a file is not to be trusted. Refuses to know what a rule covers (`agent/rules.py`).
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agent.errors import Refused
from agent.events import Rule
from agent.rules import identified

MAX_FILE_BYTES = 1_000_000
"""No person grants that many rules; reading stops here whatever the file has become."""


class _File(BaseModel):
    """The file: for each workspace, by its resolved path, the rules that hold in it."""

    model_config = ConfigDict(extra="forbid", strict=True)

    version: Literal[1] = 1
    workspaces: dict[str, list[Rule]] = {}


class WorkspaceRules:
    """Rules that hold for every session in a workspace.

    Never kept inside the workspace, where the model could write itself a rule. Read anew for each question, so what is
    revoked in one session is revoked in all. One process writes it at a time. Every method raises Refused, with what to
    do about it, for a file that cannot be trusted or used; a file like that never allows anything.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.parent.resolve() / path.name

    def of(self, workspace: Path) -> tuple[Rule, ...]:
        return tuple(self._read(workspace).workspaces.get(_key(workspace), ()))

    def grant(self, workspace: Path, rules: Iterable[Rule]) -> None:
        kept = self._read(workspace)
        known = {rule.id: rule for rule in kept.workspaces.get(_key(workspace), ())}
        self._write(kept, workspace, {**known, **{rule.id: rule for rule in rules}}.values())

    def revoke(self, workspace: Path, rule_id: str) -> bool:
        """False where there was no such rule."""
        kept = self._read(workspace)
        rules = kept.workspaces.get(_key(workspace), [])
        left = [rule for rule in rules if rule.id != rule_id]
        if len(left) == len(rules):
            return False
        self._write(kept, workspace, left)
        return True

    # ------------------------------------------------------------------ the file

    def _read(self, workspace: Path) -> _File:
        if self._path.is_relative_to(workspace.resolve()):
            raise Refused("rules cannot be kept inside the workspace, where the model could write them")
        try:
            text = self._text()
        except FileNotFoundError:
            return _File()
        except OSError as error:
            raise Refused(f"the rules in {self._path.name} cannot be read: {error.strerror or error}") from None
        try:
            kept = _File.model_validate_json(text)
        except ValidationError:
            raise self._distrusted("it is damaged, or somebody else wrote it") from None
        for rule in (rule for rules in kept.workspaces.values() for rule in rules):
            if rule.lasts != "workspace" or rule != identified(rule):
                raise self._distrusted("one of its rules is not as it was written")
        return kept

    def _text(self) -> bytes:
        """Raises OSError, and Refused for anything but a small file that only its owner can write."""
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        with open(self._path, "rb", opener=lambda path, _: os.open(path, flags)) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise self._distrusted("it is not a file")
            if os.name == "posix" and (facts.st_uid not in (0, os.geteuid()) or facts.st_mode & 0o022):
                raise self._distrusted("others than this app's user can write it")
            text = file.read(MAX_FILE_BYTES + 1)
        if len(text) > MAX_FILE_BYTES:
            raise self._distrusted("it is far too large")
        return text

    def _distrusted(self, why: str) -> Refused:
        return Refused(f"the rules in {self._path.name} are not used: {why}. Repair it or delete it")

    def _write(self, kept: _File, workspace: Path, rules: Iterable[Rule]) -> None:
        workspaces = {**kept.workspaces, _key(workspace): list(rules)}
        data = {"version": 1, "workspaces": {k: [asdict(rule) for rule in v] for k, v in workspaces.items() if v}}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _replace(self._path, json.dumps(data, indent=1).encode())
        except OSError as error:
            raise Refused(f"the rules in {self._path.name} cannot be written: {error.strerror or error}") from None


def _key(workspace: Path) -> str:
    return os.path.normcase(workspace.resolve())


def _replace(path: Path, content: bytes) -> None:
    """The whole new file or the whole old one, whatever happens in between."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with open(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
