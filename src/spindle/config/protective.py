"""Keys of the reference program that protect, and that Spindle cannot keep to: nothing is started with them.

Whoever wrote one relies on it. Keys that only add something are left without effect instead (`idle_keys`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from spindle.config.kinds import dotted
from spindle.errors import ConfigError

_REFUSED: dict[tuple[str, ...], str] = {
    ("tools", "web_search", "allowed_domains"): (
        "the search of the model server cannot be limited to domains here; "
        'set web_search = "disabled", or remove the key'
    ),
    ("features", "network_proxy"): (
        "commands have the whole network or none, and no proxy that picks hosts; remove the key, and leave the network "
        "off for commands"
    ),
}
"""What is refused when it is set, and why."""


def refuse_what_protects(merged: Mapping[str, Any], place: Callable[[tuple[str, ...]], str]) -> None:
    for path, reason in _REFUSED.items():
        value: Any = merged
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        is_off = isinstance(value, dict) and value.get("enabled") is False
        if value not in (None, False, "", [], {}) and not is_off:
            raise ConfigError(f"{place(path)}: {dotted(path)}: {reason}")
