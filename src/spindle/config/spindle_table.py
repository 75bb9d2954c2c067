"""`[spindle]` → `SpindleConfig`, `[tui]` and `[spindle.tui]` → `TuiSettings`; already checked for their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.config.schema import SpindleConfig, TuiSettings
from spindle.errors import ConfigError
from spindle.protocol.request import Prices
from spindle.protocol.settings import BudgetLimits


def _fence(table: Mapping[str, Any]) -> Any:
    from spindle.config.fence import build_fence  # only for those who have such a table

    return build_fence(table)


def _prices(key: str, given: Mapping[str, Any]) -> Prices:
    if "input" not in given:
        raise ConfigError(f"spindle.{key} needs `input`, the price of a token that is not cached")
    try:
        return msgspec.convert(given, Prices)
    except msgspec.ValidationError as error:
        raise ConfigError(f"spindle.{key}: {error}") from error


def _all_prices(key: str, given: Mapping[str, Mapping[str, Any]]) -> dict[str, Prices]:
    return {name: _prices(f"{key}.{name}", prices) for name, prices in given.items()}


def _budget(given: Mapping[str, Any]) -> BudgetLimits | None:
    limits = {name: given[name] for name in BudgetLimits.__struct_fields__ if name in given}
    return BudgetLimits(**limits) if limits else None


def _checkpoints(given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        return {}
    from spindle.config.fence import size_in_bytes  # only for those who have such a table

    sizes = {name: size_in_bytes(f"checkpoints.{name}", given[name]) for name in given if name.endswith("_bytes")}
    known = ("enabled", "max_bytes", "max_age_days", "max_file_bytes")
    return {f"checkpoints_{name}": value for name, value in {**given, **sizes}.items() if name in known}


def _fleet(given: Mapping[str, Any]) -> dict[str, Any]:
    if not given:
        return {}
    from spindle.config.fence import size_in_bytes  # only for those who have such a table

    sizes = {name: size_in_bytes(f"fleet.{name}", given[name]) for name in given if name == "worker_memory"}
    known = ("cache_dir", "setup_network", "worker_memory", "network_beside_ray", "orphan_ttl_s")
    return {f"fleet_{name}": value for name, value in {**given, **sizes}.items() if name in known}


def _models(given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each table as fields of a row of the catalogue."""
    from spindle.model.catalog import changed_row  # only for those who have such a table

    found: dict[str, dict[str, Any]] = {}
    for slug, table in given.items():
        fields = dict(table)
        if (efforts := fields.pop("efforts", None)) is not None:
            fields["supported_reasoning_levels"] = [{"effort": effort} for effort in efforts]
        for name in ("thinking", "profile"):
            if fields.get(name) in ("none", "default"):
                fields[name] = None
        if "prices" in fields:
            _prices(f"models.{slug}.prices", fields["prices"])
        try:
            changed_row(slug, None, fields)
        except msgspec.ValidationError as error:
            raise ConfigError(f"spindle.models.{slug}: {error}") from error
        found[slug] = fields
    return found


def build_spindle(table: Mapping[str, Any]) -> SpindleConfig:
    if not table:
        return SpindleConfig()
    sandbox, limits, context = table.get("sandbox", {}), table.get("limits", {}), table.get("context", {})
    log, budget = table.get("log", {}), table.get("budget", {})
    found: dict[str, Any] = {
        "jit_tools": table.get("jit_tools"),
        "agents_md_untrusted": table.get("agents_md_untrusted"),
        "environment_extras": table.get("environment_extras"),
        "compact_keep": table.get("compact_keep"),
        "compact_keep_tools": table.get("compact_keep_tools"),
        "image_tool_output": table.get("image_tool_output"),
        "memory": table.get("memory"),
        "offload_outputs": table.get("offload_outputs"),
        "nested_agents_md": table.get("nested_agents_md"),
        "recollection": context.get("recollection"),
        "context_mode": context.get("mode"),
        "context_rule": context.get("rule"),
        "context_prices": _prices("context.prices", context["prices"]) if "prices" in context else None,
        "context_model_prices": _all_prices("context.model_prices", context.get("model_prices", {})),
        "fence": _fence(sandbox) if sandbox else None,
        "mask_secrets": table.get("secrets", {}).get("mask"),
        "unmasked_variables": table.get("secrets", {}).get("ignore"),
        "agents_max_tokens": table.get("agents", {}).get("max_tokens"),
        "agents_max_requests": table.get("agents", {}).get("max_requests"),
        "budget": _budget(budget),
        "budget_thread": _budget(budget.get("thread", {})),
        "budget_tree": _budget(budget.get("tree", {})),
        "budget_day": _budget(budget.get("day", {})),
        "prices": _all_prices("prices", table.get("prices", {})),
        **_checkpoints(table.get("checkpoints", {})),
        **_fleet(table.get("fleet", {})),
        "models": _models(table["models"]) if "models" in table else None,
        "local_context": table.get("local", {}).get("context"),
        "local_threads": table.get("local", {}).get("threads"),
        "max_steps": limits.get("max_steps"),
        "turn_timeout_s": limits.get("turn_timeout_sec"),
        "sse_event_max_bytes": limits.get("sse_event_max_bytes"),
        "log_level": log.get("level"),
        "log_file": log.get("file"),
        "login_issuer": table.get("login", {}).get("issuer"),
    }
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return SpindleConfig(**{name: value for name, value in given.items() if value is not None})


def build_tui(table: Mapping[str, Any], ours: Mapping[str, Any]) -> TuiSettings:
    if not table and not ours:
        return TuiSettings()
    notifications = table.get("notifications", True)
    if not isinstance(notifications, bool) and not all(isinstance(event, str) for event in notifications):
        raise ConfigError("tui.notifications must be true, false or an array of strings")
    # Keys of ours count in our table only: in the other one they are unknown words of the reference program.
    own = ("plain", "keys", "cycle_permissions")
    names = [name for name in TuiSettings.__struct_fields__ if name in (ours if name in own else table)]
    found = {name: (ours if name in own else table)[name] for name in names}
    given: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in found.items()}
    return TuiSettings(**given)
