"""`requirements.toml`: what an administrator allows. Each limit is kept, or nothing is started."""

from __future__ import annotations

from typing import Any

from spindle.config.kinds import BOOL, STRINGS, Kind, Layer, Table, check_layer, dotted
from spindle.config.policies import Requirements
from spindle.errors import ConfigError
from spindle.protocol.settings import SANDBOX_MODES, STRICT_TO_LOOSE

_KEPT = Table(
    {
        "allowed_approval_policies": STRINGS,
        "allowed_sandbox_modes": STRINGS,
        "allowed_permission_profiles": Kind("a table of true and false", (dict,), items=bool),
        "allowed_web_search_modes": STRINGS,
        "allow_login_shell": BOOL,
    },
    is_open=True,
)

_NOT_KEPT = frozenset(
    [
        "allow_managed_hooks_only",
        "allowed_approvals_reviewers",
        "allowed_chatgpt_workspaces",
        "allowed_login_methods",
        "auto_review",
        "cli_auth_credentials_store",
        "default_permissions",
        "enforce_residency",
        "experimental_network",
        "feature_requirements",
        "features",
        "guardian_extra_policy",
        "guardian_policy_config",
        "hooks",
        "marketplaces",
        "mcp_servers",
        "model_provider",
        "model_providers",
        "network",
        "network_proxy",
        "permissions",
        "plugins",
        "remote_sandbox_config",
        "rules",
        "sandbox_mode",
    ]
)
"""Limits of the reference program that Spindle has no way to keep."""

_SEARCH_MODES = ("disabled", "cached", "live")


def requirements_of(layer: Layer) -> Requirements:
    """The limits of an administrator's file. Raises ConfigError for one that cannot be kept."""
    check_layer(layer, _KEPT, lambda *_: None)
    for key in layer.values:
        if key in _NOT_KEPT:
            raise ConfigError(
                f"{layer.place((key,))}: Spindle cannot keep to the limit {dotted((key,))}, so nothing is started; "
                "ask the administrator to remove it, or to allow Spindle in another way"
            )
    found = layer.values
    return Requirements(
        file=layer.label,
        approval_policies=_allowed(layer, "allowed_approval_policies", STRICT_TO_LOOSE),
        sandbox_modes=_allowed(layer, "allowed_sandbox_modes", SANDBOX_MODES),
        profiles=found.get("allowed_permission_profiles"),
        search_modes=_allowed(layer, "allowed_web_search_modes", _SEARCH_MODES),
        login_shell=found.get("allow_login_shell", True),
    )


def _allowed(layer: Layer, key: str, known: tuple[str, ...]) -> tuple[str, ...] | None:
    if key not in layer.values:
        return None
    allowed: Any = tuple(value for value in known if value in layer.values[key])
    if not allowed:
        raise ConfigError(f"{layer.place((key,))}: {key} allows none of {', '.join(known)}")
    return allowed
