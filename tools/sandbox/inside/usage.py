"""What a tree of processes uses: how many they are, their memory, the space they take in the workspace.

Knows /proc and how to count a folder that somebody hostile is changing. Only counts: it decides nothing,
changes nothing and follows no link.
"""

import os

_PAGE = os.sysconf("SC_PAGE_SIZE")
_BLOCK = 512  # st_blocks counts these, whatever the file system
UNCOUNTABLE = 1 << 62  # a folder nested too deep to be opened: no honest program makes one


def descendants(root: int) -> list[int]:
    """List all processes below `root`, from one look at /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(_parent(name), []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _parent(pid: str) -> int:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])  # the name before it may hold anything
    except (OSError, IndexError):
        return -1


def threads_of(user: int) -> int:
    """Count the threads of a user, which is what RLIMIT_NPROC is compared with."""
    total = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if os.stat(f"/proc/{name}").st_uid == user:
                    total += os.stat(f"/proc/{name}/task").st_nlink - 2
            except OSError:
                continue  # it has ended
    return total


def memory(pids: list[int], private_mounts: list[str]) -> tuple[int, int]:
    """Give bytes of (memory, deleted files) that the processes hold.

    Memory: what is resident and not shared, memory files (memfd), and what lies in the tree's own tmpfs
    mounts. Deleted files still held open take space that no walk over the workspace finds.
    """
    resident, deleted = 0, 0
    held: dict[tuple[int, int], tuple[int, bool]] = {}
    for pid in pids:
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:
                pages = file.read().split()
            resident += (int(pages[1]) - int(pages[2])) * _PAGE
            _note_deleted(pid, held)
        except (OSError, IndexError):
            continue  # it has ended, or is a zombie
    for size, in_memory in held.values():
        resident += size if in_memory else 0
        deleted += 0 if in_memory else size
    for mount in private_mounts:
        space = os.statvfs(mount)
        resident += (space.f_blocks - space.f_bfree) * space.f_frsize
    return resident, deleted


def _note_deleted(pid: int, held: dict[tuple[int, int], tuple[int, bool]]) -> None:
    for name in os.listdir(f"/proc/{pid}/fd"):
        path = f"/proc/{pid}/fd/{name}"
        try:
            target = os.readlink(path)
            if target.endswith(" (deleted)"):
                file = os.stat(path)
                held[file.st_dev, file.st_ino] = (file.st_blocks * _BLOCK, target.startswith("/memfd:"))
        except OSError:
            continue


def folder(path: str, most_files: int) -> tuple[int, int]:
    """Give (bytes on disk, number of entries) below `path`, giving up just above `most_files` entries.

    Counts blocks, so a sparse file costs what it takes; a hard link counts each time. A folder that cannot be
    opened is passed over, one nested too deep counts as `UNCOUNTABLE`.
    """
    size, entries = 0, 0
    top = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    waiting = ["."]
    try:
        while waiting and entries <= most_files:
            place = waiting.pop()
            taken, count, below = _one_folder(top, place, most_files - entries)
            size, entries = size + taken, entries + count
            waiting += below
    finally:
        os.close(top)
    return size, entries


def _one_folder(top: int, place: str, most: int) -> tuple[int, int, list[str]]:
    size, entries = 0, 0
    below: list[str] = []
    try:
        folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
    except OSError as error:
        return (UNCOUNTABLE, 1, []) if error.errno == 36 else (0, 0, [])  # 36: ENAMETOOLONG
    try:
        for entry in os.scandir(folder):
            entries += 1
            if entries > most:
                break
            try:
                size += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                if entry.is_dir(follow_symlinks=False):
                    below.append(f"{place}/{entry.name}")
            except OSError:
                continue
    except OSError:
        pass  # it vanished while it was read
    finally:
        os.close(folder)
    return size, entries, below
