"""Changes to the user's `config.toml`: one key at a time, checked before they are written; comments stay.

Also what was set where: `read_layers` gives the files and options a configuration was made of, one by one.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from spindle.config.keys import KEYS
from spindle.config.kinds import Layer, check_layer
from spindle.config.locate import split_key
from spindle.config.project_layer import Project, drop_forbidden
from spindle.config.sources import overrides_layer, parse_toml, read_layer, read_text
from spindle.config.trust import find_trust
from spindle.errors import ConfigError
from spindle.protocol.items import encode_json


class Edit(msgspec.Struct, frozen=True, kw_only=True):
    """One change: a dotted key, its new value (None takes it out), and whether tables are merged or replaced."""

    key: str
    value: Any
    strategy: Literal["replace", "upsert"] = "replace"


class VersionConflict(ConfigError):
    """The file is not as it was when the caller looked at it."""


class Source(msgspec.Struct, frozen=True, kw_only=True):
    """One layer of a configuration: what it is, where, and what it says. `version` changes with what it says."""

    kind: Literal["system", "user", "project", "flags"]
    path: str | None
    values: dict[str, Any]

    @property
    def version(self) -> str:
        return version_of(self.values)


def version_of(values: Mapping[str, Any]) -> str:
    return "sha256:" + hashlib.sha256(encode_json(_plain(values))).hexdigest()


def read_layers(
    cwd: str, home: str, overrides: Sequence[str] = (), flags: Mapping[str, Any] | None = None
) -> list[Source]:
    """What a configuration for `cwd` is made of, lowest precedence first. Files that are not there are left out."""
    found: list[Source] = []
    for kind, path in (("system", "/etc/codex/config.toml"), ("user", f"{home}/config.toml")):
        if (layer := read_layer(path)) is not None:
            found.append(Source(kind=kind, path=path, values=_plain(layer.values)))  # pyright: ignore[reportArgumentType]
    given = overrides_layer(overrides, {}, cwd).values | dict(flags or {})
    projects = merged([*found, Source(kind="flags", path=None, values=given)]).get("projects", {})
    markers = merged(found).get("project_root_markers", (".git",))
    project = Project(cwd=cwd, home=home, trust=find_trust(cwd, projects), root_markers=markers)
    for layer in project.layers([]):
        drop_forbidden(layer, [])
        found.append(Source(kind="project", path=f"{layer.folder}/config.toml", values=_plain(layer.values)))
    if given:
        found.append(Source(kind="flags", path=None, values=_plain(given)))
    return found


def merged(sources: Sequence[Source]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for source in sources:
        _lay_over(result, source.values)
    return result


def _lay_over(below: dict[str, Any], above: Mapping[str, Any]) -> None:
    for key, value in above.items():
        if isinstance(value, dict) and isinstance(below.get(key), dict):
            _lay_over(below[key], value)
        else:
            below[key] = _plain(value)


def _plain(value: Any) -> Any:
    """A copy that JSON can hold; dates become text."""
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)


def write_user_config(home: str, edits: Sequence[Edit], expected_version: str | None = None) -> Source:
    """Change `config.toml`, all edits or none. Raises ConfigError when the result could not be used."""
    path = f"{home}/config.toml"
    text = read_text(path, "configuration file") or ""
    found = parse_toml(text, path)
    if expected_version is not None and expected_version != version_of(found):
        raise VersionConflict(f"{path} was changed since it was read; read it again")
    changed = edited(text, edits, path)
    values = parse_toml(changed, path)
    checked = Layer(label=path, folder=home, values=parse_toml(changed, path), text=changed)
    check_layer(checked, KEYS, lambda *_: None)
    _replace(home, changed.encode())
    return Source(kind="user", path=path, values=_plain(values))


def _replace(home: str, text: bytes) -> None:
    """Replace the file as a whole. One that is a link to somewhere else stays a link, with the mode it has."""
    path = os.path.realpath(f"{home}/config.toml")
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(text)
        os.rename(temporary, path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def edited(text: str, edits: Sequence[Edit], label: str) -> str:
    """The TOML text with the edits made, everything else byte for byte as it was."""
    import tomlkit  # only those who change the file
    from tomlkit.exceptions import TOMLKitError  # the same

    try:
        document = tomlkit.parse(text)
        for edit in edits:
            _apply(document, edit)
        return tomlkit.dumps(document)
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ConfigError(f"{label} cannot be changed: {error}") from error


def _apply(document: Any, edit: Edit) -> None:
    path = split_key(edit.key)
    if not path or not all(path):
        raise ConfigError(f"{edit.key!r} is not a key of the configuration")
    _set(document, path, edit.value, merges=edit.strategy == "upsert")


def _set(table: Any, path: tuple[str, ...], value: Any, *, merges: bool) -> None:
    import tomlkit  # only those who change the file

    name, *below = path
    if below:
        if name not in table:
            if value is None:
                return
            table.add(name, tomlkit.table(is_super_table=True))
        if not isinstance(table[name], dict):
            raise ConfigError(f"{name} holds a value, not a table, so {'.'.join(below)} cannot be set in it")
        _set(table[name], tuple(below), value, merges=merges)
    elif value is None:
        table.pop(name, None)
    elif merges and isinstance(value, dict) and isinstance(table.get(name), dict):
        for key, entry in value.items():
            _set(table[name], (key,), entry, merges=True)
    else:
        table[name] = tomlkit.item(_without_nulls(value))


def _without_nulls(value: Any) -> Any:
    """TOML has no null; a member without a value is left out."""
    if isinstance(value, dict):
        return {key: _without_nulls(entry) for key, entry in value.items() if entry is not None}
    if isinstance(value, list):
        return [_without_nulls(entry) for entry in value]
    return value
