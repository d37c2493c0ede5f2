"""The same cases again on machines with less: as an ordinary user, without Landlock, and without namespaces.

Each setting is a test run of its own, in a process whose kernel really answers so (`hide.py`).
"""

import os
import pwd
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
HIDE = Path(__file__).with_name("hide.py")
NOBODY = "nobody"
SETTINGS = {
    "ordinary user": ("", r"bwrap\+landlock|landlock\(abi \d+\)\+seccomp, network off"),
    "no Landlock": ("landlock", r"sandbox: (bwrap\+seccomp|NONE \(seccomp\))"),
    "no namespaces": ("namespaces", r"sandbox: (landlock\(abi \d+\)\+seccomp|NONE \(seccomp\))"),
}
LINE = "from tools.sandbox import probe; b = probe().boundary; print(b.strength, b.line)"


@pytest.fixture(scope="module")
def python() -> list[str]:
    """Give an interpreter that an ordinary user can run: this one may lie in root's home."""
    packages = Path(pytest.__file__).parents[1]
    for candidate in dict.fromkeys([sys.executable, "/usr/bin/python3"]):
        words = ["env", f"PYTHONPATH={ROOT}:{packages}", "PYTHONDONTWRITEBYTECODE=1", candidate]
        try_it = subprocess.run(
            [*words, "-c", "import pytest, psutil, pytest_asyncio, tools.sandbox"], capture_output=True, **as_user()
        )
        if try_it.returncode == 0:
            return words
    pytest.skip("no interpreter here that an ordinary user may run")


def as_user() -> dict[str, Any]:
    """How to start a process as somebody without rights; ourselves, when we have none."""
    if os.getuid() != 0:
        return {}
    entry = pwd.getpwnam(NOBODY)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@pytest.mark.parametrize("setting", SETTINGS)
def test_all_again(setting: str, python: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    hidden, line = SETTINGS[setting]
    hide = [*python, str(HIDE), hidden] if hidden else []
    said = subprocess.run([*hide, *python, "-c", LINE], cwd=ROOT, capture_output=True, text=True, **as_user())
    assert re.search(line, said.stdout), said
    assert said.stdout.startswith("none") == ("NONE" in said.stdout)
    selected = ["tests/tools/sandbox", "--ignore", str(Path(__file__)), "-m", "everywhere", "-k", "not no-bwrap"]
    selected += ["-q", "--tb=short", "-p", "no:cacheprovider"]
    folder = Path(f"/tmp/again-{os.getpid()}-{hidden or 'user'}")
    try:
        run = subprocess.run(
            [*hide, *python, "-m", "pytest", *selected, "--basetemp", str(folder)],
            cwd=ROOT, capture_output=True, text=True, timeout=300, **as_user(),
        )  # fmt: skip
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    assert run.returncode == 0, run.stdout[-6000:]
    assert int(re.findall(r"(\d+) passed", run.stdout)[0]) > 35
