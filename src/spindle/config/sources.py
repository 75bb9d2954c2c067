"""Reads the sources of settings: TOML files and `-c` options. Knows no keys."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from spindle.config.kinds import Layer, dotted
from spindle.errors import ConfigError, UsageError
from spindle.workspace.files import LeftOut, read_own, shown

_MAX_FILE_BYTES = 1 << 20


def resolve_home(env: Mapping[str, str]) -> str:
    """Folder of the user's files: `CODEX_HOME`, which must then exist, else `~/.codex`, which need not."""
    given = env.get("CODEX_HOME", "")
    if not given:
        return f"{env.get('HOME') or os.path.expanduser('~')}/.codex"
    if not os.path.isdir(given):
        reason = "is not a folder" if os.path.exists(given) else "does not exist"
        raise ConfigError(f"CODEX_HOME points to {shown(given)}, which {reason}")
    return os.path.realpath(given)


def read_layer(path: str, *, is_project: bool = False) -> Layer | None:
    """The file as a layer; None if there is no such file."""
    text = read_text(path, "configuration file")
    if text is None:
        return None
    return Layer(
        label=shown(path),
        folder=os.path.dirname(path),
        values=parse_toml(text, shown(path)),
        text=text,
        is_project=is_project,
    )


def read_text(path: str, what: str) -> str | None:
    """A text file of the user; None if it is missing. Another's, unreadable, huge or not UTF-8 → ConfigError."""
    try:
        content = read_own(path, _MAX_FILE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except LeftOut as error:
        raise ConfigError(
            f"{shown(path)}: the {what} is not used: {error.strerror}; make it yours with chown, or take it away"
        ) from error
    except OSError as error:
        raise ConfigError(f"{shown(path)}: the {what} cannot be read: {error.strerror or error}") from error
    if len(content) > _MAX_FILE_BYTES:
        raise ConfigError(f"{shown(path)}: the {what} is larger than {_MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{shown(path)}:{line}: the {what} is not valid UTF-8 (byte 0x{content[error.start]:02x})"
        ) from error


def parse_toml(text: str, label: str) -> dict[str, Any]:
    import tomllib  # many users have no file at all

    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ConfigError(f"{label}: nested too deeply") from None
    except ValueError as error:
        raise ConfigError(_syntax_error(str(error), text, label)) from error


def _syntax_error(message: str, text: str, label: str) -> str:
    """`file:line:column: reason`, then the offending line."""
    reason, _, place = message.rpartition(" (at ")
    lines = text.split("\n")  # only this ends a line in TOML
    if place.startswith("line "):
        line_text, _, column_text = place.removeprefix("line ").rstrip(")").partition(", column ")
        line, column = int(line_text), int(column_text)
    else:
        reason = reason or message
        line, column = len(lines), len(lines[-1]) + 1
    if reason == "Cannot overwrite a value":
        reason = "this key or table is already set above"
    shown_line = "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in lines[line - 1][:200])
    shown_line = _without_secrets(shown_line)
    return f"{label}:{line}:{column}: invalid TOML in configuration file: {reason}\n  {line} | {shown_line}"


def _without_secrets(line: str) -> str:
    """A line of the user's file as an error may show it: terminals are recorded, and errors are sent to others."""
    import re  # only with a broken file

    from spindle.policy.secrets import Secrets, is_telling, mark  # only with a broken file

    key, equals, value = line.partition("=")
    if equals and is_telling(line) and not key.strip().startswith("env_"):
        name = key.strip().strip("\"'")
        value = re.sub(r"\"[^\"]*(\"|$)|'[^']*('|$)", lambda _: f'"{mark(name)}"', value)
    return Secrets().mask(key + equals + value)


def overrides_layer(overrides: Iterable[str], config: Mapping[str, Any], cwd: str) -> Layer:
    """The `-c key=value` options, then the members of a client's `config` object, as one layer."""
    values: dict[str, Any] = {}
    for override in overrides:
        key, equals, value = override.partition("=")
        if not equals or not key.strip():
            raise UsageError(f"-c needs key=value, found {override!r}")
        _set_dotted(values, key.strip(), _parse_value(value.strip()))
    for key, value in config.items():
        _set_dotted(values, key, value)
    return Layer(label="-c", folder=cwd, values=values)


def _parse_value(text: str) -> Any:
    """TOML if it is TOML, else the text itself."""
    import tomllib  # only with -c

    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip("\"'")
    return parsed["value"] if len(parsed) == 1 else text


def _set_dotted(values: dict[str, Any], key: str, value: Any) -> None:
    from spindle.config.locate import split_key  # only with -c

    *tables, last = split_key(key)
    if not all((*tables, last)):
        raise UsageError(f"-c: {key!r} is not a key")
    for name in tables:
        inner = values.get(name)
        if not isinstance(inner, dict):
            inner = values[name] = {}
        values = inner
    values[last] = value


def merge(target: dict[str, Any], layer: Layer, origins: dict[str, str]) -> None:
    """Lay `layer` over `target`: tables key by key, anything else replaced. `origins` notes who set what."""
    _merge(target, layer.values, layer.label, origins, ())


def _merge(
    target: dict[str, Any], values: Mapping[str, Any], label: str, origins: dict[str, str], path: tuple[str, ...]
) -> None:
    for key, value in values.items():
        here = (*path, key)
        if isinstance(value, dict):
            below = target.get(key)
            if not isinstance(below, dict):
                below = target[key] = {}
            _merge(below, value, label, origins, here)
        else:
            target[key] = value
            origins[dotted(here)] = label
