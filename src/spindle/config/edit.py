"""Changes the user's config.toml and nothing else in it: comments, order and unknown keys stay as they are."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spindle.config.sources import parse_toml, read_text
from spindle.errors import ConfigError

if TYPE_CHECKING:
    from tomlkit import TOMLDocument


def set_table(home: str, path: tuple[str, str], values: Mapping[str, Any]) -> None:
    """Put `[first.second]` with these values into the file, in place of the table that may be there."""
    import tomlkit  # only for who edits

    document = _read(home)
    first, second = path
    outer = document.get(first)
    if outer is None:
        outer = tomlkit.table(is_super_table=True)
        document.append(first, outer)
    table = tomlkit.table()
    for key, value in values.items():
        if isinstance(value, Mapping):
            inner = tomlkit.table()
            inner.update(dict(value))
            table.append(key, inner)
        else:
            table.append(key, value)
    outer[second] = table
    write_text(home, tomlkit.dumps(document))


def remove_table(home: str, path: tuple[str, str]) -> bool:
    """Take `[first.second]` out of the file. False when it is not there."""
    import tomlkit

    document = _read(home)
    first, second = path
    outer = document.get(first)
    if outer is None or second not in outer:
        return False
    del outer[second]
    if not outer:
        del document[first]
    write_text(home, tomlkit.dumps(document))
    return True


def _read(home: str) -> TOMLDocument:
    import tomlkit

    path = f"{home}/config.toml"
    text = read_text(path, "configuration file") or ""
    parse_toml(text, path)  # words what is wrong with it better
    return tomlkit.parse(text)


def write_text(home: str, text: str) -> None:
    """Replace the file as a whole. One that is a link to somewhere else stays a link."""
    path = os.path.realpath(f"{home}/config.toml")
    parse_toml(text, path)  # a file that we could not read again is worse than one that was not changed
    temporary = f"{path}.{os.getpid()}"
    try:
        os.makedirs(home, 0o700, exist_ok=True)
        mode = os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o600
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
        with open(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(text.encode())
        os.rename(temporary, path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
