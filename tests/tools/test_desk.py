"""What a person does with the workspace's files: nothing outside it is touched, and nothing is lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent.errors import Refused
from tools.desk import MAX_LISTED, Desk


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    workspace, outbox = tmp_path / "workspace", tmp_path / "outbox"
    (workspace / "docs" / "deep").mkdir(parents=True)
    outbox.mkdir()
    (workspace / "docs" / "a.md").write_text("# A\n")
    (workspace / "docs" / "deep" / "b.txt").write_text("b")
    (workspace / ".env").write_text("SECRET=1")
    (workspace / "out").symlink_to(tmp_path)
    return workspace, outbox


DESK = Desk(quota_bytes=1_000, quota_files=50)


def test_the_list_shows_links_and_hides_hidden_names(places: tuple[Path, Path]) -> None:
    entries, more = DESK.listed(places[0])
    assert [(entry.path, entry.kind) for entry in entries] == [
        ("docs", "folder"),
        ("docs/a.md", "file"),
        ("docs/deep", "folder"),
        ("docs/deep/b.txt", "file"),
        ("out", "link"),
    ]
    assert not more


def test_what_a_hidden_folder_holds_takes_no_place_in_the_list(places: tuple[Path, Path]) -> None:
    workspace, _ = places
    (workspace / ".git").mkdir()
    for number in range(MAX_LISTED):
        (workspace / ".git" / f"{number}").touch()
    entries, more = DESK.listed(workspace)
    assert "docs/deep/b.txt" in [entry.path for entry in entries] and not more


def test_a_look_is_a_copy_that_goes_when_it_is_let_go(places: tuple[Path, Path]) -> None:
    workspace, outbox = places
    file, facts = DESK.looked_at(workspace, outbox, "docs/a.md")
    (workspace / "docs" / "a.md").write_text("other")
    assert Path(file.path).read_text() == "# A\n" and facts is not None and facts["text"].startswith("# A")
    DESK.let_go(outbox, file)
    assert list(outbox.iterdir()) == []
    DESK.let_go(outbox, file)


def test_what_is_removed_comes_back_whole(places: tuple[Path, Path]) -> None:
    workspace, outbox = places
    token = DESK.removed(workspace, outbox, "docs")
    assert not (workspace / "docs").exists()
    assert DESK.restored(workspace, token) == "docs"
    assert (workspace / "docs" / "deep" / "b.txt").read_text() == "b"
    with pytest.raises(Refused, match="not kept"):
        DESK.restored(workspace, token)


def test_what_stands_there_meanwhile_is_not_replaced(places: tuple[Path, Path]) -> None:
    workspace, outbox = places
    token = DESK.removed(workspace, outbox, "docs/a.md")
    (workspace / "docs" / "a.md").write_text("new")
    with pytest.raises(Refused, match="exists already"):
        DESK.restored(workspace, token)
    assert (workspace / "docs" / "a.md").read_text() == "new"
    (workspace / "docs" / "a.md").unlink()
    DESK.restored(workspace, token)
    assert (workspace / "docs" / "a.md").read_text() == "# A\n"


def test_another_workspace_gets_nothing_back(places: tuple[Path, Path], tmp_path: Path) -> None:
    workspace, outbox = places
    token = DESK.removed(workspace, outbox, "docs/a.md")
    other = tmp_path / "other"
    other.mkdir()
    with pytest.raises(Refused):
        DESK.restored(other, token)
    assert list(other.iterdir()) == []


def test_a_new_name_stays_in_its_folder_or_goes_where_it_says(places: tuple[Path, Path]) -> None:
    workspace, _ = places
    assert DESK.renamed(workspace, "docs/a.md", "甲.md") == "docs/甲.md"
    assert DESK.renamed(workspace, "docs/甲.md", "new/place.md") == "new/place.md"
    assert (workspace / "new" / "place.md").read_text() == "# A\n"


@pytest.mark.parametrize("name", ["../out.md", "/etc/passwd", "a\nb", "con", "", "x" * 300, "out/x", "a\u202eb"])
def test_a_name_that_may_not_be_is_refused(places: tuple[Path, Path], name: str) -> None:
    workspace, _ = places
    before = sorted(os.walk(workspace.parent))
    with pytest.raises(Refused):
        DESK.renamed(workspace, "docs/a.md", name)
    assert sorted(os.walk(workspace.parent)) == before


def test_only_plain_files_within_can_be_had(places: tuple[Path, Path], tmp_path: Path) -> None:
    workspace, outbox = places
    (tmp_path / "secret").write_text("s")
    os.link(tmp_path / "secret", workspace / "twin")
    for path in ("out/secret", "../secret", "twin", "docs", "", "nope"):
        with pytest.raises(Refused):
            DESK.handle(workspace, path)
        with pytest.raises(Refused):
            DESK.looked_at(workspace, outbox, path)
    for path in ("", "out/secret", "../secret"):
        with pytest.raises(Refused):
            DESK.removed(workspace, outbox, path)
    assert (tmp_path / "secret").read_text() == "s"


def test_what_comes_in_gets_a_plain_free_name_within_the_quota(places: tuple[Path, Path], tmp_path: Path) -> None:
    workspace, _ = places
    source = tmp_path / "source"
    source.write_bytes(b"x" * 400)
    assert DESK.added(workspace, source, "", "../re\nport.txt") == "report.txt"
    assert DESK.added(workspace, source, "", "report.txt") == "report-2.txt"
    with pytest.raises(Refused, match="full"):
        DESK.added(workspace, source, "", "third.txt")


def test_a_name_in_another_encoding_is_seen_and_no_more(places: tuple[Path, Path]) -> None:
    """As many packages have them, made on Chinese Windows: a page cannot name such a file."""
    workspace, _ = places
    folder = os.fsencode(workspace) + b"/\xb1\xa8"
    os.mkdir(folder)
    open(folder + b"/\xb8\xe6.txt", "w").close()
    odd = [entry for entry in DESK.listed(workspace)[0] if "\\udc" in entry.path]
    assert [(entry.path.encode().decode(), entry.kind) for entry in odd] == [
        ("\\udcb1\\udca8", "other"),
        ("\\udcb1\\udca8/\\udcb8\\udce6.txt", "other"),
    ]


def test_what_is_put_aside_has_an_end_and_the_oldest_goes_first(places: tuple[Path, Path]) -> None:
    workspace, outbox = places
    tokens = []
    for number in range(4):
        (workspace / "large").write_bytes(bytes([number]) * 400)
        tokens.append(DESK.removed(workspace, outbox, "large/"))
    assert sum(path.stat().st_size for path in outbox.rglob("*") if path.is_file()) == 800
    with pytest.raises(Refused):
        DESK.restored(workspace, tokens[0])
    assert DESK.restored(workspace, tokens[3]) == "large"
    assert (workspace / "large").read_bytes() == bytes([3]) * 400
