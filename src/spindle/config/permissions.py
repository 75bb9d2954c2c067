"""`default_permissions` and `[permissions.NAME]` → the sandbox policy of a thread.

What a profile says is kept or refused, never passed over: whoever wrote "deny" relies on it. A message names the file,
the key, and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from spindle.config.kinds import Layer, describe, dotted, resolve_path
from spindle.errors import ConfigError
from spindle.policy.deny import is_glob
from spindle.policy.permissions import ROOT, SLASH_TMP, SPECIAL_PLACES, TMPDIR, WORKSPACE
from spindle.policy.sandbox import is_below
from spindle.protocol.settings import Access, PathRule, PermissionProfile, SandboxPolicy

Place = Callable[[tuple[str, ...]], str]
"""`FILE:LINE` of a key."""

BUILT_IN = {":read-only": "read-only", ":workspace": "workspace-write", ":danger-full-access": "danger-full-access"}
"""Profiles that are always there, and the modes they are."""

_PROFILE_KEYS = ("description", "extends", "filesystem", "network", "workspace_roots")
_ACCESS: dict[str, Access] = {"read": "read", "write": "write", "deny": "deny", "none": "deny"}
_WORKSPACE_NAMES = (WORKSPACE, ":project_roots")
_OWN_FOLDERS = ("/dev", "/proc")
"""Each command has its own; a rule about the machine's would mean nothing."""
_SCAN_DEPTH = "glob_scan_max_depth"
_EXTENDED: dict[str, dict[str, Access]] = {
    ":read-only": {ROOT: "read"},
    ":workspace": {ROOT: "read", WORKSPACE: "write", SLASH_TMP: "write", TMPDIR: "write"},
}


def profile_names(tables: Mapping[str, Any]) -> list[str]:
    return [*BUILT_IN, *sorted(tables)]


def policy_of(name: str, tables: Mapping[str, Any], place: Place, *, add_dirs: tuple[str, ...] = ()) -> SandboxPolicy:
    """The profile `name` as a policy; `add_dirs` count as workspaces too. Raises ConfigError."""
    if name in BUILT_IN:
        mode: Any = BUILT_IN[name]
        return SandboxPolicy(mode=mode, writable_roots=add_dirs if mode == "workspace-write" else ())
    if name not in tables:
        raise ConfigError(
            f"{place(('default_permissions',))}: there is no permission profile {name!r}; "
            f"use one of {', '.join(profile_names(tables))}, or define [permissions.{dotted((name,))}]"
        )
    found = _Profile(tables, place).of(name, ())
    roots = tuple(dict.fromkeys((*found.workspace_roots, *add_dirs)))
    profile = PermissionProfile(
        name=name, rules=tuple(PathRule(*rule) for rule in found.rules.items()), workspace_roots=roots
    )
    granted = {path for path, access in found.rules.items() if access == "write"}
    return SandboxPolicy(
        mode="workspace-write" if granted else "read-only",
        writable_roots=(*roots, *(path for path in granted if not path.startswith(":"))) if granted else (),
        network_access=found.has_network,
        exclude_slash_tmp=bool(granted) and SLASH_TMP not in granted,
        exclude_tmpdir_env_var=bool(granted) and TMPDIR not in granted,
        permissions=profile,
    )


def resolve_roots(layer: Layer) -> None:
    """Make the workspaces that a layer names absolute: a relative one starts at the folder of its file."""
    tables = layer.values.get("permissions")
    for table in tables.values() if isinstance(tables, dict) else ():
        roots = table.get("workspace_roots") if isinstance(table, dict) else None
        if isinstance(roots, dict):
            table["workspace_roots"] = {resolve_path(path, layer.folder): is_on for path, is_on in roots.items()}


def check_profiles(tables: Mapping[str, Any], place: Place) -> None:
    """Every profile, also those not in use: a mistake is found when it is made."""
    for name in tables:
        if name.startswith(":"):
            raise ConfigError(
                f"{place(('permissions', name))}: the profile name {name!r} is not free: names that begin with `:` "
                "belong to built-in profiles; choose another"
            )
        _Profile(tables, place).of(name, ())


class _Found:
    """A profile while it is put together."""

    def __init__(self) -> None:
        self.rules: dict[str, Access] = {}
        self.workspace_roots: dict[str, bool] = {}
        self.network: dict[str, Any] = {}

    @property
    def has_network(self) -> bool:
        return self.network.get("enabled", False)


class _Profile:
    def __init__(self, tables: Mapping[str, Any], place: Place) -> None:
        self._tables = tables
        self._place = place

    def of(self, name: str, extended_by: tuple[str, ...]) -> _Found:
        """The profile with all that it extends."""
        here = ("permissions", name)
        if name in extended_by:
            circle = " → ".join((*extended_by, name))
            last = ("permissions", extended_by[-1], "extends")
            raise self._wrong(last, f"the profiles extend each other in a circle: {circle}")
        table = self._table(self._tables[name], here)
        for key in table:
            if key not in _PROFILE_KEYS:
                raise self._wrong(
                    (*here, key), f"a permission profile has no key {key!r}; it has {', '.join(_PROFILE_KEYS)}"
                )
        for key in ("description", "extends"):
            if key in table and not isinstance(table[key], str):
                raise self._wrong((*here, key), f"must be a string, found {describe(table[key])}")
        found = self._parent(name, table.get("extends"), extended_by)
        self._filesystem(table.get("filesystem", {}), (*here, "filesystem"), found)
        self._network(table.get("network", {}), (*here, "network"), found)
        self._workspace_roots(table.get("workspace_roots", {}), (*here, "workspace_roots"), found)
        return found

    def _parent(self, name: str, parent: str | None, extended_by: tuple[str, ...]) -> _Found:
        found = _Found()
        if parent is None:
            return found
        if parent in _EXTENDED:
            found.rules |= _EXTENDED[parent]
            return found
        if parent in self._tables:
            return self.of(parent, (*extended_by, name))
        known = ", ".join((*_EXTENDED, *sorted(other for other in self._tables if other != name)))
        reason = "has no limits that could be narrowed" if parent in BUILT_IN else "does not exist"
        raise self._wrong(
            ("permissions", name, "extends"), f"the profile {parent!r} {reason}; extend one of {known}, or none"
        )

    # ---- files -------------------------------------------------------------------------------------

    def _filesystem(self, value: Any, here: tuple[str, ...], found: _Found) -> None:
        for key, access in self._table(value, here).items():
            path = (*here, key)
            if key == _SCAN_DEPTH:
                # We look as deep as there are folders, so a limit takes nothing away.
                if type(access) is not int or access < 1:
                    raise self._wrong(path, "must be an integer of 1 or more")
            elif isinstance(access, dict):
                base = self._base(key, path)
                for below, inner in access.items():
                    self._add(self._sub_path(base, below, (*path, below)), inner, (*path, below), found)
            else:
                self._add(self._whole(key, access, path), access, path, found)

    def _base(self, key: str, path: tuple[str, ...]) -> str:
        """A place that may have a table of paths below it."""
        if key in _WORKSPACE_NAMES:
            return WORKSPACE
        if key.startswith(":"):
            raise self._wrong(path, f"{self._special(key, path)} takes no table of sub-paths, only read, write or deny")
        return self._absolute(key, path)

    def _whole(self, key: str, access: Any, path: tuple[str, ...]) -> str:
        if key.startswith(":"):
            return WORKSPACE if key in _WORKSPACE_NAMES else self._special(key, path)
        if is_glob(key) and not key.startswith(("/", "~")) and _ACCESS.get(str(access)) == "deny":
            return f"{WORKSPACE}/{self._clean(key, path)}"  # where else could it be meant
        return self._absolute(key, path)

    def _special(self, key: str, path: tuple[str, ...]) -> str:
        if key not in SPECIAL_PLACES:
            raise self._wrong(
                path, f"there is no place {key!r}; use a path, a glob, or one of {', '.join(SPECIAL_PLACES)}"
            )
        return key

    def _absolute(self, key: str, path: tuple[str, ...]) -> str:
        whole = os.path.expanduser(key) if key.startswith("~") else key
        if not whole.startswith("/"):
            raise self._wrong(
                path,
                f'{key!r} must be absolute or begin with `~/`; write a path of the project under ":workspace_roots"',
            )
        clean = "/" + self._clean(whole, path)
        if any(is_below(clean, folder) for folder in _OWN_FOLDERS):
            raise self._wrong(
                path, f"a profile cannot name {clean}: every command has devices and processes of its own there"
            )
        return ROOT if clean == "/" else clean

    def _sub_path(self, base: str, below: str, path: tuple[str, ...]) -> str:
        if below in (".", ""):
            return base
        if below.startswith(("/", "~")):
            raise self._wrong(path, f"{below!r} must be a path below {path[-2]}, without `/` or `~` at its beginning")
        return f"{base.rstrip('/')}/{self._clean(below, path)}"

    def _clean(self, text: str, path: tuple[str, ...]) -> str:
        """The components, joined; a trailing `/**` means the folder with all that is below, which is meant anyway."""
        parts = [part for part in text.split("/") if part not in ("", ".")]
        if ".." in parts or "\0" in text:
            raise self._wrong(path, f"{text!r} must be a path without `..` and without NUL characters")
        while len(parts) > 1 and parts[-1] == "**":
            parts.pop()
        return "/".join(parts)

    def _add(self, place: str, value: Any, path: tuple[str, ...], found: _Found) -> None:
        access = _ACCESS.get(value) if isinstance(value, str) else None
        if access is None:
            raise self._wrong(path, 'must be "read", "write" or "deny"')
        if access != "deny" and is_glob(place):
            raise self._wrong(
                path,
                f"a glob can only be denied: which files it means is known only when they exist; name the folder "
                f"itself (or end it with /**) to let it be {'read' if access == 'read' else 'written'}",
            )
        found.rules.pop(place, None)
        found.rules[place] = access

    # ---- the rest ----------------------------------------------------------------------------------

    def _network(self, value: Any, here: tuple[str, ...], found: _Found) -> None:
        table = self._table(value, here)
        for key in table:
            if key not in ("enabled", "domains"):
                raise self._wrong(
                    (*here, key), f"Spindle has no {key!r} for the network and cannot keep to it; remove the key"
                )
        if "enabled" in table and not isinstance(table["enabled"], bool):
            raise self._wrong((*here, "enabled"), f"must be true or false, found {describe(table['enabled'])}")
        domains = self._table(table.get("domains", {}), (*here, "domains"))
        for host, allowed in domains.items():
            if allowed not in ("allow", "deny"):
                raise self._wrong((*here, "domains", host), 'must be "allow" or "deny"')
        found.network |= {key: entry for key, entry in table.items() if key == "enabled"}
        found.network["domains"] = {**found.network.get("domains", {}), **domains}
        if found.has_network and found.network["domains"] not in ({}, {"*": "allow"}):
            raise self._wrong(
                (*here, "domains"),
                "commands have the whole network or none, so single hosts can be neither allowed nor denied; set "
                "network.enabled = false, or remove `domains` to open the whole network",
            )

    def _workspace_roots(self, value: Any, here: tuple[str, ...], found: _Found) -> None:
        for key, is_on in self._table(value, here).items():
            if not isinstance(is_on, bool):
                raise self._wrong((*here, key), f"must be true or false, found {describe(is_on)}")
            if "\0" in key or is_glob(key):
                raise self._wrong((*here, key), "must be the path of a folder")
            if any(is_below(key, own) for own in _OWN_FOLDERS):
                raise self._wrong((*here, key), "this folder cannot be a workspace")
            found.workspace_roots.pop(key, None)
            if is_on:
                found.workspace_roots[key] = True

    def _table(self, value: Any, here: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self._wrong(here, f"must be a table, found {describe(value)}")
        return value

    def _wrong(self, path: tuple[str, ...], reason: str) -> ConfigError:
        return ConfigError(f"{self._place(path)}: {dotted(path)}: {reason}")
