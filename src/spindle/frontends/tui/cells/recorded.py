"""What a record says of a thread, as the events that were heard when it happened. So both are shown alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from spindle.context.calls import (
    arguments_of,
    body_of,
    command_of,
    exit_code_of,
    locate,
    output_text,
    seconds_of,
    session_of,
    tool_of,
    user_command_of,
)
from spindle.errors import PatchError
from spindle.frontends.tui.cells.cell import Cell
from spindle.frontends.tui.cells.commands import NEVER_RAN
from spindle.frontends.tui.cells.notes import Question
from spindle.frontends.tui.cells.patches import UNNUMBERED
from spindle.patch.heredoc import find_patch
from spindle.patch.parse import AddFile, Chunk, DeleteFile, UpdateFile, parse_patch
from spindle.policy.commands import parse_command
from spindle.protocol import events as v1
from spindle.protocol.events import Duration, Msg
from spindle.protocol.items import decode_json

_KNOWN: dict[str, type[Msg]] = {
    str(kind.__struct_config__.tag): kind
    for kind in (
        *(v1.UserMessage, v1.ExecCommandEnd, v1.PatchApplyEnd, v1.WebSearchEnd, v1.ContextCompacted, v1.TokenCount),
        *(v1.TurnAborted, v1.TaskComplete, v1.Error, v1.Warning, v1.ItemCompleted),
    )
}


def heard(events: list[dict[str, Any]], item: dict[str, Any] | None, cwd: str) -> Iterator[Msg | Cell]:
    """The events for one moment of a record; nothing for what cannot be read. A cell where no event would tell it."""
    match events[0]:
        case {"type": "call"} if item is not None:
            yield from _of_call(item["call"], item["output"], cwd)
        case {"type": "user_command"} if item is not None:
            yield from _of_user_command(item["text"], cwd)
        case {"type": "agent_reasoning" | "agent_reasoning_raw_content"}:
            shown = {"type": "Reasoning", "summary_text": (item or {}).get("summary_text") or []}
            yield _completed({**shown, "raw_content": (item or {}).get("raw_content") or []})
        case {"type": "agent_message", "message": str(text)}:
            yield _completed({"type": "AgentMessage", "content": [{"type": "Text", "text": text}]})
        case {"type": "task_started"} as event:
            window = event.get("model_context_window")
            yield v1.TaskStarted(
                turn_id=str(event.get("turn_id") or ""),
                model_context_window=window if isinstance(window, int) else None,
                collaboration_mode_kind=str(event.get("collaboration_mode_kind") or "default"),
            )
        case {"type": "entered_review_mode" | "exited_review_mode" as kind} as event:
            from spindle.protocol.review import EnteredReviewMode, ExitedReviewMode  # few threads have one

            output = event.get("review_output")
            if kind == "entered_review_mode":
                yield EnteredReviewMode(target={}, user_facing_hint=str(event.get("user_facing_hint") or ""))
            else:
                yield ExitedReviewMode(review_output=output if isinstance(output, dict) else None)
        case {"type": str(kind)} as event:
            if kind == "task_complete" and isinstance(failed := event.get("error"), dict):
                yield v1.Error(message=str(failed.get("message") or "the turn failed"))
            if (known := _KNOWN.get(kind)) is not None and (msg := _convert(event, known)) is not None:
                yield msg
        case _:
            pass


def _convert(event: dict[str, Any], kind: type[Msg]) -> Msg | None:
    """Another program may have written the record: what lacks a field is filled up, what does not fit is left out."""
    defaults = {"turn_id": "", "last_agent_message": None, "info": None, "parsed_cmd": [], "cwd": "", "thread_id": ""}
    given = {name: value for name, value in event.items() if value is not None or name in ("info",)}
    missing = {name: value for name, value in defaults.items() if name in kind.__struct_fields__}
    try:
        return msgspec.convert({**missing, **given}, kind, strict=False)
    except msgspec.ValidationError:
        return None


def _completed(item: dict[str, Any]) -> Msg:
    return v1.ItemCompleted(thread_id="", turn_id="", item={"id": "", **item})


# ---- calls ---------------------------------------------------------------------------------------


def _of_call(call: dict[str, Any], output: dict[str, Any] | None, cwd: str) -> Iterator[Msg | Cell]:
    text = "" if output is None else output_text(output)
    name, arguments = tool_of(call), arguments_of(call)
    if (patch := _patch_of(call, arguments)) is not None:
        yield from _of_patch(patch, text, is_over=output is not None, cwd=cwd)
    elif (command := command_of(call)) is not None:
        yield from _of_command(*command, text, is_over=output is not None, cwd=cwd)
    elif name == "update_plan" and isinstance(plan := arguments.get("plan"), list):
        why = arguments.get("explanation")
        steps = [step for step in plan if isinstance(step, dict)]
        yield v1.PlanUpdate(plan=steps, explanation=why if isinstance(why, str) else None)
    elif name == "view_image":
        yield v1.ViewImageToolCall(call_id="", path=locate(str(arguments.get("path") or ""), cwd))
    elif name == "request_user_input":
        yield from _of_questions(arguments, text)
    elif name.startswith("mcp__"):
        from spindle.protocol.tool_servers import McpToolCallEnd  # only threads with MCP servers

        _, server, tool = [*name.split("__", 2), ""][:3]
        called = {"server": server, "tool": tool, "arguments": arguments}
        answer = {"content": [{"type": "text", "text": body_of(text)}]}
        yield McpToolCallEnd(
            call_id="", invocation=called, duration=Duration.of(seconds_of(text) or 0.0), result={"Ok": answer}
        )


def _of_questions(arguments: dict[str, Any], text: str) -> Iterator[Cell]:
    try:
        answers = decode_json(text)["answers"]
    except (msgspec.DecodeError, UnicodeEncodeError, KeyError, TypeError):
        return  # they were not answered
    asked = arguments.get("questions")
    for each in asked if isinstance(asked, list) else ():
        if isinstance(each, dict):
            match answers:
                case dict() if isinstance(given := answers.get(str(each.get("id"))), dict):
                    said = [str(word) for word in given.get("answers") or ()]
                case _:
                    said = []
            yield Question(str(each.get("question") or ""), said)


def _of_command(script: str, folder: str, text: str, *, is_over: bool, cwd: str) -> Iterator[Msg]:
    """A call without an output was stopped; one that was left running has no end in the record."""
    where = locate(folder, cwd) if folder else cwd
    code = exit_code_of(text)
    session = session_of(text) if is_over and code is None else None
    yield _begun(script, where, process_id=session)
    if session is not None:
        yield v1.TokenCount(info=None)  # the model was answered while it ran
    elif is_over:
        yield _ended(script, where, NEVER_RAN if code is None else code, text)


def _of_user_command(text: str, cwd: str) -> Iterator[Msg]:
    if (found := user_command_of(text)) is not None:
        script, result = found
        yield _begun(script, cwd, source="user_shell")
        yield _ended(script, cwd, exit_code_of(result) or 0, result, source="user_shell")


def _begun(script: str, cwd: str, *, source: str = "agent", process_id: str | None = None) -> Msg:
    command = ["bash", "-lc", script]
    parsed = parse_command(command)
    call = {"call_id": script, "turn_id": "", "source": source}
    return v1.ExecCommandBegin(command=command, cwd=cwd, parsed_cmd=parsed, process_id=process_id, **call)


def _ended(script: str, cwd: str, code: int, text: str, *, source: str = "agent") -> Msg:
    output = body_of(text)
    call = {"call_id": script, "turn_id": "", "source": source}
    said = {"stdout": output, "aggregated_output": output, "formatted_output": output}
    return v1.ExecCommandEnd(
        command=["bash", "-lc", script],
        cwd=cwd,
        parsed_cmd=[],
        exit_code=code,
        duration=Duration.of(seconds_of(text) or 0.0),
        **call,
        **said,
    )


# ---- patches -------------------------------------------------------------------------------------


def _patch_of(call: dict[str, Any], arguments: dict[str, Any]) -> str | None:
    """The patch that a call applies, as a tool of its own or within a command."""
    if tool_of(call) == "apply_patch":
        patch = call.get("input") if isinstance(call.get("input"), str) else arguments.get("input")
        return patch if isinstance(patch, str) else None
    command = command_of(call)
    if command is None or "*** Begin Patch" not in command[0]:
        return None
    found = find_patch(["bash", "-lc", command[0]])
    return None if found is None else found[0]


def _of_patch(patch: str, text: str, *, is_over: bool, cwd: str) -> Iterator[Msg]:
    try:
        changes = dict(_changes(patch, cwd))
    except PatchError:
        changes = {}
    is_ok = is_over and "Success. Updated the following files:" in text
    error = "" if is_ok else body_of(text) or "it was not finished"
    yield v1.PatchApplyEnd(call_id="", turn_id="", stdout="", stderr=error, success=is_ok, changes=changes)


def _changes(patch: str, cwd: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The changes of a patch as its own lines tell them. What else the files held, the record does not say."""
    for hunk in parse_patch(patch):
        path = locate(hunk.path, cwd)
        match hunk:
            case AddFile(content=content):
                yield path, {"type": "add", "content": content}
            case DeleteFile():
                yield path, {"type": "delete", "content": ""}
            case UpdateFile(chunks=chunks, move_to=target):
                moved = None if target is None else locate(target, cwd)
                diff = "".join(map(_hunk, chunks))
                yield path, {"type": "update", "unified_diff": diff, "move_path": moved, UNNUMBERED: True}


def _hunk(chunk: Chunk) -> str:
    old = sum(mark != "+" for mark, _ in chunk.lines)
    new = sum(mark != "-" for mark, _ in chunk.lines)
    return f"@@ -1,{old} +1,{new} @@\n" + "".join(f"{mark}{text}\n" for mark, text in chunk.lines)
