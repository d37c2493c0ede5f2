"""The browser page: puts the pieces together, serves them, and shuts down without leaving anything behind.

Knows gradio's Blocks, the web server and signals. Refuses to know what a turn is and how anything looks.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Collection, Coroutine
from pathlib import Path
from typing import Any

import fastapi
import gradio as gr
import uvicorn
from starlette.routing import Route

from agent.errors import ModelError
from agent.llm.chosen import ChosenModels
from agent.session import Session
from agent.sessions import Sessions
from agent.settings import Settings
from ui.api import Api
from ui.attaching import Intake
from ui.browsing import Desk
from ui.downloads import Downloads
from ui.exchange_door import ExchangeDoor
from ui.handlers import Handlers
from ui.harden import LOCAL_NAMES, Harden, is_local
from ui.panels import Status
from ui.report_door import ReportDoor
from ui.sharing import Share
from ui.style import style_sheet, theme
from ui.upload_door import UploadDoor
from ui.workspace_door import WorkspaceDoor

__all__ = ["Share", "Status", "build", "serve"]

_HERE = Path(__file__).parent

logger = logging.getLogger(__name__)

_ASK = """
const fields = (form) => {
  const found = {}, first = form.querySelector('input:not([name])');
  if (first) found.text = first.value;
  for (const field of form.querySelectorAll('[name]')) {
    const before = (field.defaultValue ?? '').replace(/\\r\\n?/g, '\\n');
    const untouched = 'changed' in field.dataset && field.value === before;
    if (!untouched && (field.type !== 'checkbox' || field.checked)) found[field.name] = field.value;
  }
  return found;
};
element.addEventListener('click', (event) => {
  const button = event.target.closest('[data-do]');
  if (!button || !element.contains(button) || button.disabled) return;
  const form = button.closest('[data-form]');
  const asked = form ? {...fields(form), ...form.dataset, ...button.dataset} : {...button.dataset};
  if ('all' in button.dataset)
    asked.each = [...button.closest('section').querySelectorAll('[data-form]')].map(
      (one) => ({...fields(one), ...one.dataset}));
  trigger('click', asked);
});
if (element.closest('#gl-right')) {
  document.addEventListener('glassloop:do', (event) => {
    event.preventDefault();  // tells who asked that somebody listens
    trigger('click', event.detail);
  });
}
"""
"""In the browser: a button's `data-` facts, and what is written in its form, become the event `Handlers.act` reads. A
field with `data-changed` is read only where the person has changed it."""

_UPLOADS = '<div class="gl-uploads" role="group" aria-live="polite"></div>'
"""Where `uploads.js` shows what is attached."""

_PORTS_TO_TRY = 20


def build(handlers: Handlers) -> gr.Blocks:
    """The page's components and what their events do. It holds no words: the panel lane brings them."""
    chat: dict[str, Any] = {
        "show_label": False,
        "height": None,
        "autoscroll": False,
        "buttons": [],
        "layout": "bubble",
        "sanitize_html": True,
        "allow_tags": False,
        "container": False,
        "latex_delimiters": [
            {"left": "$$", "right": "$$", "display": True},
            {"left": "\\[", "right": "\\]", "display": True},
            {"left": "\\(", "right": "\\)", "display": False},
        ],
    }
    with (
        gr.Blocks(title="Glassloop", analytics_enabled=False, fill_width=True, delete_cache=(3600, 86400)) as page,
        gr.Column(elem_id="gl-app"),
    ):
        header = gr.HTML(apply_default_css=False, elem_id="gl-header", js_on_load=_ASK)
        with gr.Row(elem_id="gl-main"):
            with gr.Column(elem_id="gl-left"):
                search = gr.Textbox(elem_id="gl-search", show_label=False, container=False, lines=1, max_lines=1)
                left = gr.HTML(apply_default_css=False, elem_id="gl-list", js_on_load=_ASK)
            with gr.Column(elem_id="gl-centre"):
                with gr.Column(elem_id="gl-scroll"):
                    welcome = gr.HTML(apply_default_css=False, elem_id="gl-welcome", js_on_load=_ASK)
                    history = gr.Chatbot(elem_id="gl-history", elem_classes="gl-chat", **chat)
                    live = gr.Chatbot(elem_id="gl-live", elem_classes="gl-chat", **chat)
                dock = gr.HTML(apply_default_css=False, elem_id="gl-dock", js_on_load=_ASK)
                gr.HTML(_UPLOADS, apply_default_css=False, elem_id="gl-uploads", js_on_load=None)
                # Read, emptied and filled by page.js, which is there when a key is struck; an event of gradio's comes
                # later, and would take or overwrite what was typed in between.
                written: dict[str, Any] = {"show_label": False, "container": False, "interactive": True}
                gr.Textbox(elem_id="gl-must", lines=5, max_lines=8, **written)
                with gr.Row(elem_id="gl-composer"):
                    gr.Button("", elem_id="gl-attach", scale=0)
                    gr.Button("", elem_id="gl-must-toggle", scale=0)
                    gr.Textbox(elem_id="gl-box", lines=1, max_lines=10, scale=1, **written)
                    gr.Button("", elem_id="gl-send", scale=0)
                    stop = gr.Button("", elem_id="gl-stop", scale=0)
            right = gr.HTML(apply_default_css=False, elem_id="gl-right", js_on_load=_ASK)
        sheet = gr.HTML(apply_default_css=False, elem_id="gl-sheet", js_on_load=_ASK)
        state = gr.HTML(apply_default_css=False, elem_id="gl-state", js_on_load=None)
        back = gr.HTML(apply_default_css=False, elem_id="gl-back", js_on_load=None)

        lane: dict[str, Any] = {"show_progress": "hidden", "concurrency_limit": None, "api_visibility": "private"}
        page.load(handlers.live_lane, None, live, **lane)
        page.load(handlers.history_lane, None, [history, live], **lane)
        page.load(handlers.panel_lane, None, [header, left, welcome, dock, right, sheet, state, back], **lane)
        page.unload(handlers.leave)

        action: dict[str, Any] = {
            "queue": False,
            "show_progress": "hidden",
            "trigger_mode": "multiple",
            "api_visibility": "private",
        }
        stop.click(handlers.stop, None, None, **action)
        # `change`, not `input`: gradio sends that one only for keys, not for a paste or the clear cross
        search.change(handlers.search, search, None, **{**action, "trigger_mode": "always_last"})
        for panel in (header, left, welcome, dock, right, sheet):
            panel.click(handlers.act, None, None, **action)
    return page  # type: ignore[no-any-return]


def web_app(
    handlers: Handlers, sessions: Sessions, settings: Settings, names: Collection[str] | None = LOCAL_NAMES
) -> tuple[fastapi.FastAPI, gr.Blocks]:
    """The whole web application: gradio's page, the doors beside it, and the skin around both.

    `names`: the names under which it answers; None: any.
    """
    page = build(handlers)
    app = fastapi.FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    app.router.routes.append(
        Route("/files/{session}/{file}", Downloads(sessions, handlers.owner_of).get, methods=["GET"])
    )
    door = ExchangeDoor(sessions, handlers.owner_of)
    app.router.routes.append(Route("/sessions/{session}/export", door.export, methods=["GET"]))
    app.router.routes.append(Route("/sessions/import", door.import_, methods=["POST"]))
    if handlers.intake is not None:
        uploads = UploadDoor(sessions, handlers.owner_of, handlers.intake, handlers.visits.ring)
        app.router.routes.append(Route("/sessions/{session}/uploads", uploads.post, methods=["POST"]))
        app.router.routes.append(Route("/sessions/{session}/uploads/{upload}", uploads.get, methods=["GET"]))
    workspace = WorkspaceDoor(sessions, handlers.owner_of, handlers.browser, handlers.visits.ring)
    app.router.routes.append(Route("/sessions/{session}/workspace", workspace.save, methods=["GET"]))
    app.router.routes.append(Route("/sessions/{session}/workspace", workspace.put, methods=["POST"]))
    app.router.routes.append(Route("/sessions/{session}/look/{look}", workspace.look, methods=["GET"]))
    report = ReportDoor(sessions, handlers.owner_of, settings.language)
    app.router.routes.append(Route("/sessions/{session}/report", report.get, methods=["GET"]))
    app.router.routes.extend(Api(sessions, settings, handlers.at_home).routes())
    gr.mount_gradio_app(
        app,
        page,
        path="/",
        footer_links=[],
        run_history=False,
        ssr_mode=False,
        enable_monitoring=False,
        mcp_server=False,
        pwa=False,
        show_error=False,
        max_file_size="1kb",
        allowed_paths=[],
        theme=theme(),
        head=style_sheet() + f"<script>{(_HERE / 'uploads.js').read_text(encoding='utf-8')}</script>",
        js=(_HERE / "page.js").read_text(encoding="utf-8"),
    )
    page.is_running = True  # what launch() would set: gradio's keep-alive on the event stream asks for it
    app.add_middleware(Harden, names=names, at_home=handlers.at_home, framed=handlers.exposure == "space")
    return app, page


def serve(
    sessions: Sessions,
    open_session: Callable[[str], Session],
    settings: Settings,
    status: Status,
    announce: Callable[[str], None] = lambda address: None,
    models: ChosenModels | None = None,
    share: Share | None = None,
    warm_up: Callable[[], Coroutine[Any, Any, None]] | None = None,
    intake: Intake | None = None,
    desk: Desk | None = None,
) -> None:
    """Serve the page until Ctrl-C or SIGTERM; then every turn is stopped and every process of it gone.

    `open_session` makes an empty session for an owner. `announce` is told the page's address once it can be opened.
    `models`: what other models a person may connect; None: there is no such choice. `share`: a public address is asked
    for once the page can be opened. `warm_up`: what the model likes to do before it is asked, beside everything else.
    `intake`: takes in what people attach; None: nothing can be attached. `desk`: what a
    person does with the workspace. Raises OSError where no port can be had.
    """
    handlers = Handlers(sessions, open_session, status, settings.language, models, intake, desk)
    names = set(LOCAL_NAMES) if is_local(settings.host) or handlers.at_home else None
    listener = listen(settings.host, settings.port)

    def ready() -> None:
        announce(address_of(listener, settings.host))
        if share is not None:
            reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
            share.begin(reached, listener.getsockname()[1], names if names is not None else set())

    async def run() -> None:
        app, page = web_app(handlers, sessions, settings, names)  # outside a loop gradio makes several, for ever
        await Server(app, page, handlers, sessions, ready, warm_up).serve([listener])

    old = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        asyncio.run(run())
    except KeyboardInterrupt:
        pass  # uvicorn has shut down in order and then passes the signal on
    finally:
        signal.signal(signal.SIGTERM, old)
        listener.close()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket on the port, or on the next free one; port 0 is any. Raises OSError where none is free."""
    last = port if port == 0 else min(port + _PORTS_TO_TRY, 65535)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, last + 1):
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, candidate))
        except OSError:
            listener.close()
            if candidate == last:
                raise
        else:
            listener.listen(128)
            return listener
    raise OSError(f"no port from {port} to {last}")


def address_of(listener: socket.socket, host: str) -> str:
    """The address a person types. All interfaces are named by the one that always works."""
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{shown}:{listener.getsockname()[1]}"


class Server(uvicorn.Server):
    """uvicorn that ends the app's work before it ends its connections."""

    def __init__(
        self,
        app: fastapi.FastAPI,
        page: gr.Blocks,
        handlers: Handlers,
        sessions: Sessions,
        ready: Callable[[], None] = lambda: None,
        warm_up: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        super().__init__(
            uvicorn.Config(app, log_level="critical", access_log=False, timeout_graceful_shutdown=1, lifespan="on")
        )
        self._page, self._handlers, self._sessions, self._ready = page, handlers, sessions, ready
        self._warm_up = warm_up
        self._warming: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()
        if self._warm_up is not None:
            self._warming = asyncio.create_task(_warm(self._warm_up()), name="warm up")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._warming is not None:
            self._warming.cancel()
        await self._sessions.stop_all()
        self._handlers.visits.close_all()
        if self._handlers.models is not None:
            await self._handlers.models.close()
        self._page.is_running = False
        await super().shutdown(sockets)


async def _warm(work: Coroutine[Any, Any, None]) -> None:
    """What fails here fails again when the person asks, and is said then."""
    try:
        await work
    except ModelError as error:
        logger.info("the model was not warmed up: %s", error)
