"""What a person answers to calls that wait, and the rules they take back.

What a browser sends is a wish: it names a call, the hash of the arguments it showed, and one of the scopes that were
offered, and all three are compared with what the server knows (`agent/approval.py`). Who asks has been checked before
(`ui/handlers.py`). Refuses to know gradio and how anything looks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent.approval import Decision, questions, rules_in_force
from agent.errors import Refused
from agent.messages import ToolCall
from agent.policy import arguments_hash
from agent.scopes import ONCE
from agent.session import Session
from ui import approvals
from ui.approvals import ARGUMENT, as_text, values_of
from ui.history import Action
from ui.refused import why
from ui.replay import ReplaySession
from ui.visits import Visit, Visits

MAX_REASON = 500
MAX_ARGUMENT = 400_000
"""Characters."""


class Deciding:
    """The actions, by the name that a button gives."""

    def __init__(self, visits: Visits) -> None:
        self._visits = visits
        self.actions: dict[str, Action] = {
            "allow": self._decide,
            "deny": self._decide,
            "allow_all": self._decide_all,
            "deny_all": self._decide_all,
            "revoke": self._revoke,
        }

    async def _decide(self, visit: Visit, data: dict[str, Any]) -> None:
        session = self._visits.session(visit)
        session.decide_all([_decision(visit, session, data, data.get("do") == "allow")])
        self._visits.ring(visit.owner)

    async def _decide_all(self, visit: Visit, data: dict[str, Any]) -> None:
        """All or none: what came meanwhile is not decided with them."""
        session, each = self._visits.session(visit), data.get("each")
        forms = [form for form in each if isinstance(form, dict)] if isinstance(each, list) else []
        allowed = data.get("do") == "allow_all"
        session.decide_all([_decision(visit, session, {**form, "scope": ONCE}, allowed) for form in forms])
        self._visits.ring(visit.owner)

    async def _revoke(self, visit: Visit, data: dict[str, Any]) -> None:
        self._visits.session(visit).revoke(str(data.get("id", "")))
        self._visits.ring(visit.owner)

    # ------------------------------------------------------------------ markup

    def dock(self, visit: Visit) -> str:
        return approvals.card(visit.words, questions(visit.session))

    def panel(self, visit: Visit) -> str:
        rules, trouble = rules_in_force(visit.session)
        may_revoke = not isinstance(visit.session, ReplaySession)
        return approvals.panel(visit.words, rules, why(visit.words, trouble), visit.decisions, may_revoke)


def _decision(visit: Visit, session: Session, form: Mapping[str, Any], allowed: bool) -> Decision:
    call_id, seen = str(form.get("id", "")), str(form.get("hash", ""))
    if not allowed:
        return Decision(call_id, seen, False, str(form.get("reason", ""))[:MAX_REASON])
    scope = str(form.get("scope", ONCE))
    call = next((call for call in session.waiting_calls() if call.id == call_id), None)
    # Fields are read against the call that the person saw; another one is refused as a stale decision anyway.
    arguments = edited(visit, call, form) if call is not None and arguments_hash(call) == seen else None
    if arguments is not None and scope != ONCE:
        raise Refused(visit.words["changed_once"])
    return Decision(call_id, seen, True, "", scope, arguments)


def edited(visit: Visit, call: ToolCall, form: Mapping[str, Any]) -> str | None:
    """The arguments as the person changed them, as JSON; None where no field was changed. Raises Refused."""
    fields = {
        name.removeprefix(ARGUMENT): str(text).replace("\r\n", "\n")[:MAX_ARGUMENT]
        for name, text in form.items()
        if name.startswith(ARGUMENT)
    }
    values = values_of(call)
    if not fields:
        return None
    if values is None:
        return fields.get("")
    changed = dict(values)
    for name, text in fields.items():
        if name in values and text != as_text(values[name]):
            changed[name] = text if isinstance(values[name], str) else _json(visit, name, text)
    return None if changed == values else json.dumps(changed, ensure_ascii=False)


def _json(visit: Visit, name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(visit.words["change_no_json"].format(name=name, why=error)) from None
