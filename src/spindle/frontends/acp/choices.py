"""What a person can choose for a session besides its mode: the model, and how hard it thinks."""

from __future__ import annotations

from typing import Any

from spindle.api.accounts import list_models
from spindle.api.shown import ModelEntry
from spindle.config.schema import Config
from spindle.frontends.json_rpc import INVALID_PARAMS, RpcError
from spindle.protocol.ops import OverrideTurnContext
from spindle.protocol.settings import EFFORTS

MODEL, EFFORT = "model", "reasoning_effort"


def config_options(config: Config, model: str, effort: str | None) -> list[dict[str, Any]]:
    """`configOptions` of a session whose next turn has this model and this effort."""
    models = list_models(config, include_hidden=False)
    rows = [_choice(row.id, row.name or row.id, row.description) for row in models]
    if model not in [row.id for row in models]:
        rows.insert(0, _choice(model, model, ""))
    options = [_select(MODEL, "Model", "model", model, rows)]
    levels = _levels(models, model)
    here = effort or next((row.default_effort for row in models if row.id == model and row.default_effort), "medium")
    if here not in levels:
        levels = [*levels, here]
    choices = [_choice(level, level.capitalize(), "") for level in levels]
    return [*options, _select(EFFORT, "Reasoning effort", "thought_level", here, choices)]


def _levels(models: list[ModelEntry], model: str) -> list[str]:
    found = next((row.efforts for row in models if row.id == model), None)
    return list(found) if found else ["low", "medium", "high"]


def _choice(value: str, name: str, description: str) -> dict[str, Any]:
    return {"value": value, "name": name, **({"description": description} if description else {})}


def _select(name: str, title: str, category: str, current: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "type": "select",
        "id": name,
        "name": title,
        "category": category,
        "currentValue": current,
        "options": choices,
    }


def change(name: str, value: str) -> OverrideTurnContext:
    """The op that makes a choice."""
    if name == MODEL and value.strip():
        return OverrideTurnContext(model=value)
    if name == EFFORT and value in EFFORTS:
        return OverrideTurnContext(effort=value)
    raise RpcError(f"{name[:100]!r} cannot be set to {value[:100]!r}", INVALID_PARAMS)
