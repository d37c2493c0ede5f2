"""The workspaces of strangers: one for each session, at first a copy of a template, and gone with its session.

A folder's name tells nothing of the session's id, which is what opens the session. Refuses to know who is a stranger,
and what works in a workspace.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path


class OwnWorkspaces:
    def __init__(self, folder: Path, template: Path) -> None:
        """They lie in `folder`. Hidden files of `template` stay behind."""
        self._folder, self._template = folder, template

    def path(self, session_id: str) -> Path:
        """Where the session's is, if it is there."""
        return self._folder / hashlib.sha256(session_id.encode()).hexdigest()[:32]

    def open(self, session_id: str) -> Path:
        """The same for the same session; whole, or not there: a copy that was cut off is made anew."""
        folder = self.path(session_id)
        if not folder.exists():
            begun = folder.with_suffix(".begun")
            shutil.rmtree(begun, ignore_errors=True)
            self._template.mkdir(parents=True, exist_ok=True)
            shutil.copytree(self._template, begun, symlinks=True, ignore=shutil.ignore_patterns(".*"))
            begun.chmod(0o700)
            begun.replace(folder)
        return folder

    def clear(self, session_id: str) -> None:
        """Remove it, whatever its modes say. Nothing may run in it any more. Raises OSError."""
        folder = self.path(session_id)
        if not folder.is_dir():
            return
        folder.chmod(0o700)
        for parent, names, _ in os.walk(folder):
            for path in (Path(parent, name) for name in names):
                if not path.is_symlink():
                    path.chmod(0o700)
        shutil.rmtree(folder)
