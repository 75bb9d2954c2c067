"""The model inside as a server like any other: a child that is started when it is asked, on a port of its own."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from spindle.errors import ModelError
from spindle.local.engine import Engine, Running, borrow, give_back
from spindle.local.plan import Plan, describe, measured_words
from spindle.local.store import ModelStore
from spindle.model.credential import StaticCredential
from spindle.model.endpoint import Endpoint
from spindle.model.headers import Identity
from spindle.model.provider import Provider
from spindle.model.url import Url, parse_url
from spindle.model.wires.forced.wire import ForcedWire
from spindle.protocol.clock import Clock
from spindle.protocol.provenance import ModelOrigin

MISSING = (
    "To run models itself, Spindle needs the extra `local`, which is not installed: pip install 'spindle-agent[local]'"
)
_TOO_FEW = 8
"""So few tokens say nothing about speed."""


class LocalEndpoint(Endpoint):
    """The models of the store, for the requests of one thread. Threads of a process share the child that runs one."""

    def __init__(
        self,
        provider: Provider,
        identity: Identity,
        *,
        store: ModelStore,
        plan: Callable[[str], Plan],
        clock: Clock,
    ) -> None:
        """`plan` says how the model of a name is run; raises ConfigError if there is none."""
        super().__init__(provider, StaticCredential(), identity, environ=_without_proxies())
        self.wire = ForcedWire(self._measured)
        self._store = store
        self._plan_of = plan
        self._clock = clock
        self._plan: Plan | None = None
        self._engine: Engine | None = None
        self._running: Running | None = None
        self._announced: set[str] = set()
        self._measured_names: set[str] = set()

    def announcements(self, model: str) -> list[str]:
        if model in self._announced:
            return []
        self._announced.add(model)
        return describe(self._plan_of(model))

    async def ready(self, model: str) -> None:
        """Have a child run the model. Raises ModelError when it cannot."""
        if find_spec("xllamacpp") is None:
            raise ModelError(MISSING)
        if self._plan is None or self._plan.model.name != model:
            await self._let_go()
            self._plan = self._plan_of(model)
        if self._engine is None:
            self._engine = borrow(self._plan, self._clock)
        running = await self._engine.ready()
        if running != self._running:
            self._running = running
            self.credential = StaticCredential(running.key)

    async def warm(self) -> None:
        """Loading a model takes much memory; that waits for the first question."""

    async def aclose(self) -> None:
        await super().aclose()
        await self._let_go()

    async def _let_go(self) -> None:
        engine, self._engine, self._running = self._engine, None, None
        if engine is not None:
            await give_back(engine)

    def url(self, path: str) -> Url:
        base_url = self._running.base_url if self._running is not None else self.provider.base_url
        return parse_url(base_url + path, "the address of the local model")

    def origin(self, model: str) -> ModelOrigin:
        """The same for every child: neither its port nor its key says who answered."""
        return ModelOrigin(self.wire.name, self.provider.base_url, "", model)

    def _measured(self, timings: dict[str, Any]) -> str | None:
        """How fast an answer was, by llama.cpp's own clock; said once, and remembered for the next start."""
        reads, writes = _rate(timings, "prompt"), _rate(timings, "predicted")
        if writes is None or self._plan is None or self._plan.model.name in self._measured_names:
            return None
        name = self._plan.model.name
        self._measured_names.add(name)
        self._store.note_speed(name, reads, writes)
        return measured_words(name, reads, writes)


def _rate(timings: dict[str, Any], what: str) -> float | None:
    count, per_s = timings.get(f"{what}_n"), timings.get(f"{what}_per_second")
    if not isinstance(count, int) or not isinstance(per_s, int | float) or count < _TOO_FEW or not 0 < per_s < 1e9:
        return None
    return float(per_s)


def _without_proxies() -> dict[str, str]:
    """The child is on this computer, whatever is said about the way to others."""
    return {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
