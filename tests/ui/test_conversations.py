"""The conversations of a person: found, kept, exported, brought in, and there again after the app was killed."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pytest

from agent.exchange import MAX_BYTES
from tests.ui.page_steps import idle, see, send
from tests.ui.stage import Stage, calls

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

Open = Callable[..., Any]

pytestmark = pytest.mark.filterwarnings("ignore:.*no_silent_downcasting.*")  # gradio's own statistics, with new pandas

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    stage = Stage(tmp_path_factory.mktemp("conversations"))
    yield stage
    stage.close()


def talk(stage: Stage, page: Page, message: str, *steps: Any) -> str:
    """A new conversation; its address."""
    if not page.locator(".gl-welcome").count():
        before = page.url
        page.click(".gl-new")
        page.wait_for_function("(old) => location.href !== old", arg=before)
        page.wait_for_selector(".gl-welcome")
    stage.script(message, *steps)
    send(page, message)
    see(page, steps[-1])
    idle(page)
    return str(page.url)


def titles(page: Page) -> list[str]:
    return [text.strip() for text in page.locator(".gl-session").all_inner_texts()]


def item(page: Page, title: str) -> Locator:
    return page.locator(".gl-item", has_text=title)


def choose(page: Page, title: str, entry: str) -> None:
    """From the menu of a conversation."""
    item(page, title).hover()
    item(page, title).locator("summary").click()
    item(page, title).locator(f".gl-menu-entry >> text={entry}").click()


def until_titles(page: Page, expected: list[str]) -> None:
    page.wait_for_function(
        "(expected) => JSON.stringify([...document.querySelectorAll('.gl-session')].map(e => e.innerText.trim())) "
        "=== JSON.stringify(expected)",
        arg=expected,
    )


# ---------------------------------------------------------------------- the list


def test_pin_rename_delete_and_undo(stage: Stage, page: Page) -> None:
    talk(stage, page, "apples", "About apples.")
    pears = talk(stage, page, "pears", "About pears.")
    until_titles(page, ["pears", "apples"])
    choose(page, "apples", "Pin")
    until_titles(page, ["apples", "pears"])
    choose(page, "apples", "Rename")
    field = page.locator(".gl-rename input")
    page.wait_for_function("() => document.activeElement.closest('.gl-rename') !== null")
    field.fill("<b>Best</b> apples")
    field.press("Enter")
    until_titles(page, ["<b>Best</b> apples", "pears"])
    choose(page, "pears", "Rename")
    page.locator(".gl-rename input").fill("never mind")
    page.keyboard.press("Escape")
    until_titles(page, ["<b>Best</b> apples", "pears"])
    page.reload()
    until_titles(page, ["<b>Best</b> apples", "pears"])
    choose(page, "pears", "Delete")
    see(page, "Deleted: pears", "#gl-dock")
    see(page, "What shall we do?")  # it was the one on the page
    until_titles(page, ["New conversation", "<b>Best</b> apples"])
    assert page.url != pears
    page.click(".gl-toast >> text=Undo")
    see(page, "About pears.")
    until_titles(page, ["<b>Best</b> apples", "pears"])
    assert page.url == pears
    item(page, "apples").locator(".gl-session").click()
    see(page, "About apples.")
    page.wait_for_function("() => document.title.startsWith('<b>Best</b> apples')")


def test_a_title_goes_on_being_written_while_another_turn_runs(stage: Stage, page: Page) -> None:
    talk(stage, page, "quiet one", "Quiet.")
    talk(stage, page, "busy one", "Busy.")
    choose(page, "quiet one", "Rename")
    page.locator(".gl-rename input").fill("half a ti")
    stage.script("work", *(calls(("run_command", {"command": f"step {n}"})) for n in range(4)), "Worked.")
    send(page, "work")
    see(page, "Worked.")
    idle(page)
    assert page.locator(".gl-rename input").input_value() == "half a ti"


def test_a_conversation_deleted_elsewhere_is_left(stage: Stage, page: Page) -> None:
    address = talk(stage, page, "shared by two tabs", "In both.")
    other = page.context.new_page()
    other.goto(address)
    see(other, "In both.")
    choose(page, "shared by two tabs", "Delete")
    see(other, "deleted in another window", "#gl-dock")
    see(other, "What shall we do?")
    other.goto(address)
    see(other, "That conversation is not here", "#gl-dock")


def test_everything_said_can_be_found(stage: Stage, page: Page) -> None:
    talk(stage, page, "写一首诗", "床前明月光，疑是地上霜。")
    talk(stage, page, "an <i>English</i> one", calls(("run_command", {"command": "find it"})), "Nothing of it.")
    search = page.locator("#gl-search input")
    search.fill("明月")
    see(page, "床前明月光", "#gl-list")
    assert page.locator("#gl-list mark").all_inner_texts() == ["明月"]
    assert page.locator(".gl-hit").count() == 1
    page.click(".gl-hit")
    see(page, "床前明月光")
    search.fill("OUTPUT of find")  # all words, in any case, in what a tool gave back
    see(page, "output of find it", "#gl-list")
    search.fill("<i>english")
    see(page, "an <i>English</i> one", "#gl-list")
    search.fill("nowhere at all")
    see(page, "Nothing found.", "#gl-list")
    search.fill("")
    until_titles(page, ["an <i>English</i> one", "写一首诗"])


def in_sight(page: Page, text: str) -> None:
    """The place that was found is marked, says this, and stands where one can see it."""
    page.wait_for_function(
        """(text) => [...document.querySelectorAll('#gl-scroll .gl-found')].some((found) => {
          const place = found.getBoundingClientRect();
          const view = document.querySelector('#gl-scroll').getBoundingClientRect();
          return found.innerText.includes(text) && place.top >= view.top - 1 && place.top < view.bottom;
        })""",
        arg=text,
    )


def test_what_was_found_is_scrolled_to_and_marked(stage: Stage, page: Page) -> None:
    long = "\n\n".join(f"Line {number} of a long answer." for number in range(60))
    stage.script("the haystack", calls(("run_command", {"command": "dig"})), f"A needle is here.\n\n{long}")
    for turn, message in enumerate(("the haystack", "more hay", "even more hay"), start=1):
        stage.model.scripts.setdefault(message, (long,))
        send(page, message)
        page.locator(f"a[href='#do-retry-{turn}']").wait_for(state="attached")
        idle(page)
    stage.script("hay of another kind", "None.")
    page.evaluate("document.dispatchEvent(new CustomEvent('glassloop:do', {detail: {do: 'edit', value: '3'}}))")
    see(page, "Editing an earlier message", "#gl-dock")
    send(page, "hay of another kind")
    see(page, "2/2")
    talk(stage, page, "a place to come from", "Here.")
    search = page.locator("#gl-search input")
    for query, found in (
        ("the haystack", "the haystack"),
        ("output dig", "run_command"),
        ("NEEDLE", "A needle is here"),
    ):
        search.fill(query)
        mark = page.locator("mark", has_text=re.compile(query.split()[-1], re.IGNORECASE))
        page.locator(".gl-hit", has=mark).first.click()  # not one that was found before
        in_sight(page, found)
        assert page.locator("#gl-dock .gl-notice").count() == 0
    search.fill("even more hay")
    page.click(".gl-hit")
    see(page, "This was said in another version", "#gl-dock")
    in_sight(page, "hay of another kind")


def test_nobody_finds_what_another_said(stage: Stage, page: Page, visitor: Open) -> None:
    talk(stage, page, "my deepest secret", "It is kept.")
    stranger = visitor(stage.address)
    stranger.locator("#gl-search input").fill("deepest secret")
    see(stranger, "Nothing found.", "#gl-list")


def test_back_goes_to_the_conversation_before_and_forward_again(stage: Stage, page: Page) -> None:
    first = talk(stage, page, "first place", "Here first.")
    second = talk(stage, page, "second place", "Here second.")
    item(page, "first place").locator(".gl-session").click()
    see(page, "Here first.")
    page.wait_for_function("(url) => location.href === url", arg=first)
    page.go_back()
    see(page, "Here second.")
    page.wait_for_function("(url) => location.href === url", arg=second)
    page.go_forward()
    see(page, "Here first.")
    assert page.url == first
    page.reload()
    see(page, "Here first.")


def test_a_decision_that_is_waited_for_is_marked_in_the_list(stage: Stage, page: Page) -> None:
    stage.script("shop", calls(("run_command", {"command": "pay 5"})), "Paid.")
    send(page, "shop")
    see(page, "pay 5", "#gl-dock")
    item(page, "shop").get_by_role("img", name="needs your decision").wait_for()


# ---------------------------------------------------------------------- files


def test_export_and_import_make_a_conversation_of_its_own(stage: Stage, page: Page, tmp_path: Path) -> None:
    stage.script("look around", calls(("run_command", {"command": "ls"})), "Looked.")
    original = talk(stage, page, "look around", calls(("run_command", {"command": "ls"})), "Looked.")
    item(page, "look around").hover()
    item(page, "look around").locator("summary").click()
    with page.expect_download() as download:
        page.click(".gl-menu-entry >> text=Export")
    file = tmp_path / download.value.suggested_filename
    download.value.save_as(file)
    assert file.name == "look-around.glassloop.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines()
    assert json.loads(lines[0])["format"] == "glassloop-session"
    assert json.loads(lines[0])["entries"] == len(lines) - 1
    with page.expect_file_chooser() as chooser:
        page.click("[data-import]")
    chooser.value.set_files(file)
    page.wait_for_function("(old) => location.href !== old", arg=original)
    see(page, "Looked.")
    until_titles(page, ["look around", "look around"])
    with page.expect_file_chooser() as chooser:
        page.click("[data-import]")
    broken = tmp_path / "broken.jsonl"
    broken.write_text("<b>nonsense</b>")
    chooser.value.set_files(broken)
    see(page, "The file was not imported", "#gl-dock")
    assert len(titles(page)) == 2


def ask(stage: Stage, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlsplit(stage.address).netloc, timeout=20)
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_the_doors_for_files_are_their_owners(stage: Stage, page: Page) -> None:
    address = talk(stage, page, "not for you", "No.")
    export = f"/sessions/{address.split('session=')[1]}/export"
    cookie = "; ".join(f"{c['name']}={c['value']}" for c in page.context.cookies())
    status, content = ask(stage, "GET", export, Cookie=cookie)
    assert status == 200 and b"not for you" in content
    for other in ("", "glassloop_owner=" + "x" * 43, "glassloop_owner=local"):
        assert ask(stage, "GET", export, Cookie=other)[0] == 404
    assert ask(stage, "POST", "/sessions/import", content)[0] == 403
    assert ask(stage, "POST", "/sessions/import", content, Cookie=cookie)[0] == 403  # another site's form
    assert (
        ask(stage, "POST", "/sessions/import", content, Cookie="glassloop_owner=local", **{"x-glassloop": "1"})[0]
        == 403
    )
    status, answer = ask(stage, "POST", "/sessions/import", b"{}", Cookie=cookie, **{"x-glassloop": "1"})
    assert status == 400 and "no exported session" in json.loads(answer)["why"]


def test_a_file_that_is_too_large_is_refused_before_it_is_read(stage: Stage, page: Page) -> None:
    talk(stage, page, "large", "Not so large.")
    cookie = "; ".join(f"{c['name']}={c['value']}" for c in page.context.cookies())
    connection = http.client.HTTPConnection(urlsplit(stage.address).netloc, timeout=20)
    connection.putrequest("POST", "/sessions/import")
    for name, value in (("Cookie", cookie), ("x-glassloop", "1"), ("Content-Length", str(MAX_BYTES + 1))):
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 400 and b"larger than 64 MB" in answer.read()
    connection.close()


# ---------------------------------------------------------------------- one person's machine


def test_at_home_all_browsers_show_the_same_and_no_cookie_is_needed(
    visitor: Open, tmp_path_factory: pytest.TempPathFactory
) -> None:
    home = Stage(tmp_path_factory.mktemp("home"), exposure="local")
    try:
        page = visitor(home.address)
        address = talk(home, page, "at home", "All alone.")
        other = visitor(home.address)
        item(other, "at home").wait_for()
        other.goto(address)
        see(other, "All alone.")
        assert not [c for c in other.context.cookies() if c["name"] == "glassloop_owner"]
        assert ask(home, "GET", "/", Host="evil.test")[0] == 403
        assert ask(home, "POST", "/sessions/import", b"{}", Origin="http://evil.test", **{"x-glassloop": "1"})[0] == 403
    finally:
        home.close()


# ---------------------------------------------------------------------- the app is killed


class App:
    """The real app in its own process, with the demo model."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "workspace").mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "OPENAI_CHAT_MODEL": "demo",
            "WORKSPACE_DIR": str(folder / "workspace"),
            "GLASSLOOP_DATA": str(folder / "data"),
            "GLASSLOOP_LANGUAGE": "en",
            "GLASSLOOP_PORT": "0",
            "AGENT_MODE": "auto",
        }

    @contextmanager
    def started(self, port: str = "0", **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
        """The process and the address of its page."""
        process = subprocess.Popen(
            [sys.executable, str(ROOT / "app.py"), "--port", port],
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **environment},
            cwd=self.folder,
        )
        try:
            assert process.stderr is not None
            said: list[str] = []
            for line in process.stderr:
                said.append(line)
                if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                    yield process, found[0]
                    break
            else:
                pytest.fail("".join(said))
        finally:
            process.kill()
            process.wait(20)
            if process.stderr:
                process.stderr.close()


@pytest.fixture
def app(tmp_path: Path) -> App:
    return App(tmp_path)


def sleepers(seconds: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if process.info["cmdline"] == ["sleep", seconds]:
            found.append(process)
    return found


def kept(app: App, *columns: str) -> list[Any]:
    """The rows of the audit trail, by the command line."""
    ran = subprocess.run(
        [sys.executable, str(ROOT / "app.py"), "audit", "export"],
        capture_output=True,
        text=True,
        env=app.environment,
        cwd=app.folder,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return [tuple(json.loads(line)[column] for column in columns) for line in ran.stdout.splitlines()]


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_after_the_app_was_killed_everything_is_there_and_nothing_runs_twice(app: App, visitor: Open) -> None:
    """A question that nobody has answered, a turn in the middle of a command, and what was said while nobody heard."""
    seconds, workspace = str(300 + os.getpid() % 600), app.folder / "workspace"
    with app.started(AGENT_MODE="ask") as (process, address):
        page = visitor(address)
        send(page, "Run echo once >> asked.txt")
        see(page, "May this run?", "#gl-dock")
        page.click(".gl-new")
        see(page, "What shall we do?")
        send(page, "What time is it?")
        idle_after_answer(page)
        send(page, f"Run echo begun >> marks.txt && sleep {seconds}")
        page.click(".gl-question >> text=Allow")
        page.wait_for_selector("#gl-live .gl-state.gl-running")
        until(lambda: (workspace / "marks.txt").exists())
        os.kill(process.pid, signal.SIGKILL)
        process.wait(20)
        until(lambda: not sleepers(seconds))  # the fence ends what it holds
    assert not (workspace / "asked.txt").exists()
    send(page, "said to nobody")
    with app.started(address.rpartition(":")[2], AGENT_MODE="ask"):
        see(page, "The app was closed in the middle of this turn")  # the page has come back by itself
        assert page.input_value("#gl-box textarea") == "said to nobody"
        see(page, "What time is it?")
        assert "interrupted" in page.locator("#gl-live .thought-group .title").last.inner_text()
        assert page.locator(".gl-session").count() == 2
        page.click("#gl-dock >> text=Go on")
        see(page, "Going on where it stopped.")
        idle(page)
        assert (workspace / "marks.txt").read_text() == "begun\n"
        assert page.locator("#gl-history .gl-acts-answer").count() == 2
        item(page, "Run echo once").locator(".gl-session").click()
        see(page, "echo once >> asked.txt", "#gl-dock")
        page.click(".gl-question >> text=Allow")
        until(lambda: (workspace / "asked.txt").exists())
        idle(page)
        assert (workspace / "asked.txt").read_text() == "once\n"
    rows = kept(app, "tool", "status")
    assert ("run_command", "interrupted") in rows and len(rows) == len(set(rows))


def test_a_task_of_the_terminal_is_found_on_the_page_and_not_disturbed_while_it_runs(app: App, visitor: Open) -> None:
    seconds = str(300 + os.getpid() % 600)
    command = [sys.executable, str(ROOT / "app.py"), "--task", f"Run sleep {seconds}", "--json"]
    with app.started() as (_, address):
        terminal = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=app.environment, cwd=app.folder
        )
        try:
            until(lambda: sleepers(seconds))
            page = visitor(address)
            item(page, f"Run sleep {seconds}").locator(".gl-session").click()
            see(page, "open in another process", "#gl-dock")
            assert sleepers(seconds) and terminal.poll() is None
            terminal.send_signal(signal.SIGINT)
            assert terminal.wait(30) == 130
            item(page, f"Run sleep {seconds}").locator(".gl-session").click()
            see(page, "Stopped.")
        finally:
            terminal.kill()
            terminal.wait(20)


def idle_after_answer(page: Page) -> None:
    page.wait_for_selector("#gl-live .gl-acts-answer", timeout=30_000)
    idle(page)


def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
