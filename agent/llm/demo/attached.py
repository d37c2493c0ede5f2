"""What the demo does with files that came with a message: it reads the documents. It cannot see pictures.

Knows when a message is about its files. Refuses to know what is in them.
"""

from __future__ import annotations

import re

from agent.llm.demo.plan import Plan, Want

_ABOUT_THEM = re.compile(
    r"\b(this|these|it|its|them|attach(?:ed|ments?)|uploads?|uploaded)\b|这|它|附件|上传", re.IGNORECASE
)


def with_documents(plan: Plan, text: str, paths: tuple[str, ...]) -> Plan:
    """The plan, or one that reads the documents, where the message leads nowhere or is about them."""
    understood = plan.steps or plan.sayings
    if not paths or (understood and not _ABOUT_THEM.search(text)):
        return plan
    wants = tuple(Want("read_document", {"path": path}) for path in paths)
    return Plan(steps=[lambda _: wants], parts=[(text or ", ".join(paths), 1)])
