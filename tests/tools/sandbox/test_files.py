"""A command and the files that are not its own: reading, changing, linking, and what a link may lead to."""

import os
import stat
import sys
from pathlib import Path

import pytest

from tests.tools.sandbox.conftest import CANARY, Shell
from tools.sandbox.scene import APP

pytestmark = pytest.mark.everywhere


READS = [
    "cat {canary}",
    "cp {canary} mine && cat mine",
    "ln -s {canary} l && cat l",
    "ln -s {outside} d && cat d/canary.txt",
    "ln {canary} h && cat h",
    "mv {canary} moved && cat moved",
    "cat /proc/self/root{canary}",
    "cat /proc/self/cwd/../../outside/canary.txt",
    "cat /proc/1/root{canary}",
    "cat /proc/$PPID/root{canary}",
    "cat ../../outside/canary.txt",
    "cd / && cat .{canary}",
    "bash -c 'read -r x < {canary}; echo $x'",
    "exec 9<{canary}; cat <&9",
    "tar c -C {outside} canary.txt | strings",
    "python3 -c \"import mmap,os; print(mmap.mmap(os.open('{canary}', 0), 0, prot=1)[:])\"",
    "python3 -c \"import os; print(os.read(os.open('/proc/self/root{canary}', os.O_RDONLY), 99))\"",
    "python3 -c \"import shutil; print(open(shutil.copy('{canary}', 'c')).read())\"",
    "source {canary}",
    "git diff --no-index /dev/null {canary}",
    "grep -r sings {outside}",
]

WRITES = [
    "echo x > {canary}",
    "echo x >> {canary}",
    "truncate -s0 {canary}",
    "rm -f {canary}",
    "rm -rf {outside}",
    "mv {canary} {canary}.bak",
    "touch new; mv new {canary}",
    "ln -sf /etc/passwd {canary}",
    "echo x > {outside}/new",
    "mkdir {outside}/new",
    "ln -s {canary} l; echo x > l",
    "ln -s {outside} d; echo x > d/new",
    "ln {canary} h && echo x > h",
    "mkfifo {outside}/new",
    "dd if=/dev/zero of={canary} bs=1 count=1 conv=notrunc",
    "sed -i s/sings/cries/ {canary}",
    "tar c mine 2>/dev/null; tar xf /dev/null -C {outside}; cp -r /etc/hostname {outside}/new",
    "python3 -c \"import os; os.rename('.', '{outside}/new')\"",
    "python3 -c \"import os; os.truncate('{canary}', 0)\"",
    "python3 -c \"import mmap,os; mmap.mmap(os.open('{canary}', 2), 0)[0] = 1\"",
    "python3 -c \"import os; f = os.open('{outside}', os.O_TMPFILE | os.O_RDWR);"
    " os.link(f'/proc/self/fd/{{f}}', '{outside}/new')\"",
]


def all_of(scripts: list[str], shell: Shell) -> str:
    """Make one script of many, each in a shell and a folder of its own: a supervisor each would take
    minutes."""
    texts = [script.format(canary=shell.canary, outside=shell.outside) for script in scripts]
    return "\n".join(f"echo '-- {n}'; (mkdir {n}; cd {n}\n{text}\n)" for n, text in enumerate(texts))


async def test_a_file_outside_cannot_be_read(shell: Shell) -> None:
    outcome = await shell.run(all_of(READS, shell))
    assert outcome.stdout.count("-- ") == len(READS)
    if shell.must_hold("files-read"):
        assert CANARY not in outcome.output


async def test_a_file_outside_cannot_be_changed(shell: Shell) -> None:
    outcome = await shell.run(all_of(WRITES, shell))
    assert outcome.stdout.count("-- ") == len(WRITES)
    if shell.must_hold("files-write"):
        assert [entry.name for entry in shell.outside.iterdir()] == ["canary.txt"]
        assert not shell.canary.is_symlink()
        assert shell.canary.read_text() == CANARY


async def test_metadata_is_held_or_said_not_to_be(shell: Shell) -> None:
    before = shell.canary.stat()
    await shell.run(f"touch -d 2001-01-01 {shell.canary}; chmod 4755 {shell.canary}; chmod 000 {shell.canary}")
    after = shell.canary.stat()
    if shell.must_hold("metadata"):
        assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)
    else:
        assert "metadata: NOT covered" in shell.fence.boundary.line or shell.fence.boundary.strength == "none"


async def test_other_sessions_cannot_be_seen(shell: Shell) -> None:
    other = shell.workspace.parent / "theirs"
    other.mkdir()
    (other / "f").write_text(CANARY)
    outcome = await shell.run("ls ..; cat ../theirs/f; ls ../theirs; find / -name theirs 2>/dev/null")
    if shell.must_hold("files-read"):
        assert "theirs/f" not in outcome.stdout
        assert CANARY not in outcome.output
        assert "theirs" not in outcome.stdout


async def test_the_apps_source_cannot_be_read(shell: Shell) -> None:
    places = ["tools/sandbox/__init__.py", "pyproject.toml", "app.py", ".env"]
    # bwrap alone has to show the supervisor's program, and so does one whose app lies below its private /tmp
    if "landlock" in shell.fence.boundary.line and not APP.is_relative_to("/tmp"):
        places.append("tools/sandbox/inside/supervisor.py")
    outcome = await shell.run(
        f"cd {APP} && ls -p | grep -v /; cat {' '.join(str(APP / place) for place in places)}; ls -R {APP}/agent"
    )
    if shell.must_hold("files-read"):
        assert outcome.stdout == ""


async def test_places_that_are_not_shown(shell: Shell) -> None:
    planted = Path(f"/tmp/seen-{os.getpid()}")
    planted.write_text(CANARY)
    try:
        places = f"{Path.home()} /root /home /var/lib /var/log /run /sys /srv /mnt"
        outcome = await shell.run(f"ls -A {places} | grep -v :$; ls /tmp | grep seen; cat {planted}")
    finally:
        planted.unlink()
    if shell.must_hold("files-read"):
        assert outcome.stdout.strip() == ""


async def test_what_only_root_may_read_stays_closed_for_root(shell: Shell) -> None:
    outcome = await shell.run("cat /etc/shadow /etc/gshadow /etc/ssh/*_key /etc/sudoers; cat /proc/kcore | head -c 10")
    if shell.must_hold("files-read"):
        assert outcome.stdout == ""


async def test_privileges_are_gone(shell: Shell) -> None:
    scripts = ["mknod n b 7 0", "mknod n c 1 1 && cat n", "mount -t tmpfs t .", "chroot . /bin/true", "sudo -n id"]
    tries = "; ".join(f"{script} && echo gained" for script in [*scripts, "chown 12345 owned"])
    outcome = await shell.run(f"echo x > owned; {tries}")
    assert "gained" not in outcome.stdout
    assert (shell.workspace / "owned").stat().st_uid == os.getuid()


async def test_a_setuid_copy_gains_nothing(shell: Shell) -> None:
    outcome = await shell.run("cp $(command -v id) i; chmod 4755 i; ./i -u; grep CapEff /proc/self/status")
    assert outcome.stdout.split()[0] == str(os.getuid())
    assert outcome.stdout.split()[-1] == "0" * 16


async def test_a_broken_shell_is_not_the_price(shell: Shell) -> None:
    """Case 11: the work that people want done still works."""
    outcome = await shell.run(
        """set -e
        python3 -c 'import json, sqlite3, ssl, subprocess as s; print(s.check_output(["echo", "py"]).decode().strip())'
        python3 -c 'import concurrent.futures as f; print(sum(f.ThreadPoolExecutor(4).map(abs, [-1, -2])))'
        git init -q repo && cd repo
        git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log --oneline | wc -l
        cd .. && mkdir sub && echo data > sub/file && mv sub/file renamed
        tar czf a.tgz renamed && tar xzf a.tgz && cat renamed
        cat <<< heredoc; cat <(echo substitution); f=$(mktemp); echo temp > $f; cat $f
        mkfifo fifo; (echo piped > fifo &) ; cat fifo; yes | head -1; sort <<< sorted; ps > /dev/null; nproc > /dev/null
        printf '#!/bin/sh\\necho script' > s && chmod +x s && ./s; ls /etc/passwd; echo > /dev/null
        head -c4 /dev/urandom | wc -c
        """
    )
    assert outcome.stderr == ""
    assert outcome.exit_code == 0
    assert outcome.stdout.split() == [
        "py", "3", "1", "data", "heredoc", "substitution", "temp", "piped", "y", "sorted", "script", "/etc/passwd", "4",
    ]  # fmt: skip


async def test_a_compiler_and_other_languages(shell: Shell) -> None:
    source = 'int puts(const char*); int main(void){puts("compiled");return 0;}'
    outcome = await shell.run(
        f"if command -v gcc >/dev/null; then echo '{source}' > a.c && gcc -o a a.c && ./a; else echo compiled; fi;"
        "if command -v node >/dev/null; then node -e 'require(`child_process`).execSync(`true`)'; fi"
    )
    assert "compiled" in outcome.stdout
    assert outcome.exit_code == 0


async def test_the_interpreter_is_the_apps_own(shell: Shell) -> None:
    outcome = await shell.run("python3 -c 'import sys; print(sys.prefix)'")
    assert outcome.stdout.strip() == sys.prefix


async def test_a_planted_scratch_folder_leads_nowhere(shell: Shell) -> None:
    (shell.workspace / ".tmp").symlink_to(shell.outside)
    await shell.run("echo x > $TMPDIR/new")
    if shell.must_hold("files-write"):
        assert not (shell.outside / "new").exists()


async def test_a_module_planted_in_the_workspace_runs_only_inside(shell: Shell) -> None:
    for name in ("json", "os", "ctypes", "select", "marshal", "sitecustomize", "usercustomize", "inside"):
        (shell.workspace / f"{name}.py").write_text(f"open({str(shell.outside / 'new')!r}, 'w')")
    outcome = await shell.run("echo fine")
    assert outcome.stdout == "fine\n"
    assert not (shell.outside / "new").exists()


async def test_no_channel_between_two_commands(shell: Shell) -> None:
    await shell.run("for place in /dev/shm /tmp /var/tmp /run; do echo told > $place/channel-x1; done")
    if shell.must_hold("files-write"):
        assert "told" not in (await shell.run("cat /dev/shm/channel-x1 /tmp/channel-x1 /var/tmp/channel-x1")).stdout
    for place in ("/dev/shm", "/tmp", "/var/tmp", "/run"):
        if os.path.exists(f"{place}/channel-x1"):
            assert not shell.must_hold("files-write")
            os.remove(f"{place}/channel-x1")


async def test_new_files_are_the_apps_own(shell: Shell) -> None:
    await shell.run("umask 022; echo x > made")
    made = (shell.workspace / "made").stat()
    assert made.st_uid == os.getuid()
    assert stat.S_ISREG(made.st_mode)
