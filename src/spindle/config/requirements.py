"""`requirements.toml`: what an administrator allows. Each limit is kept, or nothing is started."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.config.kinds import BOOL, STRINGS, Kind, Layer, Table, check_layer, dotted
from spindle.config.sources import read_layer
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


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """The administrator's limits; None = there is none."""

    file: str = ""
    approval_policies: tuple[str, ...] | None = None
    """Strictest first."""
    sandbox_modes: tuple[str, ...] | None = None
    """Strictest first."""
    profiles: Mapping[str, bool] | None = None
    search_modes: tuple[str, ...] | None = None
    login_shell: bool = True

    def search_mode(self, wanted: str, *, is_full_access: bool) -> str:
        if self.search_modes is None:
            return wanted
        if is_full_access and "live" not in self.search_modes:
            return "disabled"  # with full access even what is cached is asked for live
        return wanted if wanted in self.search_modes else self.search_modes[0]

    def allows_profile(self, name: str) -> bool:
        return self.profiles is None or self.profiles.get(name, False)


def read_requirements(system_dir: str) -> Requirements:
    """The limits in force on this machine. Raises ConfigError for one that cannot be kept."""
    layer = read_layer(f"{system_dir}/requirements.toml")
    if layer is None:
        return Requirements()
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
