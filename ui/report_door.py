"""Reports over HTTP, for the owner of a session: `GET /sessions/<id>/report`, as a file to save.

Knows sessions and HTTP. Refuses to know what is in a report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from agent.errors import Refused, StoreError
from agent.sessions import Sessions
from ui.harden import LANGUAGE_COOKIE
from ui.report import render_report
from ui.report_pictures import Pictures
from ui.texts import choose


class ReportDoor:
    """The endpoint: `get`."""

    def __init__(self, sessions: Sessions, owner_of: Callable[[Mapping[str, str]], str], language: str) -> None:
        """`owner_of` says who asks, from their cookies; empty for nobody. `language` is the operator's setting."""
        self._sessions, self._owner_of, self._language = sessions, owner_of, language

    async def get(self, request: Request) -> Response:
        owner, session_id = self._owner_of(request.cookies), request.path_params["session"]
        accepted = request.headers.get("accept-language", "")
        language = choose(self._language, request.cookies.get(LANGUAGE_COOKIE, ""), accepted)
        try:
            session = await self._sessions.open(owner, session_id)
            embed = Pictures(session.outbox).embed
            page = await self._sessions.told(
                owner, session_id, lambda title, entries, scrub: render_report(entries, language, title, scrub, embed)
            )
        except (Refused, StoreError):
            return PlainTextResponse("There is no such conversation.", 404)
        headers = {
            "content-disposition": 'attachment; filename="glassloop-report.html"',
            "content-security-policy": "sandbox; default-src 'none'",
            "cache-control": "no-store",
        }
        return Response(page.encode(), media_type="application/octet-stream", headers=headers)
