"""Memory across sessions: what the model writes down, looks up and is reminded of.

    remind     at the start of a turn: the few memories that have to do with what the person says
    remember, recall, forget     the tools; policy asks the person wherever the wish may be somebody else's

Ranking is by the words a text shares with a memory, rare ones counting more; Chinese and its like by pairs of
characters, since nothing separates words there. All of it is done here over one owner's rows instead of in a database's
index: they are few and short, and the order is the same whichever database there is.

Knows what is relevant. Refuses to know how memories are kept (`agent/store/memories.py`).
"""

from __future__ import annotations

import logging
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from agent.errors import NotKept, Refused, StoreError, ToolError
from agent.events import Memory, Recalled
from agent.store.memories import MAX_CHARS, Memories, Remembered
from agent.tool import Effect, Tool, ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from agent.session import Session

logger = logging.getLogger(__name__)

MAX_RECALLED = 5
"""In one turn."""
MAX_STANDING = 3
"""Of those, the ones that hold always."""
MAX_FOUND = 10
"""What one look-up gives."""
MAX_SAID = 4_000
"""Characters of a message that are compared with memories; a pasted document is about everything."""

# ---------------------------------------------------------------------- what has to do with what

_WORD = re.compile(r"[^\W_]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0002fa1f]+")
_STEM = 6
"""Letters of a word that count: enough to tell words apart, few enough to find `reporting` by `reports`."""

_SMALL_WORDS = (
    "a about after all also am an and any are as at be been before but by can could did do does for from get give "
    "go had has have he hello help her here hi him his how i if in into is it its just let like make me my need "
    "no not now of off ok on one only or other our out over please say see she should show so some tell than "
    "thank thanks that the their them then there these they thing this those to too up us use user very want was "
    "we were what when where which who why will with would write yes you your prefer prefers likes wants "
    "一个 一下 我们 你们 他们 这个 那个 什么 怎么 可以 帮我 请帮 给我 我想 我要 想要 现在 "
    "如果 因为 所以 但是 然后 还有 没有 不是 就是 用户 喜欢 希望 需要 请用 是什 么样 怎样 "
    "如何 使用 一些 这些 那些 已经 时候 为什 "
)
_SAYS_NOTHING = frozenset(_SMALL_WORDS.split())


@lru_cache(maxsize=4_096)
def terms(text: str) -> frozenset[str]:
    """What a text is about: the stems of its words, and pairs of characters where words are not separated."""
    found: set[str] = set()
    for word in set(_WORD.findall(unicodedata.normalize("NFKC", text[:MAX_SAID]).casefold())) - _SAYS_NOTHING:
        if word.isascii():
            found.add(_stem(word))
            continue
        for run in _UNSPACED.findall(word):
            found.update(run[i : i + 2] for i in range(max(len(run) - 1, 1)))
        found.update(map(_stem, _UNSPACED.split(word)))
    return frozenset(term for term in found - _SAYS_NOTHING if len(term) > 1 or _UNSPACED.match(term))


def _stem(word: str) -> str:
    singular = word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
    return singular[:_STEM]


def relevant(memories: Sequence[Remembered], text: str) -> list[Remembered]:
    """Those that have to do with the text, the best first."""
    wanted = terms(text)
    about = [terms(memory.text) & wanted for memory in memories]
    count = Counter(term for each in about for term in each)
    scores = [sum(math.log(1 + len(memories) / count[term]) for term in each) for each in about]
    order = sorted(range(len(memories)), key=lambda i: -scores[i])  # equal ones stay in their order, the latest first
    return [memories[i] for i in order if scores[i] > 0]


# ---------------------------------------------------------------------- at the start of a turn


def remind(session: Session, said: str, told: Collection[Memory]) -> None:
    """Tell the model what is remembered about this; not what it was `told` before on this branch.

    Memory that cannot be read costs the turn nothing but the memory. Raises NotKept where the log cannot be written.
    """
    if session.memory is None:
        return
    try:
        chosen = choose(session.memory.all(), said) if session.memory.on else []
    except StoreError as error:
        logger.warning("session %s goes on without memory: %s", session.id, error)
        return
    new = tuple(memory for one in chosen if (memory := Memory(one.id, one.text)) not in told)
    if not new:
        return
    session.append(Recalled(new, reminder(new)))
    try:
        session.memory.used(memory.id for memory in new)
    except NotKept as error:
        logger.warning("when memories were used was not written down: %s", error)


def choose(memories: Sequence[Remembered], said: str) -> list[Remembered]:
    """What a turn that begins with these words is reminded of."""
    standing = [memory for memory in memories if memory.always][:MAX_STANDING]
    about = relevant([memory for memory in memories if not memory.always], said)
    return [*standing, *about][:MAX_RECALLED]


def reminder(memories: Iterable[Memory]) -> str:
    """As the model reads it."""
    return (
        "From your memory of earlier conversations with this user. It may be out of date, and may have nothing to do "
        f"with this task; what the user says now comes first.\n{_listed(memories)}"
    )


def _listed(memories: Iterable[Memory | Remembered]) -> str:
    return "\n".join(f"- {memory.text} [{memory.id}]" for memory in memories)


# ---------------------------------------------------------------------- the tools


@tool(Effect.REMEMBER, speaks="app")
def remember(
    context: ToolContext,
    text: Annotated[
        str,
        Field(
            min_length=1,
            max_length=MAX_CHARS,
            description="One fact in one or two sentences that make sense on their own, in the user's language",
        ),
    ],
    always: Annotated[
        bool, Field(description="true for what holds in every conversation, such as the language of answers")
    ] = False,
) -> ToolResult:
    """Remember something about this user for later conversations.

    Worth it: what the user asks you to remember, lasting preferences, who they are, how their projects are set up,
    corrections that will matter again. Not worth it: the task at hand, one-off facts, what a file or the web says and
    can be looked up again. Never passwords, keys, tokens, card or identity numbers: they are refused.
    """
    with _refusals():
        made = _memories(context).add(text, context.session_id, always)
    return ToolResult(f"Remembered: {made.text} [{made.id}]")


@tool(Effect.READ, speaks="app")
def recall(
    context: ToolContext,
    query: Annotated[str, Field(max_length=400, description="Words it may contain; empty for the latest memories")],
) -> ToolResult:
    """Look up what was remembered in earlier conversations with this user. The ids in brackets are for forget."""
    memories = _memories(context)
    with _refusals():
        if not memories.on:
            raise Refused("the user has switched memory off")
        there = memories.all()
    found = (relevant(there, query) if query.strip() else there)[:MAX_FOUND]
    return ToolResult(_listed(found) or "Nothing about that is remembered.", details={"entries": len(found)})


@tool(Effect.REMEMBER, speaks="app")
def forget(
    context: ToolContext, id: Annotated[str, Field(description="The id in brackets behind a memory, such as 3fa9c1d2")]
) -> ToolResult:
    """Forget one memory, because the user asks for it or because it is wrong. What has changed, remember anew."""
    with _refusals():
        gone = _memories(context).delete(id.strip("[] "))
    return ToolResult(f"Forgotten: {gone.text}")


MEMORY_TOOLS: tuple[Tool, ...] = (remember, recall, forget)


def _memories(context: ToolContext) -> Memories:
    """The owner's. A sub-agent has none: it does not speak for the person."""
    if context.session is None or context.session.memory is None:
        raise ToolError("there is no memory here")
    return context.session.memory


@contextmanager
def _refusals() -> Iterator[None]:
    """What memory refuses, the model is told."""
    try:
        yield
    except (Refused, StoreError, NotKept) as error:
        raise ToolError(str(error)) from None
