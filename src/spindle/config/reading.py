"""Layers of configuration as they are read: checked key by key, with their hooks, and where each value came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from spindle.config.keys import FEATURES, PROFILE
from spindle.config.kinds import Layer, Table, check_layer, describe, dotted, idle_keys, unknown_key
from spindle.config.sources import merge, read_layer
from spindle.errors import ConfigError
from spindle.protocol.quote import visible
from spindle.workspace.files import is_regular

_MAX_UNKNOWN_KEYS = 10


class LayerReader:
    """Takes the layers one after the other, checks them, and gathers what is to be said about them."""

    def __init__(self, *, strict: bool) -> None:
        self.strict = strict
        """An unknown key is an error."""
        self.warnings: list[str] = []
        self.origins: dict[str, str] = {}
        """Which layer set a key, by its dotted name."""
        self.idle: list[str] = []
        """Keys that Spindle knows and does nothing with."""
        self.project_servers: dict[str, str] = {}
        """The project file that describes an MCP server, by the server's name."""
        self._uses_profile: bool | None = None
        """Whether a permission profile counts, or a mode; None while no layer has named either."""
        self._layers: dict[str, Layer] = {}
        self._unknown: dict[str, int] = {}
        self._hook_tables: list[tuple[str, str, Any]] = []
        self._hook_files: list[tuple[str, Any]] = []

    @property
    def uses_profile(self) -> bool:
        return bool(self._uses_profile)

    def note_profile(self, layer: Layer) -> None:
        """To be called with the layers in order of precedence: the last one that names a profile or a mode decides."""
        if "default_permissions" in layer.values:
            self._uses_profile = True
        elif "sandbox_mode" in layer.values:
            self._uses_profile = False

    def take_hooks(self, layer: Layer, source: str, path: str = "") -> None:
        """The hooks of one layer are added to those of the others, never replaced by them."""
        if (table := layer.values.pop("hooks", None)) is not None:
            if not isinstance(table, dict):
                raise ConfigError(f"{layer.place(('hooks',))}: hooks must be a table, found {describe(table)}")
            self._hook_tables.append((path, source, table))

    def take_hook_file(self, path: str, source: str) -> None:
        if is_regular(path):
            self._hook_files.append((path, source))

    def hooks(self, features: Mapping[str, Any], *, skip_consent: bool) -> tuple[Any, ...]:
        is_on = features.get("hooks", features.get("codex_hooks", FEATURES["hooks"][1]))
        if not is_on or not (self._hook_tables or self._hook_files):
            return ()
        from spindle.config.hook_files import SESSION_FLAGS, HookTable, build_hooks  # only for those who have any

        tables = [
            HookTable(path=path or SESSION_FLAGS, source=source, table=table)  # pyright: ignore[reportArgumentType]
            for path, source, table in self._hook_tables
        ]
        return build_hooks(tables, self._hook_files, self.warnings, skip_consent=skip_consent)

    def check(self, layer: Layer, table: Table) -> None:
        check_layer(layer, table, self._on_unknown)
        self._layers[layer.label] = layer
        self.idle += idle_keys(layer.values, table)
        if "permissions" in layer.values:
            from spindle.config.permissions import resolve_roots  # only for those who have profiles

            resolve_roots(layer)
        if (count := self._unknown.get(layer.label, 0)) > _MAX_UNKNOWN_KEYS:
            more = count - _MAX_UNKNOWN_KEYS
            self.warnings.append(f"{layer.label}: {more} more unknown key{'s' if more > 1 else ''}")

    def _on_unknown(self, layer: Layer, path: tuple[str, ...], known: Mapping[str, Any]) -> None:
        self._unknown[layer.label] = count = self._unknown.get(layer.label, 0) + 1
        if count > _MAX_UNKNOWN_KEYS and not self.strict:
            return
        message = f"{layer.place(path)}: {unknown_key(path, known)}"
        if self.strict:
            raise ConfigError(message)
        self.warnings.append(message)

    def place(self, path: tuple[str, ...]) -> str:
        """Where a value of the merged configuration was set: the file and the line, as near as can be."""
        name = dotted(path)
        layer = self._layers.get(self.origins.get(name, ""))
        if layer is None:  # a table: whoever has it
            layer = next((one for one in self._layers.values() if one.has(path)), None)
        return layer.place(path) if layer is not None else "configuration"

    def permissions(self, merged: Mapping[str, Any]) -> Any:
        """The policy of the permission profile in use; None when a mode is in use instead."""
        tables, name = merged.get("permissions") or {}, merged.get("default_permissions")
        if not tables and (name is None or not self._uses_profile):
            return None
        from spindle.config import permissions  # only for those who have profiles

        permissions.check_profiles(tables, self.place)
        if self._uses_profile is None:
            raise ConfigError(
                f"{self.place(('permissions',))}: there are permission profiles, and nothing says which one is used; "
                f"set default_permissions to one of {', '.join(permissions.profile_names(tables))}"
            )
        policy = None
        if name is not None:
            policy = permissions.policy_of(name, tables, self.place, add_dirs=tuple(merged["add_dirs"]))
        if self._uses_profile:
            return policy
        if policy is not None and policy.permissions is not None and policy.permissions.denies:
            self.warnings.append(
                f"the permission profile {name!r} is not in use because sandbox_mode is set by "
                f"{self.origins.get('sandbox_mode', 'a flag')}; what it denies can be read"
            )
        return None

    def warn_of_idle_keys(self) -> None:
        if self.idle:
            names = list(dict.fromkeys(self.idle))
            what = "this key has" if len(names) == 1 else "these keys have"
            self.warnings.append(f"{what} no effect in Spindle: {', '.join(names)}")

    def profile(self, name: str, home: str, own: Mapping[str, Any], overrides: Mapping[str, Any]) -> Layer:
        """The table `[profiles.NAME]`, else the file NAME.config.toml."""
        table: dict[str, Any] = {}
        tables = [source.get("profiles", {}).get(name) for source in (own, overrides)]
        for found in tables:
            if isinstance(found, dict):
                merge(table, Layer(label="", folder="", values=found), {})
        if any(isinstance(found, dict) for found in tables):
            return Layer(label=f"profile {name}", folder=home, values=table)
        if "/" not in name and name.isprintable():
            layer = read_layer(f"{home}/{name}.config.toml")
            if layer is not None:
                self.check(layer, PROFILE)
                return layer
        raise ConfigError(
            f"profile {name!r} not found: there is neither a table [profiles.{dotted((name,))}] in {home}/config.toml "
            f"nor a file {visible(name)}.config.toml in {home}"
        )
