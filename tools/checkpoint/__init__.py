"""Checkpoints of the workspace: what each call changed, and the way back.

    checkpoints.py   all workspaces: the hook around calls, what a session asks for. Start here
    timeline.py      one workspace: one snapshot or restore at a time
    scan.py          a snapshot: what is stored, noted, left out
    objects.py       where contents are kept: a bare git repository outside the workspace
    facts.py         what changed, in words and numbers
    plan.py          what an undo would do, and whose changes it would meet
    put_back.py      carrying it out, without ever following a link

What is compared is the folder itself, so shell commands are seen like every other tool, and so are the person's edits.
"""

from tools.checkpoint.checkpoints import Checkpoints as Checkpoints
from tools.checkpoint.scan import Bounds as Bounds
