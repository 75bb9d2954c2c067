"""Settings within other settings: what a sub-agent may do is never more than what its parent may do.

Sandbox and approval policy are compared; where both say something, the stricter counts. Paths are compared as the file
system resolves them. Pure but for that.
"""

from __future__ import annotations

import os

import msgspec

from spindle.policy.sandbox import is_below, protected_paths
from spindle.protocol.settings import (
    ACCESSES,
    STRICT_TO_LOOSE,
    Access,
    PathRule,
    PermissionProfile,
    SandboxPolicy,
    ThreadSettings,
)

_STRICT = ("deny", "read", "write")


def narrowed(settings: ThreadSettings, limit: ThreadSettings) -> ThreadSettings:
    """The settings, cut to what `limit` allows; the same object if they allow no more than that."""
    sandbox = narrowed_sandbox(settings.sandbox, settings.cwd, limit.sandbox, limit.cwd)
    approval = min(settings.approval_policy, limit.approval_policy, key=STRICT_TO_LOOSE.index)
    granular = limit.granular.within(settings.granular) if limit.granular is not None else settings.granular
    if (sandbox, approval, granular) == (settings.sandbox, settings.approval_policy, settings.granular):
        return settings
    return msgspec.structs.replace(settings, sandbox=sandbox, approval_policy=approval, granular=granular)


def narrowed_sandbox(own: SandboxPolicy, cwd: str, limit: SandboxPolicy, limit_cwd: str) -> SandboxPolicy:
    """The policy that reaches no more than `own` does from `cwd`, and no more than `limit` does from `limit_cwd`."""
    if (own, cwd) == (limit, limit_cwd) or limit.mode == "danger-full-access":
        return own
    has_network = own.has_network and limit.has_network
    if own.permissions is not None or limit.permissions is not None:
        return _narrowed_profile(own, cwd, limit, limit_cwd, has_network)
    if "read-only" in (own.mode, limit.mode):
        return SandboxPolicy(mode="read-only", network_access=has_network)
    if limit.mode == "external-sandbox":
        return msgspec.structs.replace(limit if own.is_full_access else own, network_access=has_network)
    return _narrowed_roots(own, cwd, limit, limit_cwd, has_network)


def _narrowed_profile(
    own: SandboxPolicy, cwd: str, limit: SandboxPolicy, limit_cwd: str, has_network: bool
) -> SandboxPolicy:
    """A permission profile is on one side at least. What it denies stays denied, wherever one works; written is only
    what is sure to be writable on both sides."""
    from spindle.policy.permissions import pinned  # only for those who have profiles

    profiles = [
        pinned(policy.permissions, place)
        for policy, place in ((limit, limit_cwd), (own, cwd))
        if policy.permissions is not None
    ]
    profile = profiles[0]
    if len(profiles) == 2:
        if _is_stricter(profiles[1], profiles[0]):
            return msgspec.structs.replace(own, network_access=has_network)
        denied = (rule for rule in profiles[1].rules if rule.access == "deny")
        profile = msgspec.structs.replace(profile, rules=(*profile.rules, *denied)).read_only()
    else:
        mode, place = (own, cwd) if own.permissions is None else (limit, limit_cwd)
        profile = _within_mode(profile, mode, place)
    profile = msgspec.structs.replace(profile, rules=tuple(dict.fromkeys(profile.rules)))
    base = limit if limit.permissions is not None else own
    if profile.can_write:
        return msgspec.structs.replace(base, network_access=has_network, permissions=profile)
    return SandboxPolicy(mode="read-only", network_access=has_network, permissions=profile)


def _is_stricter(one: PermissionProfile, other: PermissionProfile) -> bool:
    """Whether `one` names every place that `other` does and never allows more. Places that it also denies are fine."""
    wanted, found = _accesses(other), _accesses(one)
    return all(place in found for place in wanted) and all(
        access == "deny" or (place in wanted and _STRICT.index(access) <= _STRICT.index(wanted[place]))
        for place, access in found.items()
    )


def _accesses(profile: PermissionProfile) -> dict[str, Access]:
    """What each place gets; of several rules for one place the same counts as in `permissions.Rules`."""
    found: dict[str, Access] = {}
    for rule in profile.rules:
        both = {rule.access, found.get(rule.place, rule.access)}
        found[rule.place] = next(access for access in ACCESSES if access in both)
    return found


def _within_mode(profile: PermissionProfile, mode: SandboxPolicy, cwd: str) -> PermissionProfile:
    """The profile with no more permission to write than a plain mode gives in `cwd`."""
    if mode.is_full_access:
        return profile
    if mode.mode == "read-only":
        return profile.read_only()
    allowed = _roots(mode, cwd)
    named = {":slash_tmp": not mode.exclude_slash_tmp, ":tmpdir": not mode.exclude_tmpdir_env_var}

    def may_write(place: str) -> bool:
        if place.startswith(":"):
            return named.get(place, False)
        return _is_allowed(os.path.realpath(place), allowed)

    rules = [
        rule if rule.access != "write" or may_write(rule.place) else PathRule(rule.place, "read")
        for rule in profile.rules
    ]
    kept = [os.path.realpath(rule.place) for rule in rules if rule.access == "write" and rule.place.startswith("/")]
    if _frees_something(kept, allowed):
        return profile.read_only()
    return msgspec.structs.replace(profile, rules=tuple(rules))


def _narrowed_roots(
    own: SandboxPolicy, cwd: str, limit: SandboxPolicy, limit_cwd: str, has_network: bool
) -> SandboxPolicy:
    """`limit` is workspace-write, and `own` is that or more."""
    read_only = SandboxPolicy(mode="read-only", network_access=has_network)
    allowed = _roots(limit, limit_cwd)
    if own.is_full_access:
        wanted = ["/"]
        own = msgspec.structs.replace(limit, network_access=has_network)
    else:
        wanted = _roots(own, cwd)
    here = os.path.realpath(cwd)
    if not (_is_allowed(here, allowed) and _is_allowed(here, wanted)):
        return read_only  # the working folder is writable in this mode, whatever else is
    both = dict.fromkeys(os.path.realpath(root) for root in (*own.writable_roots, *limit.writable_roots, limit_cwd))
    roots = [root for root in both if root != here and _is_allowed(root, allowed) and _is_allowed(root, wanted)]
    if _frees_something([*roots, here], [*allowed, *wanted]):
        return read_only
    return SandboxPolicy(
        mode="workspace-write",
        writable_roots=tuple(roots),
        network_access=has_network,
        exclude_tmpdir_env_var=own.exclude_tmpdir_env_var or limit.exclude_tmpdir_env_var,
        exclude_slash_tmp=own.exclude_slash_tmp or limit.exclude_slash_tmp,
    )


def _roots(policy: SandboxPolicy, cwd: str) -> list[str]:
    roots = [*policy.writable_roots, cwd]
    if not policy.exclude_slash_tmp:
        roots.append("/tmp")
    return [os.path.realpath(root) for root in roots]


def _is_allowed(real: str, roots: list[str]) -> bool:
    """Is this a folder that may be written as a whole, and none of those that stay read-only?"""
    if not any(is_below(real, root) for root in roots):
        return False
    return not any(is_below(real, kept) for kept in _kept(roots))


def _frees_something(roots: list[str], former: list[str]) -> bool:
    """Whether something would become writable only because the root that kept it read-only is gone."""
    kept = _kept(roots)
    return any(
        any(is_below(path, root) for root in roots) and not any(is_below(path, other) for other in kept)
        for path in _kept(former)
    )


def _kept(roots: list[str]) -> list[str]:
    """What stays read-only below the roots."""
    return [os.path.realpath(path) for root in roots for path in protected_paths(root)]
