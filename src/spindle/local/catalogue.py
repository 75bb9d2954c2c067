"""The models that a person has added, as rows of the catalogue; and which of them is meant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.config.schema import Config
from spindle.local.plan import Plan, free_memory, plan_for
from spindle.local.store import ModelStore
from spindle.model.catalog import INSIDE, SMALL, Catalog, ModelInfo, changed_row


def local_rows(config: Config) -> list[ModelInfo]:
    """A row for each: the window it is run with, and the profile of small models."""
    context, free_bytes = config.spindle.local_context or config.model_context_window, free_memory()
    plans = [
        plan_for(model, context=context, threads=None, free_bytes=free_bytes)
        for model in ModelStore(config.own_home).all()
    ]
    return [_row(plan, config.spindle.models.get(plan.model.name, {})) for plan in plans]


def _row(plan: Plan, changes: Mapping[str, Any]) -> ModelInfo:
    """`changes` is what the user says of the model."""
    info = ModelInfo(
        slug=plan.model.name,
        description="runs on this computer",
        context_window=plan.context,
        input_modalities=("text",),
        family=INSIDE,
        profile=SMALL,
    )
    return changed_row(info.slug, info, changes) if changes else info


def with_local_models(catalog: Catalog, config: Config) -> Catalog:
    for info in local_rows(config):
        catalog = catalog.with_row(info)
    return catalog


def local_model(config: Config, recorded: str | None) -> str:
    """The name of the model that is meant: the configured one, that of the thread, or the only one there is."""
    store = ModelStore(config.own_home)
    names = [model.name for model in store.all()]
    if config.model is not None and (config.model in names or _is_meant(config)):
        return store.find(config.model).name
    return recorded if recorded is not None and recorded in names else store.find(None).name


def _is_meant(config: Config) -> bool:
    """Whether the configured model was chosen for this provider: a file may name one for the usual provider."""
    said_by = config.origins.get("model")
    return said_by in ("-c", "command line") or said_by == config.origins.get("model_provider")
