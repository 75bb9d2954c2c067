"""A recorded thread as one text: Markdown or a page of HTML for people, JSON for programs."""

from __future__ import annotations

from spindle.api.markup import Markup, join, tag
from spindle.api.shown import (
    AgentMessage,
    CommandExecution,
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
from spindle.protocol.quote import readable, without_terminal_codes

FORMATS = ("markdown", "html", "json")
_ENDS = {
    "interrupted": "The turn was interrupted.",
    "failed": "The turn failed.",
    "in_progress": "The turn was in progress.",
}
_STYLE = "body{font:16px/1.5 sans-serif;max-width:50rem;margin:2rem auto;padding:0 1rem}pre{white-space:pre-wrap}"
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def check_format(given: str) -> None:
    if given not in FORMATS:
        raise ValueError(f"format is {given!r}, but must be one of {', '.join(FORMATS)}")


def export(record: ThreadRecord, given: str) -> str:
    """The whole thread in one of the formats."""
    check_format(given)
    if given == "json":
        return encode_payload(record.to_dict()).decode()
    return _markdown(record) if given == "markdown" else _html(record)


def _parts(item: Item) -> tuple[str, str, bool] | None:
    """The heading of an item, its text, and whether that is to be shown as it stands."""
    match item:
        case UserMessage(text=text):
            return "User", text, False
        case AgentMessage(text=text):
            return "Assistant", text, False
        case Reasoning(text=text):
            return "Reasoning", text, False
        case Plan(text=text):
            return "Plan", text, False
        case CommandExecution(command=command, aggregated_output=output):
            return "Command", f"$ {command}\n{output}".rstrip("\n"), True
        case FileChange(changes=changes):
            return "Files", "\n".join(f"{change.kind} {change.path}" for change in changes), True
        case PythonToolCall(tool=tool, arguments=arguments, result=result):
            return "Tool", f"{tool} {encode_payload(arguments).decode()}\n{result or ''}".rstrip("\n"), True
        case McpToolCall(server=server, tool=tool, arguments=arguments):
            return "Tool", f"{server}.{tool} {encode_payload(arguments).decode()}", True
        case TodoList(items=steps):
            return "Steps", "\n".join(f"{'done' if step.completed else 'open'}: {step.text}" for step in steps), True
        case WebSearch(query=query):
            return "Web search", query, True
        case _:
            return None


def _facts(record: ThreadRecord) -> list[tuple[str, str]]:
    facts = [("Thread", record.id), ("Folder", record.cwd), ("Model", record.model or "")]
    return [*facts, ("Started", iso_utc(record.created_at)), ("Last changed", iso_utc(record.updated_at))]


def _title(record: ThreadRecord) -> str:
    return record.name or (record.preview.strip().splitlines() or ["Thread"])[0][:100]


def _markdown(record: ThreadRecord) -> str:
    lines = [f"# {_clean(_title(record))}", ""]
    lines += [f"- {name}: {_clean(value)}" for name, value in _facts(record) if value]
    for turn in record.turns:
        for item in turn.items:
            if (parts := _parts(item)) is None:
                continue
            heading, text, is_verbatim = parts
            lines += ["", f"## {heading}", "", _fenced(_clean(text)) if is_verbatim else _clean(text)]
        if (end := _ENDS.get(turn.status)) is not None:
            lines += ["", f"*{end}*"]
    return "\n".join(lines) + "\n"


def _clean(text: str) -> str:
    return readable(without_terminal_codes(text))


def _fenced(text: str) -> str:
    """A block that nothing in the text can end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _html(record: ThreadRecord) -> str:
    body = [tag("h1", _title(record))]
    body.append(tag("ul", *(tag("li", f"{name}: {value}") for name, value in _facts(record) if value)))
    for turn in record.turns:
        for item in turn.items:
            if (parts := _parts(item)) is not None:
                heading, text, _ = parts
                body += [tag("h2", heading), tag("pre", text)]
        if (end := _ENDS.get(turn.status)) is not None:
            body.append(tag("p", tag("em", end)))
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("title", _title(record)),
        tag("style", Markup(_STYLE)),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", join(*body)), lang="en") + "\n"
