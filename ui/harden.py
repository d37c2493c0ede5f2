"""The outer skin of the web server: who may knock, who they are, and what a page may load.

Knows HTTP only. Refuses to know gradio's components and sessions. It stands around the whole app, so nothing inside can
be reached without it.
"""

from __future__ import annotations

import ipaddress
import re
import secrets
from collections import OrderedDict
from collections.abc import Collection, Mapping
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.sessions import HOME_OWNER as HOME_OWNER

COOKIE = "glassloop_owner"
LANGUAGE_COOKIE = "glassloop_language"
_OWNER = re.compile(r"[A-Za-z0-9_-]{43}")  # secrets.token_urlsafe(32): 256 bits
_YEAR = 365 * 24 * 3600

POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:",  # gradio compiles its templates in the browser
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "media-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self'",
        "form-action 'self'",
        "object-src 'none'",
        "base-uri 'self'",
    ]
)
"""Nothing is fetched from another host, whatever a model writes into the page. Where we know our own names, no other
site may put the page into a frame either: a click on it must be a click on what the person sees."""

_PAGES_KNOWN = 20_000
"""Open pages whose owner is remembered; the oldest are forgotten first."""

LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})

_OWN_PAGES = ("same-origin", "none")
"""What a browser says of a request that our own page, or nobody's, has sent. Programs say nothing."""

_IN_FRAMES = "SameSite=None; Secure; Partitioned"
"""A cookie that reaches a page in another site's frame, and no other site's frames reach it."""

_CLOSED = ("/file=http", "/proxy=", "/gradio_api/upload", "/monitoring")
"""Doors of gradio that nobody here uses. The first two make the server fetch an address that the client names."""


def owner_of(cookies: Mapping[str, str], at_home: bool = False) -> str:
    """The visitor's id from their cookie; empty where there is none that we could have set.

    `at_home`: the app answers on this machine only, and one person is taken to sit at it. Every browser and the command
    line show the same conversations then, and a lost cookie loses nothing. The price: other accounts of the same
    machine can open the page, too, and then they see them. A loopback port keeps other machines out, and no account.
    """
    if at_home:
        return HOME_OWNER
    value = cookies.get(COOKIE, "")
    return value if _OWNER.fullmatch(value) else ""


class Harden:
    """ASGI middleware. `names`: answer only under these names of ours, so that no web page of another site can reach us
    by pointing its own name here (DNS rebinding); None: under any. `framed`: the page lies in a frame of another site,
    as that of a Space does, and its cookie has to get there."""

    def __init__(
        self, app: ASGIApp, names: Collection[str] | None, at_home: bool = False, framed: bool = False
    ) -> None:
        self._app = app
        self._names = names
        self._at_home = at_home
        self._framed = framed
        self._owner_of_page: OrderedDict[str, str] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        refusal = self._refusal(scope, headers)
        if refusal:
            await PlainTextResponse(refusal, 403)(scope, receive, send)
            return
        new_owner = "" if self._at_home else _new_owner(scope, headers)

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._add_headers(MutableHeaders(scope=message), new_owner, secure=scope.get("scheme") == "https")
            await send(message)

        await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers) -> str:
        """Why this request is not served; empty for one that is."""
        path = scope["path"].lower()
        if any(closed in path for closed in _CLOSED):
            return "This door is closed."
        if not self._page_is_theirs(scope, headers):
            return "This page belongs to another visitor."
        if scope["method"] not in ("GET", "HEAD") and headers.get("sec-fetch-site", "none") not in _OWN_PAGES:
            return "Requests from other sites are refused."
        if self._names is None:
            return ""
        host = headers.get("host", "")
        origin = headers.get("origin", "")
        if _name(f"//{host}") not in self._names:
            return "This address is for this machine only. Set GLASSLOOP_HOST to serve other names."
        if origin and origin.split("://")[-1] != host and _name(origin) not in set(self._names) - LOCAL_NAMES:
            return "Requests from other sites are refused."
        return ""

    def _add_headers(self, headers: MutableHeaders, new_owner: str, secure: bool) -> None:
        policy = POLICY if self._names is None else f"{POLICY}; frame-ancestors 'self'"
        headers.setdefault("content-security-policy", policy)  # a download sets a stricter one
        headers["x-content-type-options"] = "nosniff"
        headers["referrer-policy"] = "no-referrer"
        if new_owner:
            where = _IN_FRAMES if self._framed else f"SameSite=Lax{'; Secure' if secure else ''}"
            headers.append("set-cookie", f"{COOKIE}={new_owner}; Path=/; Max-Age={_YEAR}; HttpOnly; {where}")
            headers["cache-control"] = "no-store"

    def _page_is_theirs(self, scope: Scope, headers: Headers) -> bool:
        """A page's event stream goes to the visitor who opened the page: gradio hands it to whoever knows its id."""
        page = _page_id(scope)
        if not page or self._at_home:
            return True
        owner = owner_of(cookie_parser(headers.get("cookie", "")))
        first = self._owner_of_page.setdefault(page, owner)
        if len(self._owner_of_page) > _PAGES_KNOWN:
            self._owner_of_page.popitem(last=False)
        return bool(owner) and first == owner


def _page_id(scope: Scope) -> str:
    """The id a browser has made up for its page, where the address names it."""
    beat = re.fullmatch(r"/gradio_api/heartbeat/([^/]{1,100})", scope["path"])
    if beat:
        return beat[1]
    query: bytes = scope.get("query_string", b"")
    return parse_qs(query.decode("latin-1")).get("session_hash", [""])[0]


def _name(address: str) -> str:
    try:
        return urlsplit(address).hostname or ""
    except ValueError:
        return ""


def _new_owner(scope: Scope, headers: Headers) -> str:
    """An id for a visitor who opens the page without one."""
    if scope["method"] != "GET" or scope["path"] != "/" or owner_of(cookie_parser(headers.get("cookie", ""))):
        return ""
    return secrets.token_urlsafe(32)


def is_local(host: str) -> bool:
    """Whether an address to listen on is reachable from this machine only."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
