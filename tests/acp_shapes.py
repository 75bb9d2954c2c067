"""Every message of `spindle acp` against the models of the official package: nothing wrong in it, nothing unknown."""

from __future__ import annotations

from typing import Any

from acp import schema

_RESULTS: dict[str, Any] = {
    "initialize": schema.InitializeResponse,
    "session/new": schema.NewSessionResponse,
    "session/load": schema.LoadSessionResponse,
    "session/resume": schema.ResumeSessionResponse,
    "session/fork": schema.ForkSessionResponse,
    "session/list": schema.ListSessionsResponse,
    "session/prompt": schema.PromptResponse,
    "session/set_config_option": schema.SetSessionConfigOptionResponse,
}
_ASKED: dict[str, Any] = {
    "session/update": schema.SessionNotification,
    "session/request_permission": schema.RequestPermissionRequest,
    "fs/read_text_file": schema.ReadTextFileRequest,
    "fs/write_text_file": schema.WriteTextFileRequest,
    "elicitation/create": schema.CreateFormSessionElicitationRequest,
}


def check(message: dict[str, Any], method: str | None) -> None:
    """Fail for a message that the models do not know as it is; `method` is that of the request it answers."""
    if "method" in message:
        _fits(message["params"], _ASKED[message["method"]])
    elif "result" in message and method in _RESULTS:
        _fits(message["result"], _RESULTS[method])


def _fits(value: Any, model: Any) -> None:
    # The models let go of list entries they cannot read, and of members they do not know.
    kept = model.model_validate(value).model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert kept == value, f"{model.__name__} keeps {kept} of {value}"
