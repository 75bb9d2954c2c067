"""The two tools: how they are described, and what a call of one says. Pure."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from spindle.errors import SpindleError
from spindle.protocol.foreign import field_with_nul
from spindle.protocol.settings import APPROVAL_POLICIES, SANDBOX_MODES, ApprovalPolicy

NEW, REPLY = "codex", "codex-reply"

_OUTPUT = {
    "type": "object",
    "properties": {"threadId": {"type": "string"}, "content": {"type": "string"}},
    "required": ["threadId", "content"],
}


def _text(description: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": description, **more}


TOOLS: list[dict[str, Any]] = [
    {
        "name": NEW,
        "title": "Spindle",
        "description": "Start a thread with a coding agent: it works on the task until it is done, and answers.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "prompt": _text("The task."),
                "model": _text("The model to use instead of the configured one."),
                "profile": _text("The configuration profile to use."),
                "cwd": _text("The folder to work in; relative to the folder of the server."),
                "approval-policy": _text("When a person is asked before a command runs.", enum=[*APPROVAL_POLICIES]),
                "sandbox": _text("What commands may do.", enum=[*SANDBOX_MODES]),
                "config": {
                    "type": "object",
                    "description": "Settings in the place of those in config.toml.",
                    "additionalProperties": True,
                },
                "base-instructions": _text("The base instructions, instead of those of the model."),
                "developer-instructions": _text("More instructions, as a developer message."),
                "compact-prompt": _text("The prompt that asks for a summary when the thread is compacted."),
            },
            "required": ["prompt"],
        },
        "outputSchema": _OUTPUT,
    },
    {
        "name": REPLY,
        "title": "Spindle: go on",
        "description": "Go on with a thread: give its id and what to do next.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "prompt": _text("What to do next."),
                "threadId": _text("The id of the thread, as an earlier call gave it; or its name."),
                "conversationId": _text("Deprecated; use threadId."),
            },
            "required": ["prompt"],
        },
        "outputSchema": _OUTPUT,
    },
]


class NewArguments(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """What `codex` is called with."""

    prompt: str
    model: str | None = None
    profile: str | None = None
    cwd: str | None = None
    approval_policy: ApprovalPolicy | None = None
    sandbox: str | None = None
    config: dict[str, Any] = {}
    base_instructions: str | None = None
    developer_instructions: str | None = None
    compact_prompt: str | None = None


class ReplyArguments(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What `codex-reply` is called with."""

    prompt: str
    thread_id: str | None = None
    conversation_id: str | None = None

    @property
    def thread(self) -> str:
        """Id or name of the thread. Raises SpindleError when there is none."""
        found = self.thread_id or self.conversation_id
        if not found:
            raise SpindleError("codex-reply needs the threadId that an earlier call gave")
        return found


Arguments = TypeVar("Arguments", NewArguments, ReplyArguments)


def read_arguments(tool: str, given: Any, kind: type[Arguments]) -> Arguments:
    """The arguments of a call. Raises SpindleError with a sentence for whoever made it."""
    arguments = given if given is not None else {}
    if not isinstance(arguments, dict):
        raise SpindleError(f"the arguments of {tool} must be an object")
    if (field := field_with_nul(arguments)) is not None:
        raise SpindleError(f"{tool}: `{field}` holds a NUL character")
    try:
        read = msgspec.convert({name: value for name, value in arguments.items() if value is not None}, kind)
    except msgspec.ValidationError as error:
        reason = str(error).replace("Object missing required field", "the call lacks")
        raise SpindleError(f"{tool}: {reason}") from error
    if not read.prompt.strip():
        raise SpindleError(f"{tool}: the prompt is empty")
    if isinstance(read, NewArguments) and read.sandbox not in (None, *SANDBOX_MODES):
        raise SpindleError(f"{tool}: unknown sandbox {read.sandbox!r}; use one of {', '.join(SANDBOX_MODES)}")
    return read


def result(thread_id: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
    """What a call gives."""
    return {
        "content": [{"type": "text", "text": text}],
        "structuredContent": {"threadId": thread_id, "content": text},
        **({"isError": True} if is_error else {}),
    }
