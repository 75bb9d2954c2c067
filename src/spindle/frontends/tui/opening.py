"""Opening threads: the first one, with the questions before it; and another one in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.config.schema import Config
from spindle.errors import SpindleError, reason_of
from spindle.frontends.launch import config_from
from spindle.frontends.tui import leaving
from spindle.frontends.tui.cells.conversation import Conversation, Options
from spindle.frontends.tui.commands.picker import pick_thread
from spindle.frontends.tui.commands.threads import folder_for
from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.launching import Launch
from spindle.frontends.tui.start import before_composer
from spindle.model.catalog import Catalog
from spindle.model.prices import known_prices
from spindle.protocol.request import TokenUsage

if TYPE_CHECKING:
    from spindle.frontends.tui.interface import Interface

AT_A_TIME_S = 0.005
"""How long events are dealt with before keys get their turn."""


class Opening:
    def __init__(self, interface: Interface, launch: Launch) -> None:
        self._app = interface
        self._launch = launch
        self._reader: asyncio.Task[None] | None = None
        self._catalog: Catalog | None = None
        self._model = ""
        """That of the thread that is being opened; what was said in it before has its prices."""
        self.request = SessionRequest(config=launch.config, **launch.request_fields())
        """With what the present thread was opened, or is being opened."""
        self.is_asking_first = launch.asks_first
        """Something is asked, or chosen, before there is a composer."""

    @property
    def is_inline(self) -> bool:
        """Not even pagers take the alternate screen."""
        return self._launch.parsed.flag("no_alt_screen") or self._app.config.tui.alternate_screen == "never"

    # ---- the first thread ------------------------------------------------------------------------

    async def begin(self) -> None:
        """What is asked first, then the thread, then the prompt of the command line."""
        app, launch = self._app, self._launch
        await asyncio.sleep(0)  # keys that were typed ahead are read before anything is asked
        try:
            request = await self._decide()
            if request is None:
                app.quit()
                return
            await self._open(request)
        except (SpindleError, OSError) as error:
            app.give_up(reason_of(error))
            return
        self.is_asking_first = False
        app.say(*launch.notes)
        if launch.draft:
            app.suggest(launch.draft)
        if launch.prompt or launch.images:
            app.enter_first(Draft(text=launch.prompt, shown=launch.prompt, images=tuple(launch.images)))
        app.redraw()
        app.ready()

    async def _decide(self) -> SessionRequest | None:
        """Which thread, with which configuration; None when the person quits."""
        app, launch = self._app, self._launch
        ready = await before_composer(app, lambda: self.config_for(app.config.cwd))
        if ready is None:
            return None
        app.config = ready.config
        request = ready.apply(self.request)
        if launch.picks and ready.request is None:
            verb = "Fork" if launch.action == "fork" else "Resume"
            picked = await pick_thread(app, is_everywhere=launch.parsed.flag("all"), verb=verb)
            if picked.kind == "quit":
                return None
            if picked.thread is None:
                return msgspec.structs.replace(request, fork=False, fork_at=None)
            config = await folder_for(app, picked.thread) or app.config
            app.config = config
            return msgspec.structs.replace(request, config=config, thread=picked.thread.id)
        return request

    def config_for(self, cwd: str) -> Config:
        return config_from(self._launch.parsed, cwd=cwd)

    async def _open(self, request: SessionRequest) -> None:
        self.request = request
        await self._use(await open_thread(request))

    async def _use(self, thread: OpenThread, *, is_shown: bool = False) -> None:
        """Everything is about this thread from now on; what was said in it before is printed first, if it is not
        shown already."""
        app = self._app
        self._model = thread.settings.model
        hearing = Hearing(thread)
        thread.begin()
        if thread.records and not is_shown:
            app.conversation.replay(thread.records)
            begun = app.clock.monotonic()
            for _ in app.conversation.prepare(app.size[0]):
                if app.clock.monotonic() - begun > AT_A_TIME_S:
                    await asyncio.sleep(0)
                    begun = app.clock.monotonic()
        app.opened(thread, hearing)
        self._reader = asyncio.ensure_future(self._read(thread, hearing))

    async def _read(self, thread: OpenThread, hearing: Hearing) -> None:
        app, loop = self._app, asyncio.get_running_loop()
        async for event in hearing:
            begun = loop.time()
            for each in (event, *hearing.take_ready()):
                try:
                    app.hear(each)
                except Exception as error:  # our bug: this event is not shown, the thread and the others live on
                    app.fail(f"internal error: {type(error).__name__}: {error}")
                if loop.time() - begun > AT_A_TIME_S:
                    app.redraw()
                    await asyncio.sleep(0)
                    begun = loop.time()
            app.redraw()
        if app.thread is thread:
            app.give_up("the session has ended by itself; the thread can be resumed")

    # ---- another one -----------------------------------------------------------------------------

    async def switch(self, change: Callable[[SessionRequest], SessionRequest]) -> None:
        """Open another thread; when that fails, this one stays open. Raises SpindleError then."""
        app, old = self._app, self._app.thread
        request = change(self.request)
        if old is not None and request.thread == old.id and not (request.fork or request.ephemeral):
            await self._open_anew(old, request)
            return
        thread = await open_thread(request)
        if old is not None:
            app.closed()
            await leaving.close(old)
        self.request, app.config = request, request.config
        app.conversation = self.new_conversation()
        await self._use(thread)

    async def _open_anew(self, old: OpenThread, request: SessionRequest) -> None:
        """The same thread with other settings. Its record has one writer, so the old one is closed first."""
        self._app.closed()
        await leaving.close(old)
        try:
            thread = await open_thread(request)
        except SpindleError:
            before = msgspec.structs.replace(self.request, thread=old.id, rollout_path=None, newest=False, fork=False)
            await self._use(await open_thread(before), is_shown=True)
            raise
        self.request, self._app.config = request, request.config
        await self._use(thread, is_shown=True)

    def new_conversation(self) -> Conversation:
        config = self._app.config
        conversation = Conversation(
            Options(
                clock=self._app.clock,
                cwd=config.cwd,
                words=self._app.speaks_plainly,
                hides_reasoning=config.hide_agent_reasoning,
                shows_raw_reasoning=config.show_raw_agent_reasoning,
                cost=self._cost,
            )
        )
        conversation.is_raw = config.tui.raw_output_mode
        return conversation

    def _cost(self, usage: TokenUsage) -> float | None:
        """What tokens cost with the model in use, in dollars."""
        app = self._app
        spindle = app.config.spindle
        if self._catalog is None:
            self._catalog = Catalog.load(app.config.model_catalog_json, spindle.models)
        model = app.thread.settings.model if app.thread is not None else self._model
        found = known_prices(model, self._catalog, spindle.price_list, provider=app.config.provider.id)
        return None if found is None else found.prices.cost_of(usage) / 1_000_000
