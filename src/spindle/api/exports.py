"""A recorded thread as one text: Markdown or a page of HTML for people, JSON for programs."""

from __future__ import annotations

from spindle.api.documents import Block, Document, markdown, page
from spindle.api.shown import (
    AgentMessage,
    CommandExecution,
    ExternalMessage,
    FileChange,
    Item,
    McpToolCall,
    Plan,
    PythonToolCall,
    Reasoning,
    ThreadRecord,
    TodoList,
    UserMessage,
    WebSearch,
)
from spindle.protocol.clock import iso_utc
from spindle.protocol.items import encode_payload

FORMATS = ("markdown", "html", "json")
ENDS = {
    "interrupted": "The turn was interrupted.",
    "failed": "The turn failed.",
    "in_progress": "The turn was in progress.",
}


def check_format(given: str) -> None:
    if given not in FORMATS:
        raise ValueError(f"format is {given!r}, but must be one of {', '.join(FORMATS)}")


def export(record: ThreadRecord, given: str) -> str:
    """The whole thread in one of the formats."""
    check_format(given)
    if given == "json":
        return encode_payload(record.to_dict()).decode()
    document = _document(record)
    return markdown(document) if given == "markdown" else page(document)


def _document(record: ThreadRecord) -> Document:
    blocks: list[Block] = []
    for turn in record.turns:
        blocks += [block for item in turn.items if (block := _block(item)) is not None]
        if (end := ENDS.get(turn.status)) is not None:
            blocks.append(Block("note", end))
    return Document(title=_title(record), facts=_facts(record), blocks=blocks)


def _block(item: Item) -> Block | None:
    match item:
        case UserMessage(text=text):
            return Block("prose", "User", text)
        case ExternalMessage(tool=tool, text=text):
            return Block("text", f"Message from {tool}", text)
        case AgentMessage(text=text):
            return Block("prose", "Assistant", text)
        case Reasoning(text=text):
            return Block("prose", "Reasoning", text)
        case Plan(text=text):
            return Block("prose", "Plan", text)
        case CommandExecution(command=command, aggregated_output=output, exit_code=code):
            return command_block(command, output, code)
        case FileChange(changes=changes):
            return Block("text", "Files", "\n".join(f"{change.kind} {change.path}" for change in changes))
        case PythonToolCall(tool=tool, arguments=arguments, result=result):
            given = encode_payload(arguments).decode()
            return Block("text", "Tool", f"{tool} {given}\n{result or ''}".rstrip("\n"))
        case McpToolCall(server=server, tool=tool, arguments=arguments):
            return Block("text", "Tool", f"{server}.{tool} {encode_payload(arguments).decode()}")
        case TodoList(items=steps):
            listed = "\n".join(f"{'done' if step.completed else 'open'}: {step.text}" for step in steps)
            return Block("text", "Steps", listed)
        case WebSearch(query=query):
            return Block("text", "Web search", query)
        case _:
            return None


def command_block(command: str, output: str, exit_code: int | None) -> Block:
    ended = "" if exit_code is None else f" (exit code {exit_code})"
    return Block("console", f"Command{ended}", f"$ {command}\n{output}".rstrip("\n"))


def _facts(record: ThreadRecord) -> list[tuple[str, str]]:
    facts = [("Thread", record.id), ("Folder", record.cwd), ("Model", record.model or "")]
    return [*facts, ("Started", iso_utc(record.created_at)), ("Last changed", iso_utc(record.updated_at))]


def _title(record: ThreadRecord) -> str:
    return record.name or (record.preview.strip().splitlines() or ["Thread"])[0][:100]
