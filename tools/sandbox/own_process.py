"""What the app can do for itself, before any command runs: keep its memory from other processes of the same
user.

Knows one kernel flag. It is a second net under the fence: a process of the same user can read
`/proc/<app>/environ`, which shows a key even after it was deleted from `os.environ`, and `/proc/<app>/mem`.
"""

import sys

if sys.platform == "linux":
    from tools.sandbox.inside import kernel


def seal_own_process() -> bool:
    """Refuse this process's memory, environment and descriptors to others of the same user; tell whether that
    worked.

    Linux only. The price: no core dump, and no profiler or debugger can attach. Root is not kept out.
    """
    if sys.platform != "linux":
        return False
    kernel.prctl("dumpable", kernel.PR_SET_DUMPABLE, 0)
    return True
