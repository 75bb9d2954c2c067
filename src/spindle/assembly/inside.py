"""The models that Spindle runs itself, as the rest of a session sees them: rows of the catalogue, and a server."""

from __future__ import annotations

from spindle.assembly.record import Draft
from spindle.config.schema import Config
from spindle.local.endpoint import LocalEndpoint
from spindle.local.plan import Plan, free_memory, plan_for
from spindle.local.store import ModelStore
from spindle.model.catalog import SMALL, Catalog, ModelInfo
from spindle.model.headers import Identity
from spindle.model.provider import Provider


def with_local_models(catalog: Catalog, config: Config) -> Catalog:
    """The catalogue with a row for each of them: its window, and the profile of small models."""
    free_bytes = free_memory()
    for model in ModelStore(config.home).all():
        plan = plan_for(model, context=_wished_context(config), threads=None, free_bytes=free_bytes)
        catalog = catalog.with_row(
            ModelInfo(
                slug=model.name,
                description="runs on this computer",
                context_window=plan.context,
                input_modalities=("text",),
                profile=SMALL,
            )
        )
    return catalog


def local_model(config: Config, recorded: str | None) -> str:
    """The name of the model that is meant: the configured one, that of the thread, or the only one there is."""
    store = ModelStore(config.home)
    names = [model.name for model in store.all()]
    if config.model is not None and (config.model in names or _is_meant(config)):
        return store.find(config.model).name
    return recorded if recorded is not None and recorded in names else store.find(None).name


def _is_meant(config: Config) -> bool:
    """Whether the configured model was chosen for this provider: a file may name one for the usual provider."""
    said_by = config.origins.get("model")
    return said_by in ("-c", "command line") or said_by == config.origins.get("model_provider")


def local_endpoint(draft: Draft, provider: Provider, identity: Identity) -> LocalEndpoint:
    config, store = draft.request.config, ModelStore(draft.request.config.home)

    def plan(name: str) -> Plan:
        # The window that the catalogue says is the one that the thread is kept within.
        window = draft.catalog.find(name).context_window
        threads = config.spindle.local_threads
        return plan_for(store.find(name), context=window, threads=threads, free_bytes=free_memory())

    return LocalEndpoint(provider, identity, store=store, plan=plan, clock=draft.request.clock)


def _wished_context(config: Config) -> int | None:
    return config.spindle.local_context or config.model_context_window
