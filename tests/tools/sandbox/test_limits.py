"""Memory, disk, files, processes: what one command may take, and that the rest goes on."""

import os

from tests.tools.sandbox.conftest import MIB, Shell


async def test_one_process_meets_its_memory_limit(shell: Shell) -> None:
    """Case 29: the program gets an error it can handle."""
    outcome = await shell.run("python3 -c 'bytearray(8 << 30)'", memory_bytes=512 * MIB)
    assert outcome.reason == "exit"
    assert "MemoryError" in outcome.stderr


HOLD = "import time,sys; b = bytearray({size} << 20); b[::4096] = b'x' * len(b[::4096]); time.sleep(30)"


async def test_the_tree_meets_its_memory_limit(shell: Shell, marker: str) -> None:
    """Each process stays below the limit, together they do not: four of 60 MiB against 150."""
    outcome = await shell.run(
        f'for i in 1 2 3 4; do python3 -c "{HOLD.format(size=60)}" {marker} & done; wait', memory_bytes=150 * MIB
    )
    assert outcome.reason == "memory_limit"
    assert outcome.killed >= 4


async def test_memory_files_count(shell: Shell) -> None:
    source = """
import os, time
files = [os.memfd_create("m") for _ in range(4)]
for file in files:
    for _ in range(50):
        os.write(file, bytes(1 << 20))
time.sleep(30)
"""
    assert (await shell.python(source, memory_bytes=150 * MIB)).reason == "memory_limit"


async def test_private_mounts_count_as_memory(shell: Shell) -> None:
    outcome = await shell.run(
        "for i in 1 2 3 4; do head -c 60M /dev/zero > /dev/shm/f$i; done; sleep 1", memory_bytes=150 * MIB
    )
    if "bwrap" in shell.fence.boundary.line:
        assert outcome.reason == "memory_limit"
    elif shell.must_hold("files-write"):
        assert not os.path.exists("/dev/shm/f1")
    for number in range(1, 5):
        if os.path.exists(f"/dev/shm/f{number}"):
            os.remove(f"/dev/shm/f{number}")


async def test_one_file_meets_its_limit(shell: Shell) -> None:
    """Case 30."""
    outcome = await shell.run("head -c 10G /dev/zero > f", file_bytes=20 * MIB)
    assert (shell.workspace / "f").stat().st_size <= 20 * MIB
    assert outcome.signal == 25 or outcome.exit_code not in (0, None)  # SIGXFSZ


async def test_a_limit_cannot_be_raised(shell: Shell) -> None:
    outcome = await shell.run(
        "ulimit -f unlimited; ulimit -c unlimited; ulimit -Hn 99999; ulimit -f -c -n", file_bytes=MIB
    )
    assert "unlimited" not in outcome.stdout
    assert "99999" not in outcome.stdout


async def test_many_files_meet_the_quota(shell: Shell) -> None:
    outcome = await shell.run(
        "for i in $(seq 100); do head -c 4M /dev/urandom > f$i; done; sleep 20", quota_bytes=40 * MIB
    )
    assert outcome.reason == "quota"
    assert sum(file.stat().st_size for file in shell.workspace.iterdir() if file.is_file()) < 400 * MIB


async def test_a_short_command_meets_the_quota_too(shell: Shell) -> None:
    outcome = await shell.run("head -c 300K /dev/zero > f", quota_bytes=MIB // 4)
    assert outcome.reason == "quota"


async def test_the_number_of_files_meets_the_quota(shell: Shell) -> None:
    outcome = await shell.python(
        "import itertools\nfor n in itertools.count(): open(f'f{n}', 'w').close()", quota_files=500
    )
    assert outcome.reason == "quota"


async def test_deleted_files_that_are_held_open_count(shell: Shell) -> None:
    source = """
import os, time
held = []
for n in range(30):
    held.append(open(f"f{n}", "wb"))
    held[-1].write(os.urandom(4 << 20))
    held[-1].flush()
    os.remove(f"f{n}")
time.sleep(30)
"""
    assert (await shell.python(source, quota_bytes=40 * MIB)).reason == "quota"


async def test_a_full_workspace_can_be_cleaned_but_not_filled(shell: Shell) -> None:
    await shell.run("head -c 8M /dev/urandom > f; head -c 8M /dev/urandom > g", quota_bytes=64 * MIB)
    assert (await shell.run("ls; sleep 0.3; rm g", quota_bytes=4 * MIB)).reason == "exit"
    assert (await shell.run("head -c 1M /dev/urandom > h", quota_bytes=4 * MIB)).reason == "quota"
    assert (await shell.run("rm f h", quota_bytes=4 * MIB)).reason == "exit"


async def test_folders_too_deep_to_be_counted(shell: Shell) -> None:
    source = (
        "import os\nfor _ in range(300):\n    os.mkdir('d' * 50)\n    os.chdir('d' * 50)\nopen('hidden', 'w').close()"
    )
    outcome = await shell.python(source)
    assert outcome.reason == "quota"
    again = await shell.run("true")
    assert again.reason == "refused"
    assert "nested too deep" in (again.error or "")


async def test_too_many_processes(shell: Shell, marker: str) -> None:
    """As an ordinary user a fork fails; as root, whom that limit does not hold, the count ends the
    command."""
    outcome = await shell.run(f"for i in $(seq 200); do sleep {marker} & done; wait", processes=20, timeout_s=3)
    if os.getuid() == 0 and "bwrap" not in shell.fence.boundary.line:
        assert outcome.reason == "process_limit"
    else:
        assert outcome.reason in ("process_limit", "timeout", "exit")
        assert outcome.reason == "process_limit" or "fork" in outcome.stderr


async def test_the_workspace_may_change_while_it_is_counted(shell: Shell) -> None:
    """Folders that come and go, links to everywhere, a loop, an unreadable folder: counting never fails a
    command."""
    outcome = await shell.run(
        "ln -s / root; ln -s . loop; mkdir no && touch no/f && chmod 000 no; end=$((SECONDS + 1));"
        "while [ $SECONDS -lt $end ]; do mkdir -p a/b/c; touch a/b/c/d; rm -rf a; done; chmod 700 no; echo fine"
    )
    assert (outcome.reason, outcome.stdout) == ("exit", "fine\n")
