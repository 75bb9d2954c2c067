"""Approval and sandbox: the user's values, else the defaults by trust, within what the administrator allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.config.keys import REQUIREMENTS
from spindle.config.kinds import Layer, check_layer
from spindle.config.sources import read_layer
from spindle.config.trust import Trust
from spindle.errors import ConfigError
from spindle.protocol.settings import SANDBOX_MODES, STRICT_TO_LOOSE, SandboxPolicy


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """What holds in the end. `workspace_write` is what a later switch to that mode would mean."""

    approval: Any
    sandbox: SandboxPolicy
    workspace_write: SandboxPolicy
    allowed_approval: tuple[str, ...] | None = None
    allowed_sandbox: tuple[str, ...] | None = None


def defaults_for(trust: Trust, *, headless: bool) -> tuple[str, str]:
    """Approval policy and sandbox mode where the user set none."""
    if headless:
        return "never", "read-only"
    if trust.level == "trusted":
        return "on-request", "workspace-write"
    if trust.level == "untrusted":
        return "untrusted", "workspace-write"
    return "on-request", "read-only"


def resolve_policies(
    merged: Mapping[str, Any], defaults: tuple[str, str], system_dir: str, *, headless: bool, warnings: list[str]
) -> Policies:
    approval: Any = merged.get("approval_policy", defaults[0])
    if isinstance(approval, dict):
        approval = "on-request"
    if headless:
        # Nobody is there to answer, whatever the files say.
        approval = "never"
    mode: Any = merged.get("sandbox_mode", defaults[1])
    allowed_approval, allowed_sandbox = _requirements(system_dir)
    approval = _within("approval_policy", approval, allowed_approval, system_dir, warnings)
    mode = _within("sandbox_mode", mode, allowed_sandbox, system_dir, warnings)
    details = merged.get("sandbox_workspace_write", {})
    workspace_write = SandboxPolicy(
        mode="workspace-write",
        writable_roots=tuple(dict.fromkeys((*details.get("writable_roots", ()), *merged.get("add_dirs", ())))),
        network_access=details.get("network_access", False),
        exclude_tmpdir_env_var=details.get("exclude_tmpdir_env_var", False),
        exclude_slash_tmp=details.get("exclude_slash_tmp", False),
    )
    return Policies(
        approval=approval,
        sandbox=workspace_write if mode == "workspace-write" else SandboxPolicy(mode=mode),
        workspace_write=workspace_write,
        allowed_approval=allowed_approval,
        allowed_sandbox=allowed_sandbox,
    )


def _requirements(system_dir: str) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """The administrator's lists, strictest value first; None = no limit."""
    layer = read_layer(f"{system_dir}/requirements.toml")
    if layer is None:
        return None, None
    check_layer(layer, REQUIREMENTS, lambda *_: None)
    return (
        _allowed(layer, "allowed_approval_policies", STRICT_TO_LOOSE),
        _allowed(layer, "allowed_sandbox_modes", SANDBOX_MODES),
    )


def _allowed(layer: Layer, key: str, known: tuple[str, ...]) -> tuple[str, ...] | None:
    if key not in layer.values:
        return None
    allowed = tuple(value for value in known if value in layer.values[key])
    if not allowed:
        raise ConfigError(f"{layer.place((key,))}: {key} allows none of {', '.join(known)}")
    return allowed


def _within(key: str, value: str, allowed: tuple[str, ...] | None, system_dir: str, warnings: list[str]) -> Any:
    if allowed is None or value in allowed:
        return value
    warnings.append(f"{key} = {value!r} is not allowed by {system_dir}/requirements.toml; using {allowed[0]!r}")
    return allowed[0]
