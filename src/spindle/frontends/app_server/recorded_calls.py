"""Calls in a record that no event tells of → items as clients know them. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from spindle.context.calls import (
    arguments_of,
    body_of,
    command_of,
    exit_code_of,
    has_patched,
    locate,
    output_text,
    patch_of,
    patched_files,
    tool_of,
)
from spindle.errors import PatchError
from spindle.frontends.app_server.items import command_actions
from spindle.frontends.app_server.objects import (
    CommandItem,
    DynamicToolCallItem,
    FileChangeItem,
    FileUpdateChange,
    ImageViewItem,
    McpToolCallItem,
    PatchKind,
    ThreadItem,
)
from spindle.patch.parse import AddFile, DeleteFile, UpdateFile, parse_patch
from spindle.protocol.items import call_id_of

_KINDS: dict[str, Literal["add", "delete", "update"]] = {"added": "add", "changed": "update", "deleted": "delete"}
_PATCH = re.compile(r"\*\*\* Begin Patch\n.*\n\*\*\* End Patch", re.DOTALL)
_USER_COMMAND = re.compile(
    r"<command>\n(?P<command>.*?)\n</command>\n<result>\nExit code: (?P<code>-?\d+)\n"
    r"(?:Duration: (?P<seconds>[\d.]+) seconds\n)?Output:\n(?P<output>.*)\n</result>",
    re.DOTALL,
)


def call_item(shown: Mapping[str, Any], cwd: str, *, is_running: bool = False) -> ThreadItem | None:
    """The item for an entry `Call` or `UserCommand` of a transcript; None for any other.

    A call without an output goes on while its turn `is_running`; else nobody will answer it.
    """
    match shown["type"]:
        case "Call":
            if not isinstance(shown.get("call"), dict):
                return None
            item = _call(shown["call"], shown["output"], cwd)
            is_open = is_running and shown["output"] is None and hasattr(item, "status")
            return msgspec.structs.replace(item, status="inProgress") if is_open else item
        case "UserCommand":
            return _user_command(str(shown.get("id") or ""), str(shown.get("text") or ""), cwd)
        case _:
            return None


def _call(call: dict[str, Any], output: dict[str, Any] | None, cwd: str) -> ThreadItem:
    item_id, text = call_id_of(call), "" if output is None else output_text(output)
    if patched_files(call):
        status = "completed" if output is not None and has_patched(output) else "failed"
        return FileChangeItem(id=item_id, changes=_changes(call, cwd), status=status)
    if (command := command_of(call)) is not None:
        code = exit_code_of(text)
        return CommandItem(
            id=item_id,
            command=command[0],
            cwd=locate(command[1], cwd) or cwd,
            command_actions=_actions(command[0]),
            status="completed" if output is not None and code in (0, None) else "failed",
            aggregated_output=body_of(text) or None,
            exit_code=code,
        )
    return _other_call(item_id, call, None if output is None else text)


def _other_call(item_id: str, call: dict[str, Any], text: str | None) -> ThreadItem:
    name, arguments = tool_of(call), arguments_of(call)
    status = "failed" if text is None else "completed"
    if name == "view_image" and isinstance(path := arguments.get("path"), str):
        return ImageViewItem(id=item_id, path=path)
    if name.startswith("mcp__"):
        _, server, tool = [*name.split("__", 2), ""][:3]
        result = None if text is None else {"content": [{"type": "text", "text": text}], "structuredContent": None}
        return McpToolCallItem(id=item_id, server=server, tool=tool, arguments=arguments, status=status, result=result)
    return DynamicToolCallItem(
        id=item_id,
        namespace=namespace if isinstance(namespace := call.get("namespace"), str) else None,
        tool=name,
        arguments=arguments or call.get("input"),
        status=status,
        content_items=None if text is None else [{"type": "inputText", "text": text}],
        success=text is not None,
    )


def _user_command(item_id: str, text: str, cwd: str) -> CommandItem | None:
    found = _USER_COMMAND.search(text)
    if found is None:
        return None
    code = int(found["code"])
    return CommandItem(
        id=item_id,
        command=found["command"],
        cwd=cwd,
        command_actions=_actions(found["command"]),
        source="userShell",
        status="completed" if code == 0 else "failed",
        aggregated_output=found["output"] or None,
        exit_code=code,
        duration_ms=None if found["seconds"] is None else round(float(found["seconds"]) * 1000),
    )


def _actions(script: str) -> list[dict[str, Any]]:
    from spindle.policy.commands import parse_command  # not before a record is read

    return command_actions(parse_command(["bash", "-lc", script]))


# ---- patches ---------------------------------------------------------------------------------------


def _changes(call: dict[str, Any], cwd: str) -> list[FileUpdateChange]:
    """The files of a patch, each with its part of it; only their names where the patch cannot be read."""
    text, folder = patch_of(call) or ("", "")
    folder = locate(folder, cwd)
    found = _PATCH.search(text)
    try:
        hunks = parse_patch(found[0] if found is not None else text)
    except PatchError:
        hunks = []
    if not hunks:
        return [
            FileUpdateChange(path=locate(file.path, folder), kind=PatchKind(type=_KINDS[file.change]), diff="")
            for file in patched_files(call)
        ]
    return [_change(hunk, folder) for hunk in hunks]


def _change(hunk: AddFile | DeleteFile | UpdateFile, folder: str) -> FileUpdateChange:
    path = locate(hunk.path, folder)
    match hunk:
        case AddFile(content=content):
            return FileUpdateChange(path=path, kind=PatchKind(type="add"), diff=content)
        case DeleteFile():
            return FileUpdateChange(path=path, kind=PatchKind(type="delete"), diff="")
        case UpdateFile(chunks=chunks, move_to=move_to):
            lines: list[str] = []
            for chunk in chunks:
                lines += [f"@@ {anchor}" for anchor in chunk.anchors] or ["@@"]
                lines += [mark + line for mark, line in chunk.lines]
            target = None if move_to is None else locate(move_to, folder)
            diff = "".join(f"{line}\n" for line in lines) + (f"\n\nMoved to: {target}" if target else "")
            return FileUpdateChange(path=path, kind=PatchKind(type="update", move_path=target), diff=diff)
