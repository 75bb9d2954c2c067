"""Opening threads: the first one, with the questions before it; and another one in its place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from spindle.api.door import OpenThread, SessionRequest, open_thread
from spindle.api.hearing import Hearing
from spindle.errors import SpindleError
from spindle.frontends.tui import leaving
from spindle.frontends.tui.cells.conversation import Conversation, Options
from spindle.frontends.tui.composer.draft import Draft
from spindle.frontends.tui.launching import Launch
from spindle.model.catalog import Catalog
from spindle.model.prices import known_prices
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.request import TokenUsage

if TYPE_CHECKING:
    from spindle.frontends.tui.interface import Interface

AT_A_TIME_S = 0.005
"""How long events are dealt with before keys get their turn."""
_OWN_MACHINE = ("ollama", "lmstudio")
"""Providers that send no bill."""


class Opening:
    def __init__(self, interface: Interface, launch: Launch) -> None:
        self._app = interface
        self._launch = launch
        self._reader: asyncio.Task[None] | None = None
        self._catalog: Catalog | None = None
        self.is_asking_first = launch.picks
        """Something is asked, or chosen, before there is a composer."""

    # ---- the first thread ------------------------------------------------------------------------

    async def begin(self) -> None:
        """What is asked first, then the thread, then the prompt of the command line."""
        app, launch = self._app, self._launch
        try:
            request = SessionRequest(config=app.config, **launch.session())
            await self._open(request)
        except (SpindleError, OSError) as error:
            app.give_up(str(error))
            return
        self.is_asking_first = False
        if launch.prompt or launch.images:
            app.turns.send(Draft(text=launch.prompt, shown=launch.prompt, images=tuple(launch.images)))
            app.redraw()
        app.ready()

    async def _open(self, request: SessionRequest) -> None:
        app = self._app
        thread = await open_thread(request)
        hearing = Hearing(thread)
        thread.begin()
        if request.thread is not None or request.newest:
            app.conversation.replay(thread.records)
        app.opened(thread, hearing)
        self._reader = asyncio.ensure_future(self._read(thread, hearing))

    async def _read(self, thread: OpenThread, hearing: Hearing) -> None:
        app, loop = self._app, asyncio.get_running_loop()
        async for event in hearing:
            begun = loop.time()
            for each in (event, *hearing.take_ready()):
                app.hear(each)
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
        base = SessionRequest(config=app.config, source="cli", originator="codex_cli_rs", bypass=self._launch.bypass)
        request = change(base)
        if old is not None and request.thread == old.id and not request.fork:
            raise SpindleError("this thread is open already")
        thread = await open_thread(request)
        hearing = Hearing(thread)
        kept = self._kept_settings(old) if request.thread is None and not request.newest else None
        if old is not None:
            app.closed()
            await leaving.close(old)
        app.conversation = self.new_conversation()
        thread.begin()
        if kept is not None:
            thread.submit(kept)
        if request.thread is not None or request.newest:
            app.conversation.replay(thread.records)
        app.opened(thread, hearing)
        self._reader = asyncio.ensure_future(self._read(thread, hearing))

    def _kept_settings(self, old: OpenThread | None) -> OverrideTurnContext | None:
        """What a person chose for this run of the interface holds for the next new thread too."""
        if old is None:
            return None
        settings = old.settings
        return OverrideTurnContext(
            cwd=settings.cwd,
            model=settings.model,
            effort=settings.effort,
            approval_policy=settings.approval_policy,
            sandbox_policy=settings.sandbox.to_wire(),
            personality=settings.personality,
        )

    def new_conversation(self) -> Conversation:
        config = self._app.config
        return Conversation(
            Options(
                clock=self._app.clock,
                cwd=config.cwd,
                words=self._app.speaks_plainly,
                hides_reasoning=config.hide_agent_reasoning,
                shows_raw_reasoning=config.show_raw_agent_reasoning,
                cost=self._cost,
            )
        )

    def _cost(self, usage: TokenUsage) -> float | None:
        """What tokens cost with the model in use, in dollars."""
        app = self._app
        if app.thread is None:
            return None
        spindle = app.config.spindle
        if self._catalog is None:
            self._catalog = Catalog.load(app.config.model_catalog_json)
        found = known_prices(
            app.thread.settings.model,
            self._catalog,
            for_all=spindle.context_prices,
            by_model={**spindle.prices, **spindle.context_model_prices},
        )
        if found is None or (app.config.provider.id in _OWN_MACHINE and not found.source.startswith("configuration")):
            return None
        return found.prices.cost_of(usage) / 1_000_000
