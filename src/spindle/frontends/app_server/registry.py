"""Every method there is, and what is said of those there are not."""

from __future__ import annotations

from spindle.frontends.app_server.method import Method
from spindle.frontends.app_server.methods import (
    account,
    catalogue,
    commands,
    files,
    hook_list,
    opening,
    records,
    review,
    settings,
    turns,
    undo,
)

TOPICS = (opening, turns, records, catalogue, hook_list, settings, account, commands, files, undo, review)
METHODS: dict[str, Method] = {method.name: method for topic in TOPICS for method in topic.METHODS}

_MISSING = {
    "mcpServer/oauth/login": "Spindle does not sign in to tool servers from here",
    "feedback/upload": "Spindle uploads no feedback",
}
_MISSING_FAMILIES = {
    "app": "apps",
    "apps": "apps",
    "plugin": "plugins",
    "marketplace": "plugins",
    "thread/realtime": "realtime conversations",
    "remoteControl": "remote control",
    "feedback": "feedback",
}


def unknown_method(name: str) -> str:
    """Why a method cannot be called."""
    if name in _MISSING:
        return f"{name} is not supported: {_MISSING[name]}"
    for prefix, what in _MISSING_FAMILIES.items():
        if name.startswith(f"{prefix}/"):
            return f"{name} is not supported: Spindle has no {what}"
    known = ", ".join(f"`{known}`" for known in sorted(("initialize", *METHODS)))
    return f"Invalid request: unknown variant `{name}`, expected one of {known}"
