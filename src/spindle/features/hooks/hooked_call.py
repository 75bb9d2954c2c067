"""Tool calls as hooks see them: the name a call goes by, its input, and a call with an input that a hook changed."""

from __future__ import annotations

from typing import Any

import msgspec

from spindle.errors import ToolError
from spindle.protocol.items import decode_json, encode_payload
from spindle.protocol.quote import shell_join
from spindle.tools.tool import ToolCall

BASH = "Bash"
_COMMANDS = {"exec_command": "cmd", "shell_command": "command"}
"""Tools that take a script, and where."""
_ARGVS = frozenset(("shell", "container.exec", "local_shell"))
_PATCH = "apply_patch"
_SHELLS = frozenset(("bash", "sh", "zsh", "dash", "ksh"))


class HookedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call in the words of hooks."""

    name: str
    names: tuple[str, ...]
    """Whatever a matcher may call it."""
    input: Any
    """What the tool was given; for commands and patches always under `command`."""


def read_call(call: ToolCall) -> HookedCall | None:
    """None for a call that no hook is asked about: one that only looks at a command that runs already."""
    arguments = _arguments(call)
    if call.name in _COMMANDS or call.name in _ARGVS:
        given = arguments.get(_COMMANDS.get(call.name, "command"), "") if isinstance(arguments, dict) else ""
        return HookedCall(name=BASH, names=(BASH,), input={"command": _script(given)})
    if call.name == _PATCH:
        patch = arguments.get("input", "") if isinstance(arguments, dict) else call.arguments
        return HookedCall(name=_PATCH, names=(_PATCH, "Edit", "Write"), input={"command": patch})
    if call.name == "write_stdin" and not (isinstance(arguments, dict) and arguments.get("chars")):
        return None
    return HookedCall(name=call.name, names=(call.name,), input=arguments)


def changed_call(call: ToolCall, given: dict[str, Any]) -> ToolCall:
    """The call with the input that a hook wants instead."""
    text = given.get("command")
    if call.name in _COMMANDS or call.name in _ARGVS or call.name == _PATCH:
        if not isinstance(text, str):
            raise ToolError("This call was not run: a hook changed it, but its updatedInput has no text `command`.")
        if call.is_freeform:
            return msgspec.structs.replace(call, arguments=text)
        arguments = _arguments(call)
        arguments = dict(arguments) if isinstance(arguments, dict) else {}
        if call.name == _PATCH:
            arguments["input"] = text
        elif call.name in _ARGVS:
            arguments["command"] = ["bash", "-lc", text]
        else:
            arguments[_COMMANDS[call.name]] = text
        given = arguments
    elif call.is_freeform:
        raise ToolError("This call was not run: a hook changed it, and its input is not an object.")
    return msgspec.structs.replace(call, arguments=encode_payload(given).decode())


def session_of(call: ToolCall) -> int | None:
    """The running command that a call goes back to."""
    arguments = _arguments(call) if call.name == "write_stdin" else None
    found = arguments.get("session_id") if isinstance(arguments, dict) else None
    return int(found) if isinstance(found, int | float) else None


def _arguments(call: ToolCall) -> Any:
    if call.is_freeform:
        return call.arguments
    try:
        return decode_json(call.arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return call.arguments


def _script(given: Any) -> str:
    """What would be typed at a prompt."""
    if isinstance(given, str):
        return given
    words = [word for word in given if isinstance(word, str)] if isinstance(given, list) else []
    if len(words) == 3 and words[0].rsplit("/", 1)[-1] in _SHELLS and words[1] in ("-c", "-lc"):
        return words[2]
    return shell_join(words)
