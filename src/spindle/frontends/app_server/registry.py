"""Every method that exists, and the answers for those that do not."""

from __future__ import annotations

from spindle.frontends.app_server.method import Method
from spindle.frontends.app_server.methods import (
    account,
    catalogue,
    commands,
    disk,
    file_sessions,
    files,
    goals,
    hook_list,
    metadata,
    occurrences,
    opening,
    own_state,
    queue,
    records,
    review,
    searching,
    settings,
    terminals,
    thread_settings,
    tool_servers,
    turns,
    undo,
    watches,
)

TOPICS = (
    opening,
    turns,
    records,
    searching,
    thread_settings,
    catalogue,
    hook_list,
    settings,
    account,
    commands,
    files,
    disk,
    tool_servers,
    undo,
    review,
    goals,
    watches,
    file_sessions,
    metadata,
    occurrences,
    own_state,
    queue,
    terminals,
)
METHODS: dict[str, Method] = {method.name: method for topic in TOPICS for method in topic.METHODS}

_MISSING = {
    "account/rateLimitResetCredit/consume": "Spindle buys nothing and spends no credits",
    "account/sendAddCreditsNudgeEmail": "Spindle sends no mail",
    "account/workspaceMessages/read": "Spindle shows no messages of a workspace",
}
_MISSING_FAMILIES = {
    "app": "apps",
    "apps": "apps",
    "plugin": "plugins",
    "marketplace": "plugins",
    "thread/realtime": "realtime conversations",
    "remoteControl": "remote control",
    "feedback": "feedback, and uploads none",
    "account/gatewayOAuth": "login to gateways",
    "account/bedrock": "login to Bedrock from here; a provider in config.toml reaches it",
    "account/gcp": "login to Google Cloud from here; a provider in config.toml reaches it",
    "accountSession": "several accounts at a time",
    "userVerification": "verification of users",
    "windowsSandbox": "sandbox on Windows",
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
