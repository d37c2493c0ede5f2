"""The plan: a short checklist that the model keeps of a longer task, through one tool of the engine's own.

It is a draft, not law. Items may be added and put in other words; an item that is given up says why, and none goes
without a word. The plan belongs to the turn and is a fold of the log (`TurnState.plan`), so it is there again when the
turn goes on. Knows what a sound plan is. Refuses to know how it looks, and whether what it calls done is true
(`agent/proof.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from agent.errors import ToolError
from agent.events import Nudged, PlanChanged, PlanItem
from agent.tool import Effect, ToolContext, ToolResult, tool

if TYPE_CHECKING:
    from agent.agent import Agent
    from agent.session import Session

FEWEST, MOST = 3, 8
"""Items that are not dropped. Fewer need no list; of more nobody keeps sight, neither model nor person."""

ALIKE = 0.5
"""From here on two wordings mean the same item (difflib's ratio): "Write report" and "Write the report.md" do."""

PROMPT = """\
- For a task of three steps or more keep a plan with update_plan: make it before the first step, and bring it up to date
  whenever one is done. What you find out may change it. A single question or a single step needs none."""

PLAN_FIRST = (
    f"Before anything else call update_plan, and nothing beside it: {FEWEST} to {MOST} short items that lead to what "
    "was asked for. Begin with the work in the next step."
)


class Item(BaseModel):
    """One item, as the model gives it."""

    model_config = ConfigDict(extra="forbid")

    text: Annotated[str, Field(description="What is to be done, in a few words.", min_length=1, max_length=200)]
    status: Annotated[Literal["open", "doing", "done", "dropped"], Field(description="Where it stands.")] = "open"
    why: Annotated[str, Field(description="Why it is dropped; only with dropped.", max_length=300)] = ""


@tool(Effect.READ, speaks="app")
async def update_plan(
    context: ToolContext, items: Annotated[list[Item], Field(description="The whole plan, in order, 3 to 8 items.")]
) -> ToolResult:
    """Keep the plan of this task: the user sees it as a checklist. Give the whole list each time.

    Mark what you are at as doing, and an item as done only when a result shows it; name the files it is about.
    Items may be added and reworded. One that turns out to be unnecessary or impossible stays in the list as dropped,
    with the reason in why. Dropped is not done.
    """
    session = context.session
    assert session is not None, "the session's tool_context has one"
    plan = revised(session.turn.plan, [_item(item) for item in items])
    session.append(PlanChanged(plan))
    done = sum(item.status == "done" for item in plan)
    left = [item.text for item in plan if item.status in ("open", "doing")]
    text = f"{done} of {len(standing(plan))} done." + (f" Next: {left[0]}" if left else "")
    return ToolResult(text, details={"value": f"{done}/{len(standing(plan))}"})


def plan_first(session: Session, agent: Agent) -> None:
    """Where the setting says so, the first step of a task is its plan."""
    turn, toolbox = session.turn, agent.toolbox
    if agent.plan_first and not turn.steps and not turn.plan and toolbox.get(update_plan.name):
        session.append(Nudged("plan_first", PLAN_FIRST))


def standing(plan: Iterable[PlanItem]) -> list[PlanItem]:
    """The items that were not given up."""
    return [item for item in plan if item.status != "dropped"]


def revised(old: Sequence[PlanItem], new: Sequence[PlanItem]) -> tuple[PlanItem, ...]:
    """The new plan in place of the old one. Raises ToolError, worded for the model, where it does not hold.

    What was dropped before, with its reason, need not be said again.
    """
    if lost := _missing(standing(old), new):
        raise ToolError(
            f"these items are missing from the list: {'; '.join(lost)}. Keep them; one that you give up stays in the "
            'list with status "dropped" and the reason in "why"'
        )
    if silent := [item.text for item in new if item.status == "dropped" and not item.why]:
        raise ToolError(f"{silent[0]!r} is dropped without a reason: say in why")
    kept = [item for item in old if item.status == "dropped" and _missing([item], new)]
    plan = (*new, *kept)
    count = len(standing(plan))
    if not old and not FEWEST <= count <= MOST:
        raise ToolError(f"a plan has {FEWEST} to {MOST} items, and this has {count}")
    if count > MOST:
        raise ToolError(f"a plan has at most {MOST} items beside what is dropped, and this has {count}")
    return plan


def _item(item: Item) -> PlanItem:
    why = " ".join(item.why.split()) if item.status == "dropped" else ""
    return PlanItem(" ".join(item.text.split()), item.status, why)


def _missing(old: Iterable[PlanItem], new: Sequence[PlanItem]) -> list[str]:
    """The old items that no item of the new list stands for. One new item stands for one old item."""
    left = [_folded(item.text) for item in new]
    unmatched = []
    for item in old:
        text = _folded(item.text)
        if text in left:
            left.remove(text)
        else:
            unmatched.append(item.text)
    lost = []
    for text in unmatched:
        nearest = max(left, key=lambda other: _likeness(_folded(text), other), default="")
        if nearest and _likeness(_folded(text), nearest) >= ALIKE:
            left.remove(nearest)
        else:
            lost.append(text)
    return lost


def _folded(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".。!！")


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other, autojunk=False).ratio()
