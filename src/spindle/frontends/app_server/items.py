"""Protocol v1 → the app-server's items, inputs and policies, and back. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from spindle.frontends.app_server.objects import (
    AgentMessageItem,
    CommandItem,
    ContextCompactionItem,
    EnteredReviewModeItem,
    ExitedReviewModeItem,
    FileChangeItem,
    FileUpdateChange,
    FunctionCallOutputItem,
    ImageInput,
    LocalImageInput,
    MentionInput,
    OutputImage,
    OutputText,
    PatchKind,
    PlanItem,
    ReasoningItem,
    SandboxPolicy,
    SkillInput,
    TextInput,
    ThreadItem,
    ToolOutput,
    TurnError,
    UserInput,
    UserMessageItem,
    WebSearchItem,
)
from spindle.protocol import ops, settings
from spindle.protocol.events import ExecCommandBegin, ExecCommandEnd
from spindle.protocol.quote import shell_join
from spindle.thread.view import event_item

CLIENT_ID = "client_id"
"""Under this key the first part of an input carries the client's own id of the message through the session."""

QUOTA_EXCEEDED = "Quota exceeded. Check your plan and billing details."
"""By this sentence clients know that the account is spent; what our own says beyond it is in the details."""

_SOURCES = {
    "user_shell": "userShell",
    "unified_exec_startup": "unifiedExecStartup",
    "unified_exec_interaction": "unifiedExecInteraction",
}
_STATUSES = {"in_progress": "inProgress"}
_MODES = {
    "danger-full-access": "dangerFullAccess",
    "read-only": "readOnly",
    "external-sandbox": "externalSandbox",
    "workspace-write": "workspaceWrite",
}


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


# ---- input -----------------------------------------------------------------------------------------


def input_to_items(parts: Iterable[UserInput], client_id: str | None = None) -> list[dict[str, Any]]:
    """A client's input as input items of protocol v1."""
    items = [_input_item(part) for part in parts]
    if client_id is not None and items:
        items[0][CLIENT_ID] = client_id
    return items


def _input_item(part: UserInput) -> dict[str, Any]:
    match part:
        case TextInput(text=text, text_elements=elements):
            ranges = [
                {
                    "byte_range": {"start": element.byte_range.start, "end": element.byte_range.end},
                    "placeholder": element.placeholder,
                }
                for element in elements
            ]
            return {"type": "text", "text": text, "text_elements": ranges}
        case ImageInput(url=url):
            return {"type": "image", "image_url": url}
        case LocalImageInput(path=path):
            return {"type": "local_image", "path": path}
        case SkillInput(name=name, path=path):
            return {"type": "skill", "name": name, "path": path}
        case MentionInput(name=name, path=path):
            return {"type": "mention", "name": name, "path": path}


def tool_output_of(given: ToolOutput) -> ops.ToolOutput:
    """What a client's program brings, in the form of protocol v1."""
    output = given.output
    parts = output if isinstance(output, str) else [_output_part(part) for part in output]
    return ops.ToolOutput(name=given.name, namespace=given.namespace, output=parts)


def _output_part(part: OutputText | OutputImage) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(part).items() if value is not None}


def items_to_input(items: Iterable[Mapping[str, Any]]) -> list[UserInput]:
    """Input items of protocol v1, from a session or from a record, as a client knows them; others are left out."""
    found: list[UserInput] = []
    for item in items:
        try:
            found.append(msgspec.convert(_input_wire(item), UserInput))
        except msgspec.ValidationError:
            continue
    return found


def _input_wire(item: Mapping[str, Any]) -> dict[str, Any]:
    match item.get("type"):
        case "text":
            elements = [
                {"byteRange": element.get("byte_range"), "placeholder": element.get("placeholder")}
                for element in item.get("text_elements") or ()
                if isinstance(element, dict)
            ]
            return {"type": "text", "text": item.get("text"), "text_elements": elements}
        case "image":
            return {"type": "image", "url": item.get("image_url") or item.get("url")}
        case "local_image" | "localImage":
            return {"type": "localImage", "path": item.get("path")}
        case kind:
            return {"type": kind, "name": item.get("name"), "path": item.get("path")}


# ---- policies and errors ---------------------------------------------------------------------------


def sandbox_to_wire(policy: SandboxPolicy) -> dict[str, Any]:
    """A client's policy in the form of protocol v1."""
    wire = msgspec.to_builtins(policy)
    modes = {ours: mode for mode, ours in _MODES.items()}
    return {
        "type": modes[wire.pop("type")],
        **{_snake(name): value for name, value in wire.items()},
    }


def sandbox_of(policy: settings.SandboxPolicy) -> SandboxPolicy:
    wire = policy.to_wire()
    wire["type"] = _MODES[wire["type"]]
    return msgspec.convert({camel(name): value for name, value in wire.items()}, SandboxPolicy)


def _snake(name: str) -> str:
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)


def error_info(info: Any) -> Any:
    """The kind of a failure, for machines, in camelCase."""
    if info == "budget_exceeded":
        return "other"  # clients know no such kind; the error's `budget` says it
    if isinstance(info, str):
        return camel(info)
    if isinstance(info, dict):
        return {camel(kind): {camel(name): value for name, value in details.items()} for kind, details in info.items()}
    return None


def turn_error(message: str, info: Any, details: str | None = None) -> TurnError:
    if info == "usage_limit_exceeded":
        from spindle.model.refusals import QUOTA_SPENT  # seldom

        if message.startswith(QUOTA_SPENT):
            message, details = QUOTA_EXCEEDED, message
    return TurnError(message=message, codex_error_info=error_info(info), additional_details=details)


# ---- items -----------------------------------------------------------------------------------------


def shown_item(item: Mapping[str, Any], new_id: str = "") -> ThreadItem | None:
    """An item that a session or a record shows (tagged in PascalCase); None for a kind that clients do not know."""
    item_id = str(item.get("id") or new_id)
    match item.get("type"):
        case "UserMessage":
            parts = [part for part in item.get("content") or () if isinstance(part, dict)]
            client_id = parts[0].get(CLIENT_ID) if parts else None
            return UserMessageItem(id=item_id, content=items_to_input(parts), client_id=client_id)
        case "FunctionCallOutput":
            return _external(item_id, item)
        case "AgentMessage":
            text = "".join(str(part.get("text") or "") for part in item.get("content") or () if isinstance(part, dict))
            return AgentMessageItem(id=item_id, text=text, phase=item.get("phase"))
        case "Plan":
            return PlanItem(id=item_id, text=str(item.get("text") or ""))
        case "Reasoning":
            return ReasoningItem(
                id=item_id, summary=list(item.get("summary_text") or ()), content=list(item.get("raw_content") or ())
            )
        case "ContextCompaction":
            return ContextCompactionItem(id=item_id)
        case "EnteredReviewMode":
            return EnteredReviewModeItem(id=item_id, review=str(item.get("review") or ""))
        case "ExitedReviewMode":
            return ExitedReviewModeItem(id=item_id, review=str(item.get("review") or ""))
        case "WebSearch":
            return WebSearchItem(id=item_id, query=str(item.get("query") or ""), action=web_action(item.get("action")))
        case "CommandExecution":
            return _recorded_command(item_id, item)
        case "FileChange":
            changes = item.get("changes")
            return FileChangeItem(
                id=item_id,
                changes=file_changes(changes) if isinstance(changes, dict) else [],
                status=cast(Any, _STATUSES.get(str(item.get("status")), str(item.get("status") or "completed"))),
            )
        case _:
            return None


def _external(item_id: str, item: Mapping[str, Any]) -> ThreadItem:
    """A program's message; a record of others may hold anything."""
    output, namespace = item.get("output"), item.get("namespace")
    return FunctionCallOutputItem(
        id=item_id,
        name=str(item.get("name") or ""),
        namespace=namespace if isinstance(namespace, str) else None,
        output=[part for part in output if isinstance(part, dict)] if isinstance(output, list) else str(output or ""),
    )


def review_item(event: Mapping[str, Any], new_id: str) -> ThreadItem | None:
    """The beginning or the end of a review, from its event."""
    shown = event_item(str(event["type"]), dict(event))
    return None if shown is None else shown_item(shown, new_id)


def _recorded_command(item_id: str, item: Mapping[str, Any]) -> CommandItem:
    command = item.get("command") or ""
    duration = item.get("duration")
    output = item.get("aggregated_output")
    return CommandItem(
        id=item_id,
        command=shell_join(map(str, command)) if isinstance(command, list) else str(command),
        cwd=str(item.get("cwd") or ""),
        process_id=item.get("process_id"),
        source=source_of(str(item.get("source"))),
        status=cast(Any, _STATUSES.get(str(item.get("status")), str(item.get("status") or "completed"))),
        command_actions=command_actions(item.get("parsed_cmd") or ()),
        aggregated_output=output or None,
        exit_code=item.get("exit_code"),
        duration_ms=_milliseconds(duration) if isinstance(duration, dict) else None,
    )


def _milliseconds(duration: Mapping[str, Any]) -> int:
    return int(duration.get("secs") or 0) * 1000 + int(duration.get("nanos") or 0) // 1_000_000


def source_of(source: str) -> Any:
    return _SOURCES.get(source, "agent")


def command_actions(parsed: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """`parsed_cmd` of protocol v1 as clients know it."""
    actions = []
    for entry in parsed:
        kind = "listFiles" if entry.get("type") == "list_files" else entry.get("type")
        rest = {name: value for name, value in entry.items() if name not in ("type", "cmd")}
        actions.append({"type": kind, "command": entry.get("cmd", ""), **rest})
    return actions


def file_changes(changes: Mapping[str, Any]) -> list[FileUpdateChange]:
    """Paths and their changes, each with its diff; a new or deleted file is shown by its content."""
    found = []
    for path, change in changes.items():
        if not isinstance(change, dict) or change.get("type") not in ("add", "delete", "update"):
            continue
        kind = PatchKind(type=change["type"])
        diff = change.get("content") or ""
        if change["type"] == "update":
            kind = PatchKind(type="update", move_path=change.get("move_path"))
            diff = change.get("unified_diff") or ""
            if kind.move_path:
                diff += f"\n\nMoved to: {kind.move_path}"
        found.append(FileUpdateChange(path=path, kind=kind, diff=diff))
    return found


def web_action(action: Any) -> dict[str, Any] | None:
    if not isinstance(action, dict):
        return None
    return {name: camel(value) if name == "type" else value for name, value in action.items()}


def command_item(msg: ExecCommandBegin | ExecCommandEnd) -> CommandItem:
    """A command that runs."""
    return CommandItem(
        id=msg.call_id,
        command=shell_join(msg.command),
        cwd=msg.cwd,
        process_id=msg.process_id,
        source=source_of(msg.source),
        command_actions=command_actions(msg.parsed_cmd),
    )


def finished_command(msg: ExecCommandEnd) -> CommandItem:
    """A command that is over. One that never ran failed, and its output says why."""
    return msgspec.structs.replace(
        command_item(msg),
        status="completed" if msg.exit_code == 0 else "failed",
        aggregated_output=msg.aggregated_output or None,
        exit_code=msg.exit_code,
        duration_ms=msg.duration.secs * 1000 + msg.duration.nanos // 1_000_000,
    )
