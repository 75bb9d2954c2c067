"""The provider of models that Spindle runs itself."""

from __future__ import annotations

from spindle.assembly.record import Draft
from spindle.local.endpoint import LocalEndpoint
from spindle.local.plan import Plan, free_memory, plan_for
from spindle.local.store import ModelStore
from spindle.model.headers import Identity
from spindle.model.provider import Provider


def local_endpoint(draft: Draft, provider: Provider, identity: Identity) -> LocalEndpoint:
    config, store = draft.request.config, ModelStore(draft.request.config.own_home)

    def plan(name: str) -> Plan:
        # The window that the catalogue says is the one that the thread is kept within.
        window = draft.catalog.find(name).context_window
        threads = config.spindle.local_threads
        return plan_for(store.find(name), context=window, threads=threads, free_bytes=free_memory())

    return LocalEndpoint(provider, identity, store=store, plan=plan, clock=draft.request.clock)
