"""Approval and sandbox: the user's values, else the defaults by trust, within what the administrator allows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from spindle.config.sources import read_layer
from spindle.config.trust import Trust
from spindle.errors import ConfigError
from spindle.protocol.settings import Granular, SandboxPolicy, read_approval


class Requirements(msgspec.Struct, frozen=True, kw_only=True):
    """The administrator's limits; None = no limit."""

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


class Policies(msgspec.Struct, frozen=True, kw_only=True):
    """What holds in the end. `workspace_write` is what a later switch to that mode would mean."""

    approval: Any
    sandbox: SandboxPolicy
    workspace_write: SandboxPolicy
    granular: Granular | None = None
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
    merged: Mapping[str, Any],
    defaults: tuple[str, str],
    limits: Requirements,
    *,
    profile: SandboxPolicy | None,
    headless: bool,
    warnings: list[str],
) -> Policies:
    """`profile` is the permission profile that takes the place of `sandbox_mode`, if one does."""
    approval, granular = read_approval(merged.get("approval_policy", defaults[0]))
    if headless:
        # Nobody is there to answer, whatever the files say.
        approval = "never"
    approval = _within("approval_policy", approval, limits.approval_policies, limits.file, warnings)
    details = merged.get("sandbox_workspace_write", {})
    workspace_write = SandboxPolicy(
        mode="workspace-write",
        writable_roots=tuple(dict.fromkeys((*details.get("writable_roots", ()), *merged.get("add_dirs", ())))),
        network_access=details.get("network_access", False),
        exclude_tmpdir_env_var=details.get("exclude_tmpdir_env_var", False),
        exclude_slash_tmp=details.get("exclude_slash_tmp", False),
    )
    if profile is not None:
        sandbox = _profile_within(profile, merged["default_permissions"], limits, warnings)
    else:
        mode: Any = merged.get("sandbox_mode", defaults[1])
        mode = _within("sandbox_mode", mode, limits.sandbox_modes, limits.file, warnings)
        sandbox = workspace_write if mode == "workspace-write" else SandboxPolicy(mode=mode)
    return Policies(
        approval=approval,
        sandbox=sandbox,
        workspace_write=workspace_write,
        granular=granular,
        allowed_approval=limits.approval_policies,
        allowed_sandbox=limits.sandbox_modes,
    )


def _profile_within(policy: SandboxPolicy, name: str, limits: Requirements, warnings: list[str]) -> SandboxPolicy:
    """What an administrator does not let be written is taken out of a profile; what it denies stays denied."""
    if not limits.allows_profile(name):
        raise ConfigError(f"the permission profile {name!r} is not allowed by {limits.file}; choose another")
    allowed = limits.sandbox_modes
    mode = policy.amounts_to
    if allowed is None or mode in allowed:
        return policy
    if "read-only" not in allowed or mode == "read-only":
        raise ConfigError(
            f"the permission profile {name!r} amounts to {mode}, which is not allowed by {limits.file}; choose another"
        )
    warnings.append(
        f"the permission profile {name!r} amounts to {mode}, which is not allowed by {limits.file}; nothing can be "
        "written"
    )
    profile = policy.permissions and policy.permissions.read_only()
    return SandboxPolicy(mode="read-only", network_access=policy.network_access and bool(profile), permissions=profile)


def _within(key: str, value: str, allowed: tuple[str, ...] | None, file: str, warnings: list[str]) -> Any:
    if allowed is None or value in allowed:
        return value
    warnings.append(f"{key} = {value!r} is not allowed by {file}; using {allowed[0]!r}")
    return allowed[0]


def read_requirements(system_dir: str) -> Requirements:
    """The administrator's limits on this machine."""
    layer = read_layer(f"{system_dir}/requirements.toml")
    if layer is None:
        return Requirements()
    from spindle.config.requirements import requirements_of  # few machines have any

    return requirements_of(layer)
